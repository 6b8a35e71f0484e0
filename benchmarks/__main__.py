"""``python -m benchmarks``: run cases, print one table per case, write the figures as JSON."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.measure import NOT_INSTALLED, load_cases

PACKAGES = ("lupi", "numpy", "scipy", "scikit-learn", "numba", "cvxopt", "piqp", "highspy")


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="CASE", help="Cases to run (default: all).")] = None,
    list_cases: Annotated[bool, typer.Option("--list", help="List the cases and exit.")] = False,
    output: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the figures to FILE.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: a smoke test, not a measurement.")] = False,
) -> None:
    """Measure speed and exactness beside other tools (CPU time, one BLAS thread)."""
    cases = load_cases()
    if list_cases:
        width = max(map(len, cases))
        for case in cases.values():
            print(f"{case.name:{width}}  {case.title}")
        return
    for name in names or ():
        if name not in cases:
            raise typer.BadParameter(f"no case is called {name!r}; the cases are {', '.join(cases)}.")
    console, results = Console(), []
    with threadpool_limits(limits=1):
        for case in [cases[name] for name in names or cases]:
            rows = [row.to_dict() for row in case.function(quick)]
            results.append({"name": case.name, "title": case.title, "rows": rows})
            console.print(_table(results[-1]))
    console.print("CPU seconds; ratio = peer's time / lupi's time; difference = of the objectives, relative.")
    if output is not None:
        output.write_text(json.dumps({"system": _system(), "quick": quick, "cases": results}, indent=2) + "\n")


def _table(result):
    table = Table(title=result["title"], title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("problem", overflow="fold")
    for heading in ("lupi", "peer", "ratio", "difference", "gap"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in result["rows"]:
        missing = row["note"] == NOT_INSTALLED
        table.add_row(
            row["problem"],
            _seconds(row["seconds"]),
            NOT_INSTALLED if missing else _seconds(row["peer_seconds"]),
            "" if row["ratio"] is None else f"{row['ratio']:.3g}x",
            *("" if row[key] is None else f"{row[key]:.1e}" for key in ("difference", "gap")),
            row["peer"],
        )
    targets = dict.fromkeys(row["target"] for row in result["rows"] if row["target"])
    notes = [f"{row['problem']}: {row['note']}" for row in result["rows"] if row["note"] not in ("", NOT_INSTALLED)]
    table.caption = "\n".join([*([f"target: {'; '.join(targets)}"] if targets else []), *notes])
    return table


def _seconds(value):
    if value is None:
        return ""
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"


def _system():
    """Facts a reader needs to judge the times."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "packages": {package: _version(package) for package in PACKAGES},
    }


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return NOT_INSTALLED


if __name__ == "__main__":
    typer.run(main)
