"""The summary of a comparison for people: in a terminal of any width, as a page without network access, as a notebook card."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from io import StringIO

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from lupi.comparison.results import HELPS, HURTS, MATCHED, NO_DIFFERENCE, NOT_THE_COLUMNS, Worth
from lupi.comparison.verdict import p_value, percent, signed, worth_sentence
from lupi.files import strict_json
from lupi.plot.figures import css_variables, report_figures

MARKS = {HELPS: ("✓", "green"), MATCHED: ("=", "yellow"), NOT_THE_COLUMNS: ("~", "yellow")}
MARKS |= {HURTS: ("✗", "red"), NO_DIFFERENCE: ("", "")}
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
        lines = [_cells(row, size) for row in size["methods"]]
        yield Text(heading(self.summary, size), style="italic")
        columns = [[name, *(line[k].plain for line in lines)] for k, name in enumerate(TABLE_COLUMNS, 1)]
        taken = sum(1 + max(map(cell_len, column)) for column in columns)
        yield from (_wide if width - taken - 3 >= SHORTEST_NAME else _narrow)(lines)


def _wide(lines):
    numbers = (Column(name, justify="right", no_wrap=True) for name in TABLE_COLUMNS)
    table = Table(Column("method", overflow="fold"), *numbers, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for cells in lines:
        table.add_row(*cells)
    yield table


def _narrow(lines):
    """Each name above its figures."""
    for title, *cells in lines:
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
            line = Table.grid("", Column(overflow="fold"), padding=(0, 1, 0, 0))
            line.add_row("-", Text(text))
            yield line


def _cells(row, size):
    """Title, score, gains, p-value and mark; empty where there is none."""
    dim = "dim" if row["role"] == "reference" else ""
    title, star = Text(row["title"], style=dim), "*" if row["name"] == size["best_baseline"] else ""
    if row["failed"]:
        score = Text(f"{row['failed']} failed", style="red")
    else:
        score = Text(f"{star}{percent(row['mean'])} ± {percent(row['error'])}", style="bold" if star else dim)
    if row["outcome"] is None:
        return [title, score, *([Text("")] * 5)]
    mark, color = MARKS[row["outcome"]]
    gain, best, shuffled = (
        Text(signed(row[part]["mean"]) if row[part] else "") for part in ("gain", "over_best_baseline", "shuffled_gain")
    )
    gain.stylize(color)
    return [title, score, gain, best, shuffled, Text(p_value(row["p"])), Text(mark, style=color)]


# ---------------------------------------------------------------- page and card

SIGNS = {"yes": "✓", "no": "✗", "unclear": "?"}
GAIN_COLUMNS = [
    f"{part}{end}" for part in ("gain", "over_shuffled", "over_best_baseline") for end in ("", "_low", "_high")
]
FRAME_COLUMNS = ["train_size", "name", "title", "role", "mean", "error", *GAIN_COLUMNS, "p", "outcome", "seconds"]
# Heading and meaning of each column.
PAGE_COLUMNS = (
    ("score", "mean ± standard error over the splits; ★ marks the best baseline"),
    ("over counterpart", "gain over the counterpart: the same method without the privileged columns"),
    ("over best baseline", "gain over the baseline with the best mean"),
    ("over shuffled", "gain over the shuffled control: the same method with the privileged values of other rows"),
    ("p", "the p-value behind the outcome: Wilcoxon's signed-rank test, adjusted by Holm for the number of methods"),
    ("won / lost", "splits on which it beats its counterpart, and on which it loses"),
    ("seconds", "CPU seconds per split, selection of parameters included (median)"),
)
CARD = "<pre style=\"font-family: Menlo, 'DejaVu Sans Mono', monospace; line-height: 1.25\"><code>{code}</code></pre>"


def render(summary):
    """HTML page of a comparison."""
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise ImportError('the report requires jinja2: pip install "lupi[report]".') from None
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"points": percent, "signed": signed, "p": p_value}
    style, script = f"{_colors()}\n{_template('report.css')}", _template("report.js")
    return environment.from_string(_template("report.html")).render(
        s=summary,
        sign=SIGNS[summary["verdict"]["answer"]],
        marks={outcome: mark for outcome, (mark, _) in MARKS.items()},
        columns=PAGE_COLUMNS,
        heading=heading,
        worth=[worth_sentence(Worth(**part)) for part in summary["worth"] if part["shown"]],
        figures=report_figures(summary) if find_spec("matplotlib") else {},
        style=style,
        script=script,
        # No other script may run and nothing may be fetched, whatever a table holds.
        script_hash=b64encode(sha256(script.encode()).digest()).decode(),
        downloads=_downloads(summary),
    )


def _template(name):
    return files("lupi.comparison").joinpath(f"templates/{name}").read_text("utf-8")


def _colors():
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {css_variables('dark')} }} }}"
    return f":root {{ {css_variables('light')} }}\n{dark}\n@media print {{ :root {{ {css_variables('print')} }} }}"


def _downloads(summary):
    """Content of each file as a data URL."""

    def address(kind, text):
        return f"data:{kind};charset=utf-8;base64,{b64encode(text.encode()).decode()}"

    table, results = method_frame(summary).to_csv(index=False), strict_json(summary, indent=1) + "\n"
    return {"methods.csv": address("text/csv", table), "results.json": address("application/json", results)}


def method_frame(summary):
    """One row per method and training size: scores, gains with their intervals, p-values."""
    rows = [row | {"train_size": size["train_size"]} for size in summary["sizes"] for row in size["methods"]]
    known = [{name: value for name, value in row.items() if value is not None} for row in rows]
    frame = pd.json_normalize(known, sep="_").rename(columns=lambda name: name.removesuffix("_mean"))
    return frame.reindex(columns=FRAME_COLUMNS)


def card(summary):
    """HTML for a notebook: what the terminal shows."""
    console = Console(record=True, file=StringIO(), width=LONGEST, force_jupyter=False)
    console.print(TerminalTable(summary, verdict=True))
    return console.export_html(inline_styles=True, code_format=CARD)
