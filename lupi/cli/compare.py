"""`lupi compare`."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

import lupi.cli.shared as cli

LABELED_MEN = 1000


def compare(
    context: typer.Context,
    table: Annotated[
        Path | None, typer.Argument(metavar="TABLE", help=f"{cli.TABLE_KINDS} (default: bundled wages of young men).")
    ] = None,
    target: Annotated[str | None, cli.Target] = None,
    privileged: Annotated[str | None, cli.Privileged] = None,
    drop: cli.Drop = None,
    groups: Annotated[
        str | None, typer.Option(metavar="COL", help="Rows with the same value stay together, e.g. a patient.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help=f"Methods to compare: {cli.METHOD_NAMES}, {cli.REFERENCE_NAMES}, or package.module:Class (default: the first four "
            "and two references).",
        ),
    ] = None,
    baselines: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help=f"Baselines: {cli.PLAIN_NAMES}, or package.module:Class (default: the first four). none: only the methods' "
            "counterparts.",
        ),
    ] = None,
    metric: cli.MetricOption = None,
    splits: Annotated[int, typer.Option(min=2, help="Random splits into training and test rows.")] = 20,
    train_size: Annotated[
        str | None, typer.Option(metavar="N[,N]", help="Labeled training rows; several give a learning curve.")
    ] = None,
    permutations: Annotated[int, typer.Option(min=0, help="Permutations of the exact test; 0: no test.")] = 99,
    kernel: cli.KernelOption = None,
    jobs: cli.Jobs = -1,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of report.html, results.json and model.lupi.")
    ] = Path("lupi-report"),
    seed: cli.Seed = 0,
    scheduler: cli.Scheduler = None,
    max_time: cli.MaxTime = None,
) -> None:
    """Do these training-only columns help? Compare methods with and without them.

    Each method that uses the privileged columns also runs with shuffled columns and without them, and must beat baselines
    such as logistic regression and forests. To resume an interrupted run, run the same command again.
    """
    paged = find_spec("jinja2") is not None
    if not paged:
        cli.note('jinja2 is not installed, so there will be no report.html: pip install "lupi[report]".')
    frame, columns, sizes = _data(table, target, privileged, drop, groups, _numbers(train_size))
    from rich.console import Console

    from lupi.comparison.comparison import compare as run
    from lupi.comparison.terminal import TerminalTable
    from lupi.run import cluster, progress

    (out / "units").mkdir(parents=True, exist_ok=True)
    with cluster(scheduler), progress("fitting") as report:
        result = run(
            frame,
            **columns,
            methods=cli.names(methods),
            baselines=[] if baselines == "none" else cli.names(baselines),
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
            command=cli.given(context),
        )
    for text in result.summary["notes"]:
        cli.note(text)
    Console().print(TerminalTable(result.summary, verdict=True))
    _export(result, out, paged)


def _data(table, target, privileged, drop, groups, sizes):
    """The table, the arguments of `compare` that name its columns, and the training sizes."""
    if table is None:
        options = {"--target": target, "--privileged": privileged, "--drop": drop, "--groups": groups}
        named = [option for option, value in options.items() if value is not None]
        if named:
            raise cli.UsageError(
                f"{' and '.join(named)}: columns of which TABLE? Without TABLE, bundled data are compared."
            )
        return *_bundled(), sizes or [100]
    if target is None or privileged is None:
        raise cli.UsageError(
            "TABLE requires the column to predict (--target) and the privileged columns (--privileged)."
        )
    from lupi.tabular.read import read_table

    return read_table(table), {"target": target, "privileged": privileged, "drop": drop or "", "groups": groups}, sizes


def _bundled():
    """Wages of young men, a third of them labeled: 100 to train on, and 900 to test."""
    import numpy as np

    from lupi.datasets import load_young_men

    men = load_young_men(fill_gaps=False, as_frame=True)
    cli.note(
        f"no TABLE: comparing the bundled wages of {len(men.target)} young men. Is the wage above the median? Features: what "
        "was known at age 14; privileged: schooling, tests and experience of later years. Two thirds of the rows are unlabeled."
    )
    wage = men.target.map({0: "below", 1: "above"})
    wage.iloc[np.random.default_rng(0).permutation(len(wage))[LABELED_MEN:]] = None
    frame = men.data.join(men.privileged).assign(wage=wage)
    return frame, {"target": "wage", "privileged": list(men.privileged.columns)}


def _numbers(sizes):
    """Training sizes from "50,100" or "0.1,0.5"; None stays None."""
    try:
        return sizes and [float(n) if "." in n else int(n) for n in sizes.split(",")]
    except ValueError:
        raise cli.UsageError(
            f"--train-size must be numbers such as 50,100 or shares such as 0.5, got {sizes!r}."
        ) from None


def _export(result, out, paged):
    """Write results and model first: they must survive a page that fails."""
    from lupi.persistence import save

    result.to_json(out / "results.json")
    typer.echo(f"\nresults {out / 'results.json'}")
    data, model = result.summary["data"], result.fit_model()
    privileged = data["privileged_names"] or []
    model.info_ = {"method": result.summary["verdict"]["method"], "target": data["target"], "privileged": privileged}
    try:
        save(model, out / "model.lupi")
        typer.echo(f"model   {out / 'model.lupi'}")
    except TypeError as error:  # a user's estimator that cannot be saved
        cli.note(f"there is no model.lupi: {error}")
    if paged:
        result.to_html(out / "report.html")
        typer.echo(f"report  {out / 'report.html'}")
