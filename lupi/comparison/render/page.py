"""The summary as one page that needs no network."""

from __future__ import annotations

import csv
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from io import StringIO

from lupi.comparison.render import figures, words
from lupi.comparison.render.svg import STYLE, variables
from lupi.comparison.render.terminal import MARKS
from lupi.engine.files import strict_json
from lupi.plot import series

SIGNS = {"yes": "✓", "no": "✗", "unclear": "?"}
# Heading, and what it means.
PAGE_COLUMNS = (
    ("score", "mean ± standard error over the splits; ★ marks the best plain method"),
    ("over plain", "gain over the plain counterpart: the same method with the privileged columns off"),
    ("over best plain", "gain over the plain method with the best mean"),
    (
        "over shuffled",
        "gain over the same method with another example's privileged row: what the columns themselves bring",
    ),
    ("p", "the p behind the outcome: Wilcoxon's signed-rank test, adjusted by Holm for the number of methods"),
    ("won / lost", "splits on which it beats its plain counterpart, and on which it loses"),
    ("seconds", "processor seconds for one split, choice of parameters included (median)"),
)


def render(summary):
    """Page of a comparison.

    Parameters
    ----------
    summary : lupi.comparison.schema.Summary

    Returns
    -------
    str
        HTML.
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError:
        raise ImportError('the report needs jinja2: pip install "lupi[report]".') from None
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["points"] = words.percent
    environment.filters["signed"] = words.signed
    environment.filters["p"] = words.p_value
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
        heading=words.heading,
        worth=[words.worth_sentence(part) for part in series.savings(summary)],
        figures=_figures(summary),
        style="\n".join([_colours(), STYLE, parts["css"]]),
        script=parts["js"],
        # Nothing but this very script may run, and nothing may be fetched, whatever a table holds.
        script_hash=b64encode(sha256(parts["js"].encode()).digest()).decode(),
        downloads=_downloads(summary),
    )


def _template(name):
    return files("lupi.comparison.render").joinpath(f"templates/{name}").read_text("utf-8")


def _colours():
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {variables('dark')} }} }}"
    return f":root {{ {variables('light')} }}\n{dark}\n@media print {{ :root {{ {variables('print')} }} }}"


def _figures(summary):
    """SVG of each figure that the results allow."""
    metric, size = summary["protocol"]["metric_title"], summary["sizes"][-1]
    below = "lead over these in points, 95% interval"
    drawn = {}
    row = series.find_row(size, summary["verdict"]["candidate"])
    if row:
        title = f"{row['title']} against the best plain method and its controls, points of {metric}"
        drawn["answer"] = figures.intervals(
            {"": series.gain_intervals(row, size)}, below=below, title=title, name="answer"
        )
        drawn["splits"] = figures.split_bars(row, series.find_row(size, size["best_plain"]), metric)
        title = f"Every method against the best plain method and its controls, points of {metric}"
        drawn["gains"] = figures.intervals(series.gain_groups(size), below=below, title=title, name="gains")
    if len(summary["sizes"]) > 1:
        lines = series.main_lines(summary)
        if lines:
            drawn["curve"] = figures.learning_curve(summary["sizes"], metric, lines, series.reading(summary))
    if summary["permutation"]:
        drawn["permutation"] = figures.permutation_histogram(summary["permutation"], metric)
    if summary["columns"]:
        title = f"What is lost without each privileged column, points of {metric}"
        groups = {"": series.column_intervals(summary)}
        drawn["columns"] = figures.intervals(groups, below="loss in points, 95% interval", title=title, name="columns")
    return drawn


def _downloads(summary):
    """Name of a file -> its content as an address."""
    table = StringIO()
    lines = words.method_lines(summary)
    writer = csv.DictWriter(table, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    contents = {
        "methods.csv": ("text/csv", table.getvalue()),
        "results.json": ("application/json", strict_json(summary, indent=1) + "\n"),
    }
    return {
        name: f"data:{kind};charset=utf-8;base64,{b64encode(content.encode()).decode()}"
        for name, (kind, content) in contents.items()
    }
