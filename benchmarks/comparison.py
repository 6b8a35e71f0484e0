"""What a default run of `lupi compare` costs on larger tables."""

from benchmarks._registry import Row, case

# Mediators among the columns, and words and gaps among the features.
PRIVILEGED, WORDS = 10, "abcde"
SHAPES = ((20_000, 60), (2_000, 500))


def generated_table(n, columns, seed=0):
    """A table of numbers, words and gaps, with ten columns that stand between the others and the target `y`.

    Parameters
    ----------
    n, columns : int
        Rows, and columns beside the target.
    seed : int

    Returns
    -------
    data frame

    Examples
    --------
    >>> table = generated_table(50, 14)
    >>> table.shape, sorted(table["y"].unique())
    ((50, 15), ['no', 'yes'])
    """
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, columns - PRIVILEGED))
    later = rng.standard_normal((n, PRIVILEGED))
    later[:, : X.shape[1]] += 0.6 * X[:, :PRIVILEGED]
    score = X @ rng.standard_normal(X.shape[1]) / X.shape[1] ** 0.5 + later.sum(axis=1) / 3 + rng.standard_normal(n)
    names = [*(f"x{k}" for k in range(X.shape[1])), *(f"z{k}" for k in range(PRIVILEGED))]
    table = pd.DataFrame(np.hstack([X, later]).round(4), columns=names)
    table["x0"] = pd.cut(table["x0"], len(WORDS), labels=list(WORDS)).astype(str)
    table.loc[rng.random(n) < 0.05, "x1"] = np.nan
    return table.assign(y=np.where(score > np.median(score), "yes", "no"))


def default_run(table, folder, *options):
    """The whole command on a table, with one process: CPU seconds, peak memory in bytes, and its answer.

    Returns
    -------
    float, int, str
    """
    import json
    import os
    import subprocess
    import sys

    table.to_csv(folder / "table.csv", index=False)
    command = [sys.executable, "-m", "lupi.cli", "compare", "table.csv", "--target", "y", "--privileged", "z*"]
    process = subprocess.Popen(
        [*command, "--jobs", "1", "--out", "report", *options],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"lupi compare ended with exit code {process.returncode}.")
    answer = json.loads((folder / "report" / "results.json").read_text())["verdict"]["answer"]
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, answer


@case("compare-large", "lupi compare as it is by default: 20,000 rows x 60 columns, 2,000 x 500")
def compare_large(quick):
    """At most 15 CPU minutes and 2 GB each."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    rows = []
    for n, columns in ((200, 14),) if quick else SHAPES:
        options = ("--splits", "2", "--permutations", "1", "--methods", "surrogate-ridge") if quick else ()
        with TemporaryDirectory() as folder:
            seconds, peak, answer = default_run(generated_table(n, columns), Path(folder), *options)
        note = f"{seconds / 60:.1f} CPU minutes, peak memory {peak / 2**30:.2f} GB; answer: {answer}"
        rows.append(Row(f"{n:,} x {columns}", seconds, target="<= 15 minutes, < 2 GB", note=note))
    return rows
