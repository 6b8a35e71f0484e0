"""Xu et al. (2016), Table 2: accuracies on pictures with text. Tables 3 and 4 are timings: ``python -m benchmarks xu-times``."""

from __future__ import annotations

import numpy as np

from experiments.common import balanced_splits, entry, paper_table, write_result
from experiments.sharmanska import PAPER_PROTOCOL
from experiments.sharmanska_tables import MEANING, PICTURES, head, load_pictures, task_lines
from lupi import compare

# Pictures of each class for training and, at most, for the test.
N_TRAIN, N_TEST = 10, 50
# Twelve candidates for every method; the paper's ranges are not printed.
COARSE, THREE, FINE = [1.0, 10.0, 100.0, 1000.0], [0.1, 1.0, 10.0], np.geomspace(1.0, 1000.0, 12).tolist()
PLUS = {"C": COARSE, "lam": THREE, "kappa": [np.inf]}
GRIDS = {
    "svm": {"C": FINE}, "l2svm": {"C": FINE}, "svm+": PLUS, "svm2+": PLUS, "svm2k": {"C": COARSE, "D": THREE},
    "reference": {"C": FINE},
}  # fmt: skip


def classify(pictures, **options):
    """All classes against each other by SVM, SVM+, SVM2+ and SVM-2K, one-vs-rest; accuracy."""
    n_classes, fewest = len(pictures.names), np.bincount(pictures.y).min()
    if fewest <= N_TRAIN:
        raise ValueError(f"Every class needs more than {N_TRAIN} rows; the smallest has {fewest}.")
    return compare(
        pictures.X,
        pictures.y,
        pictures.privileged,
        methods=["svm", "svm+", "svm2+", "svm2k", "reference"],
        metric="accuracy",
        grids=GRIDS,
        cv=balanced_splits(pictures.y, options["n_splits"], N_TRAIN * n_classes),
        train_size=N_TRAIN * n_classes,
        max_test=N_TEST * n_classes,
        **PAPER_PROTOCOL,
        **options,
    )


@entry(
    "xu-table2", "Xu et al. 2016, Table 2 (accuracies), on a substitute or on your features", PICTURES, features=True
)
def table2(data, out, *, n_splits=10, tasks=None, features=None, n_jobs=1, on_progress=None):
    pictures = load_pictures(data, features)
    result = classify(pictures, n_splits=n_splits, store=out / "text.sqlite", n_jobs=n_jobs, on_progress=on_progress)
    size = result.summary["sizes"][0]
    write_result(out, "xu-table2", substitute=pictures.substitute, comparison=result.summary)
    printed = {row["method"]: row for row in paper_table("xu_2016_table2")}
    lines = [
        pictures.description,
        f"{N_TRAIN} pictures of each class for training, at most {N_TEST} of each for the test ({size['n_test']} in all), "
        f"{n_splits} splits; linear kernels, one against the rest, 12 candidates for each method by 5-fold cross-validation.",
        MEANING.replace("SVM+ over SVM, Rank Transfer over rank SVM", "SVM+ and SVM-2K over SVM, SVM2+ over L2-SVM"),
        head("accuracy, %"),
        *task_lines("pictures with text", size),
        f"The paper's accuracies{pictures.caveat}:",
    ]
    for name in ("Caltech101", "WebQueries"):
        cells = ", ".join(f"{method} {printed[method][name]}" for method in ("SVM", "SVM2K", "SVM1+", "SVM2+"))
        lines.append(f"  {name:12} {cells}")
    return lines
