"""Large problems: SMO on working sets, with kernel rows computed on demand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lupi.solution import Solution, out_of_time
from lupi.svm.kernel_qp import KernelQP
from lupi.svm.smo import ALMOST, SINGLE_PRECISION, SMOState, step_limit

# Examples of a sub-problem: an eighth of all within these limits; their matrices, in single precision, take 16 to 64 MB each.
SMALLEST_SET, LARGEST_SET = 2048, 4096
# Steps of a sub-problem, for each of its examples.
STEPS_FOR_EACH = 200
ROUNDING = 1e-6


def solve_decomposition(
    problem: KernelQP, *, tol: float = 1e-3, max_iter: int = -1, working_set: int | None = None
) -> Solution:
    """Repeat: take the worst violators of the optimality conditions, solve for them alone, update all gradients.

    Holds the ``working_set`` squared values of each kernel at a time, whatever n is. Half of a working set is kept for the
    next round, so that examples do not enter and leave in turns. Kernel values are in single precision where ``tol``
    allows, sums in double precision; the certificate is in double precision throughout, and where it finds more than
    ``tol``, further rounds in double precision follow.

    ``working_set`` is the number of examples of a sub-problem. Larger sets need far fewer rounds, which take longer.
    """
    if working_set is None:
        working_set = int(np.clip(problem.n_examples // 8, SMALLEST_SET, LARGEST_SET))
    limit = step_limit(problem, max_iter)
    start = problem.start()
    fields = problem.fields(start) if start.any() else [np.zeros(problem.n_examples) for _ in problem.spaces]
    before = 0
    if tol >= SINGLE_PRECISION:
        x, before = _rounds(problem, start, fields, ALMOST * tol, limit, working_set, single=True)
        found = problem.solution(x, before, False, "decomposition")
        if found.violation < tol or before >= limit or out_of_time():
            return replace(found, converged=found.violation < tol)
        start, fields = x, list(found.certificate.fields)
    x, steps = _rounds(problem, start, fields, tol, limit - before, working_set, single=False)
    found = problem.solution(x, before + steps, False, "decomposition")
    # The last digits of the fields, updated over and over, are not those of the certificate.
    return replace(found, converged=found.violation < tol * (1 + ROUNDING))


def _rounds(
    problem: KernelQP, x: np.ndarray, fields: list[Any], tol: float, limit: int, size: int, single: bool
) -> tuple[np.ndarray, int]:
    """The point after as many rounds as it takes, and the number of steps."""
    blocks = [space.blocks(single) for space in problem.spaces]
    chosen = np.zeros(0, dtype=int)
    x = x.copy()
    steps = 0
    while True:
        margins = problem.margins(x, fields)
        biases, violation = problem.optimal_biases(x, margins)
        if violation < tol or steps >= limit or out_of_time():
            break
        chosen = _working_set(problem, x, margins, biases, chosen, size)
        inner_tol = max(0.1 * violation, 0.5 * tol)
        done = _solve_on(problem, blocks, x, fields, chosen, inner_tol, min(limit - steps, STEPS_FOR_EACH * size))
        if done == 0:
            break
        steps += done
    return x, steps


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


def _solve_on(
    problem: KernelQP, blocks: list[Any], x: np.ndarray, fields: list[Any], chosen: np.ndarray, tol: float, limit: int
) -> int:
    """Optimize the chosen examples' variables, the others fixed; x and fields are updated in place."""
    state = SMOState.of(problem, x, fields)
    old = problem.expansions(x)
    part = state.part(chosen)
    done, _ = part.run([block.among(chosen) for block in blocks], tol, limit)
    state.put(chosen, part)
    x[:] = state.variables()
    for m, (space, new) in enumerate(zip(problem.spaces, problem.expansions(x))):
        change = space.weight * (new - old[m])[chosen]
        moved = np.flatnonzero(change)
        blocks[m].add_product(fields[m], chosen[moved], change[moved])
    return int(done)
