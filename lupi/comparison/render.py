"""The summary as a table for the terminal: fits into 80 columns."""

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

MARKS = {"helps": ("✓", "green"), "hurts": ("✗", "red"), "no clear difference": ("", "")}
LEGEND = (
    "gain: over the plain counterpart ({counterparts}). shuffled: the same with another example's privileged row. "
    "p: Wilcoxon, the larger of two tests (against both controls), Holm-adjusted. ✓ helps, ✗ hurts, ~ gains, but not "
    "clearly more than with shuffled rows."
)


def terminal_table(summary):
    """Table of one row per method; one block for each training size.

    Returns
    -------
    rich.table.Table
    """
    protocol = summary["protocol"]
    several = len(summary["sizes"]) > 1
    rows = summary["sizes"][-1]["methods"]
    titles = {row["name"]: row["title"] for row in rows}
    table = Table(
        title=f"{protocol['metric_title']} x 100, {protocol['n_splits']} splits, mean ± standard error",
        title_justify="left",
        caption=LEGEND.format(counterparts=_counterparts(rows, titles)),
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    if several:
        table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("method", no_wrap=True)
    for name in ("score", "gain", "shuffled", "p", "won"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for size in summary["sizes"]:
        usable = [row["mean"] for row in size["methods"] if row["mean"] is not None and row["role"] != "reference"]
        for row in size["methods"]:
            cells = [str(size["train_size"])] if several else []
            table.add_row(*cells, *_cells(row, max(usable, default=None)))
        table.add_section()
    return table


def _counterparts(rows, titles):
    groups = {}
    for row in rows:
        if row["plain"]:
            groups.setdefault(titles[row["plain"]], []).append(row["title"])
    return "; ".join(f"{plain} for {', '.join(names)}" for plain, names in groups.items()) or "none here"


def _cells(row, best):
    dim = "dim" if row["role"] == "reference" else ""
    name = Text(row["title"].replace(" (reference)", ""), style=dim)
    if row["failed"]:
        return name, Text(f"{row['failed']} failed", style="red"), "", "", "", "", ""
    score = Text(_value(row), style="bold" if row["mean"] == best else dim)
    if "gain" not in row:
        return name, score, "", "", "", "", ""
    gain = row["gain"]
    mark, colour = MARKS.get(row["outcome"], ("~", "yellow"))
    won = f"{gain['wins']}/{gain['wins'] + gain['losses'] + gain['ties']}"
    return (
        name,
        score,
        Text(_value(gain, "+"), style=colour),
        _value(row["shuffled_gain"], "+"),
        f"{row['p']:.3f}",
        won,
        Text(mark, style=colour),
    )


def _value(part, sign=""):
    return f"{100 * part['mean']:{sign}.2f} ± {100 * part['error']:.2f}"
