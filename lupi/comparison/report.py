"""The summary of a comparison for people: in a terminal of any width, as a page without network access, as a notebook card."""

from __future__ import annotations

import csv
from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lupi.comparison.results import HELPS, HURTS, MATCHED, NO_DIFFERENCE, NOT_THE_COLUMNS, Worth
from lupi.comparison.verdict import p_value, percent, signed, worth_sentence
from lupi.files import strict_json
from lupi.plot.figures import COLORS, css_variables, find_row, report_figures

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


# ---------------------------------------------------------------- page and card

SIGNS = {"yes": "✓", "no": "✗", "unclear": "?"}
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
_BADGES = {"yes": "good", "no": "soft", "unclear": "doubt"}
_CELL = "padding: .15em .7em; text-align: right"


def render(summary):
    """HTML page of a comparison."""
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise ImportError('the report requires jinja2: pip install "lupi[report]".') from None
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"points": percent, "signed": signed, "p": p_value}
    parts = {part: _template(f"report.{part}") for part in ("css", "js")}
    answer = summary["verdict"]["answer"]
    return environment.from_string(_template("report.html")).render(
        s=summary,
        sizes=summary["sizes"],
        last=summary["sizes"][-1],
        badge=answer.capitalize(),
        sign=SIGNS[answer],
        marks={outcome: mark for outcome, (mark, _) in MARKS.items()},
        columns=PAGE_COLUMNS,
        heading=heading,
        worth=[worth_sentence(Worth(**part)) for part in summary["worth"] if part["shown"]],
        figures=report_figures(summary) if find_spec("matplotlib") else {},
        style=f"{_colors()}\n{parts['css']}",
        script=parts["js"],
        # No other script may run and nothing may be fetched, whatever a table holds.
        script_hash=b64encode(sha256(parts["js"].encode()).digest()).decode(),
        downloads=_downloads(summary),
    )


def _template(name):
    return files("lupi.comparison").joinpath(f"templates/{name}").read_text("utf-8")


def _colors():
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {css_variables('dark')} }} }}"
    return f":root {{ {css_variables('light')} }}\n{dark}\n@media print {{ :root {{ {css_variables('print')} }} }}"


def _downloads(summary):
    """Content of each file as a data URL."""
    table, lines = StringIO(), method_lines(summary)
    writer = csv.DictWriter(table, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    contents = {"methods.csv": table.getvalue(), "results.json": strict_json(summary, indent=1) + "\n"}
    kinds = {"methods.csv": "text/csv", "results.json": "application/json"}
    return {
        name: f"data:{kinds[name]};charset=utf-8;base64,{b64encode(content.encode()).decode()}"
        for name, content in contents.items()
    }


def method_lines(summary):
    """One flat dict per method and training size: scores, gains with their intervals, p-values."""
    lines = []
    for size in summary["sizes"]:
        for row in size["methods"]:
            line = {"train_size": size["train_size"], **{k: row[k] for k in ("name", "title", "role", "mean", "error")}}
            for part in ("gain", "over_shuffled", "over_best_baseline"):
                found = row.get(part) or {}
                line |= {part: found.get("mean"), f"{part}_low": found.get("low"), f"{part}_high": found.get("high")}
            lines.append(line | {"p": row.get("p"), "outcome": row.get("outcome"), "seconds": row["seconds"]})
    return lines


def card(summary):
    """HTML card: the answer, the best method, its counterpart and the best baseline."""
    verdict, size = summary["verdict"], summary["sizes"][-1]
    color = COLORS["light"][_BADGES[verdict["answer"]]]
    candidate = find_row(size, verdict["candidate"])
    wanted = [verdict["candidate"], candidate and candidate["counterpart"], size["best_baseline"], verdict["method"]]
    rows = [row for row in (find_row(size, name) for name in dict.fromkeys(wanted)) if row]
    heads = "".join(f'<th style="{_CELL}">{name}</th>' for name in (*(column for column, _ in PAGE_COLUMNS[:5]), ""))
    return (
        f'<div style="border-left: 5px solid {color}; padding: .3em 1em; max-width: 60em">'
        f'<p style="margin: .2em 0 .5em"><span style="background: {color}; color: #fff; border-radius: 1em; '
        f'padding: .1em .7em; font-weight: bold">{verdict["answer"]}</span> {escape(verdict["text"])}</p>'
        f'<table><caption style="text-align: left">{escape(heading(summary, size))}</caption>'
        f'<thead><tr><th style="text-align: left">method</th>{heads}</tr></thead>'
        f"<tbody>{''.join(map(_line, rows))}</tbody></table></div>"
    )


def _line(row):
    cells = [f"{row['failed']} failed" if row["failed"] else f"{percent(row['mean'])} ± {percent(row['error'])}"]
    for part in ("gain", "over_best_baseline", "over_shuffled"):
        found = row.get(part)
        cells.append(f"{signed(found['mean'])} ± {percent(found['error'])}" if found else "")
    cells += [p_value(row["p"]), MARKS[row["outcome"]][0]] if row["outcome"] else ["", ""]
    written = "".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in cells)
    return f'<tr><th style="text-align: left">{escape(row["title"])}</th>{written}</tr>'
