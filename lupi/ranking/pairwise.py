"""Ranking problems with margins: objective, gradient, Hessian products and certificates as dominance sums over pairs."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lupi.inputs.types import Array
from lupi.ranking.dominance import BASE, add_laplacian, build_nodes, node_keys, partner_sums, sort_keys


@dataclass(frozen=True)
class PairSet:
    r"""A set of ordered pairs (i, j) with target margins, stored in O(n log L) for n examples of L grades.

    Each element is one example in one role. The target margin of a pair is the difference of two offsets:

    .. math:: m_{ij} = \mathrm{offset}_i - \mathrm{offset}_j ,

    so that :math:`\xi_{ij} = [m_{ij} - (s_i - s_j)]_+ = [\mathrm{key}_i - \mathrm{key}_j]_+` with
    :math:`\mathrm{key} = \mathrm{offset} - s`.

    Attributes
    ----------
    element : int64 array of shape (m,)
        Example of each element.
    winner : bool array of shape (m,)
        Role of each element.
    offset : float64 array of shape (m,)
    node_ptr : int64 array
        Bounds of the nodes; see :mod:`lupi.ranking.dominance`.
    n_examples : int
    """

    element: Array
    winner: Array
    offset: Array
    node_ptr: Array
    n_examples: int

    @cached_property
    def node_of(self) -> Array:
        """Node of each element."""
        return np.repeat(np.arange(len(self.node_ptr) - 1, dtype=np.int32), np.diff(self.node_ptr))

    @cached_property
    def losers_before(self) -> Array:
        """Number of losers before each element in its node."""
        before: Array = np.cumsum(~self.winner) - ~self.winner
        return before - before[self.node_ptr[:-1]][self.node_of]

    @cached_property
    def n_pairs(self) -> int:
        """Number of pairs of the set."""
        return int(self.losers_before[self.winner].sum())

    @cached_property
    def complete(self) -> Array:
        """Nodes in which every loser comes before every winner."""
        turns = self.winner[:-1] & ~self.winner[1:] & (self.node_of[:-1] == self.node_of[1:])
        return np.asarray(np.bincount(self.node_of[:-1], turns, len(self.node_ptr) - 1) == 0)

    @cached_property
    def n_levels(self) -> int:
        """Levels of merging in the largest node that is not complete."""
        largest = int(np.diff(self.node_ptr)[~self.complete].max(initial=1))
        return max(0, int(np.ceil(np.log2(largest / BASE))))

    @cached_property
    def written_down(self) -> tuple[Array, Array, Array]:
        """Winner, loser and margin of every pair; for few pairs only."""
        winners, losers = np.flatnonzero(self.winner), np.flatnonzero(~self.winner)
        count = self.losers_before[winners]
        above = np.repeat(winners, count)
        # The losers of a winner are the last ones before it.
        last = np.repeat(np.searchsorted(losers, winners) - np.cumsum(count), count)
        below = losers[last + np.arange(len(above))]
        return self.element[above], self.element[below], self.offset[above] - self.offset[below]

    @cached_property
    def nodes(self) -> tuple[Array, ...]:
        """Roles, bounds of the nodes, node of each element, and whether each node is complete."""
        return self.winner, self.node_ptr, self.node_of, self.complete

    def keys(self, scores: Array) -> Array:
        """``offset - scores`` of each element, centered in each node, on a grid that makes sums exact."""
        return node_keys(self.offset, scores, self.element, self.node_ptr)

    def active(self, key: Array) -> "ActivePairs":
        """Select the pairs with key_i > key_j."""
        return ActivePairs(self, key, sort_keys(np.argsort(key), key, self.nodes, self.n_levels))


@dataclass(frozen=True)
class ActivePairs:
    """Pairs with a positive slack at one point: a graph on the elements, represented by a merge tree."""

    pairs: PairSet
    key: Array
    tree: tuple[Array, Array, Array]

    def partner_sums(self, value: Array) -> Array:
        """Sum of ``value`` over the active partners of each element."""
        return partner_sums(self.tree, self.key, value, self.pairs.nodes)

    @cached_property
    def degree(self) -> Array:
        """Number of active partners of each element."""
        return self.partner_sums(np.ones_like(self.key))

    def laplacian(self, value: Array) -> Array:
        """Product of the graph's Laplacian with ``value``."""
        return self.degree * value - self.partner_sums(value)


def _nodes(block: Array, wins: Array, loses: Array, t: Array | None = None, tau: float = -1.0) -> tuple[Array, ...]:
    """One node for each block, of its pairs with t_i - t_j > tau; without `t`, of all its pairs, with margin 1."""
    scores = np.zeros(len(block)) if t is None else t
    order = np.lexsort((scores, block))
    block_ptr = np.append(np.flatnonzero(np.diff(block[order], prepend=-1)), len(order))
    element, winner, node_ptr = build_nodes(order, block_ptr, scores, tau, wins, loses)
    return element, winner, winner.astype(float) if t is None else t[element], node_ptr


def _nodes_across(grade: Array, group: Array, wins: Array, loses: Array, *margins: Any) -> Iterator[tuple[Array, ...]]:
    """Nodes of the pairs of one group with y_j < y_i, of n log2(L) elements for L grades.

    The grades are the leaves of a binary tree, which has the pairs whose highest different bit is k on level k.
    """
    for k in range(int(grade.max()).bit_length()):
        higher = (grade >> k) % 2 == 1
        block = group * (grade.max() + 1) + (grade >> (k + 1))
        yield _nodes(block, wins & higher, loses & ~higher, *margins)


def plain_pairs(y: Array, group: Array | None = None) -> PairSet:
    """Every pair with y_i > y_j of one group, margin 1: Sharmanska et al. (2013) eq. 7."""
    return transfer_pairs(y, np.full(len(y), np.nan), tau=0.0, within=False, group=group)


def transfer_pairs(y: Array, teacher: Array, *, tau: float, within: bool, group: Array | None = None) -> PairSet:
    """Pairs with margins ``teacher[i] - teacher[j] > tau`` and y_i > y_j (>= if `within`): Sharmanska et al. (2013) eq. 9.

    Pairs with an example whose teacher score is NaN need y_i > y_j and have margin 1. Unlabeled examples (y is NaN) are paired
    with each other in the teacher's order.
    """
    grade = np.unique(y, return_inverse=True)[1]
    group = np.zeros(len(y), np.int64) if group is None else np.unique(group, return_inverse=True)[1]
    labeled, scored = ~np.isnan(y), ~np.isnan(teacher)
    t, taught, plain = np.where(scored, teacher, 0.0), scored & labeled, ~scored & labeled
    nodes: list[tuple[Array, ...]] = []
    if taught.any():
        nodes += _nodes_across(grade, group, taught, taught, t, tau)
    if plain.any():
        nodes += _nodes_across(grade, group, plain, labeled)
    if plain.any() and taught.any():
        nodes += _nodes_across(grade, group, taught, plain)
    if within:
        nodes.append(_nodes(group * len(y) + grade, taught, taught, t, tau))
    if not labeled.all():
        nodes.append(_nodes(group, scored & ~labeled, scored & ~labeled, t, tau))
    element, winner, offset, node_ptr = (list(parts) for parts in zip(*nodes))
    ends = np.cumsum([0, *map(len, element)])
    bounds = [[0], *(ptr[1:] + end for ptr, end in zip(node_ptr, ends))]
    return PairSet(
        np.concatenate(element), np.concatenate(winner), np.concatenate(offset), np.concatenate(bounds), len(y)
    )


@dataclass(frozen=True)
class RankingProblem:
    r"""Linear ranking with margins.

    .. math:: \min_w \; P(w) = \tfrac12 \|w\|^2 + C \sum_{(i, j)} \ell(\xi_{ij}), \qquad
              \xi_{ij} = [m_{ij} - w \cdot (x_i - x_j)]_+ ,

    with :math:`\ell(\xi) = \xi^2` (squared hinge) or :math:`\ell(\xi) = \xi` (hinge). Its dual is

    .. math:: \max_{\alpha \ge 0} \; D(\alpha) = \sum m_{ij} \alpha_{ij}
              - \tfrac12 \Bigl\| \sum \alpha_{ij} (x_i - x_j) \Bigr\|^2 - C \sum \ell^*(\alpha_{ij} / C) ,

    where :math:`\ell^*(a) = a^2/4` for the squared hinge, and 0 with :math:`\alpha_{ij} \le C` for the hinge.

    Attributes
    ----------
    X : array, sparse matrix or DaskRows of shape (n, d)
    pairs : PairSet
    C : float
        Weight of a pair's loss.
    loss : {"squared_hinge", "hinge"}
    width : float
        Smooths the hinge: a parabola on [0, width], the difference of two squared hinges, replaces the kink. A power of two
        keeps the keys on their grid. The certificate is that of the hinge itself.
    """

    X: Any
    pairs: PairSet
    C: float
    loss: str
    width: float = 0.0

    @property
    def terms(self) -> list[tuple[float, float]]:
        """The loss as a sum of ``factor * [xi - shift]_+ ** 2``."""
        if self.loss == "squared_hinge":
            return [(self.C, 0.0)]
        return [(self.C / (2 * self.width), 0.0), (-self.C / (2 * self.width), self.width)]

    def at(self, w: Array) -> "RankingPoint":
        """The problem evaluated at w, with one sort of the keys."""
        key = self.pairs.keys(np.asarray(self.X @ w))
        winner = self.pairs.winner
        parts, slope, loss = [], np.zeros_like(key), 0.0
        for factor, shift in self.terms:
            active = self.pairs.active(key - shift * winner if shift else key)
            flow = active.laplacian(active.key)
            parts.append((factor, active, flow))
            loss += factor * float(active.key @ flow)
            slope += 2 * factor * flow
        pulled = self.pull(slope)
        return RankingPoint(self, w, parts, 0.5 * float(w @ w) + loss, slope, pulled, w - pulled)

    def pull(self, slope: Array) -> Array:
        """Weight vector of the dual, the sum over pairs of alpha_ij (x_i - x_j), from the gradient by the keys."""
        return np.asarray(self.X.T @ np.bincount(self.pairs.element, slope, self.pairs.n_examples))


@dataclass(frozen=True)
class RankingPoint:
    """A :class:`RankingProblem` evaluated at w.

    Attributes
    ----------
    value : float
        Objective, smoothed if the loss is the hinge.
    slope : array of shape (m,)
        Derivative of the loss by the keys: the signed sum of alpha_ij for each element.
    pulled : array of shape (d,)
        Weight vector of the dual point alpha_ij = C l'(xi_ij); the gradient is ``w - pulled``.
    """

    problem: RankingProblem
    w: Array
    parts: list[tuple[float, ActivePairs, Array]]
    value: float
    slope: Array
    pulled: Array
    gradient: Array

    def hessian_product(self, v: Array) -> Array:
        """Product of the (generalized) Hessian with v."""
        problem = self.problem
        u = np.asarray(problem.X @ v)
        u = (u - u[0])[problem.pairs.element]  # only differences count
        flow = np.zeros_like(u)
        for factor, active, _ in self.parts:
            flow += 2 * factor * active.laplacian(u)
        return v + problem.pull(flow)

    def hessian(self) -> Array:
        """The Hessian; for few pairs of rows in memory only."""
        pairs, X = self.problem.pairs, self.problem.X
        laplacian = np.zeros((pairs.n_examples, pairs.n_examples))
        for factor, active, _ in self.parts:
            add_laplacian(laplacian, 2 * factor, active.key, pairs.element, pairs.winner, pairs.node_ptr)
        return np.asarray(np.eye(X.shape[1]) + X.T @ (laplacian @ X))

    @cached_property
    def noise(self) -> float:
        """Rounding error to expect in ``value`` and in the dual's value."""
        eps, n_keys = float(np.finfo(float).eps), len(self.slope)
        cancelled = sum(abs(factor) * float(abs(active.key) @ abs(flow)) for factor, active, flow in self.parts)
        grid = eps * n_keys * float(abs(self.parts[0][1].key).max(initial=0.0))
        return 4 * eps * (abs(self.value) + cancelled) + grid * float(abs(self.slope).sum())

    @cached_property
    def objective(self) -> float:
        """P(w) of the problem's loss, without smoothing."""
        if self.problem.loss == "squared_hinge":
            return self.value
        active = self.parts[0][1]
        signed = np.where(self.problem.pairs.winner, active.degree, -active.degree)
        return 0.5 * float(self.w @ self.w) + self.problem.C * float(signed @ active.key)

    @cached_property
    def lower_bound(self) -> float:
        """D(alpha) <= min P at the dual point of w, less its rounding error; P - |gradient|^2 / 2 for the squared hinge."""
        if self.problem.loss == "squared_hinge":
            return self.value - 0.5 * float(self.gradient @ self.gradient) - self.noise
        bound = float(self.slope @ self.problem.pairs.offset) - 0.5 * float(self.pulled @ self.pulled)
        return bound - self.noise
