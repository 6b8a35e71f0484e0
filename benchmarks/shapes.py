"""One-vs-rest fits over shapes, prices and kernels: does ``solver="auto"`` choose well everywhere?"""

from __future__ import annotations

from benchmarks._registry import Row, case, cpu_time

# Classes, examples of each, decision and privileged features, C, kappa: corners and middle of what is promised.
LINEAR_CELLS = [
    (2, 1000, 20, 20, 10.0, 3.0), (2, 400, 512, 300, 1.0, 3.0), (5, 100, 20, 20, 1.0, 3.0), (5, 100, 20, 4096, 10.0, 3.0),
    (5, 100, 4096, 4096, 1.0, 3.0), (5, 600, 20, 20, 10.0, 3.0), (5, 600, 300, 20, 1.0, 3.0), (5, 600, 4096, 300, 1.0, 3.0),
    (20, 25, 4096, 300, 10.0, 3.0), (20, 50, 512, 300, 1.0, 3.0), (20, 150, 100, 50, 10.0, 3.0), (76, 10, 512, 300, 1.0, 3.0),
    (76, 10, 512, 300, 10.0, float("inf")), (100, 5, 20, 20, 1.0, 3.0), (100, 30, 20, 20, 10.0, 3.0),
    (100, 30, 100, 50, 1.0, 3.0), (100, 30, 4096, 20, 1.0, 3.0), (100, 30, 512, 4096, 1.0, 3.0),
]  # fmt: skip
RBF_CELLS = [
    (2, 1000, 20, 20, 10.0, 3.0), (5, 100, 20, 20, 1.0, 3.0), (5, 600, 100, 50, 1.0, 3.0), (20, 25, 4096, 300, 10.0, 3.0),
    (20, 50, 512, 4096, 1.0, 3.0), (20, 150, 100, 50, 10.0, 3.0), (76, 10, 512, 300, 10.0, float("inf")),
    (100, 5, 20, 20, 1.0, 3.0), (100, 30, 100, 50, 1.0, 3.0),
]  # fmt: skip
# Classes and decision features of the cells that are set beside SVC as well.
BESIDE_SVC = (76, 512)
# Two fits are compared where both prove this gap, or the one that "auto" has where that is larger.
EQUAL_GAP = 1e-3
# Tolerances that a solver is given, one after the other, until its gap is small enough.
TOLERANCES = (1e-3, 1e-4, 1e-5)


@case("linear-shapes", "One-vs-rest with linear kernels over shapes and prices: time of auto beside the best solver's")
def linear_shapes(quick):
    """Time of "auto" <= 2x that of the best solver in every cell."""
    return _sweep("linear", [(3, 60, 20, 10, 1.0, 3.0)] if quick else LINEAR_CELLS, quick)


@case("rbf-shapes", "One-vs-rest with rbf kernels over shapes and prices: time of auto beside the best solver's")
def rbf_shapes(quick):
    """Time of "auto" <= 2x that of the best solver in every cell."""
    return _sweep("rbf", [(3, 60, 20, 10, 1.0, 3.0)] if quick else RBF_CELLS, quick)


def _sweep(kernel, cells, quick):
    from benchmarks.classifiers import wide_classes
    from lupi.svm.svm2_plus import SVM2Plus
    from lupi.svm.svm_plus import SVMPlus

    rows = []
    for n_classes, per_class, d, s, C, kappa in cells:
        X, y, Z = wide_classes(n_classes, per_class, d, s)
        for cls in (SVMPlus, SVM2Plus):
            model = cls(C=C, kappa=kappa, kernel=kernel, privileged_kernel=kernel)
            what = f"{cls.__name__} {n_classes} classes n={len(y)} d={d} s={s} C={C:g} kappa={kappa:g}"
            rows.append(_compare(what, model, _others(cls, kernel, kappa), X, y, Z, repeats=1 if quick else 2))
            if quick or (n_classes, d) == BESIDE_SVC:
                rows.append(_beside_svc(rows[-1], kernel, C, X, y))
    return rows


def _beside_svc(row, kernel, C, X, y):
    """The same fit beside plain one-vs-rest machines, which see the decision features alone."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import SVC

    peer = cpu_time(lambda: OneVsRestClassifier(SVC(C=C, kernel=kernel)).fit(X, y), repeats=2)
    return Row(row.what, row.ours_seconds, "SVC one-vs-rest on X", peer.seconds, gap=row.gap, target="<= 1.0x its time")


def _others(cls, kernel, kappa):
    """Solvers that could have been chosen."""
    newton = kernel == "linear" and cls.__name__ == "SVM2Plus" and kappa < float("inf")
    return ("smo", "interior_point", "newton") if newton else ("smo", "interior_point")


def _compare(what, model, others, X, y, Z, repeats):
    """The time of "auto", and that of the quickest solver that proves the same."""
    auto = min((_timed(model, X, y, Z) for _ in range(repeats + 1)), key=lambda found: found[0])
    seconds, gap, _ = auto
    wanted = max(EQUAL_GAP, gap)
    times = {}
    for name in others:
        found = _bounded(model, name, X, y, Z, wanted, seconds)
        if found is not None:
            times[name] = found
    if not times:
        note = "no other solver proved the same within this time"
        return Row(what, seconds, "best of the solvers", None, gap=gap, target="<= 2x its time", note=note)
    best = min(times, key=lambda name: times[name][0])
    taken, its_gap, tol = times[best]
    return Row(
        what, seconds, f"best of the solvers: {best}, tol={tol:g}", taken, gap=gap, target="<= 2x its time",
        note=f"gap of {best}: {its_gap:.1e}",
    )  # fmt: skip


def _timed(model, X, y, Z):
    """CPU seconds, gap and tolerance of a fit."""
    import warnings
    from time import process_time

    from sklearn.base import clone

    model = clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = process_time()
        model.fit(X, y, privileged=Z)
    return process_time() - start, model.dual_gap_, model.tol


def _bounded(model, solver, X, y, Z, wanted, seconds):
    """The same with another solver, to the gap wanted; None if that takes longer than ``seconds``.

    In a process of its own, which can be ended whatever library it is in.
    """
    from multiprocessing import get_context

    context = get_context("fork")
    theirs, ours = context.Pipe(duplex=False)
    process = context.Process(target=_until_equal, args=(ours, model, solver, X, y, Z, wanted, seconds))
    process.start()
    ours.close()
    try:
        return theirs.recv()
    except EOFError:
        return None
    finally:
        process.join()


def _until_equal(pipe, model, solver, X, y, Z, wanted, seconds):
    import resource

    from sklearn.base import clone

    for tol in TOLERANCES:
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime + seconds) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        found = _timed(clone(model).set_params(solver=solver, tol=tol), X, y, Z)
        if found[1] <= wanted:
            pipe.send(found)
            return
