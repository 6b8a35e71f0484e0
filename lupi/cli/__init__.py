"""The `lupi` command: one file per command.

numpy, scikit-learn and numba load inside the commands, so that `lupi --help` is fast.
"""

from typing import Annotated

import typer

from lupi import __version__
from lupi.cli.compare import compare
from lupi.cli.fit import fit, predict
from lupi.cli.localize import app as localize
from lupi.cli.shared import Commands

app = typer.Typer(
    name="lupi",
    cls=Commands,
    help="Learning using privileged information: features that exist at training time only.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lupi {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options before the name of a command."""


for command in (compare, fit, predict):
    app.command()(command)
app.add_typer(localize)


def main():
    """Run the command line; the entry point of the installed `lupi` script."""
    app()
