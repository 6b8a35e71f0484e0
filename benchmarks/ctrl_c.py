"""Ctrl-C at random moments of a fit: how long does every solver go on?

``python -m benchmarks.ctrl_c NAME`` is the process that is interrupted; ``python -m benchmarks ctrl-c`` starts one for each fit.
"""

from __future__ import annotations

import sys

from benchmarks._registry import Row, case

REPEATS = 5


def _data(n, d=20, s=5, seed=0):
    """Noisy classes, so that solvers have work to do."""
    import numpy as np

    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, d)), rng.normal(size=(n, s))
    return X, (X[:, 0] + Z[:, 0] + rng.normal(size=n) > 0).astype(int), Z


def _classifier(name, n, d=20, **params):
    from lupi import SVM2K, SVM2Plus, SVMPlus

    X, y, Z = _data(n, d)
    model = {"SVMPlus": SVMPlus, "SVM2Plus": SVM2Plus, "SVM2K": SVM2K}[name](**params)
    return lambda: model.fit(X, y, privileged=Z)


def _plain(n, **params):
    from lupi import SVMPlus

    X, y, _ = _data(n)
    return lambda: SVMPlus(**params).fit(X, y)


def _path(n):
    from lupi import SVMPlus

    X, y, Z = _data(n)
    candidates = [{"C": C, "lam": lam} for C in (1.0, 10.0, 100.0) for lam in (0.01, 0.1, 1.0)]
    return lambda: SVMPlus(tol=1e-6).fit_path(candidates, X, y, privileged=Z)


def _one_class(n):
    from lupi import OneClassSVMPlus

    X, _, Z = _data(n)
    return lambda: OneClassSVMPlus(lam=1e-3, tol=1e-8).fit(X, privileged=Z)


def _regressor(n):
    from lupi import SVRPlus

    X, y, Z = _data(n)
    return lambda: SVRPlus(10.0, lam=1e-2, tol=1e-8).fit(X, y + X[:, 1], privileged=Z)


def _histograms(n, kernel):
    from lupi import SVMPlus

    X, y, Z = _data(n, 200)
    return lambda: SVMPlus(kernel=kernel).fit(abs(X), y, privileged=Z)


def _ranker(n, **params):
    from lupi import RankTransfer

    X, y, Z = _data(n)
    return lambda: RankTransfer(100.0, tol=1e-12, **params).fit(X, y, privileged=Z)


def _rank_search(n):
    from lupi import RankTransferCV

    X, y, Z = _data(n)
    return lambda: RankTransferCV().fit(X, y, privileged=Z)


def _multiclass(n, solver):
    import numpy as np

    from lupi import StructuralSVM
    from lupi.structured import Multiclass

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 100)), rng.integers(0, 20, n)
    return lambda: StructuralSVM(Multiclass(20, 100), 1e3, solver=solver, tol=1e-9).fit(X, y)


def _chain(n):
    import numpy as np

    from lupi import StructuralSVM
    from lupi.structured import Chain

    rng = np.random.default_rng(0)
    X = [rng.normal(size=(20, 30)) for _ in range(n)]
    Y = [rng.integers(0, 8, 20) for _ in range(n)]
    return lambda: StructuralSVM(Chain(8, 30), 1e3, tol=1e-9).fit(X, Y)


def _boxes(n, estimator):
    from lupi import JKSE, StructuralSVM, StructuralSVMPlus
    from lupi.datasets.planted_boxes import make_planted_boxes
    from lupi.structured import BoxLocalization

    X, Y, Z = make_planted_boxes(n, shape=(120, 160), n_words=100, n_points=800, random_state=0)
    if estimator == "JKSE":
        model = JKSE(BoxLocalization(100, grid_step=8)).fit(X, Y)
        return lambda: model.predict(X)
    if estimator == "StructuralSVMPlus":
        task, star = BoxLocalization(100), BoxLocalization(120)
        return lambda: StructuralSVMPlus(task, star, 1e3, tol=1e-9).fit(X, Y, privileged=Z)
    return lambda: StructuralSVM(BoxLocalization(100), 1e3, tol=1e-9).fit(X, Y)


def _joint_kernel(n):
    import numpy as np

    from lupi import JKSEPlus
    from lupi.structured import Multiclass

    rng = np.random.default_rng(0)
    X, Z, y = rng.normal(size=(n, 20)), rng.normal(size=(n, 5)), rng.integers(0, 4, n)
    return lambda: JKSEPlus(Multiclass(4, 20), kernel="rbf", privileged_kernel="rbf").fit(X, y, privileged=Z)


def _surrogate(n):
    from lupi import SurrogateClassifier

    X, y, Z = _data(n, 200, 50)
    return lambda: SurrogateClassifier().fit(X, y, privileged=Z)


def _images(n, name):
    import numpy as np

    from lupi.vision import BagOfVisualWords, FisherVectors

    images = [np.random.default_rng(k).integers(0, 255, (200, 250, 3), dtype=np.uint8) for k in range(n)]
    return lambda: (BagOfVisualWords(500) if name == "words" else FisherVectors(16)).fit(images)


# Sizes at which one fit takes seconds or minutes.
FITS = {
    "SMO, one space, n = 4000": lambda: _plain(4000, C=1e4, solver="smo", tol=1e-8),
    "SMO, two spaces, n = 4000": lambda: _classifier("SVMPlus", 4000, C=100.0, lam=1e-3, solver="smo", tol=1e-8),
    "SMO with Q, n = 3000": lambda: _classifier("SVM2Plus", 3000, C=100.0, solver="smo", tol=1e-8),
    "auto with active sets, n = 1500": lambda: _classifier("SVMPlus", 1500, C=10.0, lam=1e-2, tol=1e-8),
    "working sets, n = 20,000": lambda: _classifier("SVMPlus", 20_000, C=10.0),
    "interior point, n = 1500": lambda: _classifier("SVMPlus", 1500, solver="interior_point"),
    "linear SVM+, n = 200,000": lambda: _classifier(
        "SVMPlus", 200_000, 50, kernel="linear", privileged_kernel="linear", tol=1e-8
    ),
    "linear SVM2+, n = 200,000": lambda: _classifier(
        "SVM2Plus", 200_000, 50, kernel="linear", privileged_kernel="linear", tol=1e-8
    ),
    "SVM-2K, n = 500": lambda: _classifier("SVM2K", 500),
    "one class, n = 1500": lambda: _one_class(1500),
    "SVR+, n = 2000": lambda: _regressor(2000),
    "chi2 kernel, n = 4000": lambda: _histograms(4000, "chi2"),
    "laplacian kernel, n = 4000": lambda: _histograms(4000, "laplacian"),
    "path, n = 1000": lambda: _path(1000),
    "ranking, Newton, n = 100,000": lambda: _ranker(100_000),
    "ranking, bundle, n = 20,000": lambda: _ranker(20_000, loss="hinge", solver="bundle"),
    "ranking, search, n = 2000": lambda: _rank_search(2000),
    "structural, Frank-Wolfe, n = 20,000": lambda: _multiclass(20_000, "bcfw"),
    "structural, one slack, n = 2000": lambda: _multiclass(2000, "cutting_plane"),
    "structural, n slacks, n = 500": lambda: _multiclass(500, "n_slack"),
    "structural, chains, n = 2000": lambda: _chain(2000),
    "structural, boxes, n = 40": lambda: _boxes(40, "StructuralSVM"),
    "structural with privileged boxes, n = 20": lambda: _boxes(20, "StructuralSVMPlus"),
    "JKSE search, n = 20": lambda: _boxes(20, "JKSE"),
    "JKSE+, n = 1500": lambda: _joint_kernel(1500),
    "surrogate, n = 3000": lambda: _surrogate(3000),
    "visual words, 12 images": lambda: _images(12, "words"),
    "Fisher vectors, 12 images": lambda: _images(12, "fisher"),
}


def waiting_times(name, moments):
    """Interrupt the fit of that name at several moments.

    Parameters
    ----------
    name : str
        One of ``FITS``.
    moments : sequence of float
        Seconds from the start of the fit (which is repeated for as long as it is not interrupted).

    Returns
    -------
    list of (float, float)
        Seconds by the clock and of the processor between each signal and the ``KeyboardInterrupt``.
    """
    import os
    import signal
    import subprocess
    from time import monotonic, sleep

    hear_ctrl_c()
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.ctrl_c", name, str(len(moments))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    waits = []
    try:
        for moment in moments:
            if process.stdout.readline().strip() != "ready":
                raise RuntimeError(f"the fit {name!r} ended before it was interrupted")
            sleep(moment)
            sent, used = monotonic(), processor_seconds(process.pid)
            os.kill(process.pid, signal.SIGINT)
            caught, then = map(float, process.stdout.readline().split())
            waits.append((caught - sent, then - used))
    finally:
        process.kill()
        process.wait()
    return waits


def hear_ctrl_c():
    """Let processes that are started from now on be interrupted: who runs in the background may be told to ignore it."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def processor_seconds(pid):
    """CPU time of a process so far; only Linux tells (NaN elsewhere)."""
    import os
    from pathlib import Path

    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return float("nan")
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def be_interrupted(name, times):
    """Fit again and again until Ctrl-C, and print when it was seen; the process that the benchmark starts."""
    from time import monotonic, process_time

    # Loading and compiling come first: an interrupted import leaves numba damaged.
    for warm_up in (
        lambda: _plain(30),
        lambda: _classifier("SVMPlus", 30),
        lambda: _ranker(30),
        lambda: _multiclass(30, "bcfw"),
    ):
        warm_up()()
    fit = FITS[name]()
    for _ in range(times):
        print("ready", flush=True)
        try:
            while True:
                fit()
        except KeyboardInterrupt:
            print(monotonic(), process_time(), flush=True)


@case("ctrl-c", "Ctrl-C at five random moments of every solver: seconds until it is seen")
def ctrl_c(quick):
    """<= 1 s; a factorization by LAPACK cannot be interrupted."""
    import numpy as np

    rng = np.random.default_rng(0)
    rows = []
    for name in list(FITS)[:2] if quick else FITS:
        waits = waiting_times(name, rng.uniform(0.5, 4.0, 2 if quick else REPEATS))
        clock, processor = (max(column) for column in zip(*waits))
        rows.append(Row(name, processor, target="<= 1 s", note=f"at most {clock:.2f} s by the clock"))
    return rows


if __name__ == "__main__":
    be_interrupted(sys.argv[1], int(sys.argv[2]))
