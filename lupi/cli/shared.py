"""Shared by all commands: the app, options, notes, and errors as one line."""

import os
import shlex
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from lupi import __version__

# Written out, because importing the registry of methods is slow. A test compares them with it.
PLAIN_NAMES = "linear, forest, boosting, svm, surrogate-plain, ridge-plain, boosted-plain, l2svm, ranksvm"
METHOD_NAMES = (
    "surrogate, surrogate-ridge, surrogate-boosted, svm2+, distillation, transfer, ranktransfer, svm+, svr+, svm2k, "
    "soft-labels, predicted-z, chain"
)
REFERENCE_NAMES = "reference, joint, rankreference"
CHUNKED_NAMES = "svm2+, svm+, ranktransfer, l2svm, svm, ranksvm"
# Rows that `lupi predict` reads at a time.
CHUNK_ROWS = 50_000
TABLE_KINDS = "CSV, TSV, Parquet, Feather, Excel or JSON lines"
RESUME = "finished results are kept; run the same command again to resume."

Target = typer.Option(metavar="COL", help="Column to predict; an empty cell is an unlabeled row.")
Privileged = typer.Option(metavar="COL,COL", help="Columns that will not exist at prediction time; wildcards allowed.")
Drop = Annotated[str, typer.Option(metavar="COL,COL", help="Columns to ignore, such as identifiers.")]
_GROUPS = "Rows with the same value stay together, e.g. a patient."
Groups = Annotated[str | None, typer.Option(metavar="COL", help=_GROUPS)]
Metric = Annotated[
    Literal["ap", "accuracy", "auc", "balanced_accuracy", "r2"] | None,
    typer.Option(help="By default auc; accuracy for more than two classes."),
]
Kernel = Annotated[Literal["rbf", "linear"] | None, typer.Option(help="Kernel of kernel methods (default: both).")]
Scheduler = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler, e.g. tcp://10.0.0.5:8786.")]
Seed = Annotated[int, typer.Option(min=0, help="Determines everything random.")]
Jobs = Annotated[int, typer.Option("--jobs", help="Processes; -1: one per core.")]


class UsageError(ValueError):
    """Options that do not go together."""


class Commands(TyperGroup):
    """All commands. Every error is one line that begins with "lupi:", never a traceback.

    Exit codes: 2 for wrong commands and options, 130 for Ctrl-C, 143 for SIGTERM, 1 otherwise.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the words of the user as ``context.obj``, for the report."""
        ctx.obj = shlex.join(["lupi", *args])
        self.kept = f"; {RESUME}" if args[:1] in (["compare"], ["localize"]) else "."
        return super().parse_args(ctx, args)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Parse the arguments, run the command, end the process."""
        self.kept = "."
        try:
            with self._sigterm_as_exception(), warnings.catch_warnings():
                warnings.showwarning = lambda message, *_: note(str(message))
                code = super().main(*args, **extra | {"standalone_mode": False})
            text = f"stopped{self.kept}" if code == 130 else ""
        except Exception as error:
            if "LUPI_TRACEBACK" in os.environ:
                raise
            text, code = _describe(error, self.kept)
        if text:
            _say(f"lupi: {text}")
        sys.exit(code or 0)

    @contextmanager
    def _sigterm_as_exception(self):
        """End the command on SIGTERM as on Ctrl-C: partial files are removed and workers end."""

        def stop(number, frame):
            signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once
            _say(f"lupi: terminated{self.kept}")
            raise SystemExit(128 + number)

        ours = current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if ours:
            signal.signal(signal.SIGTERM, stop)
        try:
            yield
        finally:
            if ours:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _describe(error, kept):
    """An error as one line, and the exit code; no text where typer has printed its help already."""
    from lupi.solution import stop_behind

    error = stop_behind(error) or error  # compiled code wraps the exception of a signal
    if isinstance(error, SystemExit):
        return "", error.code
    if isinstance(error, typer.Abort | KeyboardInterrupt):  # Ctrl-C
        return f"stopped{kept}", 130
    if hasattr(error, "format_message"):  # of the parser, whose classes differ between versions of typer
        text = " ".join(error.format_message().replace("Value error, ", "").split())
        if not text or type(error).__name__ == "NoArgsIsHelpError":
            return "", error.exit_code
        context = getattr(error, "ctx", None)
        more = f" See `{context.command_path} --help`." if context else ""
        return f"{text[0].lower()}{text[1:].rstrip('.')}.{more}", error.exit_code
    if isinstance(error, MemoryError):
        advice = " Fewer --jobs need less." if RESUME in kept else ""
        return f"not enough memory{kept}{advice}", 1
    if isinstance(error, ValueError | TypeError | OSError | ImportError):
        return str(error), 2 if isinstance(error, UsageError) else 1
    place = traceback.extract_tb(error.__traceback__)[-1]
    found = f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"
    return f"internal error: {found}. Please report it with the traceback that LUPI_TRACEBACK=1 shows.", 1


def _say(text):
    typer.secho(text, fg="red", err=True)


def load_model(path: Path, kind: Any, commands: str) -> Any:
    """Model of a file that one of the commands wrote."""
    from lupi.persistence import load

    if not path.is_file():
        raise ValueError(f"{path}: no such model file; {commands} writes one.")
    model = load(path)
    if not isinstance(model, kind):
        raise ValueError(f"{path} holds a {type(model).__name__}, not a model of {commands}.")
    return model


def note(text):
    """Print a line on the error stream."""
    typer.secho("note: ", fg="yellow", nl=False, err=True)
    typer.echo(text, err=True)


def write(parts, output):
    """Write parts of a text to a file, or to standard output where `output` is None, once the last one is made."""
    from lupi.files import write_atomically

    if output is not None:
        write_atomically(output, (part.encode() for part in parts))
        return
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.writelines(parts)
        file.seek(0)
        shutil.copyfileobj(file, sys.stdout)


def names(text: str | None) -> list[str] | None:
    """Names from "a, b", none from "none"; None stays None."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip() not in ("", "none")]


_ABOUT = "Learning using privileged information: features that exist at training time only."
_PLAIN: dict[str, Any] = {"no_args_is_help": True, "add_completion": False, "pretty_exceptions_enable": False}
app = typer.Typer(name="lupi", cls=Commands, help=_ABOUT, **_PLAIN)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lupi {__version__}")
        raise typer.Exit()


_Version = typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)


@app.callback()
def _options(version: Annotated[bool, _Version] = False) -> None:
    """Options before the name of a command."""
