"""The figures of the report page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lupi.plot.comparison import (
    GainsDisplay,
    Interval,
    LearningCurveDisplay,
    draw_interval,
    find_row,
    gain_groups,
    gain_intervals,
    main_lines,
    reading,
)
from lupi.plot.display import LIGHT, figure_svg, name_rows, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_differences(differences: np.ndarray, label: str, ax: Axes) -> None:
    """Differences in points as bars, the largest first."""
    ranked = np.sort(differences)[::-1]
    ax.bar(range(len(ranked)), ranked, color=[LIGHT["real" if value >= 0 else "negative"] for value in ranked])
    ax.axhline(0, color=LIGHT["ink"], lw=1)
    ax.grid(axis="y", color=LIGHT["rule"], lw=0.8)
    ax.set_axisbelow(True)
    ax.set_xticks([])
    ax.set_xlabel(label, parse_math=False)


def draw_permutations(permuted: np.ndarray, score: float, label: str, ax: Axes) -> None:
    """Histogram of the scores with permuted privileged rows, and the score of the real rows."""
    # Bars stay wide enough to be seen where the real score is far away.
    spread = np.ptp([*permuted, score]) or 1.0
    ax.hist(permuted, int(np.clip(50 * np.ptp(permuted) / spread, 3, 20)), color=LIGHT["shuffled"], rwidth=0.9)
    ax.axvline(score, color=LIGHT["negative"], lw=2)
    right = score > (permuted.min() + permuted.max()) / 2
    ax.set_title(f"real rows: {score:.2f}", loc="right" if right else "left", color=LIGHT["negative"], fontsize=12)
    ax.locator_params(axis="y", integer=True)
    ax.set_xlabel(label)


def _draw_intervals(intervals: Sequence[Interval], label: str, ax: Axes) -> None:
    """Named gains or losses with their 95% intervals, one per line."""
    for row, part in enumerate(intervals):
        draw_interval(ax, part, row, {"ms": 8, "lw": 2})
        ax.text(1.02, row, f"{part.mean:+.1f}", transform=ax.get_yaxis_transform(), va="center")
    ax.axvline(0, color=LIGHT["ink"], lw=1)
    ax.grid(axis="x", color=LIGHT["rule"], lw=0.8)
    name_rows(ax, [part.label for part in intervals])
    ax.set_xlabel(label)


def report_figures(summary: dict[str, Any]) -> dict[str, str]:
    """SVG of each figure that the summary of a comparison allows."""
    metric, size = summary["protocol"]["metric_title"], summary["sizes"][-1]
    drawn = {}
    if row := find_row(size, summary["verdict"]["candidate"]):
        title = f"{row['title']} against the best baseline and its controls, points of {metric}"
        drawn["answer"] = _intervals(
            "answer", gain_intervals(row, size), title, "gain over these in points, 95% interval"
        )
        drawn["splits"] = _splits(row, find_row(size, size["best_baseline"]), metric)
        groups = gain_groups(size)
        drawn["gains"] = figure_svg(
            GainsDisplay(groups, label="gain in points, 95% interval").plot,
            "gains",
            f"Every method against the best baseline and its controls, points of {metric}",
            "; ".join(f"{name}: {', '.join(map(str, parts))}" for name, parts in groups.items()),
            110 + 44 * len(groups),
        )
    lines = main_lines(summary) if len(summary["sizes"]) > 1 else []
    if lines:
        drawn["curve"] = figure_svg(
            LearningCurveDisplay(lines, worth=reading(summary), label=f"{metric} x 100").plot,
            "curve",
            f"Learning curves at {', '.join(map(str, lines[0].sizes))} labeled training rows",
            "; ".join(f"{line.label}: {', '.join(f'{mean:.1f}' for mean in line.means)}" for line in lines),
            330,
        )
    if found := summary["permutation"]:
        permuted, score = 100 * np.asarray(found["permuted"]), 100 * found["score"]
        drawn["permutation"] = figure_svg(
            partial(draw_permutations, permuted, score, f"permutations by {metric} x 100"),
            "permutation",
            f"Exact test: {found['title']} with permuted privileged rows",
            f"Real rows {score:.2f}; {found['n']} permutations from {permuted.min():.2f} to {permuted.max():.2f}; "
            f"p = {found['p']:.3f}.",
            240,
        )
    if summary["columns"]:
        parts = [Interval.of(effect["name"], effect["loss"], "real") for effect in summary["columns"]]
        title = f"Loss without each privileged column, points of {metric}"
        drawn["columns"] = _intervals("columns", parts, title, "loss in points, 95% interval")
    return drawn


def _intervals(name: str, parts: Sequence[Interval], title: str, label: str) -> str:
    draw = partial(_draw_intervals, parts, label)
    return figure_svg(draw, name, title, ", ".join(map(str, parts)), 60 + 26 * len(parts))


def _splits(row: dict[str, Any], baseline: dict[str, Any], metric: str) -> str:
    found = 100 * (np.array(row["scores"]) - np.array(baseline["scores"]))
    return figure_svg(
        partial(draw_differences, found, shorten(f"{row['title']} minus {baseline['title']}, points", 54)),
        "splits",
        f"{row['title']} against {baseline['title']}, split by split, points of {metric}",
        f"{(found > 0).sum()} splits won, {(found < 0).sum()} lost, {(found == 0).sum()} equal; from {found.min():+.2f} to "
        f"{found.max():+.2f} points.",
        230,
    )
