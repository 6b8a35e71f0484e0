"""The summary of a comparison in a terminal of any width: tables, verdict, next steps."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lupi.comparison.results import HELPS, HURTS, MATCHED, NO_DIFFERENCE, NOT_THE_COLUMNS
from lupi.comparison.verdict import p_value, percent, signed

MARKS = {
    HELPS: ("✓", "green"),
    MATCHED: ("=", "yellow"),
    NOT_THE_COLUMNS: ("~", "yellow"),
    HURTS: ("✗", "red"),
    NO_DIFFERENCE: ("", ""),
}
BADGES = {"yes": ("YES", "bold green"), "no": ("NO", "bold"), "unclear": ("UNCLEAR", "bold yellow")}
LEGEND = (
    "gain: over the method's counterpart without the columns; best: over the best baseline (*); shuffled: gain of the shuffled "
    "control. p: the p-value behind the mark, Wilcoxon, adjusted by Holm. ✓ beats every baseline and both controls, = a "
    "baseline is as good, ~ gains, but not clearly more than with shuffled rows, ✗ hurts."
)
TABLE_COLUMNS = ("score", "gain", "best", "shuffled", "p", "")
# Longer lines are hard to read.
LONGEST = 110
# Narrower names go above their figures.
SHORTEST_NAME = 16
# For terminals that print ASCII only.
PLAIN_SIGNS = str.maketrans({"✓": "v", "✗": "x", "±": "/"})


def heading(summary, size):
    """Caption of the table of one training size."""
    protocol = summary["protocol"]
    more = f" and {size['n_unlabeled']} unlabeled" if size["n_unlabeled"] else ""
    return (
        f"With {size['train_size']} labeled{more} training rows, tested on {size['n_test']}: {protocol['metric_title']} x 100, "
        f"mean ± standard error over {protocol['n_splits']} splits"
    )


class TerminalTable:
    """Renderable of `rich` for the summary of a comparison, optionally with verdict, notes and next steps."""

    def __init__(self, summary, verdict=False):
        self.summary, self.verdict = summary, verdict

    def __rich_measure__(self, console, options):
        """Any width from 24 columns."""
        return Measurement(min(24, options.max_width), options.max_width)

    def __rich_console__(self, console, options):
        """Yield the parts in order."""
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
        lines = [(_title(row), _cells(row, size)) for row in size["methods"]]
        yield Text(heading(self.summary, size), style="italic")
        columns = [[name, *(cells[k].plain for _, cells in lines)] for k, name in enumerate(TABLE_COLUMNS)]
        taken = sum(1 + max(map(cell_len, column)) for column in columns)
        yield from (_wide if width - taken - 3 >= SHORTEST_NAME else _narrow)(lines)


def _wide(lines):
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("method", overflow="fold")
    for name in TABLE_COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for title, cells in lines:
        table.add_row(title, *cells)
    yield table


def _narrow(lines):
    """Each name above its figures."""
    for title, cells in lines:
        yield Text.assemble(title, " ", cells[-1]) if cells[-1] else title
        for column, cell in zip(TABLE_COLUMNS[:-1], cells):
            if cell:
                yield Padding(Text.assemble(f"{column} ", cell), (0, 0, 0, 2))
    yield Text("")


def _verdict_parts(verdict):
    badge, style = BADGES[verdict["answer"]]
    yield Text("")
    yield Text.assemble((badge, style), "  ", (verdict["text"], "bold"))
    for title, texts in (("", verdict["notes"]), ("Next steps", verdict["actions"])):
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
    """Score, gains, p-value and mark; empty where there is none."""
    if row["failed"]:
        return [Text(f"{row['failed']} failed", style="red"), *([Text("")] * 5)]
    dim = "dim" if row["role"] == "reference" else ""
    star = "*" if row["name"] == size["best_baseline"] else ""
    score = Text(f"{star}{percent(row['mean'])} ± {percent(row['error'])}", style="bold" if star else dim)
    if row["outcome"] is None:
        return [score, *([Text("")] * 5)]
    mark, color = MARKS[row["outcome"]]
    gain, best, shuffled = (
        Text(signed(row[part]["mean"]) if row[part] else "") for part in ("gain", "over_best_baseline", "shuffled_gain")
    )
    gain.stylize(color)
    return [score, gain, best, shuffled, Text(p_value(row["p"])), Text(mark, style=color)]
