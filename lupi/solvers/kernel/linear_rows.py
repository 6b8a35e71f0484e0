"""Many examples: most of them are far from a kink, and enter as one vector. Exact, because all of them are checked."""

from __future__ import annotations

import numpy as np

from lupi.problems.kernel.linear import LinearPoint, LinearPrimal
from lupi.solvers.kernel.linear_interior import interior_point
from lupi.solvers.kernel.linear_newton import newton
from lupi.solvers.kernel.linear_systems import wide

# A sample is solved first where there are more examples than this, and more than this many for each weight.
FEW_EXAMPLES = 4000
FEW_FOR_EACH_WEIGHT = 30
# The sample's share, and the gap to which it is solved: its weights are uncertain by more than that.
SAMPLE = 1 / 8
SAMPLE_GAP = 1e-3
# Examples closer to a kink than this many standard errors of the sample's values are worked on.
ERRORS = 3.0
MOST_ROUNDS = 30
MOST_NEWTON_STEPS = 25
MOST_UNDECIDED = 0.25


def solve_linear(problem: LinearPrimal, *, tol: float = 1e-3, max_iter: int = -1, verbose=False) -> LinearPoint:
    """Solve to a relative duality gap: squared hinges by Newton's method, others by the interior point on few rows.

    Parameters
    ----------
    problem : LinearPrimal
    tol : float
        Relative duality gap.
    max_iter : int
        Largest number of steps of a solver's run; -1 for its own limit.

    Returns
    -------
    LinearPoint
    """
    limit = {} if max_iter < 0 else {"max_iter": max_iter}
    large = problem.n_examples > max(FEW_EXAMPLES, FEW_FOR_EACH_WEIGHT * problem.n_weights)
    if not large:
        return _whole(problem, tol, limit)
    sample = _sample(problem)
    first = solve_linear(sample, tol=max(tol, SAMPLE_GAP), max_iter=max_iter)
    if problem.smooth:
        return _whole(problem, tol, limit, start=first.theta)
    # Where most examples sit at a kink (a correcting function that is 0 everywhere), no part of them says much.
    if _undecided(sample, first.x) > MOST_UNDECIDED:
        return interior_point(problem, tol=tol, **limit)
    return _rounds(problem, first, ERRORS * np.sqrt(problem.n_weights / sample.n_examples), tol, limit, verbose)


def _whole(problem: LinearPrimal, tol: float, limit: dict, start: np.ndarray | None = None) -> LinearPoint:
    """All examples at once."""
    if not problem.smooth:
        return interior_point(problem, tol=tol, **limit)
    if wide(problem):
        return newton(problem, tol=tol, start=start, **limit)
    # Almost separable examples at a high price change sides at every step; the interior point does not see that.
    found = newton(problem, tol=tol, start=start, **{"max_iter": MOST_NEWTON_STEPS} | limit)
    return found if found.converged or limit else interior_point(problem, tol=tol)


def _sample(problem: LinearPrimal) -> LinearPrimal:
    """Every eighth example, as it were: random, so that the order of the rows does not matter, and always the same."""
    n = problem.n_examples
    size = int(SAMPLE * n)
    index = np.sort(np.random.default_rng(0).choice(n, size, replace=False))
    return problem.rows(index, weight=n / size)


def _rounds(problem: LinearPrimal, first: LinearPoint, errors: float, tol: float, limit: dict, verbose) -> LinearPoint:
    """Solve for the examples near a kink with the others fixed, look at all, and add those that were fixed wrongly."""
    n = problem.n_examples
    f, g = problem.fields(first.theta)
    distance = _distance(problem, f, g)
    inside = np.zeros(n, dtype=bool)
    wanted = distance <= errors
    steps = first.n_iter
    best: LinearPoint | None = None
    for _ in range(MOST_ROUNDS):
        if np.count_nonzero(wanted) > n // 4:
            wanted = _nearest(distance, n // 4)
        inside |= wanted
        if np.count_nonzero(inside) > n // 2:
            break
        x = _fixed(problem, f, g)
        x[:, inside] = 0.0
        index = np.flatnonzero(inside)
        part = problem.rows(index, outside=problem.adjoint(*problem.coefficients(x)), gained=float(x[0].sum()))
        solved = interior_point(part, tol=0.5 * tol, **limit)
        steps += solved.n_iter
        x[:, index] = solved.x
        f, g = problem.fields(solved.theta)
        theta, f_feasible, g_feasible = problem.feasible(solved.theta, f, g)
        point = LinearPoint(theta, x, problem.value(theta, f_feasible, g_feasible), solved.lower_bound, steps)
        if best is None or point.gap < best.gap:
            best = point
        wrong = _wrong(problem, x, f, g) & ~inside
        if verbose: print("rows", len(index), "it", solved.n_iter, "sub gap", solved.gap, "P", point.objective, "D", point.lower_bound, "gap", point.gap, "wrong", wrong.sum())
        if best.gap <= tol:
            return best.finish(problem, steps, tol)
        distance = _distance(problem, f, g)
        distance[inside] = np.inf
        if not solved.converged:
            wanted = _nearest(distance, np.count_nonzero(inside))
        else:
            errors *= 0.3
            wanted = wrong | (distance <= errors)
    last = interior_point(problem, tol=tol, **limit)
    return last if best is None or last.gap < best.gap else best.finish(problem, steps, tol)


def _undecided(problem: LinearPrimal, x: np.ndarray) -> float:
    """Share of the examples whose variables are inside their intervals: far more than weights where a function is flat."""
    inside = x[0] > 0.1 * problem.price
    inside &= x[0] < 0.9 * problem.tables[1]
    shares = [np.mean(inside & (problem.tables[0] == 0))]
    if len(x) == 2:
        low, high = problem.tables[2:]
        with np.errstate(invalid="ignore"):
            shares.append(np.mean((x[1] < 0.9 * high) & ((x[1] > 0.1 * high) | np.isinf(low))))
    return float(max(shares))


def _slacks(problem: LinearPrimal, f: np.ndarray, g: np.ndarray) -> list[np.ndarray]:
    own = problem.s * g
    return [1.0 - problem.y * f - own, own][: problem.n_kinds]


def _distance(problem: LinearPrimal, f: np.ndarray, g: np.ndarray) -> np.ndarray:
    """How far each example is from where one of its variables would change, in standard deviations of its kind.

    Negative where a constraint is missed.
    """
    slacks = _slacks(problem, f, g)
    hard = np.isinf(problem.tables[1]) & (problem.tables[0] == 0)
    # A squared hinge is not constant while it is paid: its examples always count.
    smooth = problem.tables[0] > 0
    out = np.where(hard | smooth, -slacks[0], np.abs(slacks[0])) / (np.std(slacks[0]) + 1e-300)
    if len(slacks) == 2:
        own = np.where(np.isinf(problem.tables[2]), slacks[1], np.abs(slacks[1])) / (np.std(slacks[1]) + 1e-300)
        out = np.where(problem.tables[3] > problem.tables[2], np.minimum(out, own), out)
    return out


def _fixed(problem: LinearPrimal, f: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Variables at the ends of their intervals that the slacks ask for; 0 or C where there is no such end."""
    slacks = _slacks(problem, f, g)
    x = np.zeros((problem.n_kinds, problem.n_examples))
    upper = problem.tables[1]
    x[0] = np.where((slacks[0] > 0) & np.isfinite(upper), upper, 0.0)
    if len(slacks) == 2:
        low, high = problem.tables[2:]
        x[1] = np.where((slacks[1] > 0) | np.isinf(low), high, low)
    return x


def _wrong(problem: LinearPrimal, x: np.ndarray, f: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Examples whose fixed variables would rather move."""
    slacks = _slacks(problem, f, g)
    upper = problem.tables[1]
    out = ((slacks[0] > 0) & (x[0] < upper)) | ((slacks[0] < 0) & (x[0] > 0))
    if len(slacks) == 2:
        low, high = problem.tables[2:]
        out |= ((slacks[1] > 0) & (x[1] < high)) | ((slacks[1] < 0) & (x[1] > low))
    return out


def _nearest(distance: np.ndarray, size: int) -> np.ndarray:
    """Mark the examples with the smallest distances."""
    out = np.zeros(len(distance), dtype=bool)
    out[np.argpartition(distance, min(size, len(distance) - 1))[:size]] = True
    return out
