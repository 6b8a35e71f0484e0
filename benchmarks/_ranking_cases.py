"""Figures of RankSVM and Rank Transfer, each a dictionary; ``benchmarks.ranking`` makes benchmark cases of them.

Both sides of a comparison run in one process, after a warm-up that absorbs the compilation, and are compared by CPU
time at equal objectives.
"""

import os
import resource
import time

import numpy as np
from sklearn.model_selection import StratifiedKFold

from benchmarks._ranking_pairs import explicit_pairs, pair_objective, solve_liblinear, solve_qp
from lupi.ranking.bundle import solve_ranking_bundle
from lupi.ranking.newton import solve_ranking_newton
from lupi.ranking.pairwise import RankingProblem, plain_pairs, transfer_pairs
from lupi.ranking.rank_svm import RankSVM
from lupi.ranking.rank_transfer import RankTransfer
from lupi.ranking.rank_transfer_cv import PAPER_GRID, RankTransferCV


def make_ranking(n, d=50, grades=2, seed=0):
    """Features, grades, and the scores of an imagined teacher that knows more than the features say."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    quality = X @ (rng.normal(size=d) / np.sqrt(d)) + rng.normal(size=n)
    y = np.digitize(quality, np.quantile(quality, np.arange(1, grades) / grades))
    return X, y, quality + 0.3 * rng.normal(size=n)


def _cpu(function, *args, **kwargs):
    start = time.process_time()
    result = function(*args, **kwargs)
    return result, time.process_time() - start


def warm_up():
    """Compile everything that is timed below."""
    X, y, teacher = make_ranking(300, 5, 3)
    for loss in ("squared_hinge", "hinge"):
        problem = RankingProblem(X, transfer_pairs(y, teacher, tau=0.1, within=True), 1e-3, loss)
        solve_ranking_newton(problem)
    solve_ranking_bundle(problem)


def exact():
    """Objective and weights against a QP over explicit pairs (PIQP): worst relative errors over all settings."""
    worst = {"objective": 0.0, "weights": 0.0}
    settings = 0
    for n, grades, n_groups, ties in (
        (100, 2, None, False),
        (150, 4, None, True),
        (300, 3, 20, True),
        (300, 3, 20, False),
    ):
        X, y, teacher = make_ranking(n, 8, grades)
        if ties:
            X, teacher = np.round(X), np.round(teacher, 1)
        group = None if n_groups is None else np.arange(n) % n_groups
        for loss in ("squared_hinge", "hinge"):
            for within in (None, False, True):
                if within is None:
                    pairs, listed = plain_pairs(y, group), explicit_pairs(y, group=group)
                else:
                    pairs = transfer_pairs(y, teacher, tau=0.1, within=within, group=group)
                    listed = explicit_pairs(y, teacher, tau=0.1, within=within, group=group)
                C = 10.0 / len(listed[0])
                reference = solve_qp(X, *listed, C, loss)
                optimum = pair_objective(reference, X, *listed, C, loss)
                ours = solve_ranking_newton(RankingProblem(X, pairs, C, loss), tol=1e-7)
                achieved = pair_objective(ours.point, X, *listed, C, loss)
                distance = np.linalg.norm(ours.point - reference) / np.linalg.norm(reference)
                worst["objective"] = max(worst["objective"], abs(achieved - optimum) / optimum)
                worst["weights"] = max(worst["weights"], float(distance))
                settings += 1
    return {"settings": settings, **{f"worst relative error, {name}": value for name, value in worst.items()}}


def liblinear(n=1200, d=50):
    """The paper's recipe, explicit pairs + LIBLINEAR, at the loosest tolerance that reaches our objective to 1e-4."""
    X, y, teacher = make_ranking(n, d)
    figures = {}
    for within, loss in ((True, "squared_hinge"), (False, "squared_hinge"), (True, "hinge")):
        listed, enumeration = _cpu(explicit_pairs, y, teacher, tau=0.1, within=within)
        C = 10.0 / len(listed[0])

        def ours(within=within, loss=loss, C=C):
            pairs = transfer_pairs(y, teacher, tau=0.1, within=within)
            return solve_ranking_newton(RankingProblem(X, pairs, C, loss), tol=1e-5)

        ours()
        solution, seconds = _cpu(ours)
        best = None
        for dual in (True, False) if loss == "squared_hinge" else (True,):
            for tol in (1e-1, 1e-2, 1e-3, 1e-4):
                w, peer_seconds = _cpu(solve_liblinear, X, *listed, C, loss, tol=tol, dual=dual, max_iter=2000)
                objective = pair_objective(w, X, *listed, C, loss)
                if objective <= solution.objective * (1 + 1e-4):
                    if best is None or peer_seconds < best[0]:
                        best = peer_seconds, objective, dual, tol
                    break
        name = f"{'all' if within else 'across'}, {loss}"
        figures[name] = {
            "pairs": len(listed[0]),
            "seconds": seconds,
            "objective": solution.objective,
            "gap": solution.gap,
        }
        if best is not None:
            figures[name] |= {
                "liblinear seconds": best[0] + enumeration,
                "liblinear objective": best[1],
                "liblinear": f"dual={best[2]}, tol={best[3]:g}",
                "times faster": (best[0] + enumeration) / seconds,
                "times faster, enumeration of the pairs not counted": best[0] / seconds,
            }
    return figures


def _memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _fit_large(n, d, pairs):
    X, y, teacher = make_ranking(n, d)
    before = _memory()

    def fit():
        admitted = transfer_pairs(y, teacher, tau=0.1, within=pairs == "all")
        C = 10.0 / admitted.n_pairs
        return solve_ranking_newton(RankingProblem(X, admitted, C, "squared_hinge"), tol=1e-6), admitted.n_pairs

    (solution, n_pairs), seconds = _cpu(fit)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "pairs": n_pairs,
        "seconds": seconds,
        "gap": solution.gap,
        "newton steps": solution.n_iter,
        "data GB": X.nbytes / 1e9,
        "peak memory beyond the data GB": max(0, peak - before) / 1e9,
    }


def million(d=50, pairs="across", sizes=(250_000, 1_000_000)):
    """Squared hinge up to a million examples: CPU time, growth, and peak memory beyond the data."""
    figures = {f"n = {n}": _fit_large(n, d, pairs) for n in sizes}
    first, last = (figures[f"n = {n}"]["seconds"] for n in (sizes[0], sizes[-1]))
    figures[f"growth for {sizes[-1] / sizes[0]:g} x the data"] = last / first
    return figures


def million_all():
    """The same with the pairs inside a grade (the paper's y_i >= y_j)."""
    return million(pairs="all")


def hinge(n=100_000, d=50):
    """Hinge at n = 100,000 to a certified gap of 1e-3, by both solvers."""
    X, y, teacher = make_ranking(n, d)
    figures = {}
    for within in (False, True):
        pairs = transfer_pairs(y, teacher, tau=0.1, within=within)
        for scale in (10.0, 1e4):
            problem = RankingProblem(X, pairs, scale / pairs.n_pairs, "hinge")
            for solver in (solve_ranking_newton, solve_ranking_bundle):
                solution, seconds = _cpu(solver, problem, tol=1e-3)
                name = f"{'all' if within else 'across'}, C x pairs = {scale:g}, {solver.__name__.rsplit('_')[-1]}"
                figures[name] = {
                    "pairs": pairs.n_pairs,
                    "seconds": seconds,
                    "certified gap": solution.gap,
                    "objective": solution.objective,
                    "iterations": solution.n_iter,
                }
    return figures


def make_table_cell(n=200, d=2000, s=85, seed=0):
    """Data of the shape of one cell of the paper's Table 1: L1-normalized word counts, attribute probabilities."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n // 2)
    quality = y + rng.normal(size=n)
    rate = np.exp(0.5 * rng.normal(size=d) + 0.1 * quality[:, None] * rng.normal(size=d))
    X = rng.poisson(rate).astype(float)
    attributes = 0.5 * quality[:, None] * rng.normal(size=s) + rng.normal(size=(n, s))
    return X / X.sum(axis=1, keepdims=True), y, 1 / (1 + np.exp(-attributes))


def grid():
    """5-fold joint grid 7 x 7 at n = 200, d = 2000 against 49 x 5 separate fits."""
    X, y, privileged = make_table_cell()
    Cs = [10.0**k for k in range(7)]
    RankTransferCV(Cs[:1], PAPER_GRID[:1], cv=2).fit(X, y, privileged=privileged)
    joint, seconds = _cpu(RankTransferCV(Cs, PAPER_GRID).fit, X, y, privileged=privileged)
    refit, refit_seconds = _cpu(RankTransfer(**joint.best_params_).fit, X, y, privileged=privileged)

    def separate():
        scores = np.empty((len(PAPER_GRID), len(Cs), 5))
        for f, (train, test) in enumerate(StratifiedKFold(5).split(X, y)):
            for a, C_privileged in enumerate(PAPER_GRID):
                for b, C in enumerate(Cs):
                    model = RankTransfer(C, C_privileged).fit(X[train], y[train], privileged=privileged[train])
                    scores[a, b, f] = model.score(X[test], y[test])
        return scores.mean(axis=2).ravel()

    scores, separate_seconds = _cpu(separate)
    return {
        "seconds": seconds - refit_seconds,
        "seconds, 245 separate fits": separate_seconds,
        "times faster": separate_seconds / (seconds - refit_seconds),
        "largest difference of a mean score": float(np.abs(scores - joint.cv_results_["mean_test_score"]).max()),
        "best": joint.best_params_,
        "gap of the refit": refit.dual_gap_,
    }


def estimator(n=20_000):
    """Overhead of the estimator over its solver, and the graded, grouped case."""
    X, y, teacher = make_ranking(n, 20, 5)
    group = np.arange(n) // 20
    figures = {}
    for name, keywords in (("graded", {}), ("graded, queries of 20", {"group": group})):
        C = 10.0 / plain_pairs(y, keywords.get("group")).n_pairs
        model, seconds = _cpu(RankSVM(C).fit, X, y, **keywords)
        student, both = _cpu(RankTransfer(C, C).fit, X, y, privileged=teacher[:, None], **keywords)
        figures[name] = {
            "RankSVM seconds": seconds,
            "RankTransfer seconds": both,
            "pairs": model.n_pairs_,
            "gaps": [model.dual_gap_, student.dual_gap_],
        }
    return figures
