"""SVM+ and SVM2+ beside generic QP solvers and scikit-learn's SVC."""

from __future__ import annotations

import resource

from benchmarks._registry import Row, case, cpu_time, peer_time


def _data(n, n_features=50, n_privileged=20, seed=0):
    from sklearn.preprocessing import StandardScaler

    from lupi.datasets import make_privileged

    data = make_privileged(n_samples=n, n_features=n_features, n_privileged=n_privileged, random_state=seed)
    X = StandardScaler().fit_transform(data.data)
    return X, data.privileged, (data.target == data.target.max()) * 2.0 - 1.0


def _dual(n, kernel, *, correction, kappa, lam=1.0, C=1.0):
    """The SVM+ dual with its kernel matrices formed: only the solve is timed."""
    import numpy as np

    from lupi.kernels import Kernel, resolve_gamma
    from lupi.svm import Space, svm_plus_dual

    X, Z, y = _data(n)
    decision = (
        Space(factor=X / np.sqrt(X.shape[1])) if kernel == "linear" else Space(matrix=Kernel("rbf", gamma=1 / 50)(X))
    )
    privileged = Space(matrix=Kernel("rbf", gamma=resolve_gamma("scale", Z))(Z), weight=1.0 / lam)
    return svm_plus_dual(decision, privileged, y, np.full(n, C), kappa, correction == "labeled", np.ones(n, dtype=bool))


def _against(what, problem, peers, target, *, tol=1e-3):
    """Our solve and each peer's on one dual, with the objective difference that says whether the work was equal."""
    from benchmarks._peers import PEERS
    from lupi.svm.reference import dense_qp
    from lupi.svm.solve import solve as solve_problem

    ours = cpu_time(lambda: solve_problem(problem, "auto", tol=tol, max_iter=-1))
    value = ours.value.certificate.dual
    qp = dense_qp(problem)
    rows = []
    for name in peers:
        module, solve = PEERS[name]
        peer = peer_time(module, lambda solve=solve: solve(qp), repeats=1, warmup=False)
        difference = None
        if peer.value is not None and len(peer.value):
            theirs = problem.certificate(peer.value).dual
            difference = (value - theirs) / abs(theirs)
        rows.append(
            Row(
                what,
                ours.seconds,
                peer=name,
                peer_seconds=peer.seconds,
                objective_difference=difference,
                gap=ours.value.gap,
                target=target,
                note=peer.note,
            )
        )
    return rows


ALL = ("CVXOPT", "PIQP", "HiGHS")


@case("svm-plus-labeled", "SVM+ labeled, rbf / rbf, n = 2000, C = lam = 1, kappa = 5, KKT 1e-3")
def svm_plus_labeled(quick):
    """>= 80x the fastest generic solver."""
    n = 200 if quick else 2000
    problem = _dual(n, "rbf", correction="labeled", kappa=5.0)
    return _against(f"labeled rbf/rbf n={n}", problem, ALL, ">= 80x the fastest")


@case("svm-plus-slack", "SVM+ slack, rbf / rbf, n = 2000, kappa = inf, KKT 1e-3")
def svm_plus_slack(quick):
    """>= 40x the fastest generic solver; HiGHS would take minutes."""
    n = 200 if quick else 2000
    problem = _dual(n, "rbf", correction="slack", kappa=float("inf"))
    return _against(f"slack rbf/rbf n={n}", problem, ("PIQP", "CVXOPT"), ">= 40x the fastest")


@case("svm-plus-linear-rbf", "SVM+ slack, linear X / rbf Z, n = 1000, kappa = inf, KKT 1e-3")
def svm_plus_linear_rbf(quick):
    """>= 10x the fastest generic solver."""
    n = 200 if quick else 1000
    problem = _dual(n, "linear", correction="slack", kappa=float("inf"))
    return _against(f"slack linear/rbf n={n}", problem, ALL, ">= 10x the fastest")


@case("svm-plus-certified", "The same with lam = 0.01, certified gap 1e-6")
def svm_plus_certified(quick):
    """>= 6x the fastest generic solver."""
    n = 200 if quick else 1000
    problem = _dual(n, "linear", correction="slack", kappa=float("inf"), lam=0.01)
    return _against(f"slack linear/rbf lam=0.01 n={n}", problem, ALL, ">= 6x the fastest, gap <= 1e-6", tol=1e-7)


def wide_classes(n_classes, per_class, d, s, spread=1.5, privileged_spread=1.5):
    """Rows of length 1 around class centers, like normalized network features and text.

    Parameters
    ----------
    n_classes, per_class, d, s : int
        Classes, rows of each, decision features, privileged features.
    spread, privileged_spread : float
        Standard deviation around the center, whose own is 1; 0: one row for the whole class.

    Returns
    -------
    X, y, Z : ndarray
    """
    import numpy as np

    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), per_class)
    X = rng.standard_normal((n_classes, d))[y] + spread * rng.standard_normal((len(y), d))
    Z = rng.standard_normal((n_classes, s))[y] + privileged_spread * rng.standard_normal((len(y), s))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y, Z / np.linalg.norm(Z, axis=1, keepdims=True)


def svm_plus_dual_of(K, K_star, y, label, C):
    """The SVM+ dual (slack, kappa = inf, lam = 1: Xu et al., eq. 2) of one class against the others.

    Parameters
    ----------
    K, K_star : ndarray of shape (n, n)
        Kernel matrices.
    y : ndarray of shape (n,)
    label : object
        The class.
    C : float

    Returns
    -------
    KernelQP
    """
    import numpy as np

    from lupi.svm import Space, svm_plus_dual

    signed = np.where(y == label, 1.0, -1.0)
    every, costs = np.ones(len(y), dtype=bool), np.full(len(y), C)
    return svm_plus_dual(Space(matrix=K), Space(matrix=K_star), signed, costs, np.inf, False, every)


@case("svm2-plus-ovr", "SVM2+ one-vs-rest, 76 and 102 classes, wide features, vs one-vs-rest SVC on X alone")
def svm2_plus_ovr(quick):
    """<= 1.0x the time of one-vs-rest SVC; >= 250x a generic QP on SVM+."""
    import numpy as np
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import SVC

    from benchmarks._peers import PEERS
    from lupi.svm.svm2_plus import SVM2Plus

    shapes = [(6, 10, 200, 100)] if quick else [(76, 10, 4096, 2000), (102, 10, 4096, 29535)]
    rows = []
    for shape in shapes:
        n_classes, _, d, s = shape
        X, y, Z = wide_classes(*shape)
        model = SVM2Plus(C=10.0, kernel="linear", privileged_kernel="linear", kappa=np.inf)
        ours = cpu_time(lambda: model.fit(X, y, privileged=Z), repeats=1 if quick else 2)
        svc = cpu_time(lambda: OneVsRestClassifier(SVC(C=10.0, kernel="linear")).fit(X, y), repeats=1, warmup=False)
        K = X @ X.T
        precomputed = cpu_time(
            lambda: OneVsRestClassifier(SVC(C=10.0, kernel="precomputed")).fit(K, y), repeats=1, warmup=False
        )
        what = f"{n_classes} classes n={len(y)} d={d} s={s}"
        gap = ours.value.dual_gap_
        rows.append(Row(what, ours.seconds, "SVC one-vs-rest on X", svc.seconds, gap=gap, target="<= 1.0x its time"))
        rows.append(
            Row(
                what,
                ours.seconds,
                "the same, kernel matrix given",
                precomputed.seconds,
                gap=gap,
                note="our time includes both kernel matrices and Q; theirs excludes the kernel matrix",
            )
        )
        rows.append(_generic_ovr(what, X, Z, y, PEERS))
    return rows


def _generic_ovr(what, X, Z, y, peers):
    """A generic QP on the SVM+ dual of one class, times the number of classes; both sides get the kernel matrices."""
    import numpy as np

    from lupi.svm.reference import dense_qp
    from lupi.svm.svm2_plus import SVM2Plus

    n_classes = len(np.unique(y))
    K, K_star = X @ X.T, Z @ Z.T
    qp = dense_qp(svm_plus_dual_of(K, K_star, y, 0, C=10.0))
    model = SVM2Plus(C=10.0, kernel="precomputed", privileged_kernel="precomputed", kappa=np.inf)
    ours = cpu_time(lambda: model.fit(K, y, privileged=K_star))
    times = {
        name: peer_time(module, lambda solve=solve: solve(qp), repeats=1, warmup=False)
        for name, (module, solve) in peers.items()
        if name != "HiGHS"
    }
    seconds = [t.seconds for t in times.values() if t.seconds is not None]
    if not seconds:
        return Row(what, ours.seconds, "generic QP on SVM+", None, target=">= 250x", note="not installed")
    best = min((t.seconds, name) for name, t in times.items() if t.seconds is not None)
    return Row(
        what,
        ours.seconds,
        f"{best[1]} on SVM+, one class x {n_classes}",
        best[0] * n_classes,
        target=">= 250x",
        gap=ours.value.dual_gap_,
        note="kernel matrices given to both; one class of the peer measured, the others taken as equal",
    )


@case("svm2-plus-rbf", "SVM2+ rbf, n = 5000, with kernel matrices and Q, vs SVC")
def svm2_plus_rbf(quick):
    """<= 3x the time of SVC."""
    from sklearn.svm import SVC

    from lupi.svm.svm2_plus import SVM2Plus

    n = 400 if quick else 5000
    X, Z, y = _data(n)
    ours = cpu_time(lambda: SVM2Plus().fit(X, y, privileged=Z), repeats=1 if quick else 2)
    peer = cpu_time(lambda: SVC().fit(X, y), repeats=1 if quick else 2)
    return [Row(f"rbf n={n}", ours.seconds, "SVC", peer.seconds, gap=ours.value.dual_gap_, target="<= 3x SVC's time")]


@case("large", "n = 30,000, rbf, default cache: time and peak memory")
def large(quick):
    """SVMPlus and SVM2Plus finish within 150 s and 4 GB each."""
    import warnings

    from lupi.svm.svm2_plus import SVM2Plus
    from lupi.svm.svm_plus import SVMPlus

    n = 1000 if quick else 30_000
    X, Z, y = _data(n)
    few = slice(0, min(n, 1500))
    rows = []
    for cls in (SVMPlus, SVM2Plus):
        # What is to be compiled is compiled here.
        cls(cache_size=1).fit(X[few], y[few], privileged=Z[few])
        model = cls(cache_size=4 if quick else 200)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            ours = cpu_time(lambda model=model: model.fit(X, y, privileged=Z), repeats=1, warmup=False)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        rows.append(
            Row(f"{cls.__name__} n={n}", ours.seconds, gap=ours.value.dual_gap_, target="<= 150 s, <= 4 GB",
                note=f"peak memory of the process {peak:.2f} GB")
        )  # fmt: skip
    return rows
