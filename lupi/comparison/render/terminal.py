"""The summary as a table for the terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

MARKS = {
    "helps": ("✓", "green"),
    "helps, but a plain method is as good": ("=", "yellow"),
    "gains, but not clearly more than with shuffled rows": ("~", "yellow"),
    "hurts": ("✗", "red"),
    "no clear difference": ("", ""),
}
LEGEND = (
    "gain: over the plain counterpart; best: over the best plain method; shuffled: the gain with another example's privileged "
    "row. p: the one behind the mark, Wilcoxon, Holm-adjusted. ✓ beats every plain method and both controls, = a plain method "
    "is as good, ~ gains, but not clearly more than with shuffled rows, ✗ hurts."
)


def terminal_table(summary):
    """Table of one row per method; one block for each training size.

    Returns
    -------
    rich.table.Table
    """
    protocol = summary["protocol"]
    sizes = ", ".join(str(size["train_size"]) for size in summary["sizes"])
    table = Table(
        title=Text(
            f"{protocol['metric_title']} x 100, {sizes} labelled training rows, {protocol['n_splits']} splits, mean ± "
            "standard error"
        ),
        title_justify="left",
        caption=Text(LEGEND),
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    several = len(summary["sizes"]) > 1
    if several:
        table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("method", overflow="fold")
    for name in ("score", "gain", "best", "shuffled", "p", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for size in summary["sizes"]:
        usable = [row["mean"] for row in size["methods"] if row["mean"] is not None and row["role"] != "reference"]
        for row in size["methods"]:
            cells = [str(size["train_size"])] if several else []
            table.add_row(*cells, *_cells(row, max(usable, default=None)))
        table.add_section()
    return table


def _cells(row, best):
    dim = "dim" if row["role"] == "reference" else ""
    name = Text(row["title"], style=dim)
    if row["failed"]:
        return name, Text(f"{row['failed']} failed", style="red"), "", "", "", "", ""
    score = Text(f"{100 * row['mean']:.1f} ± {100 * row['error']:.1f}", style="bold" if row["mean"] == best else dim)
    if "outcome" not in row:
        return name, score, "", "", "", "", ""
    mark, colour = MARKS[row["outcome"]]
    p = "<.001" if row["p"] < 0.001 else f"{row['p']:.3f}"
    best, gain, shuffled = (_gain(row[part]) for part in ("over_best_plain", "gain", "shuffled_gain"))
    return name, score, Text(gain, style=colour), best, shuffled, p, Text(mark, style=colour)


def _gain(part):
    return f"{100 * part['mean']:+.1f}" if part else ""
