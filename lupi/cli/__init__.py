"""The `lupi` command: one file per command.

numpy, scikit-learn and numba load inside the commands, so that `lupi --help` is fast.
"""

from lupi.cli.compare import compare
from lupi.cli.fit import fit, predict
from lupi.cli.localize import app as localize
from lupi.cli.shared import app

for command in (compare, fit, predict):
    app.command()(command)
app.add_typer(localize)


def main():
    """Run the command line; the entry point of the installed `lupi` script."""
    app()
