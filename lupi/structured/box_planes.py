"""Most violated planes of box localization without Python between the searches: all images of a space as flat arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit

from lupi.structured.planes import PlaneStore, take_plane
from lupi.structured.progress import Slices
from lupi.vision.loss_bounds import edges_overlap
from lupi.vision.placement import N_PLACEMENT, placement
from lupi.vision.subwindow import search_points


class PackedBoxes(NamedTuple):
    """Images of one space, image i from ``start[i]`` to ``start[i + 1]``, with their true boxes and joint features."""

    rows: np.ndarray
    cols: np.ndarray
    words: np.ndarray
    start: np.ndarray
    shapes: np.ndarray
    boxes: np.ndarray
    features: np.ndarray
    scale: float
    geometry_scale: float
    n_words: int
    grid_step: int
    max_nodes: int


def packed_boxes(task, X, Y, features) -> PackedBoxes:
    """The images of a :class:`~lupi.structured.BoxLocalization`, their boxes and the joint features of these."""
    return PackedBoxes(
        *(np.concatenate([getattr(x, name) for x in X]) for name in ("rows", "cols", "words")),
        np.cumsum([0, *map(len, X)]),
        np.array([x.shape for x in X]),
        np.array([tuple(map(float, y)) for y in Y]),
        np.ascontiguousarray(features),
        task.scale,
        task.geometry_scale if task.geometry else 0.0,
        task.n_words,
        task.grid_step,
        task.max_nodes,
    )


@njit(cache=True, nogil=True)
def _search(space, i, w, loss_weights):
    """Best box of image i for each loss weight: boxes, losses, scores."""
    a, b = space.start[i], space.start[i + 1]
    gt = space.boxes[i]
    places = np.zeros(N_PLACEMENT)
    if w.shape[0] > space.n_words:
        places[:] = space.geometry_scale * w[space.n_words :]
    boxes, values, _, _ = search_points(
        space.rows[a:b],
        space.cols[a:b],
        space.words[a:b],
        space.scale * w[: space.n_words],
        places,
        space.shapes[i, 0],
        space.shapes[i, 1],
        space.grid_step,
        gt,
        loss_weights,
        0,
        space.max_nodes,
    )
    losses = np.empty(len(values))
    for k in range(len(values)):
        y = boxes[k]
        losses[k] = 1.0 - edges_overlap(y[0], y[1], y[2], y[3], gt[0], gt[1], gt[2], gt[3])
    return boxes, losses, values - loss_weights * losses


@njit(cache=True, nogil=True)
def _difference(space, i, box, out):
    """Feature of the true box minus that of another one."""
    out[:] = space.features[i]
    for k in range(space.start[i], space.start[i + 1]):
        if box[0] <= space.rows[k] < box[2] and box[1] <= space.cols[k] < box[3]:
            out[space.words[k]] -= space.scale
    if out.shape[0] > space.n_words:
        h, w = space.shapes[i]
        out[space.n_words :] -= space.geometry_scale * placement(box[0], box[1], box[2], box[3], h, w)


@njit(cache=True, nogil=True)
def plane(space, i, w, psi):
    """The most violated plane of a structural SVM: fills psi, returns the loss."""
    boxes, losses, _ = _search(space, i, w, np.ones(1))
    _difference(space, i, boxes[0], psi)
    if losses[0] - np.dot(psi, w) <= 0.0:
        psi[:] = 0.0
        return 0.0
    return losses[0]


@njit(cache=True, nogil=True)
def first_branch(space, star, i, v, root, rho):
    """Whether the joint maximum of image i has a larger loss in the decision space than in the other one."""
    d = space.features.shape[1]
    _, la, sa = _search(space, i, v[:d], np.array([1.0, 0.0]))
    _, lb, sb = _search(star, i, v[d:] / root, np.array([1.0 / rho - 1.0, 1.0 / rho]))
    k = _best_pair(la, sa, lb, sb, rho)
    return la[k] > lb[k]


@njit(cache=True, nogil=True)
def _best_pair(la, sa, lb, sb, rho):
    """The better one of the two pairs of candidates that can be the joint maximum."""
    return int(_value(la[1], sa[1], lb[1], sb[1], rho) > _value(la[0], sa[0], lb[0], sb[0], rho))


@njit(cache=True, nogil=True)
def _value(loss, score, loss_star, score_star, rho):
    """What joint inference maximizes: eq. 7 and the two scores."""
    return loss_star / rho + max(loss - loss_star, 0.0) + score + score_star


@njit(cache=True, nogil=True)
def _alternated(true_score, la, sa, lb, sb, rho):
    """Where the paper's alternation ends, from the true box: which of the two candidates of each space.

    The best box of a space, the other one given, is one of these two whatever the other one is: rounds need no search.
    """
    loss, score = 0.0, true_score
    a = b = 0
    best = -np.inf
    for _ in range(4):  # each round but the last one gets to a better one of four pairs
        new_b = int(_value(loss, score, lb[1], sb[1], rho) > _value(loss, score, lb[0], sb[0], rho))
        values = _value(la[0], sa[0], lb[new_b], sb[new_b], rho), _value(la[1], sa[1], lb[new_b], sb[new_b], rho)
        new_a = int(values[1] > values[0])
        if values[new_a] <= best + 1e-12 * (1.0 + abs(best)):
            break
        a, b, best = new_a, new_b, values[new_a]
        loss, score = la[a], sa[a]
    return a, b


@njit(cache=True, nogil=True)
def joint_plane(space, star, i, v, root, rho, alternating, psi):
    """The most violated plane of SSVM+ by joint inference (:mod:`lupi.structured.joint`): fills psi, returns the loss."""
    d = space.features.shape[1]
    ya, la, sa = _search(space, i, v[:d], np.array([1.0, 0.0]))
    yb, lb, sb = _search(star, i, v[d:] / root, np.array([1.0 / rho - 1.0, 1.0 / rho]))
    if alternating:
        a, b = _alternated(np.dot(space.features[i], v[:d]), la, sa, lb, sb, rho)
    else:
        a = b = _best_pair(la, sa, lb, sb, rho)
    loss = lb[b] / rho + max(la[a] - lb[b], 0.0)
    _difference(space, i, ya[a], psi[:d])
    _difference(star, i, yb[b], psi[d:])
    psi[d:] /= root
    if loss - np.dot(psi, v) <= 0.0:
        psi[:] = 0.0
        return 0.0
    return loss


@njit(cache=True, nogil=True)
def fill_planes(space, rows, w, psi, loss):
    """Planes of some images, at one w; row i of psi and loss is image i."""
    for i in rows:
        loss[i] = plane(space, i, w, psi[i])


@njit(cache=True, nogil=True)
def fill_joint_planes(space, star, root, rho, alternating, rows, v, psi, loss):
    """Joint planes of some images, at one v."""
    for i in rows:
        loss[i] = joint_plane(space, star, i, v, root, rho, alternating, psi[i])


@njit(cache=True, nogil=True)
def plane_steps(space, rows, store, psi, gaps):
    """Find the plane of one image after the other, store it and solve its block (``PlaneStore.arrays``).

    Returns how many were stored and the loss of the one after these, whose plane, left in psi, found no room.
    """
    planes, losses, gram, alpha, idle, count, w, cap = store
    for q in range(rows.shape[0]):
        i = rows[q]
        loss = plane(space, i, w, psi)
        gap, done = take_plane(planes, losses, gram, alpha, idle, count, w, cap, i, psi, loss, True)
        if not done:
            return q, loss
        gaps[i] = gap
    return rows.shape[0], 0.0


@njit(cache=True, nogil=True)
def joint_plane_steps(space, star, root, rho, alternating, rows, store, psi, gaps):
    """As `plane_steps`, with joint planes."""
    planes, losses, gram, alpha, idle, count, v, cap = store
    for q in range(rows.shape[0]):
        i = rows[q]
        loss = joint_plane(space, star, i, v, root, rho, alternating, psi)
        gap, done = take_plane(planes, losses, gram, alpha, idle, count, v, cap, i, psi, loss, True)
        if not done:
            return q, loss
        gaps[i] = gap
    return rows.shape[0], 0.0


class CompiledPlanes:
    """An oracle's compiled loops, called for so few images at a time that Ctrl-C is seen.

    Parameters
    ----------
    fill, steps : callable
        One of the two ``fill_`` functions and one of the two ``steps`` functions of this module.
    spaces : tuple
        Their first arguments.
    n, d : int
        Numbers of images and features.
    """

    def __init__(self, fill: Callable, steps: Callable, spaces: tuple, n: int, d: int):
        self.fill, self.steps, self.spaces, self.n, self.d = fill, steps, spaces, n, d
        self.slices = Slices()

    def planes(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Planes of all images."""
        psi, loss = np.empty((self.n, self.d)), np.empty(self.n)
        for part in self.slices.cut(np.arange(self.n)):
            self.fill(*self.spaces, part, w, psi, loss)
        return psi, loss

    def take_into(self, store: PlaneStore, rows: np.ndarray, gaps: np.ndarray) -> None:
        """Find, store and use the planes of some images, one after the other."""
        psi, done = np.empty(self.d), 0
        while done < len(rows):
            more, loss = self.steps(*self.spaces, rows[done:], store.arrays, psi, gaps)
            done += more
            if done < len(rows):
                store.take_with_room(rows[done], psi, loss, gaps, ascend=True)
                done += 1
