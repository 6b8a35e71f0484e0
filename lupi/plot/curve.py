"""Learning curves, and how many labeled rows the privileged columns are worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from lupi.plot.colors import LIGHT
from lupi.plot.display import Display
from lupi.plot.gains import find_row

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Line:
    """A learning curve in points, with a band of two standard errors."""

    label: str
    sizes: list[int]
    means: list[float]
    low: list[float]
    high: list[float]
    color: str


def _line(label: str, sizes: list[dict[str, Any]], color: str, get: Callable[..., Any]) -> Line | None:
    """Curve of the rows that `get` finds; None if one is missing or failed."""
    rows = [get(size) for size in sizes]
    if any(row is None or row["failed"] for row in rows):
        return None
    means, low, high = ([100 * row["mean"] + k * 200 * row["error"] for row in rows] for k in (0, -1, 1))
    return Line(label, [size["train_size"] for size in sizes], means, low, high, color)


def main_lines(summary: dict[str, Any]) -> list[Line]:
    """Curves of the best baseline, the best privileged method, its counterpart and its shuffled control."""
    sizes, name = summary["sizes"], summary["verdict"]["candidate"]
    row = name and find_row(sizes[-1], name)
    wanted = [("best baseline", "s1", lambda size: find_row(size, size["best_baseline"]))]
    if row:
        wanted.append((row["title"], "s2", lambda size: find_row(size, name)))
        plain = find_row(sizes[-1], row["counterpart"])
        if plain and plain["name"] != sizes[-1]["best_baseline"]:
            wanted.append((f"{plain['title']} (counterpart)", "s4", lambda size: find_row(size, row["counterpart"])))
        wanted.append((f"{row['title']}, shuffled", "s8", lambda size: find_row(size, name)["shuffled"]))
    return [found for found in (_line(label, sizes, color, get) for label, color, get in wanted) if found]


def reading(summary: dict[str, Any]) -> dict[str, Any] | None:
    """The last saving of labeled rows that the baseline's curve reaches, or None."""
    name = summary["verdict"]["candidate"]
    found = [part for part in summary["worth"] if part["shown"] and part["method"] == name and part["baseline_rows"]]
    return found[-1] if found else None


class LearningCurveDisplay(Display):
    """Learning curves with bands of two standard errors; a dotted line marks how many rows the columns are worth.

    Parameters
    ----------
    lines : list of Line
        The curves, in points.
    worth : dict, optional
        Entry of ``summary["worth"]``: with `train_size` rows the columns give `score`, for which the baseline needs
        `baseline_rows`.
    label : str, default=""
        Label of the vertical axis.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

    Examples
    --------
    >>> import lupi
    >>> from lupi.plot import LearningCurveDisplay
    >>> from lupi.datasets import make_privileged
    >>> X, y, privileged = make_privileged(150, random_state=0, return_X_y_privileged=True)
    >>> result = lupi.compare(X, y, privileged, methods=["surrogate-ridge"], baselines=["linear"], n_splits=4,
    ...                       train_size=[20, 40], permutations=0)
    >>> display = LearningCurveDisplay.from_comparison(result)
    >>> [line.label for line in display.lines][0]
    'best baseline'
    """

    def __init__(self, lines: Any, *, worth: Any = None, label: str = "") -> None:
        self.lines = lines
        self.worth = worth
        self.label = label

    @classmethod
    def from_comparison(cls, comparison: Any, *, ax: Axes | None = None, **style: Any) -> Self:
        """Draw the curves of a comparison with several training sizes.

        Parameters
        ----------
        comparison : lupi.comparison.Comparison
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; new ones by default.
        **style
            Passed to ``Axes.plot``.

        Returns
        -------
        LearningCurveDisplay
        """
        summary = comparison.summary
        sizes = [size["train_size"] for size in summary["sizes"]]
        if len(sizes) < 2:
            raise ValueError(
                f"a curve requires several training sizes, such as train_size=[{sizes[0] // 2}, {sizes[0]}]."
            )
        label = f"{summary['protocol']['metric_title']} x 100"
        return cls(main_lines(summary), worth=reading(summary), label=label).plot(ax, **style)

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        for line in self.lines:
            color = LIGHT[line.color]
            ax.plot(line.sizes, line.means, **{"marker": "o", "ms": 4, "color": color, "label": line.label} | style)
            ax.fill_between(line.sizes, line.low, line.high, color=color, alpha=0.13, lw=0)
        if self.worth:
            rows, score = self.worth["baseline_rows"], 100 * self.worth["score"]
            ax.plot([self.worth["train_size"], rows], [score, score], ":", color=LIGHT["ink"])
            ax.axvline(rows, color=LIGHT["ink"], ls=":", lw=0.8)
            text = f"{self.worth['train_size']} rows with the columns\nare worth {rows:.0f} without"
            place: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "va": "bottom", "fontsize": "small"}
            ax.annotate(text, (rows, score), (-4, 6), **place)
        sizes = self.lines[0].sizes
        ax.set_xscale("log")
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.minorticks_off()
        ax.set_xlabel("labeled training rows")
        ax.set_ylabel(self.label)
        self._legend()
