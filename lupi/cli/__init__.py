"""The `lupi` command: one file a command.

Only typer is imported here: numpy, scikit-learn and numba load inside the commands that need them, so that
`lupi --help` answers at once.
"""

from typing import Annotated

import typer

from lupi import __version__
from lupi.cli.bench import bench
from lupi.cli.compare import compare
from lupi.cli.fit import fit
from lupi.cli.predict import predict
from lupi.cli.reproduce import reproduce
from lupi.localize.cli import app as localize

app = typer.Typer(
    name="lupi",
    help="Learning using privileged information: features that exist at training time only.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (bench, compare, fit, predict, reproduce):
    app.command()(command)
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


def main():
    """Run the command line; the entry point of the installed `lupi` script."""
    app()
