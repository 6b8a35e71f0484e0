"""The surrogate of the training rows against their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lupi.inputs.types import VectorLike
from lupi.plot.display import LIGHT, Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NO_LABEL = "no label"


class SurrogateDisplay(Display):
    """What the teachers gave the student to learn, beside the label that it stands for.

    Of a classifier each label has a strip of points: with two classes the probability of the second, with several that of
    the row's own class (of a row without a label: of its most probable class). Points far from their label are rows whose
    label the teachers take for noise. Of a regressor it is a scatter plot.

    Parameters
    ----------
    surrogate : ndarray of shape (n_samples,)
        Probabilities, or numbers.
    labels : ndarray of shape (n_samples,)
        Names of the labels ("no label" where there is none); numbers of a regressor.
    classes : list of str or None
        Strips, from top to bottom; None draws the scatter plot of a regressor.
    label : str, default="surrogate"
        Of the axis with the surrogate.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

    Examples
    --------
    >>> from lupi import SurrogateClassifier
    >>> from lupi.datasets import make_privileged
    >>> from lupi.plot import SurrogateDisplay
    >>> X, y, privileged = make_privileged(80, random_state=0, return_X_y_privileged=True)
    >>> model = SurrogateClassifier("ridge").fit(X, y, privileged=privileged)
    >>> SurrogateDisplay.from_estimator(model, y).surrogate.shape
    (80,)
    """

    def __init__(self, surrogate: Any, labels: Any, classes: Any = None, *, label: str = "surrogate") -> None:
        self.surrogate = surrogate
        self.labels = labels
        self.classes = classes
        self.label = label

    @classmethod
    def from_estimator(cls, estimator: Any, y: VectorLike, *, ax: Axes | None = None, **style: Any) -> Self:
        """Draw the surrogate of a fitted model.

        Parameters
        ----------
        estimator : SurrogateClassifier or SurrogateRegressor
            Fitted with privileged features; not one from a file, which holds no training rows.
        y : array-like of shape (n_samples,)
            The targets it was fitted with.
        ax : matplotlib.axes.Axes, optional
            A new one if not given.
        **style
            For ``Axes.scatter``.

        Returns
        -------
        SurrogateDisplay
        """
        surrogate = getattr(estimator, "surrogate_", None)
        if surrogate is None:
            raise ValueError(
                f"this {type(estimator).__name__} has no `surrogate_`: fit a SurrogateClassifier or SurrogateRegressor with "
                "privileged features (a model from a file holds no training rows)."
            )
        if len(y) != len(surrogate):
            raise ValueError(
                f"`y` has {len(y)} entries, but the model was fitted with {len(surrogate)} rows; give the same y."
            )
        if not hasattr(estimator, "classes_"):
            return cls(surrogate, np.asarray(y, dtype=float)).plot(ax, **style)
        names = {value: class_name(value) for value in estimator.classes_.tolist()}
        labels = np.array([names.get(value, NO_LABEL) for value in np.asarray(y, dtype=object)])
        values, label = _probabilities(surrogate, labels, list(names.values()))
        kept = [name for name in (*names.values(), NO_LABEL) if (labels[~np.isnan(values)] == name).any()]
        return cls(values, labels, kept, label=label).plot(ax, **style)

    def plot(self, ax: Axes | None = None, **style: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        **style
            For ``Axes.scatter``.

        Returns
        -------
        SurrogateDisplay
        """
        ax = self._on(ax)
        style = {"s": 12, "alpha": 0.5, "lw": 0} | style
        if self.classes is None:
            self._scatter(style)
        else:
            self._strips(style)
        return self

    def _scatter(self, style: dict[str, Any]) -> None:
        there = ~(np.isnan(self.surrogate) | np.isnan(self.labels))
        known, given = self.surrogate[there], self.labels[there]
        self.ax_.scatter(given, known, **{"color": LIGHT["real"]} | style)
        low, high = min(known.min(), given.min()), max(known.max(), given.max())
        self.ax_.plot([low, high], [low, high], ":", color=LIGHT["ink"], lw=0.8)
        self.ax_.set_xlabel("label")
        self.ax_.set_ylabel(self.label)

    def _strips(self, style: dict[str, Any]) -> None:
        # Points of a strip spread evenly over its height, in a fixed order: the picture is the same each time.
        for k, name in enumerate(self.classes):
            values = self.surrogate[(self.labels == name) & ~np.isnan(self.surrogate)]
            height = np.random.default_rng(0).permutation(np.linspace(-0.3, 0.3, len(values)))
            color = LIGHT["shuffled" if name == NO_LABEL else "real"]
            self.ax_.scatter(values, k + height, **{"color": color} | style)
            self.ax_.plot([np.median(values)] * 2, [k - 0.38, k + 0.38], color=LIGHT["ink"], lw=1.5)
        self._names(self.classes)
        self.ax_.set_xlim(-0.02, 1.02)
        self.ax_.set_xlabel(self.label)
        self.ax_.set_ylabel("label")


def class_name(value: float | str) -> str:
    """A class as text; 1 and not 1.0, to which missing labels have turned it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _probabilities(surrogate: np.ndarray, labels: np.ndarray, names: list[str]) -> tuple[np.ndarray, str]:
    """Numbers of the strips, and their name."""
    if surrogate.ndim == 1:
        return 1.0 / (1.0 + np.exp(-surrogate)), f"surrogate: probability of {names[1]}"
    column = {name: k for k, name in enumerate(names)}
    best = np.argmax(np.nan_to_num(surrogate), axis=1)
    own = np.array([column.get(label, best[i]) for i, label in enumerate(labels)])
    return surrogate[np.arange(len(own)), own], "surrogate: probability of the row's own class"
