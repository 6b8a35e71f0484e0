"""SVM+ and SVM2+ with linear kernels in both spaces, beside LinearSVC on the decision features alone."""

from __future__ import annotations

from pathlib import Path

from benchmarks._registry import Row, case, cpu_time

LINEAR = {"kernel": "linear", "privileged_kernel": "linear"}


def _data(n, d=50, s=20):
    from lupi.datasets import make_privileged

    data = make_privileged(n_samples=n, n_features=d, n_privileged=s, random_state=0)
    return data.data, data.target, data.privileged


def _linear_svc(X, y, quick):
    from sklearn.svm import LinearSVC

    return cpu_time(lambda: LinearSVC(dual=False).fit(X, y), repeats=1, warmup=quick).seconds


def _fit(model, X, y, Z, repeats=1):
    """CPU time of a fit, after one on a few rows that compiles what is to be compiled."""
    few = slice(0, 300)
    type(model)(**model.get_params()).fit(X[few], y[few], privileged=Z[few])
    return cpu_time(lambda: model.fit(X, y, privileged=Z), repeats=repeats, warmup=False)


def _models():
    import numpy as np

    from lupi.svm.svm2_plus import SVM2Plus
    from lupi.svm.svm_plus import SVMPlus

    return {
        "SVM2+": (SVM2Plus(**LINEAR), "<= 1.0x its time, goal 0.2x"),
        "SVM2+ kappa=inf": (SVM2Plus(**LINEAR, kappa=np.inf), "<= 1.0x its time"),
        "SVM+ slack": (SVMPlus(**LINEAR), "<= 1.0x its time"),
        "SVM+ slack kappa=inf": (SVMPlus(**LINEAR, kappa=np.inf), "<= 1.0x its time"),
        "SVM+ labeled": (SVMPlus(**LINEAR, correction="labeled"), "<= 2.5x its time"),
    }


@case("linear-million", "SVM+ and SVM2+ linear, n = 10^6, d = 50, s = 20, gap 1e-3, vs LinearSVC(dual=False) on X")
def linear_million(quick):
    """SVM2+ <= 1.0x, SVM+ slack <= 1.0x, labeled <= 2.5x the time of LinearSVC."""
    n = 3000 if quick else 1_000_000
    X, y, Z = _data(n)
    peer = _linear_svc(X, y, quick)
    rows = []
    for name, (model, target) in _models().items():
        ours = _fit(model, X, y, Z)
        rows.append(
            Row(f"{name} n={n}", ours.seconds, "LinearSVC(dual=False)", peer, gap=ours.value.dual_gap_, target=target)
        )
    return rows


@case("linear-growth", "SVM2+ linear, d = 50, s = 20: n = 20,000, 10^5, 10^6, time and peak memory")
def linear_growth(quick):
    """<= 12x the time from 10^5 to 10^6; peak memory <= 2.5x the data."""
    from lupi.svm.svm2_plus import SVM2Plus

    rows, before = [], None
    for n in (1000, 2000, 4000) if quick else (20_000, 100_000, 1_000_000):
        X, y, Z = _data(n)
        forget_peak()
        ours = _fit(SVM2Plus(**LINEAR), X, y, Z)
        peak, size = peak_bytes(), X.nbytes + Z.nbytes
        growth = "" if before is None else f"{ours.seconds / before:.1f}x the time of the row above; "
        memory = "unknown" if peak is None else f"{peak / size:.2f}x the data ({size / 2**20:.0f} MB)"
        rows.append(
            Row(
                f"n={n}",
                ours.seconds,
                "LinearSVC(dual=False)",
                _linear_svc(X, y, quick),
                gap=ours.value.dual_gap_,
                target="<= 12x the time, <= 2.5x the data",
                note=f"{growth}peak memory of the process {memory}",
            )
        )
        before = ours.seconds
    return rows


def forget_peak():
    """Let the peak of the process start again from what it uses now (Linux)."""
    path = Path("/proc/self/clear_refs")
    if path.exists():
        path.write_text("5")


def peak_bytes():
    """Largest resident memory of this process since :func:`forget_peak`, or None where the system does not tell."""
    path = Path("/proc/self/status")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), None)


def sparse_data(n, d, s, entries, seed=0):
    """Rows like those of documents: few entries, frequent and rare columns, length 1; dense privileged features.

    Parameters
    ----------
    n, d, s, entries : int
        Rows, decision features, privileged features, entries of a row (fewer where a column is drawn twice).
    seed : int
        Of the random numbers.

    Returns
    -------
    X : csr_array
    y, Z : ndarray
    """
    import numpy as np
    from scipy import sparse

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


@case("linear-sparse", "SVM2+ linear, CSR, n = 200,000, d = 100,000, s = 200, 50 entries a row, vs LinearSVC on X")
def linear_sparse(quick):
    """<= 3x the time of LinearSVC with either of its solvers."""
    from sklearn.svm import LinearSVC

    from lupi.svm.svm2_plus import SVM2Plus

    n, d, s = (600, 400, 5) if quick else (200_000, 100_000, 200)
    X, y, Z = sparse_data(n, d, s, 20 if quick else 50)
    ours = _fit(SVM2Plus(**LINEAR), X, y, Z)
    return [
        Row(
            f"CSR n={n} d={d} s={s}",
            ours.seconds,
            f"LinearSVC(dual={dual})",
            cpu_time(lambda: LinearSVC(dual=dual).fit(X, y), repeats=1, warmup=False).seconds,
            gap=ours.value.dual_gap_,
            target="<= 3x its time",
        )
        for dual in (False, True)
    ]


@case(
    "components-million",
    "SVM2+ rbf / rbf with n_components = 100, n = 10^6, d = 50, s = 20: time, memory, approximation",
)
def components_million(quick):
    """A million rows with non-linear kernels, and what the landmarks miss of them."""
    from lupi.svm.svm2_plus import SVM2Plus

    n = 3000 if quick else 1_000_000
    X, y, Z = _data(n)
    forget_peak()
    ours = _fit(SVM2Plus(n_components=20 if quick else 100, random_state=0), X, y, Z)
    model, peak = ours.value, peak_bytes()
    missed = f"share of the trace missed: {model.approximation_error_:.2f} (X), {model.privileged_approximation_error_:.2f} (Z)"
    memory = "unknown" if peak is None else f"{peak / 2**30:.1f} GB"
    return [Row(f"n={n}", ours.seconds, gap=model.dual_gap_, note=f"{missed}; peak memory of the process {memory}")]
