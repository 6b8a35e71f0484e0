"""The summary as a table for the terminal."""

from rich.table import Table
from rich.text import Text

MARKS = {"helps": "✓", "hurts": "✗"}


def terminal_table(summary):
    """Table of one row per method, at the largest training size; several sizes become blocks.

    Returns
    -------
    rich.table.Table
    """
    protocol = summary["protocol"]
    several = len(summary["sizes"]) > 1
    table = Table(
        title=f"{protocol['metric_title']} x 100, {protocol['n_splits']} splits, mean ± standard error",
        title_justify="left",
        caption="gain: over the plain counterpart, on the same splits. shuffled: gain with another example's privileged row. "
        "p: Wilcoxon, the larger of the two tests, Holm-adjusted.",
        caption_justify="left",
    )
    if several:
        table.add_column("rows", justify="right")
    table.add_column("method", no_wrap=True)
    for name in ("score", "gain", "shuffled", "p", "won/lost"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("over", no_wrap=True)
    table.add_column("outcome")
    for size in summary["sizes"]:
        best = max(
            (row["mean"] for row in size["methods"] if row["mean"] is not None and row["role"] != "reference"),
            default=None,
        )
        titles = {row["name"]: row["title"] for row in size["methods"]}
        for row in size["methods"]:
            cells = [str(size["train_size"])] if several else []
            table.add_row(*cells, *_cells(row, titles, best))
        table.add_section()
    return table


def _cells(row, titles, best):
    style = {"reference": "dim", "plain": ""}.get(row["role"], "")
    name = Text(row["title"], style=style)
    if row["failed"]:
        return (
            name,
            Text(f"{row['failed']} failed", style="red"),
            "",
            "",
            "",
            "",
            "",
            row["errors"][0] if row["errors"] else "",
        )
    score = Text(f"{100 * row['mean']:.2f} ± {100 * row['error']:.2f}", style="bold" if row["mean"] == best else style)
    if "gain" not in row:
        return name, score, "", "", "", "", "", {"reference": "not usable: needs the columns"}.get(row["role"], "plain")
    gain, shuffled = row["gain"], row["shuffled_gain"]
    colour = {"helps": "green", "hurts": "red"}.get(row["outcome"], "")
    return (
        name,
        score,
        Text(f"{100 * gain['mean']:+.2f} ± {100 * gain['error']:.2f}", style=colour),
        f"{100 * shuffled['mean']:+.2f} ± {100 * shuffled['error']:.2f}",
        f"{row['p']:.3f}",
        f"{gain['wins']}/{gain['losses']}",
        titles[row["plain"]],
        Text(f"{MARKS.get(row['outcome'], '')} {row['outcome']}".strip(), style=colour),
    )
