"""
Does Rank Transfer help? Answers with controls
==============================================

Repeated random splits with 100 training examples. Each method chooses its constants by 5-fold cross-validation over the
same grid for C; Rank Transfer also over C_privileged. The control has the same grids and the privileged rows of *other*
examples: a gain that the control has, too, is a gain of the larger grid, not of the privileged data.

Data sets in the folder ``LUPI_DATA`` are used if they are there: ``awa_surf`` (Animals with Attributes: SURF words,
attribute probabilities) and ``student_performance`` (final grade; privileged: the grades of earlier periods). Generated
data always run. ``python examples/rank_transfer_results.py [splits]``
"""

import csv
import os
import sys
from pathlib import Path

import numpy as np
from scipy.stats import wilcoxon
from sklearn.preprocessing import StandardScaler

from lupi import RankTransferCV
from lupi.ranking.ranking_metrics import average_precision, ndcg

N_TRAIN = 100
UNIT_GRID = [10.0**k for k in range(-3, 4)]
L1_GRID = [10.0**k for k in range(6)]
TABLE_GRID = [10.0**k for k in range(-6, 1)]


def generated(noise, seed=0):
    """A quality that the privileged features show, the grades blur, and the ordinary features hide."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=3000)
    X = 0.4 * quality[:, None] * rng.normal(size=20) + rng.normal(size=(3000, 20))
    privileged = quality[:, None] + 0.3 * rng.normal(size=(3000, 3))
    return X, privileged, (quality + noise * rng.normal(size=3000) > 0).astype(int), TABLE_GRID


def awa(folder, first, second):
    """One cell of Sharmanska et al. (2013), Table 1."""
    with np.load(folder / "surf_test10.npz", allow_pickle=True) as images:
        counts, y, classes = images["counts"], images["y"], [str(c) for c in images["classes"]]
    with np.load(folder / "dap_predicted_attributes_test10.npz") as attributes:
        privileged = attributes["dap_all5"]
    labels = y if y.dtype.kind in "iu" else np.array([classes.index(str(c)) for c in y])
    rows = np.isin(labels, [classes.index(first), classes.index(second)])
    X = counts[rows].astype(float)
    return X / X.sum(axis=1, keepdims=True), privileged[rows], labels[rows] == classes.index(first), L1_GRID


def students(folder, graded):
    """Portuguese course: 30 facts about a pupil, final grade 0-20 (or at least 12), earlier grades privileged."""
    with open(folder / "student-por.csv", newline="") as file:
        first = file.readline()
        file.seek(0)
        rows = list(csv.DictReader(file, delimiter=";" if ";" in first else ","))
    columns = []
    for name in rows[0]:
        values = [row[name] for row in rows]
        if name in ("G1", "G2", "G3"):
            continue
        if all(v.lstrip("-").isdigit() for v in values):
            columns.append(np.array(values, dtype=float))
        else:
            columns += [np.array(values) == level for level in sorted(set(values))[1:]]
    final = np.array([float(row["G3"]) for row in rows])
    privileged = np.array([[float(row["G1"]), float(row["G2"])] for row in rows])
    X = StandardScaler().fit_transform(np.column_stack(columns).astype(float))
    return X, StandardScaler().fit_transform(privileged), final if graded else final >= 12, TABLE_GRID


def data_sets(root):
    yield "generated, grades blurred", generated(1.0)
    yield "generated, grades clean", generated(0.0)
    if (root / "student_performance").is_dir():
        yield "students, grade >= 12", students(root / "student_performance", graded=False)
        yield "students, 0-20", students(root / "student_performance", graded=True)
    if (root / "awa_surf").is_dir():
        for first, second in (("rat", "seal"), ("pig", "hippopotamus"), ("chimpanzee", "pig"), ("leopard", "raccoon")):
            yield f"AwA {first}/{second}", awa(root / "awa_surf", first, second)


def run_split(X, privileged, y, grid, seed):
    """Score of ranking SVM, Rank Transfer, control, and of a ranking SVM that may use the privileged features."""
    rng = np.random.default_rng(seed)
    binary = len(np.unique(y)) == 2
    if binary:
        # As in the paper: as many of one class as of the other, up to 200 each for testing.
        rows = [rng.permutation(np.flatnonzero(y == g)) for g in np.unique(y)]
        size = min(N_TRAIN // 2 + 200, *map(len, rows))
        train = np.concatenate([r[: N_TRAIN // 2] for r in rows])
        test = np.concatenate([r[N_TRAIN // 2 : size] for r in rows])
    else:
        train, test = np.split(rng.permutation(len(y)), [N_TRAIN])
    metric = average_precision if binary else ndcg
    scores = []
    shuffled = privileged[train][rng.permutation(N_TRAIN)]
    for features, teacher in ((X, None), (X, privileged[train]), (X, shuffled), (privileged, None)):
        search = RankTransferCV(grid if features is X else UNIT_GRID, UNIT_GRID, tol=1e-4)
        search.fit(features[train], y[train], privileged=teacher)
        scores.append(100 * metric(y[test], search.decision_function(features[test])))
    return scores


def main(n_splits=5):
    print(f"{n_splits} splits; average precision (students 0-20: NDCG); gains in points over the ranking SVM (s.e.)")
    print(f"{'':28s} ranking SVM   Rank Transfer           shuffled control   privileged only")
    for name, (X, privileged, y, grid) in data_sets(Path(os.environ.get("LUPI_DATA", ""))):
        scores = np.array([run_split(X, privileged, y, grid, seed) for seed in range(n_splits)])
        gain = scores[:, 1:3] - scores[:, :1]
        error = gain.std(axis=0, ddof=1) / np.sqrt(n_splits)
        p = wilcoxon(gain[:, 0]).pvalue if gain[:, 0].any() else 1.0
        (transfer, control), mean = gain.mean(axis=0), scores.mean(axis=0)
        print(
            f"{name:28s} {mean[0]:8.2f}     {transfer:+6.2f} ({error[0]:.2f}) p={p:.3f}   "
            f"{control:+6.2f} ({error[1]:.2f})      {mean[3]:8.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
