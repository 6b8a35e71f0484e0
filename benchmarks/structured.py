"""Structured outputs: exactness of the search, and speed beside dlib, dense windows and a NumPy Frank-Wolfe."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from time import process_time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from benchmarks import structured_peers as peers
from benchmarks.measure import NOT_INSTALLED, Row, case
from lupi import JKSE, StructuralSVM, StructuralSVMPlus
from lupi.datasets import make_planted_boxes
from lupi.structured import BoxLocalization, Chain, Multiclass
from lupi.vision import WordImage, best_box


def _seconds(call, *args, **kwargs):
    start = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        call(*args, **kwargs)
    return process_time() - start


@case("structured-exact", "Subwindow search against brute force on small grids")
def exactness(quick):
    rng = np.random.default_rng(0)
    n, mismatches = 100 if quick else 10_000, 0
    for k in range(n):
        h, w = rng.integers(1, 10, 2)
        n_points = int(rng.integers(1, 30))
        image = WordImage(rng.uniform(0, h, n_points), rng.uniform(0, w, n_points), np.arange(n_points), (h, w))
        weights = rng.normal(size=n_points) - (k % 3 == 1) * 3.0  # a third of the grids has no positive cell
        grid = np.zeros((h, w))
        np.add.at(grid, (image.rows.astype(int), image.cols.astype(int)), weights)
        mismatches += abs(best_box(image, weights)[1] - peers.brute_force_score(grid)) > 1e-9
    return [Row(f"{n} grids", None, "brute force", target="0 mismatches", note=f"{mismatches} mismatches")]


@case("structured-search", "Time of a search in a 375x500 image with 3000 words and 2000 points")
def search(quick):
    n = 4 if quick else 40
    X, Y, _ = make_planted_boxes(n, shape=(375, 500), n_words=3000, n_points=2000, random_state=1)
    rng = np.random.default_rng(0)
    informative = np.where(np.arange(3000) < 375, 1.0, -0.12)
    kinds = [informative, informative + 0.5 * rng.normal(size=3000), rng.normal(size=3000)]
    best_box(X[0], informative)
    times = [_seconds(best_box, x, weights) for weights in kinds for x in X]
    task = _TimedBoxes(3000)
    task.argmax(np.zeros(3000), X[0], Y[0], 1.0)
    _seconds(StructuralSVM(task, C=1000.0, max_iter=3 if quick else 8, random_state=0).fit, X, Y)
    return [
        Row("prediction, median", float(np.median(times)), target="<= 5 ms"),
        Row("prediction, worst", max(times), target="<= 50 ms"),
        Row("at training weights, median", float(np.median(task.seconds[2 * n :])), target="<= 10 ms"),
    ]


class _TimedBoxes(BoxLocalization):
    """Boxes whose searches are timed one by one."""

    def __init__(self, n_words):
        super().__init__(n_words)
        self.seconds = []

    def argmax(self, w, x, y_true=None, loss_weight=0.0):
        start = process_time()
        y = super().argmax(w, x, y_true, loss_weight)
        self.seconds.append(process_time() - start)
        return y


@case("structured-training", "SSVM+ to a certified gap, 18x24 cells, 300 words, 280 images")
def training(quick):
    X, Y, Z = make_planted_boxes(20 if quick else 280, shape=(18, 24), n_words=300, n_points=300, random_state=0)
    C, rows = 1.0 if quick else 100.0, []
    for scale in (1.0, 0.1):
        task, privileged_task = BoxLocalization(300, scale=scale), BoxLocalization(320, scale=scale)
        StructuralSVMPlus(task, privileged_task, tol=0.05, random_state=0).fit(X[:8], Y[:8], privileged=Z[:8])
        for tol, target in ((1e-2, "<= 1 s"), (1e-3, "<= 10 s")):
            plus = StructuralSVMPlus(task, privileged_task, C=C, tol=tol, random_state=0)
            seconds = _seconds(plus.fit, X, Y, privileged=Z)
            plain = _seconds(StructuralSVM(task, C=C, tol=tol, random_state=0).fit, X, Y)
            note = f"SSVM {plain:.2f} s"
            rows.append(Row(f"scale={scale:g} tol={tol:g}", seconds, gap=plus.dual_gap_, target=target, note=note))
    return rows


@case("structured-dlib", "Localization with 3025 explicit boxes: time to dlib's objective, the same NumPy oracle")
def explicit_boxes(quick):
    if find_spec("dlib") is None:
        return [Row("explicit boxes", None, "dlib", note=NOT_INSTALLED)]
    task, X, Y = peers.explicit_boxes(40 if quick else 200)
    rows = []
    for C in (1.0,) if quick else (1.0, 100.0):
        for epsilon in (1e-1,) if quick else (1e-1, 1e-2, 1e-3):
            w, theirs = peers.solve_with_dlib(task, X, Y, C, epsilon)
            goal = peers.objective(task, X, Y, w, C)
            options = {"tol": 1e-9, "max_iter": 200, "random_state": 0, "callback": lambda info: info["primal"] <= goal}
            model = StructuralSVM(task, C=C, **options)
            StructuralSVM(task, tol=0.9).fit(X[:5], Y[:5])
            seconds = _seconds(model.fit, X, Y)
            difference = model.objective_ / goal - 1.0
            rows.append(Row(f"C={C:g} epsilon={epsilon:g}", seconds, "dlib", theirs, difference, target=">= 3x"))
    return rows


@case("structured-passes", "Frank-Wolfe passes on digits and on chains beside NumPy")
def passes(quick):
    X, y = load_digits(return_X_y=True)
    rows = []
    for name, task, data, n in (
        ("digits", Multiclass(10, 64), (X / 16.0, y), 50),
        ("chain", Chain(10, 40), peers.make_chains(30 if quick else 300), 10),
    ):
        StructuralSVM(task, tol=0.9).fit(data[0][:20], data[1][:20])
        model = StructuralSVM(task, C=1.0, tol=1e-12, max_iter=n, random_state=0)
        seconds = _seconds(model.fit, *data)
        reference, theirs = peers.numpy_frank_wolfe(task, *data, C=1.0, passes=n)
        difference = model.objective_ / reference - 1.0
        rows.append(Row(f"{name}, {n} passes", seconds, "NumPy Frank-Wolfe", theirs, difference))
    return rows


@case("structured-jkse", "JKSE prediction, 47x63 cells, 200 bins, 50 training images, beside dense windows")
def jkse(quick):
    shape, n_words, n = ((12, 16), 20, 1) if quick else ((47, 63), 200, 3)
    X, Y, _ = make_planted_boxes(50 + n, shape=shape, n_words=n_words, n_points=800, object_rate=0.6, random_state=0)
    model = JKSE(BoxLocalization(n_words)).fit(X[:50], Y[:50])
    expansion = model.support_features_, model.dual_coef_, model.gamma_
    ours = theirs = mismatches = 0.0
    for x in X[50:]:
        counts = np.zeros((shape[0] + 1, shape[1] + 1, n_words))
        np.add.at(counts, (x.rows.astype(int) + 1, x.cols.astype(int) + 1, x.words), 1.0)
        counts = counts.cumsum(axis=0).cumsum(axis=1)
        if not ours:  # compile
            model.predict([x])
            peers.dense_windows(counts[:3, :3], *expansion)
        start = process_time()
        boxes = model.predict([x])
        ours += process_time() - start
        start = process_time()
        best = peers.dense_windows(counts, *expansion)
        theirs += process_time() - start
        mismatches += model.score_pairs([x], boxes)[0] < best - 1e-9
    note = f"{mismatches:.0f} mismatches"
    return [Row(f"{n} images", ours, "dense windows", theirs, target=">= 3x", note=note)]
