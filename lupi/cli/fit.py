"""`lupi fit`."""

from pathlib import Path
from typing import Annotated

import typer

from lupi.cli.shared import (
    METHOD_NAMES,
    PLAIN_NAMES,
    Drop,
    KernelOption,
    MetricOption,
    Seed,
    Table,
    note,
)


def fit(
    table: Table,
    target: Annotated[str, typer.Option(metavar="COL", help="Column to predict; an empty cell is an unlabelled row.")],
    privileged: Annotated[
        str, typer.Option(metavar="COL,COL", help="Columns that will not exist at prediction time; wildcards allowed.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="File of the model.")],
    method: Annotated[str, typer.Option(metavar="NAME", help=f"One of {METHOD_NAMES}, {PLAIN_NAMES}.")] = "surrogate",
    drop: Drop = None,
    metric: MetricOption = None,
    kernel: KernelOption = None,
    seed: Seed = 0,
):
    """Train one model; its parameters are chosen by cross-validation."""
    from lupi.comparison.leakage import examine
    from lupi.comparison.methods import choose_methods
    from lupi.comparison.protocol import Protocol
    from lupi.comparison.read import check_data, read_table, split_frame
    from lupi.comparison.units import Setup, fit_final
    from lupi.persistence import save

    split = split_frame(read_table(table), target, privileged, drop or "", regression=metric == "r2")
    data, classes, metric = check_data(split.X, split.y, split.privileged, None, metric)
    for text in examine(split.X, data.y, split.privileged, target, grouped=True)[1]:
        note(text)
    chosen = choose_methods([method], [], metric, 0 if classes is None else len(classes))
    protocol = Protocol(metric=metric, kernel=kernel, seed=seed, train_sizes=(len(data.labelled),))
    used = list(chosen.values())[-1]
    model = fit_final(used, Setup(protocol, data, chosen), classes)
    model.info_ = {"method": used.name, "target": target, "privileged": [str(c) for c in split.privileged.columns]}
    save(model, output)
    grid = {key: value for key, value in model.estimator.get_params().items() if key in used.grid}
    chosen = f" ({', '.join(f'{key} = {value:g}' for key, value in grid.items())})" if grid else ""
    rows = f"{len(data.labelled)} rows"
    if used.unlabelled and len(data.unlabelled):
        rows += f" and {len(data.unlabelled)} without a label"
    typer.echo(f"{used.title}{chosen} from {rows}: {output}")
