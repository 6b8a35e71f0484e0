"""Surrogate learning: time of a fit, its growth, and what useless privileged features cost."""

from __future__ import annotations

import resource

from benchmarks._registry import Row, case, cpu_time


def follow_up(n, p, q, n_unlabeled, seed=0):
    """A table whose labels follow later measurements Z, of which X knows a part; labels of the last rows are missing.

    Parameters
    ----------
    n, p, q, n_unlabeled : int
        Labeled rows, columns of X and of Z, rows without a label.
    seed : int

    Returns
    -------
    X, y, Z : ndarray
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + n_unlabeled, p))
    Z = X @ rng.standard_normal((p, q)) / np.sqrt(p) + rng.standard_normal((n + n_unlabeled, q))
    score = Z @ rng.standard_normal(q) / np.sqrt(q) + rng.standard_normal(n + n_unlabeled)
    y = (score > 0).astype(float)
    y[n:] = np.nan
    return X, y, Z


@case("surrogate-fit", "Surrogate classifier, n = 100, p = 30: closed form and averaged default")
def surrogate_fit(quick):
    """<= 10 ms in closed form, <= 0.3 s with the averaged student."""
    from lupi.surrogate.surrogate import SurrogateClassifier

    rows = []
    for name, estimator, target in (("ridge", "ridge", "<= 10 ms"), ("averaged default", None, "<= 0.3 s")):
        for n, n_unlabeled in ((100, 0), (60, 40)):
            X, y, Z = follow_up(n, 30, 10, n_unlabeled)
            model = SurrogateClassifier(estimator, random_state=0)
            time = cpu_time(lambda: model.fit(X, y, privileged=Z), repeats=1 if quick else 10)
            rows.append(Row(f"{name}, {n} labeled, {n_unlabeled} unlabeled", time.seconds, target=target))
    return rows


@case(
    "surrogate-large", "Surrogate classifier in closed form, p = 100, 90% unlabeled, n up to 100,000: time and memory"
)
def surrogate_large(quick):
    """At n = 100,000 within 3 s and 4 times the data; growth linear in n."""
    from lupi.surrogate.surrogate import SurrogateClassifier

    rows = []
    for n in (1000, 2000) if quick else (25_000, 50_000, 100_000):
        X, y, Z = follow_up(n // 10, 100, 100, n - n // 10)
        before = resident_bytes()
        model = SurrogateClassifier("ridge")
        time = cpu_time(lambda model=model: model.fit(X, y, privileged=Z), repeats=1, warmup=False)
        note = f"{time.seconds / n * 1e6:.1f} s a million rows"
        if before is not None:
            more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / (X.nbytes + Z.nbytes)
            note += f"; memory {1 + max(more, 0):.1f} times the data"
        rows.append(Row(f"n = {n}", time.seconds, target="<= 3 s, <= 4 times the data at n = 100,000", note=note))
    return rows


def resident_bytes():
    """Bytes of this process in memory now; None where the system does not say."""
    import os
    from pathlib import Path

    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else None


def control_tables():
    """Tables on which useless privileged features are tried: name -> X, y, informative Z.

    Returns
    -------
    dict
    """
    import numpy as np
    from sklearn.datasets import make_classification, make_moons

    from lupi.datasets import load_breast_cancer_followup, load_digits_lowres

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
    X, y, Z = load_breast_cancer_followup(return_X_y_privileged=True)
    tables["breast cancer"] = X, y, Z
    for size in (4, 2):
        X, y, Z = load_digits_lowres(resolution=size, return_X_y_privileged=True)
        tables[f"ten digits {size} x {size}"] = X, y, Z
    X, y = make_classification(1500, n_informative=10, n_classes=10, n_clusters_per_class=1, random_state=0)
    tables["ten clusters"] = X, y, np.abs(X[:, :5])
    return tables


def control_change(X, y, Z, kind, n_labeled, n_unlabeled, seed, estimator=None):
    """What useless privileged features change, in points of AUC (two classes) or accuracy, beside the plain student.

    Parameters
    ----------
    X, y, Z : ndarray
    kind : {"shuffled", "noise", "copy"}
        Rows of Z permuted; 40 columns of noise; Z = X.
    n_labeled, n_unlabeled : int
    seed : int
        Of the split.
    estimator : optional
        The student.

    Returns
    -------
    float
    """
    import numpy as np
    from sklearn.metrics import accuracy_score, roc_auc_score

    from lupi.surrogate.surrogate import SurrogateClassifier

    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    train, test = order[: n_labeled + n_unlabeled], order[n_labeled + n_unlabeled :]
    useless = {
        "shuffled": Z[rng.permutation(len(y))],
        "noise": rng.standard_normal((len(y), 40)),
        "copy": X,
    }[kind]
    labels = y[train].astype(float)
    labels[n_labeled:] = np.nan
    scores = []
    for privileged in (useless[train], None):
        rows = slice(None) if privileged is not None else slice(n_labeled)
        model = SurrogateClassifier(estimator, random_state=0).fit(X[train][rows], labels[rows], privileged=privileged)
        two = len(model.classes_) == 2
        scores.append(
            roc_auc_score(y[test], model.decision_function(X[test])) if two
            else accuracy_score(y[test], model.predict(X[test]))
        )  # fmt: skip
    return 100 * (scores[0] - scores[1])


@case("surrogate-controls", "What shuffled rows, 40 columns of noise and a copy of X cost: two and ten classes")
def surrogate_controls(quick):
    """Mean change >= -0.3 points, worst table >= -2.5, no win."""
    import numpy as np

    tables = control_tables()
    if quick:
        tables = {name: tables[name] for name in ("linear", "ten digits 2 x 2")}
    rows = []
    for n_labeled, n_unlabeled in ((100, 0), (60, 340)):
        for kind in ("shuffled", "noise", "copy"):
            changes = {
                name: [control_change(*table, kind, n_labeled, n_unlabeled, seed) for seed in range(2 if quick else 10)]
                for name, table in tables.items()
            }
            means = {name: np.mean(values) for name, values in changes.items()}
            worst = min(means, key=means.get)
            wins = [n for n, v in changes.items() if np.mean(v) > 2 * np.std(v, ddof=1) / np.sqrt(len(v))]
            note = f"mean {np.mean(list(means.values())):+.2f}, worst {means[worst]:+.2f} ({worst}), wins: {wins or 'none'}"
            what = f"{kind}, {n_labeled} labeled, {n_unlabeled} unlabeled, {len(tables)} tables"
            rows.append(Row(what, None, target="mean >= -0.3, worst >= -2.5, no win", note=note))
    return rows
