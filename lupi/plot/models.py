"""Displays of fitted models: surrogate targets, teachers, evidence of columns, and the correcting function of SVM+."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import expit

from lupi.inputs.types import VectorLike
from lupi.plot.figures import LIGHT, Display, legend, name_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NO_LABEL = "no label"


@dataclass(eq=False, repr=False)
class SurrogateDisplay(Display):
    """Surrogate targets of the training rows against their labels.

    For a classifier each label has a strip of points: the probability of the second of two classes, or of the label's
    class among several (for an unlabeled row, of its most probable class). Points far from their label are rows whose
    label the teachers take for noise. For a regressor it is a scatter plot.

    Parameters
    ----------
    surrogate : ndarray of shape (n_samples,)
        Probabilities, or numbers.
    labels : ndarray of shape (n_samples,)
        Names of the labels ("no label" for unlabeled rows); numbers for a regressor.
    classes : list of str or None
        Names of the strips, from top to bottom; None for a regressor.
    label : str, default="surrogate"
        Label of the axis with the surrogate.

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

    surrogate: Any
    labels: Any
    classes: Any = None
    label: str = field(default="surrogate", kw_only=True)

    def draw(self, ax: Axes, **style: Any) -> None:
        """Surrogate targets in one strip per class, or against numbers."""
        surrogate, labels, classes = self.surrogate, self.labels, self.classes
        style = {"s": 12, "alpha": 0.5, "lw": 0} | style
        if classes is None:
            labeled = ~(np.isnan(surrogate) | np.isnan(labels))
            known, given = surrogate[labeled], labels[labeled]
            ax.scatter(given, known, **{"color": LIGHT["real"], **style})
            ends = [min(known.min(), given.min()), max(known.max(), given.max())]
            ax.plot(ends, ends, ":", color=LIGHT["ink"], lw=0.8)
            ax.set(xlabel="label", ylabel=self.label)
            return
        # Points are spread over the height of a strip in a fixed order, so that the figure is reproducible.
        for k, name in enumerate(classes):
            values = surrogate[(labels == name) & ~np.isnan(surrogate)]
            height = np.random.default_rng(0).permutation(np.linspace(-0.3, 0.3, len(values)))
            color = LIGHT["shuffled" if name == NO_LABEL else "real"]
            ax.scatter(values, k + height, **{"color": color, **style})
            ax.plot([np.median(values)] * 2, [k - 0.38, k + 0.38], color=LIGHT["ink"], lw=1.5)
        name_rows(ax, classes)
        ax.set(xlim=(-0.02, 1.02), xlabel=self.label, ylabel="label")

    @classmethod
    def from_estimator(cls, estimator: Any, y: VectorLike, *, ax: Axes | None = None, **style: Any) -> Self:
        """Draw the surrogate targets of a fitted model.

        Parameters
        ----------
        estimator : SurrogateClassifier or SurrogateRegressor
            Fitted with privileged features, in this process: a file holds no training rows.
        y : array-like of shape (n_samples,)
            The targets it was fitted with.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; new ones by default.
        **style
            Passed to ``Axes.scatter``.

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
            found = f"`y` has {len(y)} entries, but the model was fitted with {len(surrogate)} rows"
            raise ValueError(f"{found}; give the same y.")
        if not hasattr(estimator, "classes_"):
            return cls(surrogate, np.asarray(y, dtype=float)).plot(ax, **style)
        names = {value: _class_name(value) for value in estimator.classes_.tolist()}
        labels = np.array([names.get(value, NO_LABEL) for value in np.asarray(y, dtype=object)])
        if surrogate.ndim == 1:
            values, label = expit(surrogate), f"surrogate: probability of {list(names.values())[1]}"
        else:
            chosen = np.argmax(np.nan_to_num(surrogate), axis=1)
            for k, name in enumerate(names.values()):
                chosen[labels == name] = k
            values, label = surrogate[np.arange(len(chosen)), chosen], "surrogate: probability of the label"
        kept = [name for name in (*names.values(), NO_LABEL) if (labels[~np.isnan(values)] == name).any()]
        return cls(values, labels, kept, label=label).plot(ax, **style)


def _class_name(value: float | str) -> str:
    """A class as text; missing labels have turned 1 into 1.0."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def draw_bars(ax: Axes, values: dict[str, float], label: str, **style: Any) -> None:
    """Named numbers as horizontal bars, the largest on top."""
    ranked = dict(sorted(values.items(), key=lambda item: -item[1]))
    colors = [LIGHT["real" if value >= 0 else "negative"] for value in ranked.values()]
    ax.barh(range(len(ranked)), list(ranked.values()), **{"height": 0.6, "color": colors, **style})
    ax.axvline(0, color=LIGHT["ink"], lw=0.8)
    name_rows(ax, ranked)
    ax.set_xlabel(label)


@dataclass(eq=False, repr=False)
class TeacherWeightsDisplay(Display):
    """Weights of the teachers of a :class:`lupi.SurrogateClassifier` or :class:`lupi.SurrogateRegressor`.

    If the weight of the teacher on X alone is near 1, the privileged features teach nothing here.

    Parameters
    ----------
    weights : dict of str to float
        Name of a teacher -> its weight; they sum to 1.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

    Examples
    --------
    >>> from lupi import SurrogateClassifier
    >>> from lupi.datasets import make_privileged
    >>> from lupi.plot import TeacherWeightsDisplay
    >>> X, y, privileged = make_privileged(80, random_state=0, return_X_y_privileged=True)
    >>> model = SurrogateClassifier("ridge").fit(X, y, privileged=privileged)
    >>> display = TeacherWeightsDisplay.from_estimator(model)
    >>> round(sum(display.weights.values()), 6)
    1.0
    """

    weights: Any

    def draw(self, ax: Axes, **style: Any) -> None:
        """Bars of the weights."""
        draw_bars(ax, self.weights, "weight of the teacher", **style)
        ax.set_xlim(0, 1)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None, **style: Any) -> Self:
        """Draw the weights of a fitted surrogate model.

        Parameters
        ----------
        estimator : SurrogateClassifier or SurrogateRegressor
            Fitted with privileged features.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; new ones by default.
        **style
            Passed to ``Axes.barh``.

        Returns
        -------
        TeacherWeightsDisplay
        """
        return cls(_explained(estimator, "teachers")).plot(ax, **style)


@dataclass(eq=False, repr=False)
class ColumnEvidenceDisplay(Display):
    """Log-evidence that the teacher of a surrogate model loses without each privileged column.

    Below 0, the teacher is better without the column.

    Parameters
    ----------
    evidence : dict of str to float
        Name of a privileged column -> log-evidence lost without it.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

    Examples
    --------
    >>> from lupi import SurrogateClassifier
    >>> from lupi.datasets import make_privileged
    >>> from lupi.plot import ColumnEvidenceDisplay
    >>> X, y, privileged = make_privileged(80, random_state=0, return_X_y_privileged=True)
    >>> model = SurrogateClassifier("ridge").fit(X, y, privileged=privileged)
    >>> len(ColumnEvidenceDisplay.from_estimator(model).evidence) == privileged.shape[1]
    True
    """

    evidence: Any

    def draw(self, ax: Axes, **style: Any) -> None:
        """Bars of the evidence."""
        draw_bars(ax, self.evidence, "log-evidence lost without the column", **style)

    @classmethod
    def from_estimator(cls, estimator: Any, *, max_columns: int = 20, ax: Axes | None = None, **style: Any) -> Self:
        """Draw the evidence of a fitted surrogate model.

        Parameters
        ----------
        estimator : SurrogateClassifier or SurrogateRegressor
            Fitted with privileged features.
        max_columns : int, default=20
            Number of columns that are drawn, those with the most evidence.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; new ones by default.
        **style
            Passed to ``Axes.barh``.

        Returns
        -------
        ColumnEvidenceDisplay
        """
        ranked = sorted(_explained(estimator, "columns").items(), key=lambda item: -item[1])
        return cls(dict(ranked[:max_columns])).plot(ax, **style)


def _explained(estimator: Any, key: str) -> dict[str, Any]:
    """One part of ``estimator.explain()``; an error if it is empty."""
    name = type(estimator).__name__
    if not hasattr(estimator, "explain"):
        raise TypeError(f"`estimator` must be a SurrogateClassifier or SurrogateRegressor; {name} has no teachers.")
    found = estimator.explain()
    if not found:
        raise ValueError(f"this {name} was fitted without privileged features; call fit with privileged=Z.")
    if not found[key]:
        raise ValueError(
            f"this {name} has no evidence of columns; only teachers in closed form have it (teacher=None)."
        )
    return dict(found[key])


@dataclass(eq=False, repr=False)
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

    margins: Any
    correction: Any
    positive: Any
    names: Any

    def draw(self, ax: Axes, **style: Any) -> None:
        """Correcting function against margin."""
        margins, positive = self.margins, self.positive
        for rows, name, color in zip((positive, ~positive), self.names, ("real", "negative")):
            drawn = {"s": 14, "alpha": 0.6, "lw": 0, "color": LIGHT[color], "label": name} | style
            ax.scatter(margins[rows], self.correction[rows], **drawn)
        low, high = min(margins.min(), 0.0), max(margins.max(), 1.2)
        ax.plot([low, 1, high], [1 - low, 0, 0], "--", color=LIGHT["ink"], lw=1, label="slack that the margin needs")
        ax.set(xlabel="margin", ylabel="correcting function")
        legend(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: VectorLike, privileged: Any, *, target: Any = None, ax: Any = None, **style: Any
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
        if len(classes) == 2 and target is None:
            target = classes[1]
        if target not in classes:
            raise ValueError(f"`target` must be one of the classes {classes}; got {target!r}.")
        k = classes.index(target)
        decision, correction = estimator.decision_function(X), estimator.correcting_function(privileged)
        labeled, others = getattr(estimator, "correction", "slack") == "labeled", "the others"
        if len(classes) == 2:
            decision, others = np.column_stack([-decision, decision]), _class_name(classes[1 - k])
            correction = np.column_stack([-correction if labeled else correction, correction])
        positive = np.asarray(y) == target
        signs = np.where(positive, 1.0, -1.0)
        # With labels, the slack is y g(z).
        slack = correction[:, k] * (signs if labeled else 1.0)
        return cls(signs * decision[:, k], slack, positive, (_class_name(target), others)).plot(ax, **style)
