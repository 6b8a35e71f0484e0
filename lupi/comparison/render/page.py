"""The summary as one page that needs no network."""

from __future__ import annotations

from importlib.resources import files

from lupi.comparison.render import figures

TIMES = ("seconds", "median_seconds")


def render(summary):
    """Page of a comparison.

    Parameters
    ----------
    summary : dict
        ``Comparison.summary``.

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
    environment.filters["points"] = lambda value: f"{100 * value:.2f}"
    environment.filters["signed"] = lambda value: f"{100 * value:+.2f}"
    environment.filters["p"] = lambda value: "< 0.001" if value < 0.001 else f"{value:.3f}"
    template = environment.from_string(
        files("lupi.comparison.render").joinpath("templates/report.html").read_text("utf-8")
    )
    size = summary["sizes"][-1]
    return template.render(
        s=summary,
        sizes=summary["sizes"],
        last=size,
        titles={row["name"]: row["title"] for row in size["methods"]},
        best={id(block): _best(block) for block in summary["sizes"]},
        key=id,
        figures=_figures(summary, size),
        notes=summary["notes"],
        source=summary["source"],
        time=_time(summary),
    )


def _best(size):
    usable = [row for row in size["methods"] if row["mean"] is not None and row["role"] != "reference"]
    return max(usable, key=lambda row: row["mean"])["name"] if usable else None


def _time(summary):
    """Processor seconds in all, and the part of them that was spent once: compiling and loading."""
    parts = [
        part
        for block in summary["sizes"]
        for row in block["methods"]
        for part in (row, row.get("shuffled"))
        if part is not None
    ]
    total, usual = (summary["protocol"]["n_splits"] * sum(part[key] for part in parts) for key in TIMES)
    return {"total": total, "once": max(0.0, total - usual)}


def _figures(summary, size):
    """SVG of each figure that the results allow."""
    metric = summary["protocol"]["metric_title"]
    drawn = {}
    tested = [row for row in size["methods"] if row.get("gain")]
    if tested:
        drawn["gains"] = figures.gains(tested, metric)
        top = max(tested, key=lambda row: row["gain"]["mean"])
        plain = next(row for row in size["methods"] if row["name"] == top["plain"])
        drawn["splits"] = figures.split_bars(top, plain, metric)
    if len(summary["sizes"]) > 1:
        drawn["curve"] = figures.learning_curve(summary["sizes"], metric)
    drawn["times"] = figures.times(size["methods"])
    return drawn
