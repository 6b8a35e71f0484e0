"""Large problems: SMO on working sets, with kernel rows computed on demand."""

from __future__ import annotations

import numpy as np

from lupi.problems import KernelQP
from lupi.solvers.deadline import out_of_time
from lupi.solvers.kernel.smo import UNLIMITED, state_of
from lupi.solvers.solution import Solution

SMALLEST_SET, LARGEST_SET = 256, 2048


def solve_decomposition(
    problem: KernelQP, *, tol: float = 1e-3, max_iter: int = -1, working_set: int | None = None
) -> Solution:
    """Repeat: take the worst violators of the optimality conditions, solve for them alone, update all gradients.

    Needs ``working_set`` rows of each kernel matrix at a time, whatever n is. Half of a working set is kept for the next
    round, so that examples do not enter and leave in turns.

    Parameters
    ----------
    problem : KernelQP
        With one or two variables per example (``layout``).
    tol : float
        Largest KKT violation allowed.
    max_iter : int
        Largest number of SMO steps in all; -1 for none.
    working_set : int, optional
        Examples in a sub-problem; by default four times as many as the row caches hold, between 256 and 2048. Larger sets
        need far fewer rounds.
    """
    if working_set is None:
        held = [space.source.capacity for space in problem.spaces if space.source is not None]
        working_set = int(np.clip(4 * min(held, default=LARGEST_SET), SMALLEST_SET, LARGEST_SET))
    limit = UNLIMITED if max_iter < 0 else max_iter
    x = problem.start()
    fields = problem.fields(x) if x.any() else [np.zeros(problem.n_examples) for _ in problem.spaces]
    chosen = np.zeros(0, dtype=int)
    steps = 0
    violation = np.inf
    while True:
        margins = problem.margins(x, fields)
        biases, violation = problem.optimal_biases(x, margins)
        if violation < tol or steps >= limit or out_of_time():
            break
        chosen = _working_set(problem, x, margins, biases, chosen, working_set)
        inner_tol = max(0.1 * violation, 0.5 * tol)
        done = _solve_on(problem, x, fields, chosen, inner_tol, min(limit - steps, 200 * working_set))
        if done == 0:
            break
        steps += done
    return Solution.certify(problem, x, steps, violation < tol, "decomposition")


def _working_set(
    problem: KernelQP, x: np.ndarray, margins: np.ndarray, biases: np.ndarray, previous: np.ndarray, size: int
) -> np.ndarray:
    """The examples with the largest violations, and of the previous set those that are between their bounds.

    Variables of one kind that all want to move the same way cannot: the equalities need others to answer. The worst of
    every kind in either direction are therefore always in the set; they attain the violation together.
    """
    gradient = margins - problem.ridge * x - problem.coef.T @ biases
    grow = np.where(x < problem.upper, gradient, -np.inf)
    shrink = np.where(x > problem.lower, -gradient, -np.inf)
    worst = np.zeros(problem.n_examples)
    np.maximum.at(worst, problem.example, np.maximum(grow, shrink))
    lists = [(index, excess[index]) for index in problem.kinds[1] for excess in (grow, shrink)]
    size = min(max(size, 2 * len(lists)), problem.n_examples)
    for index, excess in lists:
        first = np.argsort(-excess, kind="stable")[: max(1, size // (2 * len(lists)))]
        worst[problem.example[index[first[excess[first] > 0]]]] = np.inf
    inside = np.zeros(problem.n_examples, dtype=bool)
    inside[problem.example[(x > problem.lower) & (x < problem.upper)]] = True
    kept = previous[inside[previous]]
    kept = kept[np.argsort(-worst[kept], kind="stable")][: size // 2]
    worst[kept] = -1.0
    new = np.argsort(-worst, kind="stable")[: size - len(kept)]
    return np.sort(np.concatenate([kept, new]))


def _solve_on(problem: KernelQP, x: np.ndarray, fields: list, chosen: np.ndarray, tol: float, limit: int) -> int:
    """Optimize the chosen examples' variables, the others fixed; x and fields are updated in place."""
    state = state_of(problem, x, fields, solver="decomposition")
    rows = [space.rows(chosen) for space in problem.spaces]
    blocks = [np.ascontiguousarray(r[:, chosen]) for r in rows]
    old = problem.expansions(x)
    part = state.part(chosen)
    done, _ = part.run(*state.blocks(problem, blocks, chosen), tol, limit)
    state.put(chosen, part)
    x[:] = state.variables(problem)
    for m, (space, new) in enumerate(zip(problem.spaces, problem.expansions(x))):
        change = (new - old[m])[chosen]
        moved = np.flatnonzero(change)
        fields[m] += space.weight * (change[moved] @ rows[m][moved])
    return done
