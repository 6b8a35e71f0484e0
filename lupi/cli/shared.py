"""What the commands share: options, and one voice for what a user can mend."""

import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

# Written out: the registry of the methods would load numba. A test compares the two.
PLAIN_NAMES = "linear, forest, boosting, svm, surrogate-plain, ridge-plain, boosted-plain, l2svm, ranksvm"
METHOD_NAMES = "surrogate, surrogate-ridge, surrogate-boosted, svm2+, distillation, transfer, ranktransfer, svm+, svm2k"
REFERENCE_NAMES = "reference, joint, rankreference"
TABLE_KINDS = "CSV, TSV, Parquet, Feather, Excel or JSON lines"

Table = Annotated[Path, typer.Argument(metavar="TABLE", help=f"{TABLE_KINDS}.")]
Drop = Annotated[str | None, typer.Option(metavar="COL,COL", help="Columns to ignore, such as identifiers.")]
MetricOption = Annotated[
    str | None,
    typer.Option(help="ap, accuracy, auc, balanced_accuracy or r2; auc, or accuracy for more than two classes."),
]
KernelOption = Annotated[
    str | None, typer.Option(help="rbf or linear, for all kernel methods; both are tried if not given.")
]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Run on the Dask cluster of this scheduler, e.g. tcp://10.0.0.5:8786."),
]
Seed = Annotated[int, typer.Option(help="Everything random follows from it.")]
Jobs = Annotated[int, typer.Option(help="Processes; -1: one for each core.")]


@contextmanager
def user_errors():
    """What a user can mend is said in one line that begins with "lupi:", without a traceback."""
    try:
        yield
    except (ValueError, TypeError, OSError, ImportError) as problem:
        typer.secho(f"lupi: {problem}", fg="red", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("\nlupi: stopped; what was finished is kept, the same command goes on from there.", err=True)
        raise typer.Exit(130) from None


def note(text):
    """A line on the error stream; names in it may hold any characters."""
    typer.secho("note: ", fg="yellow", nl=False, err=True)
    typer.echo(text, err=True)


def given(context):
    """The running command as one would type it again."""
    words = [context.info_name]
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        if source is not None and source.name == "COMMANDLINE":
            if parameter.param_type_name == "option":
                words.append(parameter.opts[0])
            words.append(str(context.params[parameter.name]))
    return command_line(words)


def command_line(arguments):
    """The command as one would type it.

    Examples
    --------
    >>> command_line(["compare", "my table.csv"])
    "lupi compare 'my table.csv'"
    """
    return shlex.join(["lupi", *arguments])


def names(text):
    """Names from "a, b"; None stays None."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
