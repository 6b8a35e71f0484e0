"""What the figures show, as plain data: the page draws it as SVG, notebooks with matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

# Color, words for one method alone, part of its row.
AGAINST = (
    ("real", "best baseline", "over_best_baseline"),
    ("s4", "counterpart", "gain"),
    ("shuffled", "shuffled control", "over_shuffled"),
)


def find_row(size: dict[str, Any], name: str | None) -> Any:
    """The row of that name, or None."""
    return next((row for row in size["methods"] if row["name"] == name), None)


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
        """From a `Paired` of the summary."""
        mean, low, high = (100 * paired[key] for key in ("mean", "low", "high"))
        return cls(label, mean, low, high, color)

    def __str__(self) -> str:
        return f"{self.label} {self.mean:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


@dataclass(frozen=True)
class Line:
    """A learning curve in points, with twice its standard errors."""

    label: str
    sizes: list[Any]
    means: list[Any]
    margins: list[Any]
    color: str

    @property
    def low(self) -> list[float]:
        """Lower edge of the band."""
        return [mean - margin for mean, margin in zip(self.means, self.margins)]

    @property
    def high(self) -> list[float]:
        """Upper edge of the band."""
        return [mean + margin for mean, margin in zip(self.means, self.margins)]


def gain_intervals(row: dict[str, Any], size: dict[str, Any]) -> list[Interval]:
    """A privileged method against the best baseline and both of its controls; once where two of these are the same."""
    same = row["counterpart"] == size["best_baseline"]
    return [
        Interval.of(label, row[part], color)
        for color, label, part in AGAINST
        if row.get(part) and not (same and part == "gain")
    ]


def gain_groups(size: dict[str, Any]) -> dict[str, list[Interval]]:
    """Title of a method -> its intervals; the method that does best first."""
    tested = [row for row in size["methods"] if row["outcome"]]
    return {
        row["title"]: gain_intervals(row, size)
        for row in sorted(tested, key=lambda row: -row["over_best_baseline"]["mean"])
    }


def column_intervals(summary: dict[str, Any]) -> list[Interval]:
    """What is lost without each group of privileged columns."""
    return [Interval.of(effect["name"], effect["loss"], "real") for effect in summary["columns"]]


def main_lines(summary: dict[str, Any]) -> list[Line]:
    """The curves that the answer is about: best baseline, the method that did best, its counterpart, its shuffled control."""
    sizes, name = summary["sizes"], summary["verdict"]["candidate"]
    wanted = [("best baseline", "s1", lambda size: find_row(size, size["best_baseline"]))]
    row = name and find_row(sizes[-1], name)
    if row:
        wanted.append((row["title"], "s2", lambda size: find_row(size, name)))
        plain = find_row(sizes[-1], row["counterpart"])
        if plain and plain["name"] != sizes[-1]["best_baseline"]:
            wanted.append((f"{plain['title']} (counterpart)", "s4", lambda size: find_row(size, row["counterpart"])))
        wanted.append((f"{row['title']}, shuffled", "s8", lambda size: find_row(size, name)["shuffled"]))
    return [found for found in (_line(label, sizes, color, get) for label, color, get in wanted) if found]


def all_lines(sizes: list[dict[str, Any]], colors: Sequence[str]) -> list[Line]:
    """One curve for each method that was fitted everywhere; references only where they do not flatten the others."""
    names = [row["name"] for row in sizes[-1]["methods"]]
    rows = {name: [find_row(size, name) for size in sizes] for name in names}
    drawn = {
        name: _line(found[-1]["title"], sizes, colors[k % len(colors)], lambda size, name=name: find_row(size, name))
        for k, (name, found) in enumerate(rows.items())
    }
    lines = {name: line for name, line in drawn.items() if line}
    usable = [mean for name in lines if rows[name][-1]["role"] != "reference" for mean in lines[name].means]
    low, high = min(usable, default=0.0), max(usable, default=0.0)
    return [
        lines[name]
        for name in lines
        if rows[name][-1]["role"] != "reference" or max(lines[name].means) - high < high - low
    ]


def _line(label: str, sizes: list[dict[str, Any]], color: str, get: Callable[..., Any]) -> Line | None:
    rows = [get(size) for size in sizes]
    if any(row is None or row["failed"] for row in rows):
        return None
    means, margins = [100 * row["mean"] for row in rows], [200 * row["error"] for row in rows]
    return Line(label, [size["train_size"] for size in sizes], means, margins, color)


def reading(summary: dict[str, Any]) -> dict[str, Any] | None:
    """The saving to read off the learning curve, or None: the last one that the baseline's curve reaches."""
    name = summary["verdict"]["candidate"]
    shown = [part for part in summary["worth"] if part["shown"]]
    found = [part for part in shown if part["method"] == name and part["baseline_rows"]]
    return found[-1] if found else None
