"""The correcting function of SVM+ against the margin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lupi.inputs.types import MatrixLike, PrivilegedLike, VectorLike
from lupi.plot.colors import LIGHT
from lupi.plot.display import Display
from lupi.plot.surrogate import class_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class CorrectionDisplay(Display):
    """Correcting function against margin, one point per training row.

    The line is the slack that a margin needs, max(0, 1 - margin). For points on the line the privileged features explain
    the slack; for points below it, the rest costs ``kappa``. A flat cloud: the privileged features do not explain it.

    Parameters
    ----------
    margins : ndarray of shape (n_samples,)
        Sign of the class times the decision function.
    correction : ndarray of shape (n_samples,)
        Values of the correcting function; NaN where the privileged features are missing.
    positive : ndarray of bool, shape (n_samples,)
        Rows of the class that is drawn.
    names : tuple of str
        Names of the class and of the other classes, for the legend.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

    Examples
    --------
    >>> from lupi import SVM2Plus
    >>> from lupi.datasets import make_privileged
    >>> from lupi.plot import CorrectionDisplay
    >>> X, y, privileged = make_privileged(80, random_state=0, return_X_y_privileged=True)
    >>> model = SVM2Plus().fit(X, y, privileged=privileged)
    >>> CorrectionDisplay.from_estimator(model, X, y, privileged).margins.shape
    (80,)
    """

    def __init__(self, margins: Any, correction: Any, positive: Any, names: Any) -> None:
        self.margins = margins
        self.correction = correction
        self.positive = positive
        self.names = names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: MatrixLike,
        y: VectorLike,
        privileged: PrivilegedLike,
        *,
        target: Any = None,
        ax: Axes | None = None,
        **style: Any,
    ) -> Self:
        """Draw the correcting function of a fitted classifier.

        Parameters
        ----------
        estimator : SVMPlus or SVM2Plus
            Fitted with privileged features.
        X, y, privileged : array-like
            Rows, such as those of the fit.
        target : label, optional
            The class that is drawn, by default the second of two; required with more than two.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; new ones by default.
        **style
            Passed to ``Axes.scatter``.

        Returns
        -------
        CorrectionDisplay
        """
        classes = estimator.classes_.tolist()
        if len(classes) == 2:
            target = classes[1] if target is None else target
        if target not in classes:
            raise ValueError(f"`target` must be one of the classes {classes}; got {target!r}.")
        k = classes.index(target)
        decision, correction = estimator.decision_function(X), estimator.correcting_function(privileged)
        positive = np.asarray(y) == target
        signs = np.where(positive, 1.0, -1.0)
        if len(classes) == 2:
            margins = (2 * k - 1) * signs * decision
            names = (class_name(target), class_name(classes[1 - k]))
        else:
            margins, correction, names = signs * decision[:, k], correction[:, k], (class_name(target), "the others")
        if getattr(estimator, "correction", "slack") == "labeled":
            # There the slack is y g(z), with the signs of the problem that was solved.
            correction = correction * (signs if k or len(classes) > 2 else -signs)
        return cls(margins, correction, positive, names).plot(ax, **style)

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        for rows, name, color in ((self.positive, self.names[0], "s1"), (~self.positive, self.names[1], "s2")):
            drawn = {"s": 14, "alpha": 0.6, "lw": 0, "color": LIGHT[color], "label": name} | style
            ax.scatter(self.margins[rows], self.correction[rows], **drawn)
        low, high = min(self.margins.min(), 0.0), max(self.margins.max(), 1.2)
        ax.plot([low, 1, high], [1 - low, 0, 0], "--", color=LIGHT["ink"], lw=1, label="slack that the margin needs")
        ax.set_xlabel("margin")
        ax.set_ylabel("correcting function")
        self._legend()
