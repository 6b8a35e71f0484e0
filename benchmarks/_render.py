"""The result dictionary of a benchmark run as tables for the terminal."""

from rich import box
from rich.table import Table
from rich.text import Text

from benchmarks._registry import NOT_INSTALLED


def tables(result):
    """Make one rich table for each case.

    Parameters
    ----------
    result : dict
        As returned by :func:`benchmarks._runner.run_cases`.

    Returns
    -------
    list of rich.table.Table

    Examples
    --------
    >>> from benchmarks._render import tables
    >>> [table.title.plain for table in tables({"cases": [{"title": "Nothing", "rows": [], "error": None}]})]
    ['Nothing']
    """
    return [_table(case) for case in result["cases"]]


def _table(case):
    table = Table(
        title=Text(case["title"], style="bold"), title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD
    )
    table.add_column("problem", overflow="fold")
    for heading in ("lupi", "peer's", "ratio", "difference", "gap"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("peer", overflow="fold")
    above = None
    for row in case["rows"]:
        table.add_row(
            Text("" if row["what"] == above else row["what"]),
            _seconds(row["ours_seconds"]),
            NOT_INSTALLED if row["note"] == NOT_INSTALLED else _seconds(row["peer_seconds"]),
            "-" if row["ratio"] is None else f"{row['ratio']:.3g}x",
            _small(row["objective_difference"]),
            _small(row["gap"]),
            Text(row["peer"]),
        )
        above = row["what"]
    table.caption = Text("\n").join(_remarks(case))
    return table


def _remarks(case):
    """Targets and notes below the table, each once: as columns they would squeeze the figures."""
    if case["error"]:
        yield Text(f"failed: {case['error']}", style="red")
    targets = dict.fromkeys(row["target"] for row in case["rows"] if row["target"])
    if targets:
        yield Text("target: " + "; ".join(targets))
    for row in case["rows"]:
        if row["note"] and row["note"] != NOT_INSTALLED:
            yield Text(f"{row['peer'] or row['what']}: {row['note']}", style="dim")


def facts(result):
    """Say in one line on which machine and with which versions the times were taken.

    Parameters
    ----------
    result : dict
        As returned by :func:`benchmarks._runner.run_cases`.

    Returns
    -------
    str
    """
    system = result["system"]
    packages = ", ".join(f"{name} {version}" for name, version in system["packages"].items())
    return (
        f"CPU seconds, least of the repeats, {system['blas_threads']} BLAS thread; ratio = peer's time / lupi's time; "
        "difference = of the objective, relative.\n"
        f"{system['cpu']}, {system['cores']} cores, {system['platform']}, Python {system['python']}; {packages}"
    )


def _seconds(value):
    if value is None:
        return "-"
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"


def _small(value):
    return "-" if value is None else f"{value:.1e}"
