"""The figures of the report page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lupi.plot.colors import LIGHT
from lupi.plot.curve import LearningCurveDisplay, main_lines, reading
from lupi.plot.display import Display, figure_svg, shorten
from lupi.plot.gains import GainsDisplay, Interval, draw_interval, find_row, gain_groups, gain_intervals

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class IntervalsDisplay(Display):
    """Named gains or losses with their 95% intervals, one per line."""

    def __init__(self, intervals: Sequence[Interval], label: str) -> None:
        self.intervals, self.label = intervals, label

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        for row, part in enumerate(self.intervals):
            draw_interval(ax, part, row, {"ms": 8, "lw": 2} | style)
            ax.text(1.02, row, f"{part.mean:+.1f}", transform=ax.get_yaxis_transform(), va="center")
        ax.axvline(0, color=LIGHT["ink"], lw=1)
        ax.grid(axis="x", color=LIGHT["rule"], lw=0.8)
        self._names([part.label for part in self.intervals])
        ax.set_xlabel(self.label)


class DifferencesDisplay(Display):
    """Differences in points as bars, the largest first."""

    def __init__(self, differences: Any, label: str) -> None:
        self.differences, self.label = -np.sort(-np.asarray(differences, dtype=float)), label

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        colors = [LIGHT["real" if value >= 0 else "negative"] for value in self.differences]
        ax.bar(range(len(self.differences)), self.differences, **{"color": colors} | style)
        ax.axhline(0, color=LIGHT["ink"], lw=1)
        ax.grid(axis="y", color=LIGHT["rule"], lw=0.8)
        ax.set_axisbelow(True)
        ax.set_xticks([])
        ax.set_xlabel(self.label, parse_math=False)


class PermutationDisplay(Display):
    """Histogram of the scores with permuted privileged rows, and the score of the real rows."""

    def __init__(self, permuted: Any, score: float, label: str) -> None:
        self.permuted, self.score, self.label = 100 * np.asarray(permuted), 100 * score, label

    def _draw(self, ax: Axes, style: dict[str, Any]) -> None:
        # Bars stay wide enough to be seen where the real score is far away.
        spread = np.ptp([*self.permuted, self.score]) or 1.0
        bins = int(np.clip(50 * np.ptp(self.permuted) / spread, 3, 20))
        ax.hist(self.permuted, bins, color=LIGHT["shuffled"], rwidth=0.9, **style)
        ax.axvline(self.score, color=LIGHT["s2"], lw=2)
        middle = (self.permuted.min() + self.permuted.max()) / 2
        right = self.score > middle
        ax.set_title(f"real rows: {self.score:.2f}", loc="right" if right else "left", color=LIGHT["s2"], fontsize=12)
        ax.locator_params(axis="y", integer=True)
        ax.set_xlabel(self.label)


def report_figures(summary: dict[str, Any]) -> dict[str, str]:
    """SVG of each figure that the summary of a comparison allows."""
    metric, size = summary["protocol"]["metric_title"], summary["sizes"][-1]
    drawn = {}
    row = find_row(size, summary["verdict"]["candidate"])
    if row:
        drawn["answer"] = _intervals(
            "answer",
            gain_intervals(row, size),
            f"{row['title']} against the best baseline and its controls, points of {metric}",
            "gain over these in points, 95% interval",
        )
        drawn["splits"] = _splits(row, find_row(size, size["best_baseline"]), metric)
        groups = gain_groups(size)
        drawn["gains"] = figure_svg(
            GainsDisplay(
                {shorten(name, 30): parts for name, parts in groups.items()}, label="gain in points, 95% interval"
            ),
            "gains",
            f"Every method against the best baseline and its controls, points of {metric}",
            "; ".join(f"{name}: {', '.join(map(str, parts))}" for name, parts in groups.items()),
            110 + 44 * len(groups),
        )
    lines = main_lines(summary) if len(summary["sizes"]) > 1 else []
    if lines:
        drawn["curve"] = figure_svg(
            LearningCurveDisplay(lines, worth=reading(summary), label=f"{metric} x 100"),
            "curve",
            f"Learning curves at {', '.join(map(str, lines[0].sizes))} labeled training rows",
            "; ".join(f"{line.label}: {', '.join(f'{mean:.1f}' for mean in line.means)}" for line in lines),
            330,
        )
    if summary["permutation"]:
        drawn["permutation"] = _permutation(summary["permutation"], metric)
    if summary["columns"]:
        parts = [Interval.of(effect["name"], effect["loss"], "real") for effect in summary["columns"]]
        title = f"Loss without each privileged column, points of {metric}"
        drawn["columns"] = _intervals("columns", parts, title, "loss in points, 95% interval")
    return drawn


def _intervals(name: str, parts: Sequence[Interval], title: str, label: str) -> str:
    height = 60 + 26 * len(parts)
    return figure_svg(IntervalsDisplay(parts, label), name, title, ", ".join(map(str, parts)), height)


def _splits(row: dict[str, Any], baseline: dict[str, Any], metric: str) -> str:
    found = 100 * (np.array(row["scores"]) - np.array(baseline["scores"]))
    return figure_svg(
        DifferencesDisplay(found, shorten(f"{row['title']} minus {baseline['title']}, points", 54)),
        "splits",
        f"{row['title']} against {baseline['title']}, split by split, points of {metric}",
        f"{(found > 0).sum()} splits won, {(found < 0).sum()} lost, {(found == 0).sum()} equal; from {found.min():+.2f} to "
        f"{found.max():+.2f} points.",
        230,
    )


def _permutation(found: dict[str, Any], metric: str) -> str:
    display = PermutationDisplay(found["permuted"], found["score"], f"permutations by {metric} x 100")
    return figure_svg(
        display,
        "permutation",
        f"Exact test: {found['title']} with permuted privileged rows",
        f"Real rows {display.score:.2f}; {found['n']} permutations from {display.permuted.min():.2f} to "
        f"{display.permuted.max():.2f}; p = {found['p']:.3f}.",
        240,
    )
