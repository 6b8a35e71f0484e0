"""Cost of a default run of `lupi compare` on larger tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from benchmarks.measure import Row, case

N_MEDIATORS = 10


def generated_table(n, columns, seed=0):
    """A table of numbers, words and gaps with ten mediators z0 ... z9 and the target `y`."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, columns - N_MEDIATORS))
    later = rng.standard_normal((n, N_MEDIATORS))
    later[:, : X.shape[1]] += 0.6 * X[:, :N_MEDIATORS]
    score = X @ rng.standard_normal(X.shape[1]) / X.shape[1] ** 0.5 + later.sum(axis=1) / 3 + rng.standard_normal(n)
    names = [*(f"x{k}" for k in range(X.shape[1])), *(f"z{k}" for k in range(N_MEDIATORS))]
    table = pd.DataFrame(np.hstack([X, later]).round(4), columns=names)
    table["x0"] = pd.cut(table["x0"], 5, labels=list("abcde")).astype(str)
    table.loc[rng.random(n) < 0.05, "x1"] = np.nan
    return table.assign(y=np.where(score > np.median(score), "yes", "no"))


def run_compare(table, folder, *options):
    """CPU seconds, peak memory in bytes and answer of the whole command in one process."""
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


@case("compare-large", "lupi compare with default options: 20,000 rows x 60 columns, 2,000 x 500")
def compare_large(quick):
    rows = []
    for n, columns in ((200, 14),) if quick else ((20_000, 60), (2_000, 500)):
        options = ("--splits", "2", "--permutations", "1", "--methods", "surrogate-ridge") if quick else ()
        with TemporaryDirectory() as folder:
            seconds, peak, answer = run_compare(generated_table(n, columns), Path(folder), *options)
        note = f"peak memory {peak / 2**30:.2f} GB; answer: {answer}"
        rows.append(Row(f"{n:,} x {columns}", seconds, target="<= 15 CPU minutes, < 2 GB", note=note))
    return rows
