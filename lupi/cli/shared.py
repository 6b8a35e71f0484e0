"""What the commands share: options, and one voice for all that goes wrong."""

import os
import shlex
import signal
import sys
import threading
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lupi import __version__

# Written out: the registry of the methods would load numba. A test compares the two.
PLAIN_NAMES = "linear, forest, boosting, svm, surrogate-plain, ridge-plain, boosted-plain, l2svm, ranksvm"
METHOD_NAMES = (
    "surrogate, surrogate-ridge, surrogate-boosted, svm2+, distillation, transfer, ranktransfer, svm+, svr+, svm2k"
)
REFERENCE_NAMES = "reference, joint, rankreference"
CHUNKED_NAMES = "svm2+, svm+, ranktransfer, l2svm, svm, ranksvm"
TABLE_KINDS = "CSV, TSV, Parquet, Feather, Excel or JSON lines"

Table = Annotated[Path, typer.Argument(metavar="TABLE", help=f"{TABLE_KINDS}.")]
Drop = Annotated[str | None, typer.Option(metavar="COL,COL", help="Columns to ignore, such as identifiers.")]
METRIC_NAMES = "ap, accuracy, auc, balanced_accuracy, r2"
KERNEL_NAMES = "rbf, linear"


class UsageError(ValueError):
    """Words of the command line that do not go together."""


def one_of(names):
    """A check of an option: its value is one of the names in a text such as "a, b"."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in names.split(", "):
            raise typer.BadParameter(f"{value!r} is none of {names}.")
        return value

    return check


MetricOption = Annotated[
    str | None,
    typer.Option(
        help=f"One of {METRIC_NAMES}; auc, or accuracy for more than two classes, if not given.",
        callback=one_of(METRIC_NAMES),
    ),
]
KernelOption = Annotated[
    str | None,
    typer.Option(
        help="rbf or linear, for all kernel methods; both are tried if not given.", callback=one_of(KERNEL_NAMES)
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Run on the Dask cluster of this scheduler, e.g. tcp://10.0.0.5:8786."),
]
Seed = Annotated[int, typer.Option(min=0, help="Everything random follows from it.")]
MaxTime = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", min=1e-9, help="Begin nothing new after so long; the same command goes on from there."
    ),
]
Jobs = Annotated[int, typer.Option(help="Processes; -1: one for each core.")]


class Commands(TyperGroup):
    """All commands. What goes wrong in any of them is one line that begins with "lupi:", never a traceback.

    Exit codes: 2 for words that are no command or option, 130 for Ctrl-C, 1 for all else.
    """

    def invoke(self, context):
        """Run a command; Ctrl-C ends it in words."""
        try:
            return super().invoke(context)
        except (KeyboardInterrupt, SystemError) as problem:
            if isinstance(problem, SystemError):
                from lupi.solution import stop_behind  # who raises this has loaded it

                stop = stop_behind(problem)
                if stop is None:
                    raise
                if isinstance(stop, SystemExit):
                    raise stop from None
            _say("\nlupi: stopped; what was finished is kept, the same command goes on from there.")
            raise typer.Exit(130) from None

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Parse the words of the command line, run the command, end the process."""
        if not standalone_mode:
            return super().main(*args, **{**extra, "standalone_mode": False})
        try:
            with _ends_in_words():
                code = super().main(*args, **{**extra, "standalone_mode": False})
        except typer.Abort:
            code = 1
        except Exception as problem:
            if "LUPI_TRACEBACK" in os.environ:
                raise
            text, code = _in_words(problem)
            if text:
                _say(f"lupi: {text}")
        sys.exit(code or 0)


@contextmanager
def _ends_in_words():
    """SIGTERM ends the command as Ctrl-C does: files half written go away, workers end, and the last line says why."""

    def stop(number, frame):
        signal.signal(number, signal.SIG_DFL)  # who is told twice ends at once
        _say("lupi: terminated; what was finished is kept, the same command goes on from there.")
        raise SystemExit(128 + number)

    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _in_words(problem):
    """An error as one line, and the exit code; no words where typer has printed its help already."""
    if hasattr(problem, "format_message"):  # of the parser, whose classes differ between versions of typer
        text = " ".join(problem.format_message().split())
        if not text or type(problem).__name__ == "NoArgsIsHelpError":
            return "", problem.exit_code
        context = getattr(problem, "ctx", None)
        more = f" See `{context.command_path} --help`." if context else ""
        return f"{text[0].lower()}{text[1:].rstrip('.')}.{more}", problem.exit_code
    if isinstance(problem, MemoryError):
        return "there is not enough memory; what was finished is kept. Fewer --jobs need less.", 1
    if isinstance(problem, ValueError | TypeError | OSError | ImportError):
        return str(problem), 2 if isinstance(problem, UsageError) else 1
    place = traceback.extract_tb(problem.__traceback__)[-1]
    return (
        f"a fault of lupi, not yours: {type(problem).__name__}: {problem} ({Path(place.filename).name}, line {place.lineno}). "
        "With LUPI_TRACEBACK=1 the command shows all of it, for a report."
    ), 1


def _say(text):
    typer.secho(text, fg="red", err=True)


def print_version(wanted: bool) -> None:
    """What `lupi --version` does."""
    if wanted:
        typer.echo(f"lupi {__version__}")
        raise typer.Exit()


def main_options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Options before the name of a command."""


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
