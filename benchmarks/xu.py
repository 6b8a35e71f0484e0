"""Xu et al. (2016), Tables 3 and 4: training times of SVM, SVM-2K, SVM+ and SVM2+ at the paper's shapes, generated features."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.svm import SVC

from benchmarks.kernel_machines import svm_plus_dual_of, wide_classes
from benchmarks.measure import Row, case, cpu_time, peer_time
from benchmarks.peers import PEERS
from lupi import SVM2K, SVM2Plus, SVMPlus
from lupi.svm.reference import dense_qp

C = 10.0
PRECOMPUTED = {"kernel": "precomputed", "privileged_kernel": "precomputed"}
# Data set -> classes, rows per class, decision features, privileged features, spread of the privileged features (on Caltech101
# the text belongs to the class).
SHAPES = {
    "Caltech101": (102, 10, 4096, 29535, 0.0),
    "WebQueries": (76, 10, 4096, 2000, 1.5),
}


def deformed_kernel(K_star):
    """Q of the paper's eq. (5), as printed, for the kernel K* + 1 and lam = 1."""
    tilde = K_star + 1.0
    return tilde - tilde @ np.linalg.solve(np.eye(len(tilde)) / C + tilde, tilde)


@case("xu-times", "Xu et al. 2016, Tables 3 and 4: training times at the paper's shapes, kernel matrices given")
def xu_times(quick):
    """Slow solvers are timed on a few classes, and their time is scaled up to all classes."""
    rows = []
    for name, (n_classes, per_class, d, s, spread) in SHAPES.items():
        if quick:
            n_classes, d, s = 4, 50, 20
        X, y, Z = wide_classes(n_classes, per_class, d, s, privileged_spread=spread)
        K, K_star = X @ X.T, Z @ Z.T
        few = np.unique(y)[:: max(1, n_classes // 5)][:5]
        Q = deformed_kernel(K_star)
        solve = PEERS["CVXOPT"][1]

        def signs(label):
            return np.where(y == label, 1.0, -1.0)

        def one_class(label):
            return np.outer(signs(label), signs(label))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            ours = cpu_time(lambda: SVM2Plus(C=C, kappa=np.inf, **PRECOMPUTED).fit(K, y, privileged=K_star))
            # LIBSVM on eq. (4), the paper's algorithm; it needs an upper bound.
            libsvm = cpu_time(
                lambda: [SVC(C=1e10, kernel="precomputed").fit(K + Q * one_class(k), signs(k)) for k in few]
            )
            svm = cpu_time(lambda: [SVC(C=C, kernel="precomputed").fit(K, signs(k)) for k in few])
            plus = cpu_time(
                lambda: [
                    SVMPlus(C=C, kappa=np.inf, tol=1e-6, **PRECOMPUTED).fit(K, signs(k), privileged=K_star) for k in few
                ],
                repeats=1,
            )
            svm2k = cpu_time(
                lambda: [SVM2K(C=C, **PRECOMPUTED).fit(K, signs(k), privileged=K_star) for k in few], repeats=1
            )
            generic = peer_time(
                "cvxopt", lambda: [solve(dense_qp(svm_plus_dual_of(K, K_star, y, k, C))) for k in few[:1]], repeats=1
            )
        scale = n_classes / len(few)
        peers = {
            "SVM2+, LIBSVM on eq. (4)": libsvm.seconds * scale,
            "SVM, LIBSVM": svm.seconds * scale,
            "SVM+, lupi": plus.seconds * scale,
            "SVM-2K, lupi": svm2k.seconds * scale,
            "SVM+, CVXOPT": None if generic.seconds is None else generic.seconds * n_classes,
        }
        gap = ours.value.dual_gap_
        rows += [Row(f"{name}: SVM2+, lupi", ours.seconds, peer, time, gap=gap) for peer, time in peers.items()]
    return rows
