"""The teachers of surrogate learning: scores from the privileged features for every row, averaged by evidence."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier

from lupi.estimators.surrogate_students import RbfRidge
from lupi.estimators.surrogate_wrapped import WrappedStudent
from lupi.problems.surrogate import calibrate, fit_ridge, gaussian_weights, likelihood_weights, log_loss
from lupi.problems.surrogate.ridge import BLOCK, squared_error

X_ALONE = "X alone"
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
    degrees_of_freedom : float or None
    column_evidence : ndarray or None
        Log-evidence lost without each privileged column.
    """

    candidates: list
    weights: np.ndarray
    errors: np.ndarray
    known: np.ndarray
    unknown: np.ndarray
    degrees_of_freedom: float | None = None
    column_evidence: np.ndarray | None = None


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
    fits, losses, others = [], [], []
    for candidate in candidates:
        table = _table(candidate, [z[known] for z in spaces], A[known])
        if candidate.kernel == "linear":
            fit = fit_ridge(table, targets, weight, groups)
            others.append(_predict_blocks(fit, candidate, spaces, A, unknown))
        else:
            member = RbfRidge(_gamma(candidate, spaces, A), random_state)
            fit = member.solve(table, targets, weight, groups, "error")
            blocks = (unknown[start : start + BLOCK] for start in range(0, len(unknown), BLOCK))
            parts = [member.predict(_table(candidate, [z[rows] for z in spaces], A[rows])) for rows in blocks]
            others.append(np.vstack([np.empty((0, targets.shape[1])), *parts]))
        fits.append(fit)
        losses.append(_loss(fit.left_out, targets, weight, labels))
    weights = _weights(np.array(losses), weight.sum(), labels)
    return Lesson(
        candidates,
        weights,
        np.array(losses),
        known=np.tensordot(weights, [fit.left_out for fit in fits], axes=1),
        unknown=np.tensordot(weights, others, axes=1),
        degrees_of_freedom=float(weights @ [fit.degrees_of_freedom for fit in fits]),
    )


def _gamma(candidate, spaces, A):
    """One over the number of columns, each counted with its squared scale."""
    columns = [space.shape[1] for space in spaces] + [A.shape[1]]
    return 1.0 / np.dot(np.square([*candidate.space_scales, candidate.x_scale]), columns)


def _loss(scores, targets, weight, labels):
    if labels is None:
        return squared_error(scores, targets, weight)
    return log_loss(calibrate(scores, labels, weight).logits(scores), labels, weight)


def _weights(losses, n, labels):
    return gaussian_weights(losses, n) if labels is None else likelihood_weights(losses, n)


def _predict_blocks(fit, candidate, spaces, A, rows):
    """Predictions of rows without stacking their columns."""
    values = np.tile(fit.intercept, (len(rows), 1))
    start = 0
    for scale, block in [*zip(candidate.space_scales, spaces), (candidate.x_scale, A)]:
        if scale:
            stop = start + block.shape[1]
            values += np.asarray(block[rows] @ (scale * fit.coef[start:stop]))
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
