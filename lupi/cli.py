"""The `lupi` command.

Only typer is imported here: numpy, scikit-learn and numba load inside the commands that need them, so that
`lupi --help` answers at once.
"""

from pathlib import Path
from typing import Annotated

import typer

from lupi import __version__
from lupi.localize.cli import app as localize

app = typer.Typer(
    name="lupi",
    help="Learning using privileged information: features that exist at training time only.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(localize)


def _print_version(wanted: bool):
    if wanted:
        typer.echo(f"lupi {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
):
    pass


@app.command()
def bench(
    cases: Annotated[list[str] | None, typer.Argument(metavar="CASE", help="Cases to run; all if none.")] = None,
    list_cases: Annotated[bool, typer.Option("--list", help="List the cases and exit.")] = False,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the figures and the system facts to FILE.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: shows that it runs, not how fast it is.")
    ] = False,
):
    """Measure speed and exactness side by side with other tools."""
    from lupi.bench._registry import load_cases

    known = load_cases()
    if list_cases:
        width = max(map(len, known), default=0)
        for case in known.values():
            typer.echo(f"{case.name:{width}}  {case.title}")
        return
    for name in cases or ():
        if name not in known:
            raise typer.BadParameter(f"no case is called {name!r}; the cases are: {', '.join(known)}")
    if json is not None and not json.resolve().parent.is_dir():
        raise typer.BadParameter(f"the folder of {json} does not exist", param_hint="--json")

    from rich.console import Console

    from lupi.bench._render import facts, tables
    from lupi.bench._runner import run

    progress = Console(stderr=True)
    result = run(cases or (), quick=quick, on_start=lambda case: progress.print(f"{case.name} ...", style="dim"))
    if json is not None:
        _write_json(result, json)
    console = Console()
    for table in tables(result):
        console.print(table)
    console.print(facts(result), highlight=False, markup=False)
    if any(case["error"] for case in result["cases"]):
        raise typer.Exit(1)


def _write_json(result, path):
    from json import dumps

    path.write_text(dumps(result, indent=2) + "\n")


def main():
    """Run the command line; the entry point of the installed `lupi` script."""
    app()


if __name__ == "__main__":
    main()
