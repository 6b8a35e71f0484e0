"""The summary for a terminal of any width: one table for each training size, the verdict, what to do now."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lupi.comparison.verdict import heading, p_value, percent, signed

MARKS = {
    "helps": ("✓", "green"),
    "helps, but a plain method is as good": ("=", "yellow"),
    "gains, but not clearly more than with shuffled rows": ("~", "yellow"),
    "hurts": ("✗", "red"),
    "no clear difference": ("", ""),
}
BADGES = {"yes": ("YES", "bold green"), "no": ("NO", "bold"), "unclear": ("UNCLEAR", "bold yellow")}
LEGEND = (
    "gain: over the method's plain counterpart; best: over the best plain method (*); shuffled: what is gained with another "
    "example's privileged row. p: the one behind the mark, Wilcoxon, Holm-adjusted. ✓ beats every plain method and both "
    "controls, = a plain method is as good, ~ gains, but not clearly more than with shuffled rows, ✗ hurts."
)
TABLE_COLUMNS = ("score", "gain", "best", "shuffled", "p", "")
# Lines longer than this are hard to read, however wide the window is.
LONGEST = 110
# With less than this for a name, its figures go below it.
SHORTEST_NAME = 16
# Sign for sign, so that columns stay in place, for a terminal that knows no more than ASCII.
PLAIN_SIGNS = str.maketrans({"✓": "v", "✗": "x", "±": "/"})


class TerminalTable:
    """What `rich` prints for a summary: every number and mark, whatever the width.

    Parameters
    ----------
    summary : lupi.comparison.schema.Summary
    verdict : bool, default=False
        Whether the answer, its notes and what to do now follow.
    """

    def __init__(self, summary, verdict=False):
        self.summary, self.verdict = summary, verdict

    def __rich_measure__(self, console, options):
        """As wide as it may be."""
        return Measurement(min(24, options.max_width), options.max_width)

    def __rich_console__(self, console, options):
        """Parts, one after the other."""
        signs = PLAIN_SIGNS if options.ascii_only else {}
        options = options.update(width=min(options.max_width, LONGEST))
        parts = [part for size in self.summary["sizes"] for part in self._size(size, options.max_width)]
        parts.append(Text(LEGEND, style="dim"))
        if self.verdict:
            parts += _verdict_parts(self.summary["verdict"])
        for part in parts:
            for segment in console.render(part, options):
                yield segment._replace(text=segment.text.translate(signs))

    def _size(self, size, width):
        lines = [(row, _cells(row, size)) for row in size["methods"]]
        yield Text(heading(self.summary, size), style="italic")
        taken = sum(
            1 + max(len(column), *(cells[k].cell_len for _, cells in lines)) for k, column in enumerate(TABLE_COLUMNS)
        )
        if width - taken - 3 >= SHORTEST_NAME:
            yield _wide(lines)
        else:
            yield from _narrow(lines)


def _wide(lines):
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("method", overflow="fold")
    for name in TABLE_COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for row, cells in lines:
        table.add_row(_title(row), *cells)
    return table


def _narrow(lines):
    """Name by name, the figures in words below."""
    for row, cells in lines:
        name = _title(row)
        yield Text.assemble(name, " ", cells[-1]) if cells[-1] else name
        for column, cell in zip(TABLE_COLUMNS[:-1], cells):
            if cell:
                yield Padding(Text.assemble(f"{column} ", cell), (0, 0, 0, 2))
    yield Text("")


def _verdict_parts(verdict):
    badge, style = BADGES[verdict["answer"]]
    yield Text("")
    yield Text.assemble((badge, style), "  ", (verdict["text"], "bold"))
    for title, texts in (("", verdict["notes"]), ("What to do now", verdict["actions"])):
        if title and texts:
            yield Text(f"\n{title}", style="bold")
        for text in texts:
            line = Table.grid(padding=(0, 1, 0, 0))
            line.add_column(no_wrap=True)
            line.add_column(overflow="fold")
            line.add_row("-", Text(text))
            yield line


def _title(row):
    return Text(row["title"], style="dim" if row["role"] == "reference" else "")


def _cells(row, size):
    """Score, gains, p and mark as texts; empty where there is none."""
    if row["failed"]:
        return [Text(f"{row['failed']} failed", style="red"), *([Text("")] * 5)]
    dim = "dim" if row["role"] == "reference" else ""
    star = "*" if row["name"] == size["best_plain"] else ""
    score = Text(f"{star}{percent(row['mean'])} ± {percent(row['error'])}", style="bold" if star else dim)
    if "outcome" not in row:
        return [score, *([Text("")] * 5)]
    mark, color = MARKS[row["outcome"]]
    gain, best, shuffled = (
        Text(signed(row[part]["mean"]) if row[part] else "") for part in ("gain", "over_best_plain", "shuffled_gain")
    )
    gain.stylize(color)
    return [score, gain, best, shuffled, Text(p_value(row["p"])), Text(mark, style=color)]
