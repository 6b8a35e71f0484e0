"""Surrogate learning: time of a fit, growth with the rows, cost of useless privileged features."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_classification, make_moons
from sklearn.metrics import accuracy_score, roc_auc_score

from benchmarks.measure import Row, case, cpu_time, peak_bytes, reset_peak, resident_bytes
from lupi import SurrogateClassifier
from lupi.datasets import load_breast_cancer_followup, load_digits_lowres


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


def control_tables():
    """Tables on which useless privileged features are tried: name -> X, y, informative Z."""
    tables = {}
    for name, options in {
        "linear": {"n_informative": 5},
        "wide": {"n_features": 80, "n_informative": 5},
        "clusters": {"n_informative": 6, "n_clusters_per_class": 3},
        "noisy labels": {"n_informative": 5, "flip_y": 0.4},
        "few positives": {"n_informative": 5, "weights": [0.8]},
    }.items():
        X, y = make_classification(1500, random_state=0, **options)
        tables[name] = X, y, X[:, :4]
    X, y = make_moons(1500, noise=0.4, random_state=0)
    tables["moons"] = X, y, X
    tables["breast cancer"] = load_breast_cancer_followup(return_X_y_privileged=True)
    for size in (4, 2):
        tables[f"ten digits {size} x {size}"] = load_digits_lowres(resolution=size, return_X_y_privileged=True)
    X, y = make_classification(1500, n_informative=10, n_classes=10, n_clusters_per_class=1, random_state=0)
    tables["ten clusters"] = X, y, np.abs(X[:, :5])
    return tables


def control_change(X, y, Z, kind, n_labeled, n_unlabeled, seed, estimator=None):
    """AUC points (two classes) or accuracy points gained from useless privileged features: shuffled, noise or a copy of X."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    train, test = order[: n_labeled + n_unlabeled], order[n_labeled + n_unlabeled :]
    useless = {"shuffled": Z[rng.permutation(len(y))], "noise": rng.standard_normal((len(y), 40)), "copy": X}[kind]
    labels = y[train].astype(float)
    labels[n_labeled:] = np.nan
    scores = []
    for privileged in (useless[train], None):
        rows = slice(None) if privileged is not None else slice(n_labeled)
        model = SurrogateClassifier(estimator, random_state=0).fit(X[train][rows], labels[rows], privileged=privileged)
        if len(model.classes_) == 2:
            scores.append(roc_auc_score(y[test], model.decision_function(X[test])))
        else:
            scores.append(accuracy_score(y[test], model.predict(X[test])))
    return 100 * (scores[0] - scores[1])


@case("surrogate-controls", "Cost of shuffled rows, 40 columns of noise and a copy of X: two and ten classes")
def surrogate_controls(quick):
    tables = control_tables()
    if quick:
        tables = {name: tables[name] for name in ("linear", "ten digits 2 x 2")}
    rows = []
    for n_labeled, n_unlabeled in ((100, 0), (60, 340)):
        for kind in ("shuffled", "noise", "copy"):
            seeds = range(2 if quick else 10)
            changes = {
                name: [control_change(*table, kind, n_labeled, n_unlabeled, seed) for seed in seeds]
                for name, table in tables.items()
            }
            means = {name: np.mean(values) for name, values in changes.items()}
            worst = min(means, key=means.get)
            wins = [n for n, v in changes.items() if np.mean(v) > 2 * np.std(v, ddof=1) / np.sqrt(len(v))]
            note = f"mean {np.mean(list(means.values())):+.2f}, worst {means[worst]:+.2f} ({worst}), wins: {wins or 'none'}"
            what = f"{kind}, {n_labeled} labeled, {n_unlabeled} unlabeled, {len(tables)} tables"
            rows.append(Row(what, None, target="mean >= -0.3, worst >= -2.5, no win", note=note))
    return rows
