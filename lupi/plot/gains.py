"""Gains over the best baseline and both controls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from lupi.plot.colors import LIGHT
from lupi.plot.display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Color, name and part of the row for each comparison of a method.
AGAINST = (
    ("real", "best baseline", "over_best_baseline"),
    ("s4", "counterpart", "gain"),
    ("shuffled", "shuffled control", "over_shuffled"),
)


@dataclass(frozen=True)
class Interval:
    """A gain in points with its 95% interval."""

    label: str
    mean: float
    low: float
    high: float
    color: str

    @classmethod
    def of(cls, label: str, paired: dict[str, Any], color: str) -> Interval:
        """Interval of paired differences of a summary."""
        mean, low, high = (100 * paired[key] for key in ("mean", "low", "high"))
        return cls(label, mean, low, high, color)

    def __str__(self) -> str:
        return f"{self.label} {self.mean:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


def find_row(size: dict[str, Any], name: str | None) -> Any:
    """The row of that name, or None."""
    return next((row for row in size["methods"] if row["name"] == name), None)


def gain_intervals(row: dict[str, Any], size: dict[str, Any]) -> list[Interval]:
    """A privileged method against the best baseline and both controls; once where two of these are the same."""
    same = row["counterpart"] == size["best_baseline"]
    return [
        Interval.of(label, row[part], color)
        for color, label, part in AGAINST
        if row.get(part) and not (same and part == "gain")
    ]


def gain_groups(size: dict[str, Any]) -> dict[str, list[Interval]]:
    """Intervals of each method by title; the best method first."""
    tested = [row for row in size["methods"] if row["outcome"]]
    ranked = sorted(tested, key=lambda row: -row["over_best_baseline"]["mean"])
    return {row["title"]: gain_intervals(row, size) for row in ranked}


class GainsDisplay(Display):
    """Gains of each method that uses the privileged columns, over the best baseline and over both controls.

    The controls are the counterpart (the same method without the privileged columns) and the shuffled control (the same
    method with the privileged values of other rows). Only a gain over all of them is a reason to use the columns.

    Parameters
    ----------
    gains : dict of str to list of Interval
        Title of a method -> its gains in points, with 95% intervals.
    label : str, default=""
        Label of the horizontal axis.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

    See Also
    --------
    LearningCurveDisplay : Scores for several training sizes.

    Examples
    --------
    >>> import lupi
    >>> from lupi.plot import GainsDisplay
    >>> from lupi.datasets import make_privileged
    >>> X, y, privileged = make_privileged(150, random_state=0, return_X_y_privileged=True)
    >>> result = lupi.compare(X, y, privileged, methods=["surrogate-ridge"], baselines=["linear"], n_splits=4,
    ...                       train_size=40, permutations=0)
    >>> display = GainsDisplay.from_comparison(result)
    >>> list(display.gains)
    ['surrogate, ridge']
    """

    def __init__(self, gains: Any, *, label: str = "") -> None:
        self.gains = gains
        self.label = label

    @classmethod
    def from_comparison(cls, comparison: Any, *, size: int = -1, ax: Axes | None = None, **style: Any) -> Self:
        """Draw the gains of a comparison.

        Parameters
        ----------
        comparison : lupi.comparison.Comparison
        size : int, default=-1
            Position of the training size; the last one is the largest.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; new ones by default.
        **style
            Passed to ``Axes.errorbar``.

        Returns
        -------
        GainsDisplay
        """
        found = comparison.summary["sizes"][size]
        groups = gain_groups(found)
        if not groups:
            raise ValueError("there are no gains to plot: no method that uses the columns was fitted on every split.")
        metric = comparison.summary["protocol"]["metric_title"]
        return cls(groups, label=f"gain in {metric}, points, {found['train_size']} labeled rows").plot(ax, **style)

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        seen = set()
        for k, intervals in enumerate(self.gains.values()):
            for j, part in enumerate(intervals):
                label = None if part.label in seen else f"over the {part.label}"
                draw_interval(ax, part, k + 0.2 * (j - (len(intervals) - 1) / 2), {"label": label} | style)
                seen.add(part.label)
        ax.axvline(0, color=LIGHT["ink"], lw=0.8)
        self._names(self.gains)
        ax.set_xlabel(self.label)
        self._legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)  # above: points may be anywhere


def draw_interval(ax: Axes, part: Interval, y: float, style: dict[str, Any]) -> None:
    """A point with a horizontal error bar."""
    drawn: dict[str, Any] = {"marker": "o", "ls": "none", "ms": 4, "color": LIGHT[part.color]} | style
    ax.errorbar(part.mean, y, xerr=[[part.mean - part.low], [part.high - part.mean]], **drawn)
