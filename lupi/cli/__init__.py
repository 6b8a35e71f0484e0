"""The `lupi` command: one file a command.

Only typer is imported here: numpy, scikit-learn and numba load inside the commands that need them, so that
`lupi --help` answers at once.
"""

import typer

from lupi.cli.compare import compare
from lupi.cli.fit import fit, predict
from lupi.cli.localize import app as localize
from lupi.cli.shared import Commands, main_options

app = typer.Typer(
    name="lupi",
    cls=Commands,
    help="Learning using privileged information: features that exist at training time only.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.callback()(main_options)
for command in (compare, fit, predict):
    app.command()(command)
app.add_typer(localize)


def main():
    """Run the command line; the entry point of the installed `lupi` script."""
    app()
