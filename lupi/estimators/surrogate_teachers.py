"""The teachers of surrogate learning: scores from the privileged features for every row, averaged by evidence."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier

from lupi.estimators.surrogate_students import KERNEL_GRID, RbfRidge
from lupi.estimators.surrogate_wrapped import WrappedStudent
from lupi.problems.surrogate import (
    RidgeFit,
    RidgePath,
    calibrate,
    choose_penalty,
    gaussian_weights,
    label_noise,
    likelihood_weights,
    log_loss,
    one_hot,
)
from lupi.problems.surrogate.ridge import BLOCK, squared_error

X_ALONE = "X alone"
# Teachers with less weight than this are left out of the search for the columns that carry the evidence.
SMALL_WEIGHT = 0.01
# Unlabelled rows by which the gain is estimated, at most.
PROBED_ROWS = 2000
# With several privileged spaces, each of them in turn leads and the others count this much.
OTHER_SPACES = (0.0, 0.3)


@dataclass(frozen=True)
class Candidate:
    """What one teacher sees: every privileged space and X, each times a scale (0: not at all), in a kernel."""

    name: str
    space_scales: tuple
    x_scale: float
    kernel: str = "linear"


@dataclass
class Lesson:
    """What the teachers say.

    Attributes
    ----------
    candidates : list of Candidate
    weights : ndarray of shape (n_candidates,)
    errors : ndarray of shape (n_candidates,)
        Left-out loss of each: mean squared error, or log-loss with several classes.
    known, unknown : ndarray of shape (n, k)
        Averaged scores: left-out ones of the labelled rows, ordinary ones of the unlabelled rows.
    noise : tuple of two ndarrays or None
        What the teachers make of noise in place of the labels, for labelled and probed unlabelled rows.
    x_alpha : float or None
        Penalty of the teacher on X alone.
    column_evidence : ndarray or None
        Log-evidence lost without each privileged column.
    surrogate : ndarray or None
        Calibrated scores, what the student learns; None if the scores do not follow the targets.
    """

    candidates: list
    weights: np.ndarray
    errors: np.ndarray
    known: np.ndarray
    unknown: np.ndarray
    noise: tuple | None = None
    x_alpha: float | None = None
    column_evidence: np.ndarray | None = None
    surrogate: np.ndarray | None = None


def make_candidates(scales, names, kernels=("linear",)):
    """The teachers to be averaged: [Z, cX] for every scale c, and X alone, in every kernel.

    With several spaces: all of them together, and each with the others at a smaller scale.

    Examples
    --------
    >>> [candidate.name for candidate in make_candidates((0, 0.3), [None])]
    ['Z', 'Z + 0.3 X', 'X alone']
    """
    m = len(names)
    mixes = [("Z" if m == 1 else "all spaces", (1.0,) * m)]
    for j in range(m if m > 1 else 0):
        for other in OTHER_SPACES:
            label = str(names[j]) if other == 0 else f"{names[j]} + {other:g} others"
            mixes.append((label, tuple(1.0 if i == j else other for i in range(m))))
    found = [(label if c == 0 else f"{label} + {c:g} X", mix, float(c)) for label, mix in mixes for c in scales]
    found.append((X_ALONE, (0.0,) * m, 1.0))
    return [Candidate(*what, kernel) for kernel in kernels for what in found]


def _table(candidate, spaces, A):
    """The columns that a candidate sees, dense."""
    parts = [scale * space for scale, space in zip(candidate.space_scales, spaces) if scale]
    if candidate.x_scale:
        parts.append(candidate.x_scale * (A.toarray() if sparse.issparse(A) else A))
    return np.hstack(parts)


def ridge_lesson(candidates, spaces, A, known, unknown, targets, weight, groups, labels=None, random_state=None):
    """Averaged ridge teachers, in closed form.

    Parameters
    ----------
    candidates : list of Candidate
    spaces : list of ndarray of shape (n, q)
        Standardized privileged features.
    A : ndarray or sparse matrix of shape (n, p)
        Standardized decision features.
    known, unknown : ndarray of int
        Rows with and without a label.
    targets : ndarray of shape (len(known), k)
        Signs, or numbers.
    weight : ndarray of shape (len(known),)
    groups : ndarray of int of shape (len(known),) or None
    labels : ndarray of int, optional
        Class numbers, with several classes: the evidence is then the log-loss of the calibrated left-out scores.

    Returns
    -------
    Lesson
    """
    noise = label_noise(weight)
    probed = probed_rows(len(unknown))
    fits = []
    for candidate in candidates:
        table = _table(candidate, [z[known] for z in spaces], A[known])
        fit = _fit_candidate(candidate, table, spaces, A, unknown, probed, targets, noise, weight, groups, random_state)
        fits.append(fit)
    losses = np.array([_loss(fit.ridge.left_out, targets, weight, labels) for fit in fits])
    weights = _weights(losses, weight.sum(), labels)

    def averaged(name):
        return np.tensordot(weights, [getattr(fit, name) for fit in fits], axes=1)

    lesson = Lesson(candidates, weights, losses, known=averaged("known"), unknown=averaged("unknown"))
    lesson.noise = averaged("noise_known"), averaged("noise_unknown")
    lesson.x_alpha = next(f.ridge.alpha for f, c in zip(fits, candidates) if (c.name, c.kernel) == (X_ALONE, "linear"))
    lesson.column_evidence = _column_evidence(fits, weights, spaces, targets, groups)
    return lesson


@dataclass
class _CandidateFit:
    candidate: Candidate
    path: RidgePath
    ridge: RidgeFit
    known: np.ndarray
    unknown: np.ndarray
    noise_known: np.ndarray
    noise_unknown: np.ndarray


def probed_rows(n):
    """Positions of the unlabelled rows on which noise is looked at."""
    return np.arange(0, n, 1 + n // PROBED_ROWS)


def _fit_candidate(candidate, table, spaces, A, unknown, probed, targets, noise, weight, groups, random_state):
    """One teacher: scores of all rows, and what it makes of noise in place of the targets."""
    if candidate.kernel == "linear":
        path, machine = RidgePath(table, weight), None
        ridge = choose_penalty(path, targets, groups, "error")
    else:
        machine = RbfRidge(_gamma(candidate, spaces, A), random_state)
        path = machine.path(table, weight)
        ridge = choose_penalty(path, targets, groups, "error", grid=KERNEL_GRID)

    def predict(rows, coef, intercept):
        if machine is None:
            return _predict_blocks(coef, intercept, candidate, spaces, A, rows)
        blocks = (rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK))
        tables = (_table(candidate, [z[block] for z in spaces], A[block]) for block in blocks)
        parts = [machine.features(part) @ coef + intercept for part in tables]
        return np.vstack([np.empty((0, len(intercept))), *parts])

    return _CandidateFit(
        candidate,
        path,
        ridge,
        known=ridge.left_out,
        unknown=predict(unknown, ridge.coef, ridge.intercept),
        noise_known=path.left_out(noise, ridge.alpha, groups),
        noise_unknown=predict(unknown[probed], *path.solve(noise, ridge.alpha)),
    )


def _column_evidence(fits, weights, spaces, targets, groups):
    """Log-evidence that the linear teachers lose, on average, without each privileged column."""
    weights = weights * [fit.candidate.kernel == "linear" for fit in fits]
    if weights.sum() < SMALL_WEIGHT:
        return None
    sizes = [space.shape[1] for space in spaces]
    lost = np.zeros(sum(sizes))
    for weight, fit in zip(weights / weights.sum(), fits):
        seen = np.concatenate([np.full(size, scale > 0) for size, scale in zip(sizes, fit.candidate.space_scales)])
        if weight >= SMALL_WEIGHT and seen.any():
            base = squared_error(fit.known, targets, fit.path.weight)
            without = fit.path.errors_without(targets, fit.ridge.alpha, np.arange(seen.sum()), groups)
            lost[seen] += weight * fit.path.total / 2 * np.log(without / max(base, np.finfo(float).tiny))
    return lost


def _gamma(candidate, spaces, A):
    """One over the number of columns, each counted with its squared scale."""
    columns = [space.shape[1] for space in spaces] + [A.shape[1]]
    return 1.0 / np.dot(np.square([*candidate.space_scales, candidate.x_scale]), columns)


def _loss(scores, targets, weight, labels):
    if labels is None:
        return squared_error(scores, targets, weight)
    return log_loss(calibrate(scores, one_hot(labels, max(2, scores.shape[1])), weight).logits(scores), labels, weight)


def _weights(losses, n, labels):
    return gaussian_weights(losses, n) if labels is None else likelihood_weights(losses, n)


def _predict_blocks(coef, intercept, candidate, spaces, A, rows):
    """Predictions of rows without stacking their columns."""
    values = np.tile(intercept, (len(rows), 1))
    start = 0
    for scale, block in [*zip(candidate.space_scales, spaces), (candidate.x_scale, A)]:
        if scale:
            stop = start + block.shape[1]
            values += np.asarray(block[rows] @ (scale * coef[start:stop]))
            start = stop
    return values


def fitted_lesson(
    teacher, candidates, spaces, A, known, unknown, targets, weight, groups, labels, n_jobs, random_state
):
    """Averaged teachers of the user's kind, cross-fitted; parameters as in :func:`ridge_lesson`.

    Returns
    -------
    Lesson
    """
    by_likelihood = labels if is_classifier(teacher) or targets.shape[1] > 1 else None
    losses, known_scores, unknown_scores = [], [], []
    for candidate in candidates:
        table = _table(candidate, spaces, A)
        fit = WrappedStudent(teacher, n_jobs=n_jobs, random_state=random_state)
        fit.fit(table[known], targets, weight, groups, labels=labels)
        losses.append(_loss(fit.left_out_, targets, weight, by_likelihood))
        known_scores.append(fit.left_out_)
        unknown_scores.append(fit.predict(table[unknown]) if len(unknown) else np.empty((0, targets.shape[1])))
    weights = _weights(np.array(losses), weight.sum(), by_likelihood)
    return Lesson(
        candidates,
        weights,
        np.array(losses),
        known=np.tensordot(weights, known_scores, axes=1),
        unknown=np.tensordot(weights, unknown_scores, axes=1),
    )
