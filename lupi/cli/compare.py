"""`lupi compare`: parse, validate, run, export."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from lupi.cli.shared import (
    METHOD_NAMES,
    PLAIN_NAMES,
    REFERENCE_NAMES,
    TABLE_KINDS,
    Drop,
    Jobs,
    KernelOption,
    MaxTime,
    MetricOption,
    Scheduler,
    Seed,
    UsageError,
    given,
    names,
    note,
)

LABELED_MEN = 1000


def compare(
    context: typer.Context,
    table: Annotated[
        Path | None, typer.Argument(metavar="TABLE", help=f"{TABLE_KINDS}; bundled wages of young men if none.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="COL", help="Column to predict; an empty cell is an unlabeled row.")
    ] = None,
    privileged: Annotated[
        str | None,
        typer.Option(metavar="COL,COL", help="Columns that will not exist at prediction time; wildcards allowed."),
    ] = None,
    drop: Drop = None,
    groups: Annotated[
        str | None, typer.Option(metavar="COL", help="Rows of one value stay together, e.g. a patient.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help=f"Of {METHOD_NAMES}, {REFERENCE_NAMES}, or package.module:Class; the first four and two references if not "
            "given.",
        ),
    ] = None,
    baselines: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help=f"Plain methods: of {PLAIN_NAMES}, or package.module:Class; the first four if not given. none: the plain "
            "counterparts alone.",
        ),
    ] = None,
    metric: MetricOption = None,
    splits: Annotated[int, typer.Option(min=2, help="Random splits into training and test rows.")] = 20,
    train_size: Annotated[
        str | None, typer.Option(metavar="N[,N]", help="Labeled training rows; several give a learning curve.")
    ] = None,
    permutations: Annotated[int, typer.Option(min=0, help="Of the exact test; 0: none.")] = 99,
    kernel: KernelOption = None,
    jobs: Jobs = -1,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of report.html, results.json and model.lupi.")
    ] = Path("lupi-report"),
    seed: Seed = 0,
    scheduler: Scheduler = None,
    max_time: MaxTime = None,
) -> None:
    """Do these training-only columns help? Compare methods with and without them.

    Each method that uses the privileged columns is also run with them shuffled, and without them, and has to beat plain
    methods such as logistic regression and forests. A run that was interrupted goes on where it stopped when the same
    command is given again.
    """
    paged = find_spec("jinja2") is not None
    if not paged:
        note('jinja2 is not installed, so there will be no report.html: pip install "lupi[report]".')
    frame, columns, sizes = _data(table, target, privileged, drop, groups, _numbers(train_size))
    from lupi.comparison.comparison import compare as run
    from lupi.run import cluster, progress

    (out / "units").mkdir(parents=True, exist_ok=True)
    with cluster(scheduler), progress("fitting") as report:
        result = run(
            frame,
            **columns,
            methods=names(methods),
            baselines=[] if baselines == "none" else names(baselines),
            metric=metric,
            n_splits=splits,
            train_size=sizes,
            permutations=permutations,
            kernel=kernel,
            seed=seed,
            n_jobs=jobs,
            store=out / "units",
            on_progress=report,
            max_time=max_time,
            source="bundled wages of young men" if table is None else table.name,
            command=given(context),
        )
    _show(result)
    _export(result, out, paged)


def _data(table, target, privileged, drop, groups, sizes):
    """The table and the arguments of `compare` that name its columns."""
    if table is None:
        options = {"--target": target, "--privileged": privileged, "--drop": drop, "--groups": groups}
        named = [option for option, value in options.items() if value is not None]
        if named:
            raise UsageError(f"{' and '.join(named)}: columns of which TABLE? Without one bundled data are compared.")
        return *_bundled(), sizes or [100]
    if target is None or privileged is None:
        raise UsageError(
            "with a TABLE, say which column to predict (--target) and which are privileged (--privileged)."
        )
    from lupi.tabular.read import read_table

    return read_table(table), {"target": target, "privileged": privileged, "drop": drop or "", "groups": groups}, sizes


def _bundled():
    """The young men's wages, with a label for a third of them: 100 to train on, and 900 to test."""
    import numpy as np

    from lupi.datasets import load_young_men

    men = load_young_men(fill_gaps=False, as_frame=True)
    note(
        f"no TABLE: the bundled wages of {len(men.target)} young men. Is the wage above the median? From what was known when "
        "they were 14; privileged: schooling, tests and experience of later years. Two thirds get no label here."
    )
    wage = men.target.map({0: "below", 1: "above"})
    unlabeled = np.random.default_rng(0).permutation(len(wage))[LABELED_MEN:]
    wage.iloc[unlabeled] = None
    frame = men.data.join(men.privileged).assign(wage=wage)
    return frame, {"target": "wage", "privileged": list(men.privileged.columns)}


def _numbers(sizes):
    """Training sizes from "50,100" or "0.1,0.5"; None stays None."""
    try:
        return sizes and [float(n) if "." in n else int(n) for n in sizes.split(",")]
    except ValueError:
        raise UsageError(
            f"--train-size is {sizes!r}, but must be numbers such as 50,100 or shares such as 0.5."
        ) from None


def _show(result):
    from rich.console import Console

    from lupi.comparison.render.terminal import TerminalTable

    for text in result.summary["notes"]:
        note(text)
    Console().print(TerminalTable(result.summary, verdict=True))


def _export(result, out, paged):
    """Results and model first: a page that fails must not cost them."""
    result.to_json(out / "results.json")
    typer.echo(f"\nresults {out / 'results.json'}")
    if _saved(result, out / "model.lupi"):
        typer.echo(f"model   {out / 'model.lupi'}")
    if paged:
        result.to_html(out / "report.html")
        typer.echo(f"report  {out / 'report.html'}")


def _saved(result, path):
    """Whether the model could be written; a user's own estimator may be none for a file."""
    from lupi.persistence import save

    data, verdict = result.summary["data"], result.summary["verdict"]
    model = result.fit_model()
    model.info_ = {
        "method": verdict["method"],
        "target": data["target"],
        "privileged": data["privileged_names"] or [],
    }
    try:
        save(model, path)
    except TypeError as problem:
        note(f"there is no {path.name}: {problem}")
        return False
    return True
