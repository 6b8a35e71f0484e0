"""`python -m benchmarks`."""

from pathlib import Path
from typing import Annotated

import typer

from lupi.cli.shared import UsageError


def bench(
    cases: Annotated[list[str] | None, typer.Argument(metavar="CASE", help="Cases to run; all if none.")] = None,
    list_cases: Annotated[bool, typer.Option("--list", help="List the cases and exit.")] = False,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the figures and the system facts to FILE.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: shows that it runs, not how fast it is.")
    ] = False,
) -> None:
    """Measure speed and exactness side by side with other tools."""
    from benchmarks import load_cases

    known = load_cases()
    if list_cases:
        width = max(map(len, known), default=0)
        for case in known.values():
            typer.echo(f"{case.name:{width}}  {case.title}")
        return
    for name in cases or ():
        if name not in known:
            raise UsageError(f"no case is called {name!r}; the cases are: {', '.join(known)}.")
    if json is not None and not json.resolve().parent.is_dir():
        raise UsageError(f"--json: the folder of {json} does not exist.")
    _run(cases, json, quick)


def _run(cases, json, quick):
    from rich.console import Console

    from benchmarks import facts, run_cases, tables
    from lupi.engine.store import strict_json, write_atomically

    result = run_cases(cases or (), quick=quick, on_start=lambda case: typer.echo(f"{case.name} ...", err=True))
    if json is not None:
        write_atomically(json, (strict_json(result, indent=2) + "\n").encode())
    console = Console()
    for table in tables(result):
        console.print(table)
    console.print(facts(result), highlight=False, markup=False)
    if any(case["error"] for case in result["cases"]):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(bench)
