"""MNIST+ (Vapnik & Vashist's benchmark): learning curves with a poet's descriptions as privileged features."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lupi.datasets import load_mnist_plus
from lupi.experiments.comparison import compare
from lupi.reproduce._entry import Entry


def mnist_plus(
    root=None, *, sizes=(40, 50, 60, 70, 80, 90), n_splits=12, store=None, n_jobs=1, on_progress=None, methods=None
):
    """Learning curves on MNIST+ with the poetic descriptions, tested on the official test digits.

    Parameters are chosen by cross-validation on the training digits; the papers used the 4002 validation digits.

    Returns
    -------
    Comparison
    """
    digits = load_mnist_plus(root)
    missing = np.full((len(digits.test_target), digits.privileged.shape[1]), np.nan)
    return compare(
        # Pixels between 0 and 1, not standardized: that would blow up pixels at the border, which are hardly ever set.
        np.vstack([digits.data, digits.test_data]) / 255.0,
        np.concatenate([digits.target, digits.test_target]),
        np.vstack([digits.privileged, missing]),
        test_only=np.arange(100 + len(missing)) >= 100,
        standardize=False,
        methods=methods or ["svm", "svm+", "svm2+", "svm2k", "transfer", "distillation"],
        metric="accuracy",
        n_splits=n_splits,
        train_size=list(sizes),
        n_jobs=n_jobs,
        store=store,
        on_progress=on_progress,
    )


def _mnist_plus(data, out, *, n_splits=12, tasks=None, n_jobs=1, on_progress=None):
    root = None if data is None else Path(data) / "mnist_plus"
    sizes = (40, 50, 60, 70, 80, 90)[: tasks or 6]
    result = mnist_plus(
        root, sizes=sizes, n_splits=n_splits, store=out / "mnist_plus.sqlite", n_jobs=n_jobs, on_progress=on_progress
    )
    result.to_json(out / "mnist_plus.json")
    result.to_html(out / "mnist_plus.html")
    lines = [f"accuracy x 100 on the 1866 test digits, {n_splits} draws, mean ± standard error"]
    lines.append(f"{'method':28} " + " ".join(f"n = {size:<10}" for size in sizes))
    for k, row in enumerate(result.summary["sizes"][0]["methods"]):
        variants = [("", lambda r: r)] + (
            [(", shuffled", lambda r: r["shuffled"])] if row["role"] == "privileged" else []
        )
        for suffix, part in variants:
            cells = [part(size["methods"][k]) for size in result.summary["sizes"]]
            values = " ".join(f"{100 * cell['mean']:.2f} ± {100 * cell['error']:.2f} " for cell in cells)
            lines.append(f"{row['title'] + suffix:28} {values}")
    lines += [result.verdict, f"page: {out / 'mnist_plus.html'}"]
    return lines


ENTRIES = (Entry("mnist-plus", "MNIST+ learning curves (Vapnik & Vashist's benchmark)", "mnist_plus", _mnist_plus),)
