"""Surrogate learning: time of a fit, and its growth with the rows."""

from __future__ import annotations

import numpy as np

from benchmarks.measure import Row, case, cpu_time, peak_bytes, reset_peak, resident_bytes
from lupi import SurrogateClassifier


def follow_up(n, p, q, n_unlabeled, seed=0):
    """Labels that follow later measurements Z, which X predicts in part; the last rows are unlabeled."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + n_unlabeled, p))
    Z = X @ rng.standard_normal((p, q)) / np.sqrt(p) + rng.standard_normal((n + n_unlabeled, q))
    score = Z @ rng.standard_normal(q) / np.sqrt(q) + rng.standard_normal(n + n_unlabeled)
    y = (score > 0).astype(float)
    y[n:] = np.nan
    return X, y, Z


@case("surrogate-fit", "Surrogate classifier, n = 100, p = 30: closed form and default")
def surrogate_fit(quick):
    rows = []
    for name, estimator, target in (("ridge", "ridge", "<= 10 ms"), ("default", None, "<= 0.3 s")):
        for n, n_unlabeled in ((100, 0), (60, 40)):
            X, y, Z = follow_up(n, 30, 10, n_unlabeled)
            model = SurrogateClassifier(estimator, random_state=0)
            time = cpu_time(lambda: model.fit(X, y, privileged=Z), repeats=1 if quick else 10)
            rows.append(Row(f"{name}, {n} labeled, {n_unlabeled} unlabeled", time.seconds, target=target))
    return rows


@case("surrogate-large", "Surrogate classifier in closed form, p = 100, 90% unlabeled, n up to 100,000")
def surrogate_large(quick):
    rows = []
    for n in (1000, 2000) if quick else (25_000, 50_000, 100_000):
        X, y, Z = follow_up(n // 10, 100, 100, n - n // 10)
        before = resident_bytes()
        reset_peak()
        time = cpu_time(lambda: SurrogateClassifier("ridge").fit(X, y, privileged=Z), repeats=1, warmup=False)
        memory = 1 + max(0, peak_bytes() - before) / (X.nbytes + Z.nbytes)
        note = f"{time.seconds / n * 1e6:.1f} s per million rows; memory {memory:.1f}x the data"
        rows.append(Row(f"n={n}", time.seconds, target="<= 3 s, <= 4x the data at n = 100,000", note=note))
    return rows
