"""The `lupi` command.

Only typer is imported here: numpy, scikit-learn and numba load inside the commands that need them, so that
`lupi --help` answers at once.
"""

from contextlib import contextmanager
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
    from lupi.bench import load_cases

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

    from lupi.bench import facts, run, tables

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


# Written out: the registry of the methods would load numba. A test compares the two.
MODEL_NAMES = "svm, l2svm, ranksvm, svm+, svm2+, svm2k, ranktransfer, transfer, distillation"
REFERENCE_NAMES = "reference, rankreference"
Table = Annotated[Path, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet.")]
Target = Annotated[str | None, typer.Option(metavar="COL", help="Column to predict.")]
Privileged = Annotated[
    str | None,
    typer.Option(metavar="COL,COL", help="Columns that will not exist at prediction time; wildcards allowed."),
]
Drop = Annotated[str | None, typer.Option(metavar="COL,COL", help="Columns to ignore, such as identifiers.")]
MetricOption = Annotated[
    str | None,
    typer.Option(help="ap, accuracy, auc, balanced_accuracy or r2; auc, or accuracy for more than two classes."),
]
Kernel = Annotated[str, typer.Option(help="rbf or linear, for all methods.")]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Run on the Dask cluster of this scheduler, e.g. tcp://10.0.0.5:8786."),
]
Seed = Annotated[int, typer.Option(help="Everything random follows from it.")]


def _given(context):
    """Name and arguments of the running command, as they were given: what is needed to run it again."""
    words = [context.info_name]
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        if source is not None and source.name == "COMMANDLINE":
            if parameter.param_type_name == "option":
                words.append(parameter.opts[0])
            words.append(str(context.params[parameter.name]))
    return words


def _numbers(sizes):
    """Training sizes from "50,100" or "0.1,0.5"; None stays None."""
    try:
        return sizes and [float(n) if "." in n else int(n) for n in sizes.split(",")]
    except ValueError:
        raise ValueError(
            f"--train-size is {sizes!r}, but must be numbers such as 50,100 or shares such as 0.5."
        ) from None


@app.command()
def compare(
    context: typer.Context,
    table: Annotated[
        Path | None, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet; the bundled digits if none.")
    ] = None,
    target: Target = None,
    privileged: Privileged = None,
    drop: Drop = None,
    groups: Annotated[
        str | None, typer.Option(metavar="COL", help="Rows of one value stay together, e.g. a patient.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help=f"Of {MODEL_NAMES}, {REFERENCE_NAMES}; if not given, all that are possible but rankreference.",
        ),
    ] = None,
    metric: MetricOption = None,
    splits: Annotated[int, typer.Option(help="Random splits into training and test rows.")] = 20,
    train_size: Annotated[
        str | None, typer.Option(metavar="N[,N]", help="Training rows; several give a learning curve.")
    ] = None,
    kernel: Kernel = "rbf",
    jobs: Annotated[int, typer.Option(help="Processes; -1: one for each core.")] = -1,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of report.html, results.json and model.lupi.")
    ] = Path("lupi-report"),
    seed: Seed = 0,
    scheduler: Scheduler = None,
):
    """Do these training-only columns help? Compare methods with and without them.

    Each method that uses the privileged columns is also run with them shuffled, and without them. A run that was
    interrupted goes on where it stopped when the same command is given again.
    """
    with _user_errors():
        from lupi.comparison.commands import command_line, run_compare
        from lupi.engine.workers import cluster

        with cluster(scheduler):
            run_compare(
                table,
                target=target,
                privileged=privileged,
                drop=drop,
                groups=groups,
                methods=methods.replace(" ", "").split(",") if methods else None,
                metric=metric,
                splits=splits,
                train_size=_numbers(train_size),
                kernel=kernel,
                jobs=jobs,
                out=out,
                seed=seed,
                command=command_line(_given(context)),
            )


@app.command()
def fit(
    table: Table,
    target: Annotated[str, typer.Option(metavar="COL", help="Column to predict.")],
    privileged: Annotated[
        str, typer.Option(metavar="COL,COL", help="Columns that will not exist at prediction time; wildcards allowed.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="File of the model.")],
    method: Annotated[str, typer.Option(metavar="NAME", help=f"One of {MODEL_NAMES}.")] = "svm2+",
    drop: Drop = None,
    metric: MetricOption = None,
    kernel: Kernel = "rbf",
    seed: Seed = 0,
):
    """Train one model; its parameters are chosen by cross-validation."""
    with _user_errors():
        from lupi.comparison.commands import run_fit

        run_fit(
            table,
            target=target,
            privileged=privileged,
            drop=drop,
            method=method,
            metric=metric,
            kernel=kernel,
            seed=seed,
            output=output,
        )


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File of `lupi fit` or `lupi compare`.")],
    table: Table,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="CSV; the terminal if not given.")
    ] = None,
):
    """Predict the rows of a table. Privileged columns are not needed; if they are there, they are ignored."""
    with _user_errors():
        from lupi.comparison.commands import run_predict

        run_predict(model, table, output)


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Entry to run.")] = None,
    list_entries: Annotated[bool, typer.Option("--list", help="List the entries and exit.")] = False,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the research data; LUPI_DATA if not given.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for results and finished work.")] = Path(
        "lupi-reproduce"
    ),
    splits: Annotated[int | None, typer.Option(help="Random draws; the paper's number if not given.")] = None,
    tasks: Annotated[int | None, typer.Option(help="Only the first so many pairs or training sizes.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes; -1: one for each core.")] = -1,
    scheduler: Scheduler = None,
):
    """Run a table or figure of the papers again and print ours beside the printed numbers."""
    with _user_errors():
        from lupi.engine.workers import cluster
        from lupi.reproduce import commands

        if list_entries or name is None:
            commands.list_entries()
            return
        with cluster(scheduler):
            commands.run_reproduce(name, data=data, out=out, splits=splits, tasks=tasks, jobs=jobs)


@contextmanager
def _user_errors():
    """What a user can mend is said in one line, without a traceback."""
    try:
        yield
    except (ValueError, TypeError, OSError, ImportError) as problem:
        typer.secho(f"lupi: {problem}", fg="red", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("\nlupi: stopped; what was finished is kept, the same command goes on from there.", err=True)
        raise typer.Exit(130) from None


def _write_json(result, path):
    from lupi.engine.files import strict_json

    path.write_text(strict_json(result, indent=2) + "\n")


def main():
    """Run the command line; the entry point of the installed `lupi` script."""
    app()


if __name__ == "__main__":
    main()
