"""SVM+ and SVM2+ beside generic QP solvers and scikit-learn's SVC; ``solver="auto"`` beside every other solver."""

from __future__ import annotations

import warnings
from time import process_time

import numpy as np
from sklearn.base import clone
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.measure import Row, case, cpu_time, peak_bytes, peer_time, reset_peak
from benchmarks.peers import PEERS
from lupi import SVM2Plus, SVMPlus
from lupi.datasets import make_privileged
from lupi.kernels import Kernel, Space, resolve_gamma
from lupi.svm.auto import solve
from lupi.svm.duals import svm_plus_dual
from lupi.svm.reference import dense_qp


def standardized(n, seed=0):
    """50 standardized features, 20 privileged features, labels -1 and +1."""
    data = make_privileged(n_samples=n, n_features=50, n_privileged=20, random_state=seed)
    return StandardScaler().fit_transform(data.data), data.privileged, np.where(data.target == 1, 1.0, -1.0)


def _dual(n, kernel, *, labeled=False, kappa=np.inf, lam=1.0):
    """SVM+ dual at C = 1 with its kernel matrices formed, so that only the solve is timed."""
    X, Z, y = standardized(n)
    decision = Space(factor=X / np.sqrt(50)) if kernel == "linear" else Space(matrix=Kernel("rbf", gamma=1 / 50)(X))
    privileged = Space(matrix=Kernel("rbf", gamma=resolve_gamma("scale", Z))(Z), weight=1.0 / lam)
    return svm_plus_dual(decision, privileged, y, np.ones(n), kappa, labeled, np.ones(n, dtype=bool))


def _beside_peers(what, problem, peers, target, tol=1e-3):
    ours = cpu_time(lambda: solve(problem, "auto", tol=tol, max_iter=-1))
    value = ours.value.certificate.dual
    qp = dense_qp(problem)
    rows = []
    for name in peers:
        module, peer_solve = PEERS[name]
        peer = peer_time(module, lambda: peer_solve(qp), repeats=1, warmup=False)
        difference = None
        if peer.value is not None:
            theirs = problem.certificate(peer.value).dual
            difference = (value - theirs) / abs(theirs)
        rows.append(Row(what, ours.seconds, name, peer.seconds, difference, ours.value.gap, target, peer.note))
    return rows


@case("svm-plus-labeled", "SVM+ labeled, rbf / rbf, n = 2000, C = lam = 1, kappa = 5, tol = 1e-3")
def svm_plus_labeled(quick):
    n = 200 if quick else 2000
    problem = _dual(n, "rbf", labeled=True, kappa=5.0)
    return _beside_peers(f"labeled rbf/rbf n={n}", problem, PEERS, ">= 80x the fastest")


@case("svm-plus-slack", "SVM+ slack, rbf / rbf, n = 2000, kappa = inf, tol = 1e-3 (HiGHS would take minutes)")
def svm_plus_slack(quick):
    n = 200 if quick else 2000
    return _beside_peers(f"slack rbf/rbf n={n}", _dual(n, "rbf"), ("CVXOPT", "PIQP"), ">= 40x the fastest")


@case("svm-plus-linear-rbf", "SVM+ slack, linear X / rbf Z, n = 1000, kappa = inf, tol = 1e-3")
def svm_plus_linear_rbf(quick):
    n = 200 if quick else 1000
    return _beside_peers(f"slack linear/rbf n={n}", _dual(n, "linear"), PEERS, ">= 10x the fastest")


@case("svm-plus-certified", "SVM+ slack, linear X / rbf Z, n = 1000, lam = 0.01, certified gap 1e-6")
def svm_plus_certified(quick):
    n = 200 if quick else 1000
    problem = _dual(n, "linear", lam=0.01)
    return _beside_peers(f"lam=0.01 n={n}", problem, PEERS, ">= 6x the fastest, gap <= 1e-6", tol=1e-7)


def wide_classes(n_classes, per_class, d, s, spread=1.5, privileged_spread=1.5):
    """Unit-length rows around class centers, like network features and text."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), per_class)
    X = rng.standard_normal((n_classes, d))[y] + spread * rng.standard_normal((len(y), d))
    Z = rng.standard_normal((n_classes, s))[y] + privileged_spread * rng.standard_normal((len(y), s))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y, Z / np.linalg.norm(Z, axis=1, keepdims=True)


@case("svm2-plus-ovr", "SVM2+ one-vs-rest, 76 and 102 classes, wide features, beside one-vs-rest SVC on X alone")
def svm2_plus_ovr(quick):
    rows = []
    for shape in [(6, 10, 200, 100)] if quick else [(76, 10, 4096, 2000), (102, 10, 4096, 29535)]:
        X, y, Z = wide_classes(*shape)
        model = SVM2Plus(C=10.0, kernel="linear", privileged_kernel="linear", kappa=np.inf)
        ours = cpu_time(lambda: model.fit(X, y, privileged=Z), repeats=2)
        what, gap = f"{shape[0]} classes n={len(y)} d={shape[2]} s={shape[3]}", model.dual_gap_
        for name, kernel, table in (("SVC on X", "linear", X), ("SVC on the kernel matrix", "precomputed", X @ X.T)):
            svc = cpu_time(
                lambda: OneVsRestClassifier(SVC(C=10.0, kernel=kernel)).fit(table, y), repeats=1, warmup=False
            )
            rows.append(Row(what, ours.seconds, name, svc.seconds, gap=gap, target="<= 1.0x the time of SVC on X"))
        rows.append(generic_ovr(what, X @ X.T, Z @ Z.T, y))
    return rows


def svm_plus_dual_of(K, K_star, y, label, C):
    """SVM+ dual (slack, kappa = inf, lam = 1: Xu et al., eq. 2) of one class against the others."""
    signs, everyone = np.where(y == label, 1.0, -1.0), np.ones(len(y), dtype=bool)
    return svm_plus_dual(Space(matrix=K), Space(matrix=K_star), signs, np.full(len(y), C), np.inf, False, everyone)


def generic_ovr(what, K, K_star, y, C=10.0):
    """SVM2+ beside a generic QP solver on SVM+ (slack, kappa = inf), both with the kernel matrices given.

    One class of the peer is timed and multiplied by the number of classes.
    """
    n_classes = len(np.unique(y))
    qp = dense_qp(svm_plus_dual_of(K, K_star, y, y[0], C))
    model = SVM2Plus(C=C, kernel="precomputed", privileged_kernel="precomputed", kappa=np.inf)
    ours = cpu_time(lambda: model.fit(K, y, privileged=K_star))
    name = "CVXOPT"
    module, peer_solve = PEERS[name]
    peer = peer_time(module, lambda: peer_solve(qp), repeats=1, warmup=False)
    total = None if peer.seconds is None else peer.seconds * n_classes
    return Row(
        what, ours.seconds, f"{name} on SVM+, one class x {n_classes}", total, gap=model.dual_gap_, note=peer.note
    )


@case("svm2-plus-rbf", "SVM2+ rbf, n = 5000, kernel matrices included, beside SVC")
def svm2_plus_rbf(quick):
    n = 400 if quick else 5000
    X, Z, y = standardized(n)
    ours = cpu_time(lambda: SVM2Plus().fit(X, y, privileged=Z), repeats=2)
    peer = cpu_time(lambda: SVC().fit(X, y), repeats=2)
    return [Row(f"rbf n={n}", ours.seconds, "SVC", peer.seconds, gap=ours.value.dual_gap_, target="<= 3x SVC's time")]


@case("large", "SVM+ and SVM2+ rbf, n = 30,000, default cache: time and peak memory")
def large(quick):
    n = 1000 if quick else 30_000
    X, Z, y = standardized(n)
    rows = []
    for cls in (SVMPlus, SVM2Plus):
        cls(cache_size=1).fit(X[:1500], y[:1500], privileged=Z[:1500])  # compiles
        reset_peak()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            ours = cpu_time(
                lambda: cls(cache_size=4 if quick else 200).fit(X, y, privileged=Z), repeats=1, warmup=False
            )
        note = f"peak memory {peak_bytes() / 2**30:.2f} GB"
        rows.append(
            Row(f"{cls.__name__} n={n}", ours.seconds, gap=ours.value.dual_gap_, target="<= 150 s, 4 GB", note=note)
        )
    return rows


# Classes, rows per class, decision and privileged features, C, kappa.
LINEAR_SHAPES = [
    (2, 1000, 20, 20, 10.0, 3.0), (2, 400, 512, 300, 1.0, 3.0), (5, 100, 20, 20, 1.0, 3.0), (5, 100, 20, 4096, 10.0, 3.0),
    (5, 100, 4096, 4096, 1.0, 3.0), (5, 600, 20, 20, 10.0, 3.0), (5, 600, 300, 20, 1.0, 3.0), (5, 600, 4096, 300, 1.0, 3.0),
    (20, 25, 4096, 300, 10.0, 3.0), (20, 50, 512, 300, 1.0, 3.0), (20, 150, 100, 50, 10.0, 3.0), (76, 10, 512, 300, 1.0, 3.0),
    (76, 10, 512, 300, 10.0, np.inf), (100, 5, 20, 20, 1.0, 3.0), (100, 30, 20, 20, 10.0, 3.0), (100, 30, 100, 50, 1.0, 3.0),
    (100, 30, 4096, 20, 1.0, 3.0), (100, 30, 512, 4096, 1.0, 3.0),
]  # fmt: skip
RBF_SHAPES = [
    (2, 1000, 20, 20, 10.0, 3.0), (5, 100, 20, 20, 1.0, 3.0), (5, 600, 100, 50, 1.0, 3.0), (20, 25, 4096, 300, 10.0, 3.0),
    (20, 50, 512, 4096, 1.0, 3.0), (20, 150, 100, 50, 10.0, 3.0), (76, 10, 512, 300, 10.0, np.inf), (100, 5, 20, 20, 1.0, 3.0),
    (100, 30, 100, 50, 1.0, 3.0),
]  # fmt: skip


@case("linear-shapes", "One-vs-rest with linear kernels over shapes: auto beside the best other solver")
def linear_shapes(quick):
    return _shapes("linear", [(3, 60, 20, 10, 1.0, 3.0)] if quick else LINEAR_SHAPES)


@case("rbf-shapes", "One-vs-rest with rbf kernels over shapes: auto beside the best other solver")
def rbf_shapes(quick):
    return _shapes("rbf", [(3, 60, 20, 10, 1.0, 3.0)] if quick else RBF_SHAPES)


def _shapes(kernel, shapes):
    rows = []
    for n_classes, per_class, d, s, C, kappa in shapes:
        data = wide_classes(n_classes, per_class, d, s)
        for cls in (SVMPlus, SVM2Plus):
            model = cls(C=C, kappa=kappa, kernel=kernel, privileged_kernel=kernel)
            newton = kernel == "linear" and cls is SVM2Plus and np.isfinite(kappa)
            what = f"{cls.__name__} {n_classes} classes n={len(data[1])} d={d} s={s} C={C:g} kappa={kappa:g}"
            rows.append(_auto_beside_others(what, model, ("smo", "interior_point", *(["newton"] * newton)), data))
    return rows


def _auto_beside_others(what, model, others, data, wanted_gap=1e-3):
    """CPU time of auto, and of the fastest solver that certifies the same gap within five times that time."""
    seconds, gap = min(_fit_time(model, data) for _ in range(2))
    times = {}
    for solver in others:
        for tol in (1e-3, 1e-4, 1e-5):
            other = clone(model).set_params(solver=solver, tol=tol, max_time=2.0 + 5 * seconds)
            taken, found = _fit_time(other, data)
            if found <= max(wanted_gap, gap):
                times[solver] = taken
                break
    if not times:
        return Row(what, seconds, "other solvers", None, gap=gap, note="no other solver certified this gap in time")
    best = min(times, key=times.get)
    return Row(what, seconds, f"best: {best}", times[best], gap=gap, target="<= 2x the time of the best solver")


def _fit_time(model, data):
    X, y, Z = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = process_time()
        model.fit(X, y, privileged=Z)
    return process_time() - start, model.dual_gap_
