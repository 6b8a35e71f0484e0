"""What a surrogate model learned from whom: weights of its teachers, evidence of the privileged columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from lupi.plot.display import LIGHT, Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator


class Bars(Display):
    """Named numbers as horizontal bars, the largest on top."""

    def _bars(self, values: dict[str, float], ax: Axes | None, style: dict[str, Any]) -> Axes:
        ax = self._on(ax)
        ranked = dict(sorted(values.items(), key=lambda item: -item[1]))
        colors = [LIGHT["real" if value >= 0 else "negative"] for value in ranked.values()]
        ax.barh(range(len(ranked)), list(ranked.values()), **{"height": 0.6, "color": colors, **style})
        ax.axvline(0, color=LIGHT["ink"], lw=0.8)
        self._names(list(ranked))
        return ax


class TeacherWeightsDisplay(Bars):
    """Weights of the teachers of a :class:`lupi.SurrogateClassifier` or :class:`lupi.SurrogateRegressor`.

    Weight on the teacher on X alone is weight that the privileged features do not get: near 1, they teach nothing here.

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

    def __init__(self, weights: Any) -> None:
        self.weights = weights

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None, **style: Any) -> Self:
        """Draw the weights of a fitted surrogate model.

        Parameters
        ----------
        estimator : SurrogateClassifier or SurrogateRegressor
            Fitted with privileged features.
        ax : matplotlib.axes.Axes, optional
            A new one if not given.
        **style
            For ``Axes.barh``.

        Returns
        -------
        TeacherWeightsDisplay
        """
        return cls(explained(estimator, "teachers")).plot(ax, **style)

    def plot(self, ax: Axes | None = None, **style: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        **style
            For ``Axes.barh``.

        Returns
        -------
        TeacherWeightsDisplay
        """
        ax = self._bars(self.weights, ax, style)
        ax.set_xlim(0, 1)
        ax.set_xlabel("weight of the teacher")
        return self


class ColumnEvidenceDisplay(Bars):
    """Which privileged columns carry a surrogate model: log-evidence that the teacher loses without each.

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

    def __init__(self, evidence: Any) -> None:
        self.evidence = evidence

    @classmethod
    def from_estimator(cls, estimator: Any, *, max_columns: int = 20, ax: Axes | None = None, **style: Any) -> Self:
        """Draw the evidence of a fitted surrogate model.

        Parameters
        ----------
        estimator : SurrogateClassifier or SurrogateRegressor
            Fitted with privileged features.
        max_columns : int, default=20
            Columns with the most evidence that are drawn.
        ax : matplotlib.axes.Axes, optional
            A new one if not given.
        **style
            For ``Axes.barh``.

        Returns
        -------
        ColumnEvidenceDisplay
        """
        found = explained(estimator, "columns")
        shown = sorted(found.items(), key=lambda item: -item[1])[:max_columns]
        return cls(dict(shown)).plot(ax, **style)

    def plot(self, ax: Axes | None = None, **style: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
        **style
            For ``Axes.barh``.

        Returns
        -------
        ColumnEvidenceDisplay
        """
        ax = self._bars(self.evidence, ax, style)
        ax.set_xlabel("log-evidence lost without the column")
        return self


def explained(estimator: BaseEstimator, key: str) -> dict[str, Any]:
    """One part of ``estimator.explain()``; says what is missing if it is not there."""
    name = type(estimator).__name__
    if not hasattr(estimator, "explain"):
        raise TypeError(f"`estimator` must be a SurrogateClassifier or SurrogateRegressor; {name} has no teachers.")
    found = estimator.explain()
    if not found.get(key):
        raise ValueError(
            f"this {name} says nothing about its {key}: "
            + (
                "it was fitted without privileged features; call fit with privileged=Z."
                if not found.get("teachers")
                else "evidence of columns is known of the teachers in closed form only (teacher=None)."
            )
        )
    return dict(found[key])
