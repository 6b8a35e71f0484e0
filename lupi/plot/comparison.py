"""Displays of comparisons: gains with their controls, learning curves, and average ranks over data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from lupi.plot.display import LIGHT, Display, legend, name_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Color, name and part of the row for each comparison of a method.
AGAINST = (
    ("real", "best baseline", "over_best_baseline"),
    ("counterpart", "counterpart", "gain"),
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


@dataclass(eq=False, repr=False)
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

    gains: Any
    label: str = field(default="", kw_only=True)

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
        name_rows(ax, self.gains)
        ax.set_xlabel(self.label)
        legend(ax, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)  # above: points may be anywhere


def draw_interval(ax: Axes, part: Interval, y: float, style: dict[str, Any]) -> None:
    """A point with a horizontal error bar."""
    drawn: dict[str, Any] = {"marker": "o", "ls": "none", "ms": 4, "color": LIGHT[part.color]} | style
    ax.errorbar(part.mean, y, xerr=[[part.mean - part.low], [part.high - part.mean]], **drawn)


@dataclass(frozen=True)
class Line:
    """A learning curve in points, with a band of two standard errors."""

    label: str
    sizes: list[int]
    means: list[float]
    low: list[float]
    high: list[float]
    color: str


def main_lines(summary: dict[str, Any]) -> list[Line]:
    """Curves of the best baseline, the best privileged method, its counterpart and its shuffled control, if none failed."""
    sizes, name = summary["sizes"], summary["verdict"]["candidate"]
    wanted = [("best baseline", "real", [find_row(size, size["best_baseline"]) for size in sizes])]
    if row := find_row(sizes[-1], name):
        rows = [find_row(size, name) for size in sizes]
        wanted.append((row["title"], "negative", rows))
        plain = [find_row(size, row["counterpart"]) for size in sizes]
        if plain[-1] and plain[-1]["name"] != sizes[-1]["best_baseline"]:
            wanted.append((f"{plain[-1]['title']} (counterpart)", "counterpart", plain))
        wanted.append((f"{row['title']}, shuffled", "soft", [found["shuffled"] for found in rows]))
    lines = []
    for label, color, rows in wanted:
        if all(row and not row["failed"] for row in rows):
            means, low, high = ([100 * row["mean"] + k * 200 * row["error"] for row in rows] for k in (0, -1, 1))
            lines.append(Line(label, [size["train_size"] for size in sizes], means, low, high, color))
    return lines


def reading(summary: dict[str, Any]) -> dict[str, Any] | None:
    """The last saving of labeled rows that the baseline's curve reaches, or None."""
    name = summary["verdict"]["candidate"]
    found = [part for part in summary["worth"] if part["shown"] and part["method"] == name and part["baseline_rows"]]
    return found[-1] if found else None


@dataclass(eq=False, repr=False)
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

    lines: Any
    worth: Any = field(default=None, kw_only=True)
    label: str = field(default="", kw_only=True)

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
        legend(ax)


@dataclass(eq=False, repr=False)
class CriticalDifferenceDisplay(Display):
    r"""Average ranks of methods over data sets; a bar joins methods that Nemenyi's test does not distinguish.

    With k methods and N data sets two average ranks differ, at level :math:`\alpha`, if their difference is more than

    .. math::

        \mathrm{CD} = q_\alpha \sqrt{k (k + 1) / (6 N)},

    where :math:`q_\alpha` is the quantile of the studentized range for k groups, divided by :math:`\sqrt 2` [1]_.

    Parameters
    ----------
    ranks : dict of str to float
        Name of a method -> its average rank; 1 is the best.
    critical_difference : float
    n_data_sets : int
    friedman_p : float
        p-value of Friedman's test that all methods are alike. Above the level, no difference is shown.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

    References
    ----------
    .. [1] J. Demšar. Statistical comparisons of classifiers over multiple data sets. JMLR, 2006.

    Examples
    --------
    >>> from lupi.plot import CriticalDifferenceDisplay
    >>> scores = {"a": [0.9, 0.8, 0.7, 0.9], "b": [0.8, 0.7, 0.6, 0.7], "c": [0.7, 0.75, 0.5, 0.6]}
    >>> display = CriticalDifferenceDisplay.from_scores(scores)
    >>> display.ranks
    {'a': 1.0, 'b': 2.25, 'c': 2.75}
    >>> round(display.critical_difference, 3)
    1.657
    """

    ranks: Any
    critical_difference: Any
    n_data_sets: Any
    friedman_p: Any

    @classmethod
    def from_scores(cls, scores: Any, *, level: float = 0.05, ax: Axes | None = None) -> Self:
        """Draw scores of methods on data sets.

        Parameters
        ----------
        scores : dict of str to sequence of float, or data frame
            Name of a method -> its scores, one per data set in the same order; larger is better.
        level : float, default=0.05
            Level of the test.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; new ones by default.

        Returns
        -------
        CriticalDifferenceDisplay
        """
        names = [str(name) for name in scores]
        lengths = {len(scores[name]) for name in scores}
        if len(names) < 3 or len(lengths) != 1 or min(lengths) < 2:
            raise ValueError(
                "`scores` needs at least three methods, each with one score for each of two or more data sets; got "
                f"{len(names)} methods with {', '.join(map(str, sorted(lengths))) or 'no'} scores."
            )
        table = np.array([np.asarray(scores[name], dtype=float) for name in scores]).T
        if not np.isfinite(table).all():
            raise ValueError("`scores` has missing or infinite entries; leave out data sets that a method failed on.")
        n, k = table.shape
        ranks = rankdata(-table, axis=1).mean(axis=0)
        quantile = studentized_range.ppf(1 - level, k, np.inf) / np.sqrt(2)
        alike = (table == table[:, :1]).all()
        p = 1.0 if alike else float(friedmanchisquare(*table.T).pvalue)
        found = dict(sorted(zip(names, ranks.tolist()), key=lambda item: item[1]))
        return cls(found, float(quantile * np.sqrt(k * (k + 1) / (6 * n))), n, p).plot(ax)

    @classmethod
    def from_comparisons(
        cls, comparisons: Sequence[Any], *, size: int = -1, level: float = 0.05, ax: Axes | None = None
    ) -> Self:
        """Draw the mean scores of the methods that were fitted in each of several comparisons, one per data set.

        Parameters
        ----------
        comparisons : sequence of lupi.comparison.Comparison
        size : int, default=-1
            Position of the training size.
        level : float, default=0.05
            Level of the test.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; new ones by default.

        Returns
        -------
        CriticalDifferenceDisplay
        """
        found = [
            {row["title"]: row["mean"] for row in comparison.summary["sizes"][size]["methods"] if not row["failed"]}
            for comparison in comparisons
        ]
        common = [title for title in (found[0] if found else ()) if all(title in means for means in found)]
        return cls.from_scores({title: [means[title] for means in found] for title in common}, level=level, ax=ax)

    def groups(self) -> list[tuple[int, int]]:
        """Largest sets of methods that the test does not distinguish, as (first, last) positions in the order of ranks.

        Returns
        -------
        list of tuple of int
        """
        ranks = list(self.ranks.values())
        found: list[tuple[int, int]] = []
        for i, rank in enumerate(ranks):
            last = max(j for j, other in enumerate(ranks) if other - rank <= self.critical_difference)
            if last > i and (not found or last > found[-1][1]):
                found.append((i, last))
        return found

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        ranks, groups = list(self.ranks.values()), self.groups()
        k = len(ranks)
        ax.plot(ranks, range(k), "o", ms=5, color=LIGHT["real"])
        for row, rank in enumerate(ranks):
            ax.annotate(f"{rank:.2f}", (rank, row), (0, 5), textcoords="offset points", ha="center", fontsize="small")
        # Each bar has its own lane to the right of the methods that it joins.
        for lane, (first, last) in enumerate(groups):
            ax.plot([k + 0.25 + 0.2 * lane] * 2, [first - 0.2, last + 0.2], lw=3, color=LIGHT["negative"])
        name_rows(ax, self.ranks)
        ax.set_xlim(0.7, k + 0.35 + 0.2 * len(groups))
        ax.set_xticks(range(1, k + 1))
        ax.grid(axis="x", color=LIGHT["rule"], lw=0.6)
        ax.set_axisbelow(True)
        ax.set_xlabel(
            f"average rank over {self.n_data_sets} data sets (1 is best)\n"
            f"critical difference {self.critical_difference:.2f}, Friedman p {self.friedman_p:.3g}"
        )
