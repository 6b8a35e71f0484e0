"""`lupi compare`."""

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

import lupi.cli.shared as cli

LABELED_MEN = 1000


def _sizes(text: str | None) -> list[float] | None:
    """Training sizes from "50,100" or "0.1,0.5"; None stays None."""
    try:
        return None if text is None else [float(n) if "." in n else int(n) for n in text.split(",")]
    except ValueError:
        expected = "numbers such as 50,100 or shares such as 0.5"
        raise cli.UsageError(f"--train-size must be {expected}, got {text!r}.") from None


Names = partial(typer.Option, metavar="NAME,NAME", callback=cli.names)
Groups = typer.Option(metavar="COL", help="Rows with the same value stay together, e.g. a patient.")
DEFAULTS = "or package.module:Class (default: the first four"
Methods = Names(
    help=f"Methods to compare: {cli.METHOD_NAMES}, recipes (the last three), {cli.REFERENCE_NAMES}, "
    f"{DEFAULTS} and two references)."
)
Baselines = Names(help=f"Baselines: {cli.PLAIN_NAMES}, {DEFAULTS}). none: only the methods' counterparts.")
Sizes = typer.Option(metavar="N[,N]", help="Labeled training rows; several give a learning curve.", callback=_sizes)
MaxTime = typer.Option(metavar="SECONDS", min=1e-9, help="Stop starting new fits after this; run again to resume.")
Splits = typer.Option("--splits", min=2, help="Random splits into training and test rows.")
Tables = typer.Argument(metavar="TABLE", help=f"{cli.TABLE_KINDS} (default: bundled wages of young men).")
Out = typer.Option(metavar="DIR", help="Folder of report.html, results.json and model.lupi.")
# Options that are passed on by name.
PASSED = ("methods", "baselines", "metric", "n_splits", "permutations", "kernel", "seed", "n_jobs", "max_time")


def compare(
    context: typer.Context,
    table: Annotated[Path | None, Tables] = None,
    target: Annotated[str | None, cli.Target] = None,
    privileged: Annotated[str | None, cli.Privileged] = None,
    drop: cli.Drop = "",
    groups: Annotated[str | None, Groups] = None,
    methods: Annotated[str | None, Methods] = None,
    baselines: Annotated[str | None, Baselines] = None,
    metric: cli.Metric = None,
    n_splits: Annotated[int, Splits] = 20,
    train_size: Annotated[str | None, Sizes] = None,
    permutations: Annotated[int, typer.Option(min=0, help="Permutations of the exact test; 0: no test.")] = 99,
    kernel: cli.Kernel = None,
    n_jobs: cli.Jobs = -1,
    out: Annotated[Path, Out] = Path("lupi-report"),
    seed: cli.Seed = 0,
    scheduler: cli.Scheduler = None,
    max_time: Annotated[float | None, MaxTime] = None,
) -> None:
    """Do these training-only columns help? Compare methods with and without them.

    Each method that uses the privileged columns also runs with shuffled columns and without them, and must beat baselines
    such as logistic regression and forests. To resume an interrupted run, run the same command again.
    """
    paged = find_spec("jinja2") is not None
    if not paged:
        cli.note('jinja2 is not installed, so there will be no report.html: pip install "lupi[report]".')
    columns = {"target": target, "privileged": privileged, "drop": drop, "groups": groups}
    if table is None:
        data = _bundled([name for name, value in columns.items() if value])
        data |= {"train_size": train_size or [100], "source": "bundled wages of young men"}
    elif target is None or privileged is None:
        raise cli.UsageError(
            "TABLE requires the column to predict (--target) and the privileged columns (--privileged)."
        )
    else:
        from lupi.tabular.table import read_file

        data = {"X": read_file(table), **columns, "train_size": train_size, "source": table.name}
    from lupi.comparison.comparison import compare as run
    from lupi.run import cluster, progress

    store = out / "units"
    store.mkdir(parents=True, exist_ok=True)
    passed = {name: context.params[name] for name in PASSED}
    with cluster(scheduler), progress("fitting") as report:
        result = run(**data, **passed, store=store, on_progress=report, command=context.obj)
    _export(result, out, paged)


def _bundled(given):
    """Wages of young men, a third of them labeled: 100 to train on, and 900 to test; no column may be named."""
    if given:
        options = " and ".join(f"--{name}" for name in given)
        raise cli.UsageError(f"{options}: columns of which TABLE? Without TABLE, bundled data are compared.")
    import numpy as np

    from lupi.datasets import load_young_men

    men = load_young_men(fill_gaps=False, as_frame=True)
    columns = "Features: what was known at age 14; privileged: schooling, tests and experience of later years"
    cli.note(f"no TABLE: comparing the bundled wages of {len(men.target)} young men. {columns}.")
    wage = men.target.map({0: "below", 1: "above"})
    wage.iloc[np.random.default_rng(0).permutation(len(wage))[LABELED_MEN:]] = None
    frame = men.data.join(men.privileged).assign(wage=wage)
    return {"X": frame, "target": "wage", "privileged": men.privileged_names}


def _export(result, out, paged):
    """Write the results first and the model last: its fit may fail or be interrupted."""
    from rich.console import Console

    from lupi.comparison.report import TerminalTable
    from lupi.persistence import save

    result.to_json(out / "results.json")
    for text in result.summary["notes"]:
        cli.note(text)
    Console().print(TerminalTable(result.summary, verdict=True))
    typer.echo(f"\nresults {out / 'results.json'}")
    if paged:
        result.to_html(out / "report.html")
        typer.echo(f"report  {out / 'report.html'}")
    try:
        model = result.fit_model()
    except Exception as error:
        cause = str(error).rstrip(".") or type(error).__name__
        raise ValueError(f"no model was written: {cause}. The results in {out} are complete and are kept.") from error
    data = result.summary["data"]
    privileged = data["privileged_names"] or []
    model.info_ = {"method": result.summary["verdict"]["method"], "target": data["target"], "privileged": privileged}
    try:
        save(model, out / "model.lupi")
        typer.echo(f"model   {out / 'model.lupi'}")
    except TypeError as error:  # a user's estimator that cannot be saved
        cli.note(f"there is no model.lupi: {error}")
