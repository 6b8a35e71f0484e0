"""``python -m experiments``: run a table or figure of the papers and print ours beside the printed numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments import (
    celik,
    feyereisl,
    mnist_plus,
    sharmanska,
    sharmanska_tables,
    sun,
    surrogate,
    surrogate_studies,
    verdict,
    xu,
)
from experiments.common import ENTRIES
from lupi.files import write_atomically
from lupi.run import cluster, progress

MODULES = (celik, feyereisl, mnist_plus, sharmanska, sharmanska_tables, sun, surrogate, surrogate_studies, verdict, xu)


def main(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Entry to run; all are listed without it.")] = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Research data (default: LUPI_DATA).")] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Results and finished work.")] = Path("experiments-out"),
    splits: Annotated[int | None, typer.Option(help="Random splits (default: the paper's number).")] = None,
    tasks: Annotated[
        int | None, typer.Option(help="Run only the first tasks, such as pairs or training sizes.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="Your features: arrays X, privileged and y.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes.")] = -1,
    scheduler: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler.")] = None,
) -> None:
    """Run a table or figure of the papers. An interrupted run resumes."""
    if name is None:
        for entry in ENTRIES.values():
            print(f"{entry.name:34} {entry.title}; needs {entry.data}")
        return
    if name not in ENTRIES:
        raise typer.BadParameter(f"no entry is called {name!r}; the entries are {', '.join(ENTRIES)}.")
    entry = ENTRIES[name]
    options = {"tasks": tasks, "n_jobs": jobs}
    if splits is not None:
        options["n_splits"] = splits
    if features is not None:
        if not entry.features:
            able = ", ".join(other.name for other in ENTRIES.values() if other.features)
            raise typer.BadParameter(f"{name} takes no --features; the entries that do are {able}.")
        options["features"] = features
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    with cluster(scheduler), progress("fitting") as report:
        lines = entry.run(data, folder, on_progress=report, **options)
    text = "\n".join([entry.title, *lines])
    write_atomically(folder / "result.txt", (text + "\n").encode())
    print(text)


if __name__ == "__main__":
    typer.run(main)
