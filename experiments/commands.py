"""What `python -m experiments` does."""

from __future__ import annotations

from pathlib import Path

from experiments import (
    celik,
    feyereisl,
    mnist_plus,
    pictures_with_text,
    sharmanska,
    sharmanska_birds,
    sharmanska_substitutes,
    sun,
    surrogate,
    verdicts,
    xu,
)
from lupi.files import write_atomically
from lupi.run import progress

_PAPERS = (
    mnist_plus,
    sharmanska,
    sharmanska_substitutes,
    sharmanska_birds,
    xu,
    pictures_with_text,
    sun,
    feyereisl,
    celik,
)
ENTRIES = {entry.name: entry for module in (*_PAPERS, surrogate, verdicts) for entry in module.ENTRIES}


def list_entries():
    """Print the entries of `python -m experiments`, and what they need."""
    for entry in ENTRIES.values():
        state = f"needs {entry.data}" if entry.run else f"not possible: {entry.missing}"
        print(f"{entry.name:34} {entry.title}; {state}")


def run_reproduce(name, *, data, out, splits, tasks, jobs, features=None):
    """Run one entry and print ours beside the paper's; each finished unit of work is kept in `out`."""
    if name not in ENTRIES:
        raise ValueError(f"no entry is called {name!r}; the entries are {', '.join(ENTRIES)}.")
    entry = ENTRIES[name]
    if entry.run is None:
        raise ValueError(f"{entry.title} cannot be run: {entry.missing}.")
    if features is not None and not entry.features:
        able = ", ".join(other.name for other in ENTRIES.values() if other.features)
        raise ValueError(f"{name} takes no --features; the entries that do are {able}.")
    folder = Path(out) / name
    folder.mkdir(parents=True, exist_ok=True)
    options = {} if splits is None else {"n_splits": splits}
    if features is not None:
        options["features"] = features
    with progress("fitting") as report:
        lines = entry.run(data, folder, tasks=tasks, n_jobs=jobs, on_progress=report, **options)
    text = "\n".join([entry.title, *lines])
    write_atomically(folder / "result.txt", (text + "\n").encode())
    print(text)
