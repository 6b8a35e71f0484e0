"""Sequential minimal optimization, on full matrices or on working sets: from a problem to the slots of the compiled loop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, permutations
from typing import Any

import numpy as np

from lupi.solution import Solution, out_of_time, slices
from lupi.svm.kernel_qp import KernelQP
from lupi.svm.smo_loop import (
    BLOCKED,
    LANES,
    MOST_MEMBERS,
    RIDGE,
    SIGN,
    TINY_CURVATURE,
    Slots,
    X,
    smo_loop,
)

# Kernel values in single precision change the conditions by less than a tenth of such a tolerance, and pay from this size.
SINGLE_PRECISION, LARGE = 1e-4, 1000
# Rates in single precision are exact enough while their last digit is below this share of the tolerance.
LAST_DIGIT = 1 / 64
# Steps on a matrix near the kernel aim at this share of the tolerance, and start again from exact fields this often.
ALMOST, MOST_CORRECTIONS = 0.9, 20
# Where a correction leaves more of the violation than this share, the matrix is not near enough.
SLOWEST = 0.5
# Elementary operations of a step per slot.
STEP_OPERATIONS = 2
# Every variable lies in at most two of at most three spaces.
MOST_SPACES = 3
# Examples of a sub-problem: an eighth of all within these limits; their matrices, in single precision, take 16 to 64 MB each.
SMALLEST_SET, LARGEST_SET = 2048, 4096
# Steps of a sub-problem, for each of its examples.
STEPS_FOR_EACH = 200
# The last digits of fields that were updated over and over are not those of the certificate.
UPDATED = 1e-6


def solve_smo(problem: KernelQP, *, tol: float = 1e-3, max_iter: int = -1, start: np.ndarray | None = None) -> Solution:
    """Sequential minimal optimization on the full kernel matrices.

    Stops where the violation of the optimality conditions is below ``tol``; ``start`` is a feasible point.
    """
    limit = step_limit(problem, max_iter)
    state = SMOState.of(problem, problem.start() if start is None else start)
    # Rows of large matrices come from memory: half the bytes take half the time of the many steps that two spaces need.
    single = tol >= SINGLE_PRECISION and problem.n_variables > problem.n_examples >= LARGE
    if not (single or any(space.inexact for space in problem.spaces)):
        n_iter, violation = state.run([space.dense for space in problem.spaces], tol, limit)
        return problem.solution(state.variables(), n_iter, violation < tol, "smo")
    # Steps on a matrix near the kernel lead to the optimum as well, if they start again from the kernel's own fields.
    matrices = [space.rounded for space in problem.spaces]
    n_iter, before = 0, np.inf
    for _ in range(MOST_CORRECTIONS):
        done, _ = state.run(matrices, ALMOST * tol, limit - n_iter)
        n_iter += done
        found = problem.solution(state.variables(), n_iter, False, "smo")
        if found.violation < tol or n_iter >= limit or out_of_time():
            break
        if found.violation > SLOWEST * before:
            matrices = [space.dense for space in problem.spaces]
        before = found.violation
        state = SMOState.of(problem, found.point, list(found.certificate.fields))
    return replace(found, converged=found.violation < tol)


def solve_decomposition(
    problem: KernelQP, *, tol: float = 1e-3, max_iter: int = -1, working_set: int | None = None,
    start: np.ndarray | None = None,
) -> Solution:  # fmt: skip
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
    start = problem.start() if start is None else start
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
    return replace(found, converged=found.violation < tol * (1 + UPDATED))


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


def step_limit(problem: KernelQP, max_iter: int = -1) -> int:
    """Largest number of steps: ``max_iter``, or a built-in limit for -1."""
    return max(300_000, 2000 * problem.n_examples) if max_iter < 0 else max_iter


@dataclass
class SMOState:
    """A point of a problem as the slots of :func:`~lupi.svm.smo_loop.smo_loop`."""

    slots: Slots
    weight: np.ndarray
    # Row and example of every variable of the problem.
    place: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, problem: KernelQP, x: np.ndarray, fields: list[np.ndarray] | None = None) -> SMOState:
        """State at the point x, whose fields may be known."""
        n, n_spaces, biased = problem.n_examples, len(problem.spaces), problem.biased
        place = _occurrence(problem.example), problem.example
        if fields is None and x.any():
            fields = problem.fields(x)
        gradient = problem.p - problem.ridge * x if fields is None else problem.margins(x, fields) - problem.ridge * x
        # Along its kind a variable moves so that the first bias coefficient rises.
        E = problem.coef[biased]
        sign = E[np.argmax(E != 0, axis=0), np.arange(len(x))]
        lower, upper = np.maximum(problem.lower, -BLOCKED), np.minimum(problem.upper, BLOCKED)
        n_alone = int(place[0].max()) + 1
        table = np.zeros((6 + n_spaces, n_alone, n))
        table[(slice(None), *place)] = [sign, x, lower, upper, problem.ridge, gradient * sign, *(problem.coef * sign)]
        box, rate, c = table[:5], table[5], table[6:]
        moved, present = np.array([np.arange(n_alone), np.full(n_alone, -1)]), box[SIGN] != 0
        share = np.zeros((2, n_alone, n))
        share[0] = 1.0
        if n_alone > 1 and not problem.ridge.any():
            moved, share, present = _with_compounds(c, biased, moved, share, present)
            rate = share[0] * rate[moved[0]] + share[1] * rate[moved[1]]
            c = (share[0] * c[:, moved[0]] + share[1] * c[:, moved[1]]) * present
        layer, layers, moves, proves = _layers(c[biased], present, share[1] == 0)
        diagonal = np.einsum("mrt,mrt,mt->rt", c, c, np.array([space.diagonal() for space in problem.spaces]))
        diagonal[:n_alone] += box[RIDGE]
        typical = np.full(len(proves), TINY_CURVATURE)
        used = (diagonal * present).sum(axis=1) / np.maximum(present.sum(axis=1), 1)
        np.maximum.at(typical, layers[1], used[layers[0]])
        inside = np.any(c != 0, axis=2)
        mask = np.full((2, layers.shape[1] + 1, n), -BLOCKED)
        mask[:, -1] = 0.0
        slots = Slots(
            rate=np.vstack([rate, np.zeros(n)]),
            c=c,
            spaces=np.array([np.argmax(inside, axis=0), n_spaces - 1 - np.argmax(inside[::-1], axis=0)]),
            diagonal=diagonal,
            box=box,
            moved=moved,
            share=share,
            layer=layer,
            layers=layers,
            mask=mask,
            moves=moves,
            worth=_worth(moves, proves, typical),
        )
        return cls(slots, np.array([space.weight for space in problem.spaces]), place)

    def part(self, index: np.ndarray) -> SMOState:
        """State of some examples; the place of the variables stays that of all."""
        wide = {
            name: np.ascontiguousarray(value[..., index])
            for name, value in self.slots._asdict().items()
            if name in ("rate", "c", "diagonal", "box", "share", "layer", "mask")
        }
        return SMOState(self.slots._replace(**wide), self.weight, self.place)

    def put(self, index: np.ndarray, part: SMOState) -> None:
        """Take over the variables of some examples."""
        self.slots.box[X, :, index] = part.slots.box[X].T

    def variables(self) -> np.ndarray:
        """The point in the problem's order."""
        return np.asarray(self.slots.box[(X, *self.place)])

    def run(self, matrices: list[np.ndarray], tol: float, limit: int) -> tuple[int, float]:
        """Iterate on these kernel matrices, before their weights; returns the number of steps and the violation."""
        n_rows, n = self.slots.layer.shape
        n_layers = self.slots.layers.shape[1]
        last_digit = float(np.finfo(np.float32).eps) * float(np.max(np.abs(self.slots.rate[:-1])))
        single = last_digit <= LAST_DIGIT * tol and all(matrix.dtype == np.float32 for matrix in matrices)
        real = np.float32 if single else np.float64
        # One compiled loop for any number of spaces.
        K = tuple(
            matrix.astype(real, copy=False) for matrix in matrices + matrices[-1:] * (MOST_SPACES - len(matrices))
        )
        arrays = {
            name: getattr(self.slots, name).astype(real, copy=False) for name in ("rate", "c", "diagonal", "mask")
        }
        slots = self.slots._replace(**arrays)
        most = max(n_layers, MOST_MEMBERS) + 1
        memory = (
            np.empty((2, n_layers + 1, LANES), real),
            np.empty((5, most)),
            np.zeros((6, most), dtype=np.int64),
            np.zeros((len(matrices), MOST_MEMBERS + 1)),
        )
        done, violation = 0, np.inf
        for part in slices(limit, work=STEP_OPERATIONS * n_rows * n):
            steps, violation = smo_loop(K, self.weight, slots, tol, part, *memory, np.ones(n_rows, dtype=bool))
            done += steps
            if steps < part:
                break
        return done, violation


def _occurrence(example: np.ndarray) -> np.ndarray:
    """How many earlier variables belong to the same example."""
    order = np.argsort(example, kind="stable")
    counts = np.bincount(example)
    out = np.empty(len(example), dtype=np.int64)
    out[order] = np.arange(len(example)) - np.repeat(np.cumsum(counts) - counts, counts)
    return out


def _with_compounds(
    c: np.ndarray, biased: np.ndarray, moved: np.ndarray, share: np.ndarray, present: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Add rows of two variables that move together and leave one space alone: they save steps where boxes couple spaces."""
    n_rows, used = len(present), c.any(axis=2)
    inside = np.where(used.sum(axis=0) == 1, used.argmax(axis=0), -1)
    pairs, shares, places = [], [], []
    for a, b in permutations(range(n_rows), 2):
        if inside[b] not in biased:
            continue
        first, second = c[inside[b], a], c[inside[b], b]
        both = (first != 0) & (second != 0)
        follow = -first * second
        columns = c[biased, a] + follow * c[biased, b]
        column = columns[:, both][:, :1]
        if np.count_nonzero(column) != 1 or np.any((columns != column) & both):
            continue
        lead = float(column.sum())
        # Where the partner is missing, a variable of the same kind takes the place of both.
        alone = present[a] & ~both & np.all(c[biased, a] == lead * column, axis=0)
        present[a] &= ~alone
        pairs.append((a, b))
        shares.append((np.full(len(follow), lead), lead * follow))
        places.append(both | alone)
    if not pairs:
        return moved, share, present
    more = np.array(shares).swapaxes(0, 1)
    return np.hstack([moved, np.transpose(pairs)]), np.hstack([share, more]), np.vstack([present, *places])


def _layers(
    c: np.ndarray, present: np.ndarray, alone: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Split the rows by kind: every slot's layer, the layers' rows and kinds, the moves, and the kinds that prove something."""
    powers = 3 ** np.arange(len(c))
    codes = np.tensordot(powers, c + 1.0, 1).astype(int) + 3 ** len(c) * np.arange(len(present))[:, None]
    used = np.flatnonzero(np.bincount(codes[present]))
    layer = np.where(present, np.searchsorted(used, codes), -1)
    row, code = np.divmod(used, 3 ** len(c))
    found = np.flatnonzero(np.bincount(code))
    kind = np.searchsorted(found, code)
    kinds = found[:, None] // powers % 3 - 1.0
    # Slots of one variable prove something by themselves, also those whose partner is missing.
    proves = np.zeros(len(found), dtype=bool)
    proves[kind[np.any(present & alone, axis=1)[row]]] = True
    return layer, np.array([row, kind]), _moves(tuple(map(tuple, kinds.tolist())), tuple(proves.tolist())), proves


def _worth(moves: np.ndarray, proves: np.ndarray, typical: np.ndarray) -> np.ndarray:
    """Factors of the moves' slopes, from the usual curvature along a slot of each kind; see `Slots`."""
    steps = moves[:, len(proves) :].sum(axis=0)
    # Circuits are scored by typical curvatures; the partner of a pair is chosen, so that it gains more than its score.
    circuits = np.array([2.0 / steps.sum(axis=1), 1.0 / (steps**2 @ typical)])
    return np.hstack([[proves, 1.0 / typical], circuits])


@lru_cache
def _moves(kinds: tuple[tuple[float, ...], ...], proves: tuple[bool, ...]) -> np.ndarray:
    """The pair of every kind and the circuits in both directions; see `Slots`."""
    circuits = _circuits(kinds, proves)
    signed = np.vstack([circuits, -circuits])
    return np.array([np.vstack([np.eye(len(kinds)), np.maximum(side * signed, 0.0)]) for side in (1.0, -1.0)])


def _circuits(kinds: tuple[tuple[float, ...], ...], proves: tuple[bool, ...]) -> np.ndarray:
    """Smallest combinations of kinds whose columns cancel; none where pairs of the kinds that prove something suffice."""
    columns, out = np.array(kinds), []
    if np.linalg.matrix_rank(columns[np.array(proves)]) == sum(proves):
        return np.zeros((0, len(columns)))
    for size in range(2, min(columns.shape[1] + 1, MOST_MEMBERS) + 1):
        for chosen in combinations(range(len(columns)), size):
            _, sizes, directions = np.linalg.svd(columns[list(chosen)].T)
            null = directions[int(np.sum(sizes > 1e-9)) :]
            if len(null) == 1 and np.all(np.abs(null) > 1e-9):
                circuit = np.zeros(len(columns))
                circuit[list(chosen)] = np.round(null[0] / np.abs(null[0]).min())
                out.append(circuit)
    return np.array(out).reshape(-1, len(columns))
