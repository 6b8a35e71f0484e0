"""`lupi fit`."""

from pathlib import Path
from typing import Annotated

import typer

from lupi.cli.shared import (
    CHUNKED_NAMES,
    METHOD_NAMES,
    PLAIN_NAMES,
    TABLE_KINDS,
    Drop,
    KernelOption,
    MetricOption,
    Scheduler,
    Seed,
    note,
)


def fit(
    tables: Annotated[
        list[Path],
        typer.Argument(
            metavar="TABLE...",
            help=f"{TABLE_KINDS}. Several Parquet files, or a folder of them, are read part by part: {CHUNKED_NAMES}.",
        ),
    ],
    target: Annotated[str, typer.Option(metavar="COL", help="Column to predict; an empty cell is an unlabeled row.")],
    privileged: Annotated[
        str, typer.Option(metavar="COL,COL", help="Columns that will not exist at prediction time; wildcards allowed.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="File of the model.")],
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help=f"One of {METHOD_NAMES}, {PLAIN_NAMES}; surrogate, or svm2+ for several files."
        ),
    ] = None,
    drop: Drop = None,
    metric: MetricOption = None,
    kernel: KernelOption = None,
    seed: Seed = 0,
    scheduler: Scheduler = None,
) -> None:
    """Train one model; its parameters are chosen by cross-validation."""
    if scheduler is not None or len(tables) > 1 or tables[0].is_dir():
        _fit_chunked(tables, target, privileged, output, method or "svm2+", drop or "", metric, kernel, seed, scheduler)
        return
    from lupi.comparison.leakage import examine
    from lupi.comparison.methods import choose_methods
    from lupi.comparison.problem import check_data, split_frame
    from lupi.comparison.protocol import Protocol
    from lupi.comparison.units import Setup, fit_final
    from lupi.persistence import save
    from lupi.tabular.read import read_table

    split = split_frame(read_table(tables[0]), target, privileged, drop or "", regression=metric == "r2")
    data, classes, metric = check_data(split.X, split.y, split.privileged, None, metric)
    for text in examine(split.X, data.y, split.privileged, target, grouped=True)[1]:
        note(text)
    chosen = choose_methods([method or "surrogate"], [], metric, 0 if classes is None else len(classes))
    protocol = Protocol(metric=metric, kernel=kernel, seed=seed, train_sizes=(len(data.labeled),))
    used = list(chosen.values())[-1]
    model = fit_final(used, Setup(protocol, data, chosen), classes)
    model.info_ = {"method": used.name, "target": target, "privileged": [str(c) for c in split.privileged.columns]}
    save(model, output)
    rows = f"{len(data.labeled)} rows"
    if used.unlabeled and len(data.unlabeled):
        rows += f" and {len(data.unlabeled)} without a label"
    _report(model, used, rows, output)


def _fit_chunked(tables, target, privileged, output, method, drop, metric, kernel, seed, scheduler):
    """Parquet files part by part: parameters from a sample of the rows, weights from all of them."""
    from lupi.comparison.methods import choose_methods
    from lupi.comparison.problem import check_data, split_frame
    from lupi.comparison.protocol import Protocol
    from lupi.comparison.units import MAX_FIT, Setup, fit_final
    from lupi.persistence import save
    from lupi.run import cluster
    from lupi.tabular.chunked import read_parquet, refit_on_chunks

    for option, wrong, allowed in (
        ("method", method not in CHUNKED_NAMES.split(", "), f"--method {CHUNKED_NAMES}"),
        ("metric", metric == "r2", "a metric of classes"),
        ("kernel", kernel not in (None, "linear"), "--kernel linear"),
    ):
        if wrong:
            given = {"method": method, "metric": metric, "kernel": kernel}[option]
            raise ValueError(f"--{option} {given} needs the rows in memory; several files are fitted with {allowed}.")
    with cluster(scheduler):
        frame = read_parquet(tables, target)
        n = len(frame)
        sample = frame if n <= MAX_FIT else frame.sample(frac=MAX_FIT / n, random_state=seed)
        split = split_frame(sample.compute().reset_index(drop=True), target, privileged, drop)
        data, classes, metric = check_data(split.X, split.y, split.privileged, None, metric)
        chosen = choose_methods([method], [], metric, len(classes))
        protocol = Protocol(metric=metric, kernel="linear", seed=seed, train_sizes=(len(data.labeled),))
        used = list(chosen.values())[-1]
        model = fit_final(used, Setup(protocol, data, chosen), classes)
        refit_on_chunks(model, frame, target, data.privileged if used.privileged else None)
    model.info_ = {"method": used.name, "target": target, "privileged": [str(c) for c in split.privileged.columns]}
    save(model, output)
    _report(model, used, f"{n} rows in chunks", output)


def _report(model, used, rows, output):
    grid = {key: value for key, value in model.estimator.get_params().items() if key in used.grid}
    chosen = f" ({', '.join(f'{key} = {value:g}' for key, value in grid.items())})" if grid else ""
    typer.echo(f"{used.title}{chosen} from {rows}: {output}")
