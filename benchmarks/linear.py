"""SVM+ and SVM2+ with linear kernels beside LinearSVC on the decision features alone."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.svm import LinearSVC

from benchmarks.measure import Row, case, cpu_time, peak_bytes, reset_peak
from lupi import SVM2Plus, SVMPlus
from lupi.datasets import make_privileged

LINEAR = {"kernel": "linear", "privileged_kernel": "linear"}
MODELS = {
    "SVM2+": (SVM2Plus(**LINEAR), "<= 1.0x its time"),
    "SVM2+ kappa=inf": (SVM2Plus(**LINEAR, kappa=np.inf), "<= 1.0x its time"),
    "SVM+ slack": (SVMPlus(**LINEAR), "<= 1.0x its time"),
    "SVM+ slack kappa=inf": (SVMPlus(**LINEAR, kappa=np.inf), "<= 1.0x its time"),
    "SVM+ labeled": (SVMPlus(**LINEAR, correction="labeled"), "<= 2.5x its time"),
}


def _data(n):
    data = make_privileged(n_samples=n, n_features=50, n_privileged=20, random_state=0)
    return data.data, data.target, data.privileged


def _svc_seconds(X, y, dual=False):
    return cpu_time(lambda: LinearSVC(dual=dual).fit(X, y), repeats=1, warmup=False).seconds


def _fit(model, X, y, Z):
    """CPU time of a fit, after one on a few rows that compiles."""
    clone(model).fit(X[:300], y[:300], privileged=Z[:300])
    return cpu_time(lambda: model.fit(X, y, privileged=Z), repeats=1, warmup=False)


@case("linear-million", "SVM+ and SVM2+ linear, n = 10^6, d = 50, s = 20, gap 1e-3, beside LinearSVC on X")
def linear_million(quick):
    n = 3000 if quick else 1_000_000
    X, y, Z = _data(n)
    peer = _svc_seconds(X, y)
    rows = []
    for name, (model, target) in MODELS.items():
        ours = _fit(model, X, y, Z)
        gap = ours.value.dual_gap_
        rows.append(Row(f"{name} n={n}", ours.seconds, "LinearSVC(dual=False)", peer, gap=gap, target=target))
    return rows


@case("linear-growth", "SVM2+ linear, d = 50, s = 20: n = 20,000, 10^5, 10^6, time and peak memory")
def linear_growth(quick):
    rows, before = [], np.nan
    for n in (1000, 2000, 4000) if quick else (20_000, 100_000, 1_000_000):
        X, y, Z = _data(n)
        reset_peak()
        ours = _fit(SVM2Plus(**LINEAR), X, y, Z)
        memory = peak_bytes() / (X.nbytes + Z.nbytes)
        note = f"{ours.seconds / before:.1f}x the row above; peak memory of the process {memory:.2f}x the data"
        target = "<= 12x the time, <= 2.5x the data"
        rows.append(Row(f"n={n}", ours.seconds, gap=ours.value.dual_gap_, target=target, note=note))
        before = ours.seconds
    return rows


def sparse_data(n, d, s, entries, seed=0):
    """Unit-length CSR rows with few entries and frequent and rare columns, like documents; dense privileged features."""
    rng = np.random.default_rng(seed)
    columns = np.minimum((d * rng.random((n, entries)) ** 3).astype(np.int32), d - 1)
    values = np.abs(rng.normal(size=(n, entries))) + 0.1
    starts = np.arange(0, n * entries + 1, entries, dtype=np.int32)
    X = sparse.csr_array((values.ravel(), columns.ravel(), starts), shape=(n, d))
    X.sum_duplicates()
    X = sparse.csr_array(sparse.diags_array(1.0 / np.sqrt(X.multiply(X).sum(axis=1))) @ X)
    margin = X @ rng.normal(size=d)
    margin /= margin.std()
    y = np.where(margin + 0.5 * rng.normal(size=n) > 0, 1, -1)
    Z = rng.normal(size=(n, s))
    Z[:, 0] += margin
    Z[:, 1] = np.maximum(0.0, 1.0 - y * margin)
    return X, y, Z


@case("linear-sparse", "SVM2+ linear, CSR, n = 200,000, d = 100,000, s = 200, 50 entries per row, beside LinearSVC")
def linear_sparse(quick):
    n, d, s = (600, 400, 5) if quick else (200_000, 100_000, 200)
    X, y, Z = sparse_data(n, d, s, 20 if quick else 50)
    ours = _fit(SVM2Plus(**LINEAR), X, y, Z)
    what, gap = f"CSR n={n} d={d} s={s}", ours.value.dual_gap_
    return [
        Row(what, ours.seconds, f"LinearSVC(dual={dual})", _svc_seconds(X, y, dual), gap=gap, target="<= 3x its time")
        for dual in (False, True)
    ]


@case("components-million", "SVM2+ rbf with n_components = 100, n = 10^6, d = 50, s = 20: time, memory, approximation")
def components_million(quick):
    n = 3000 if quick else 1_000_000
    X, y, Z = _data(n)
    reset_peak()
    model = _fit(SVM2Plus(n_components=20 if quick else 100, random_state=0), X, y, Z)
    missed = model.value.approximation_error_, model.value.privileged_approximation_error_
    note = f"share of the trace missed: {missed[0]:.2f} (X), {missed[1]:.2f} (Z); peak memory {peak_bytes() / 2**30:.1f} GB"
    return [Row(f"n={n}", model.seconds, gap=model.value.dual_gap_, note=note)]
