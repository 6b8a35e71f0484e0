"""RankSVM and Rank Transfer beside explicit pairs."""

from __future__ import annotations

import warnings
from time import process_time

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from benchmarks.measure import Row, case, peak_bytes, reset_peak, resident_bytes
from benchmarks.ranking_pairs import explicit_pairs, pair_objective, solve_liblinear, solve_qp
from lupi import RankTransfer, RankTransferCV
from lupi.ranking.pairwise import RankingProblem, plain_pairs, transfer_pairs
from lupi.ranking.rank_transfer import PAPER_GRID
from lupi.ranking.solvers import solve_ranking_newton


def make_ranking(n, d=50, grades=2, seed=0):
    """Features, grades, and scores of a teacher that knows more than the features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    quality = X @ (rng.normal(size=d) / np.sqrt(d)) + rng.normal(size=n)
    y = np.digitize(quality, np.quantile(quality, np.arange(1, grades) / grades))
    return X, y, quality + 0.3 * rng.normal(size=n)


def _cpu(function, *args, **kwargs):
    start = process_time()
    result = function(*args, **kwargs)
    return result, process_time() - start


def _compile():
    X, y, teacher = make_ranking(300, 5, 3)
    for loss in ("squared_hinge", "hinge"):
        solve_ranking_newton(RankingProblem(X, transfer_pairs(y, teacher, tau=0.1, within=True), 1e-3, loss))


@case("ranking-exact", "Ranking objectives and weights against a QP over explicit pairs (PIQP), n <= 300")
def exact(quick):
    worst_objective = worst_weights = settings = 0
    shapes = ((100, 2, None, False), (150, 4, None, True), (300, 3, 20, True), (300, 3, 20, False))
    for n, grades, n_groups, ties in shapes[: 1 if quick else 4]:
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
                ours = solve_ranking_newton(RankingProblem(X, pairs, C, loss), tol=1e-7).point
                worst_objective = max(worst_objective, abs(pair_objective(ours, X, *listed, C, loss) / optimum - 1))
                worst_weights = max(worst_weights, np.linalg.norm(ours - reference) / np.linalg.norm(reference))
                settings += 1
    note = f"weights differ by at most {worst_weights:.1e}"
    return [Row(f"{settings} settings", None, "PIQP", difference=worst_objective, target="1e-4, 1e-3", note=note)]


@case("ranking-liblinear", "Rank Transfer, n = 1200, d = 50, beside explicit pairs + LIBLINEAR at equal objective")
def liblinear(quick):
    _compile()
    X, y, teacher = make_ranking(150 if quick else 1200)
    rows = []
    for within, loss in ((True, "squared_hinge"), (False, "squared_hinge"), (True, "hinge")):
        listed, enumeration = _cpu(explicit_pairs, y, teacher, tau=0.1, within=within)
        C = 10.0 / len(listed[0])

        def ours():
            pairs = transfer_pairs(y, teacher, tau=0.1, within=within)
            return solve_ranking_newton(RankingProblem(X, pairs, C, loss), tol=1e-5)

        solution, seconds = _cpu(ours)
        best = None, None
        # LIBLINEAR at the loosest tolerance that reaches our objective to 1e-4.
        for dual in (True, False) if loss == "squared_hinge" else (True,):
            for tol in (1e-1, 1e-2, 1e-3, 1e-4):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    w, taken = _cpu(solve_liblinear, X, *listed, C, loss, tol=tol, dual=dual, max_iter=2000)
                difference = solution.objective / pair_objective(w, X, *listed, C, loss) - 1
                if difference >= -1e-4:
                    best = min(best, (taken + enumeration, difference), key=lambda found: found[0] or np.inf)
                    break
        name = f"{'all' if within else 'across'}, {loss}, {len(listed[0]):,} pairs"
        rows.append(Row(name, seconds, "pairs + LIBLINEAR", *best, solution.gap, ">= 20x"))
    return rows


@case("ranking-million", "Rank Transfer, squared hinge, up to n = 1,000,000, d = 50")
def million(quick):
    _compile()
    rows = []
    for pairs in ("across", "all"):
        before = np.nan
        for n in (2000, 8000) if quick else (250_000, 1_000_000):
            X, y, teacher = make_ranking(n)
            memory = resident_bytes()
            reset_peak()
            start = process_time()
            admitted = transfer_pairs(y, teacher, tau=0.1, within=pairs == "all")
            problem = RankingProblem(X, admitted, 10.0 / admitted.n_pairs, "squared_hinge")
            solution = solve_ranking_newton(problem, tol=1e-6)
            seconds = process_time() - start
            beyond = max(0, peak_bytes() - memory) / 1e9
            note = f"{admitted.n_pairs:.3g} pairs, {beyond:.2f} GB beyond the data; growth {seconds / before:.2f}x"
            rows.append(Row(f"{pairs}, n={n}", seconds, gap=solution.gap, target="< 3 GB, growth < 6x", note=note))
            before = seconds
    return rows


@case("ranking-hinge", "Rank Transfer, hinge, n = 100,000, certified gap 1e-3")
def hinge(quick):
    _compile()
    X, y, teacher = make_ranking(2000 if quick else 100_000)
    rows = []
    for within in (False, True):
        pairs = transfer_pairs(y, teacher, tau=0.1, within=within)
        for scale in (10.0, 1e4):
            problem = RankingProblem(X, pairs, scale / pairs.n_pairs, "hinge")
            solution, seconds = _cpu(solve_ranking_newton, problem, tol=1e-3)
            name = f"{'all' if within else 'across'}, C x pairs = {scale:g}"
            rows.append(Row(name, seconds, gap=solution.gap, target="gap <= 1e-3"))
    return rows


def make_table_cell(n=200, d=2000, s=85, seed=0):
    """Data like one cell of Sharmanska's Table 1: L1-normalized word counts, attribute probabilities."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n // 2)
    quality = y + rng.normal(size=n)
    rate = np.exp(0.5 * rng.normal(size=d) + 0.1 * quality[:, None] * rng.normal(size=d))
    X = rng.poisson(rate).astype(float)
    attributes = 0.5 * quality[:, None] * rng.normal(size=s) + rng.normal(size=(n, s))
    return X / X.sum(axis=1, keepdims=True), y, 1 / (1 + np.exp(-attributes))


@case("ranking-grid", "RankTransferCV: joint 7 x 7 grid, 5 folds, n = 200, d = 2000, beside 245 separate fits")
def grid(quick):
    X, y, Z = make_table_cell(60, 50, 10) if quick else make_table_cell()
    Cs = [10.0**k for k in range(2 if quick else 7)]
    RankTransferCV(Cs[:1], PAPER_GRID[:1], cv=2).fit(X, y, privileged=Z)
    joint, seconds = _cpu(RankTransferCV(Cs, PAPER_GRID).fit, X, y, privileged=Z)
    refit, refit_seconds = _cpu(RankTransfer(**joint.best_params_).fit, X, y, privileged=Z)
    start, scores = process_time(), np.empty((len(PAPER_GRID), len(Cs), 5))
    for f, (train, test) in enumerate(StratifiedKFold(5).split(X, y)):
        for a, C_privileged in enumerate(PAPER_GRID):
            for b, C in enumerate(Cs):
                model = RankTransfer(C, C_privileged).fit(X[train], y[train], privileged=Z[train])
                scores[a, b, f] = model.score(X[test], y[test])
    separate = process_time() - start
    apart = np.abs(scores.mean(axis=2).ravel() - joint.cv_results_["mean_test_score"]).max()
    note, gap = f"mean scores differ by at most {apart:.1e}", refit.dual_gap_
    return [Row("RankTransferCV", seconds - refit_seconds, "separate fits", separate, None, gap, ">= 5x", note)]
