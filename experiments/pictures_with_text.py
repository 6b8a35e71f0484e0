"""Pictures with texts: Xu et al. (2016), Table 2, and Sharmanska et al. (2013), Table 3, on a substitute or on features given."""

from __future__ import annotations

import zipfile
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.preprocessing import normalize

from experiments._entry import Entry, paper_table, write_result
from experiments.data import load_wiki_image_text
from experiments.sharmanska import HINGE
from experiments.sharmanska_substitutes import MEANING, as_in_the_paper, head, table_lines, wins
from lupi.comparison.comparison import compare

# Xu et al.: pictures of each class for training and, at most, for the test.
XU_TRAIN, XU_TEST = 10, 50
# Every method has twelve candidates; the paper's ranges are not printed.
XU_COARSE, XU_THREE = [1.0, 10.0, 100.0, 1000.0], [0.1, 1.0, 10.0]
XU_FINE = np.geomspace(1.0, 1000.0, 12).tolist()
XU_GRIDS = {
    "svm": {"C": XU_FINE},
    "l2svm": {"C": XU_FINE},
    "svm+": {"C": XU_COARSE, "lam": XU_THREE, "kappa": [np.inf]},
    "svm2+": {"C": XU_COARSE, "lam": XU_THREE, "kappa": [np.inf]},
    "svm2k": {"C": XU_COARSE, "D": XU_THREE},
    "reference": {"C": XU_FINE},
}
PRINTED = {"svm": "SVM", "svm2k": "SVM2K", "svm+": "SVM1+", "svm2+": "SVM2+"}
# Sharmanska et al.: pictures of each of the two groups for training; all the rest are for the test.
PER_GROUP = 100
# Pairs that are run if nothing else is asked for: those of the four largest categories.
PAIRS = 6


class Pictures(NamedTuple):
    """Rows of length 1 in both spaces, labels 0, 1, ..., their names, and whether they are the substitute."""

    X: np.ndarray
    privileged: np.ndarray
    y: np.ndarray
    names: list[str]
    substitute: bool

    @property
    def words(self):
        """What they are, for the head of a table."""
        if self.substitute:
            return (
                f"SUBSTITUTE: {len(self.y)} pictures of Wikipedia articles ({self.X.shape[1]} SIFT words) with topics of their "
                f"text ({self.privileged.shape[1]}), {len(self.names)} categories; not the paper's pictures and features, which "
                "are not at hand. Rows of length 1 in both spaces."
            )
        return (
            f"Features from a file: {len(self.y)} rows, {self.X.shape[1]} features, {self.privileged.shape[1]} privileged, "
            f"{len(self.names)} classes. Rows of length 1 in both spaces."
        )


def read_features(path):
    """Features that a user brings.

    Parameters
    ----------
    path : path-like
        A file of :func:`numpy.savez` with `X` (n, d), `privileged` (n, s) and `y` (n,).

    Returns
    -------
    Pictures
    """
    names = ("X", "privileged", "y")
    try:
        with np.load(path, allow_pickle=False) as stored:
            found = {name: stored[name] for name in names if name in stored}
    except FileNotFoundError:
        raise
    except (OSError, zipfile.BadZipFile, AttributeError, TypeError, ValueError) as problem:
        raise ValueError(
            f"{path} is no file of numpy.savez with X, privileged and y (plain arrays, no objects): {problem}"
        ) from None
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}; write it by numpy.savez(file, X=X, privileged=Z, y=y).")
    X, Z, y = (found[name] for name in names)
    for name, table in (("X", X), ("privileged", Z)):
        if table.ndim != 2 or len(table) != len(y) or table.dtype.kind not in "fiub" or not np.isfinite(table).all():
            raise ValueError(
                f"{name} of {path} has shape {table.shape} and type {table.dtype}; it must be a table of finite numbers with "
                f"one row for each of the {len(y)} labels."
            )
    if y.ndim != 1:
        raise ValueError(f"y of {path} has shape {y.shape}; it must hold one label for each row.")
    names, labels = np.unique(y, return_inverse=True)
    return Pictures(normalize(X.astype(float)), normalize(Z.astype(float)), labels, [str(n) for n in names], False)


def _pictures(data, features):
    if features is not None:
        return read_features(features)
    wiki = load_wiki_image_text(None if data is None else Path(data) / "wiki_image_text")
    return Pictures(normalize(wiki.data), normalize(wiki.privileged), wiki.target, list(wiki.target_names), True)


def classify(pictures, *, per_class=XU_TRAIN, **options):
    """All classes against each other by SVM, SVM+, SVM2+ and SVM-2K, one against the rest; accuracy.

    Parameters
    ----------
    pictures : Pictures
    per_class : int
        Rows of each class for training.
    **options : object
        As of `compare`.

    Returns
    -------
    Comparison
    """
    n_classes = len(pictures.names)
    fewest = np.bincount(pictures.y).min()
    if fewest <= per_class:
        raise ValueError(f"every class needs more than {per_class} rows; the smallest has {fewest}.")
    return compare(
        pictures.X,
        pictures.y,
        pictures.privileged,
        methods=["svm", "svm+", "svm2+", "svm2k", "reference"],
        baselines=[],
        permutations=0,
        columns=False,
        metric="accuracy",
        grids=XU_GRIDS,
        kernel="linear",
        standardize=False,
        balanced=True,
        train_size=per_class * n_classes,
        max_test=XU_TEST * n_classes,
        hard_examples=False,
        leaks=False,
        **options,
    )


def _xu_table2(data, out, *, n_splits=10, tasks=None, features=None, n_jobs=1, on_progress=None):
    pictures = _pictures(data, features)
    result = classify(pictures, n_splits=n_splits, store=out / "text.sqlite", n_jobs=n_jobs, on_progress=on_progress)
    size = result.summary["sizes"][0]
    lines = [
        pictures.words,
        f"{XU_TRAIN} pictures of each class for training, at most {XU_TEST} of each for the test ({size['n_test']} in all), "
        f"{n_splits} splits; linear kernels, one against the rest, 12 candidates for each method by 5-fold cross-validation.",
        MEANING.replace("SVM+ over SVM, Rank Transfer over rank SVM", "SVM+ and SVM-2K over SVM, SVM2+ over L2-SVM"),
        head("accuracy, %"),
        *table_lines("pictures with text", size),
        f"The paper's accuracies{' (other data: only the kind of outcome can be compared)' if pictures.substitute else ''}:",
    ]
    printed = {row["method"]: row for row in paper_table("xu_2016_table2")}
    for data_name in ("Caltech101", "WebQueries"):
        cells = ", ".join(f"{name} {printed[name][data_name]}" for name in PRINTED.values())
        lines.append(f"  {data_name:12} {cells}")
    write_result(out, "xu-table2", substitute=pictures.substitute, comparison=result.summary)
    return lines


def rank_two(pictures, first, second, *, per_group=PER_GROUP, **options):
    """One pair of classes; average precision of the first.

    Parameters
    ----------
    pictures : Pictures
    first, second : int
        Labels.
    per_group : int
        Rows of each for training; the others are for the test.
    **options : object
        As of `compare`.

    Returns
    -------
    Comparison
    """
    rows = np.flatnonzero(np.isin(pictures.y, [first, second]))
    y = (pictures.y[rows] == first).astype(int)
    return as_in_the_paper(
        pictures.X[rows],
        y,
        pictures.privileged[rows],
        loss=HINGE,
        train_size=2 * per_group,
        balanced=True,
        max_test=len(y),
        **options,
    )


def _sharmanska_table3(data, out, *, n_splits=10, tasks=None, features=None, n_jobs=1, on_progress=None):
    pictures = _pictures(data, features)
    sizes = np.bincount(pictures.y)
    possible = [k for k in np.argsort(-sizes, kind="stable") if sizes[k] > PER_GROUP]
    if len(possible) < 2:
        raise ValueError(
            f"a pair needs two classes of more than {PER_GROUP} rows; the largest have {np.sort(sizes)[-2:]}."
        )
    # The pairs whose smaller class is largest come first.
    pairs = sorted(combinations(possible, 2), key=lambda pair: -sizes[list(pair)].min())[: tasks or PAIRS]
    lines = [
        pictures.words,
        f"{PER_GROUP} + {PER_GROUP} pictures for training, the others for the test, {n_splits} splits (paper: 20); rankers with "
        "the paper's hinge, Rank Transfer over pairs across classes.",
        MEANING,
        head(),
    ]
    summaries = {}
    for k, (first, second) in enumerate(pairs):
        name = f"{pictures.names[first]} / {pictures.names[second]}"
        result = rank_two(
            pictures,
            first,
            second,
            n_splits=n_splits,
            store=out / f"{first}-{second}.sqlite",
            n_jobs=n_jobs,
            on_progress=on_progress and (lambda done, total, k=k: on_progress(k * total + done, len(pairs) * total)),
        )
        summaries[name] = result.summary
        lines += table_lines(name, result.summary["sizes"][0])
    lines.append(wins([summary["sizes"][0] for summary in summaries.values()]))
    lines.append(
        f"The paper's own table{' (other data: only the kind of outcome can be compared)' if pictures.substitute else ''}:"
    )
    for row in paper_table("sharmanska_2013_table3"):
        gains = {a: float(row[a]) - float(row[b]) for a, b in (("svm+", "svm"), ("ranktransfer", "ranksvm"))}
        lines.append(
            f"  {row['pair']:20} SVM {row['svm']}, SVM+ {gains['svm+']:+.2f}; rank SVM {row['ranksvm']}, Rank Transfer "
            f"{gains['ranktransfer']:+.2f}; reference {row['reference']}"
        )
    write_result(out, "sharmanska-table3", substitute=pictures.substitute, comparisons=summaries)
    return lines


_DATA = "wiki_image_text (a substitute), or --features FILE.npz with X, privileged and y"
ENTRIES = (
    Entry(
        "xu-table2",
        "Xu et al. 2016, Table 2 (accuracies), on a substitute or on features given",
        _DATA,
        _xu_table2,
        features=True,
    ),
    Entry(
        "sharmanska-table3",
        "Sharmanska et al. 2013, Table 3 (pictures with text), on a substitute or on features given",
        _DATA,
        _sharmanska_table3,
        features=True,
    ),
)
