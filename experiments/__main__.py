"""`python -m experiments`."""

from pathlib import Path
from typing import Annotated

import typer

from lupi.cli.shared import Jobs, Scheduler


def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Entry to run.")] = None,
    list_entries: Annotated[bool, typer.Option("--list", help="List the entries and exit.")] = False,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the research data; LUPI_DATA if not given.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for results and finished work.")] = Path(
        "experiments-out"
    ),
    splits: Annotated[int | None, typer.Option(help="Random draws; the paper's number if not given.")] = None,
    tasks: Annotated[int | None, typer.Option(help="Only the first so many pairs or training sizes.")] = None,
    features: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="Features to use in place of the data: arrays X, privileged and y."),
    ] = None,
    jobs: Jobs = -1,
    scheduler: Scheduler = None,
) -> None:
    """Run a table or figure of the papers again and print ours beside the printed numbers."""
    from experiments import commands
    from lupi.run import cluster

    if list_entries or name is None:
        commands.list_entries()
        return
    with cluster(scheduler):
        commands.run_reproduce(name, data=data, out=out, splits=splits, tasks=tasks, jobs=jobs, features=features)


if __name__ == "__main__":
    typer.run(reproduce)
