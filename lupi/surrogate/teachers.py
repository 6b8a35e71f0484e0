"""The teachers of surrogate learning: scores from the privileged features for every row, averaged by evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from lupi.inputs.chunked_rows import ChunkedRows, tables_beside
from lupi.surrogate import (
    ProductFit,
    RidgeFit,
    RidgePath,
    calibrate,
    choose_penalty,
    factor,
    fit_product,
    gaussian_evidence,
    gaussian_weights,
    is_clear,
    label_noise,
    likelihood_weights,
    log_loss,
    one_hot,
)
from lupi.surrogate.input import joined_parts, take
from lupi.surrogate.ridge import BLOCK, squared_error
from lupi.surrogate.students import KERNEL_GRID, RbfRidge
from lupi.surrogate.wrapped import WrappedStudent

if TYPE_CHECKING:
    from lupi.inputs.chunked_rows import AnyRows

X_ALONE, PRODUCT = "X alone", "Z times X"
# With several privileged spaces, each of them in turn leads and the others count this much.
OTHER_SPACES = (0.0, 0.3)
# Teachers with less weight than this share of the best are left out of the search for the columns that carry it.
SMALL_WEIGHT = 0.01
# Unlabeled rows by which the gain is estimated, at most.
PROBED_ROWS = 2000


@dataclass
class Classroom:
    """What the teachers are given.

    Attributes
    ----------
    spaces : list of ndarray of shape (n, q)
        Standardized privileged features.
    A : ndarray or sparse matrix of shape (n, p)
        Standardized decision features.
    known, unknown : ndarray of int
        Rows with and without a label.
    targets : ndarray of shape (n_known, k)
        Signs, or numbers.
    weight : ndarray of shape (n_known,)
    groups : ndarray of int of shape (n_known,) or None
    labels : ndarray of int of shape (n_known,) or None
        Class numbers; None in regression.
    plain : tuple of two ndarrays, or None
        Outputs of the plain student for known rows (left out) and unknown ones: the teacher on X alone. None: a ridge.
    random_state, n_jobs : as in scikit-learn
    """

    spaces: list[Any]
    A: Any
    known: np.ndarray
    unknown: np.ndarray
    targets: np.ndarray
    weight: np.ndarray
    groups: np.ndarray | None
    labels: np.ndarray | None
    plain: tuple[np.ndarray, np.ndarray] | None = None
    random_state: Any = None
    n_jobs: int | None = None

    @property
    def in_memory(self) -> bool:
        """Whether the rows are here, and not in chunks elsewhere."""
        return not isinstance(self.A, ChunkedRows)

    def table(self, candidate: TeacherCandidate, rows: np.ndarray) -> AnyRows:
        """The columns that a candidate sees; sparse if X is and takes part."""
        scales = [*candidate.space_scales, candidate.x_scale]
        seen: list[tuple[float, Any]] = [
            (scale, take(part, rows)) for scale, part in zip(scales, [*self.spaces, self.A]) if scale
        ]
        if not self.in_memory:
            return tables_beside([part for _, part in seen], [scale for scale, _ in seen])
        return joined_parts([scale * part for scale, part in seen])


@dataclass(frozen=True)
class TeacherCandidate:
    """What one teacher sees: every privileged space and X, each times a scale (0: not at all), in a kernel.

    With the kernel "product", X times a factor of all privileged features.
    """

    name: str
    space_scales: tuple[Any, ...]
    x_scale: float
    kernel: str = "linear"


@dataclass
class Lesson:
    """What the teachers say.

    Attributes
    ----------
    candidates : list of TeacherCandidate
    weights : ndarray of shape (n_candidates,)
    known, unknown : ndarray of shape (n, k)
        Averaged scores: left-out ones of the labeled rows, ordinary ones of the unlabeled rows.
    noise : tuple of two ndarrays or None
        What the teachers make of noise in place of the labels, for labeled and probed unlabeled rows.
    x_alpha : float or None
        Penalty of a ridge on X alone.
    column_evidence : ndarray or None
        Log-evidence lost without each privileged column.
    surrogate : ndarray or None
        Calibrated scores, what the student learns; None if the scores do not follow the targets.
    """

    candidates: list[Any]
    weights: np.ndarray
    known: np.ndarray
    unknown: np.ndarray
    noise: tuple[Any, ...] | None = None
    x_alpha: float | None = None
    column_evidence: np.ndarray | None = None
    surrogate: np.ndarray | None = None


def make_candidates(
    scales: Sequence[float], names: list[Any], kernels: Sequence[str] = ("linear",)
) -> list[TeacherCandidate]:
    """The teachers to be averaged: [Z, cX] for every scale c, in every kernel, and last X alone.

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
    return [
        *(TeacherCandidate(*what, kernel) for kernel in kernels for what in found),
        TeacherCandidate(X_ALONE, (0.0,) * m, 1.0),
    ]


def ridge_lesson(room: Classroom, candidates: list[TeacherCandidate]) -> Lesson:
    """Averaged ridge teachers, in closed form.

    With several classes the evidence is the log-loss of the calibrated left-out scores, otherwise the squared error. A teacher
    on Z, and on X times a factor of Z, joins them, last but one, where the evidence speaks clearly for it: for a column that
    says how X is to be read (`lupi.surrogate.products`).

    Parameters
    ----------
    room : Classroom
    candidates : list of TeacherCandidate

    Returns
    -------
    Lesson
    """
    # What noise becomes takes dozens of numbers a row: nothing for rows that do not fit into memory.
    noise = label_noise(room.weight) if room.in_memory else None
    probed = room.unknown[probed_rows(len(room.unknown))]
    fits = [_fit_candidate(room, candidate, noise, probed) for candidate in candidates]
    by_likelihood = room.targets.shape[1] > 1
    losses = [_loss(fit.known, room, by_likelihood) for fit in fits]
    column_evidence = None
    product = _Product.of(room, fits[-1].path) if noise is not None else None
    if (
        product is not None
        and noise is not None
        and (loss := product.clear_loss(min(losses), by_likelihood)) is not None
    ):
        fits.insert(-1, product.as_candidate(noise, probed))
        losses.insert(-1, loss)
        column_evidence = product.column_evidence()
    weights = _weights(losses, room, by_likelihood)

    def averaged(name: str) -> np.ndarray:
        return np.tensordot(weights, [getattr(fit, name) for fit in fits], axes=1)

    return Lesson(
        [fit.candidate for fit in fits],
        weights,
        known=averaged("known"),
        unknown=averaged("unknown"),
        noise=None if noise is None else (averaged("noise_known"), averaged("noise_unknown")),
        x_alpha=fits[-1].ridge.alpha,
        column_evidence=_column_evidence(fits, weights, room) if column_evidence is None else column_evidence,
    )


def fitted_lesson(room: Classroom, candidates: list[TeacherCandidate], teacher: Any) -> Lesson:
    """Averaged teachers of the user's kind, cross-fitted.

    Parameters
    ----------
    room : Classroom
    candidates : list of TeacherCandidate
    teacher : estimator

    Returns
    -------
    Lesson
    """
    by_likelihood = room.targets.shape[1] > 1 or is_classifier(teacher)
    known, unknown = [], []
    for candidate in candidates:
        if candidate.name == X_ALONE and room.plain is not None:
            scores = line_scores(*room.plain, room.targets, room.weight)
        else:
            fit = WrappedStudent(teacher, n_jobs=room.n_jobs, random_state=room.random_state)
            fit.fit(room.table(candidate, room.known), room.targets, room.weight, room.groups, labels=room.labels)
            others = room.table(candidate, room.unknown)
            scores = fit.left_out_, fit.predict(others) if others.shape[0] else room.targets[:0]
        known.append(scores[0])
        unknown.append(scores[1])
    weights = _weights([_loss(scores, room, by_likelihood) for scores in known], room, by_likelihood)
    return Lesson(
        candidates, weights, known=np.tensordot(weights, known, axes=1), unknown=np.tensordot(weights, unknown, axes=1)
    )


def _loss(scores: np.ndarray, room: Classroom, by_likelihood: bool) -> float:
    if not by_likelihood or room.labels is None:
        return squared_error(scores, room.targets, room.weight)
    calibration = calibrate(scores, one_hot(room.labels, max(2, scores.shape[1])), room.weight)
    return log_loss(calibration.logits(scores), room.labels, room.weight)


def _weights(losses: list[float], room: Classroom, by_likelihood: bool) -> np.ndarray:
    return (likelihood_weights if by_likelihood else gaussian_weights)(np.array(losses), room.weight.sum())


def line_scores(
    left_out: np.ndarray, others: np.ndarray, targets: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of the plain student on the scale of the targets: least squares with one slope, never negative.

    Parameters
    ----------
    left_out : ndarray of shape (n, k)
        Outputs for the labeled rows.
    others : ndarray of shape (m, k)
        Outputs for other rows.
    targets : ndarray of shape (n, k)
    weight : ndarray of shape (n,)

    Returns
    -------
    scores : ndarray of shape (n, k)
        Each by the line without that row.
    others : ndarray of shape (m, k)
    """
    total = weight.sum()
    center, mean = weight @ left_out / total, weight @ targets / total
    unit, residual = left_out - center, targets - mean
    square = max((weight @ np.square(unit)).sum(), np.finfo(float).tiny)
    slope = max((weight @ (unit * residual)).sum() / square, 0.0)
    leverage = 1.0 / total + (np.square(unit) / square if slope else 0.0)
    keep = np.maximum(1.0 - np.minimum(weight, 1.0)[:, None] * leverage, np.finfo(float).eps)
    return targets - (residual - slope * unit) / keep, mean + slope * (others - center)


@dataclass
class _CandidateFit:
    candidate: TeacherCandidate
    path: RidgePath
    ridge: RidgeFit
    known: np.ndarray
    unknown: np.ndarray
    noise_known: np.ndarray | None = None
    noise_unknown: np.ndarray | None = None


def probed_rows(n: int) -> np.ndarray:
    """Positions of the unlabeled rows on which noise is looked at."""
    return np.arange(0, n, 1 + n // PROBED_ROWS)


def _fit_candidate(
    room: Classroom, candidate: TeacherCandidate, noise: np.ndarray | None, probed: Any
) -> _CandidateFit:
    """One teacher: scores of all rows, and what it makes of noise in place of the targets."""
    table = room.table(candidate, room.known)
    machine = None if candidate.kernel == "linear" else RbfRidge(_gamma(room, candidate), room.random_state)
    if machine is None:
        path = RidgePath(table, room.weight)
        ridge = choose_penalty(path, room.targets, room.groups, "error")
    else:
        path = machine.path(table, room.weight)
        ridge = choose_penalty(path, room.targets, room.groups, "error", grid=KERNEL_GRID)

    def predict(rows: np.ndarray, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        if machine is None:
            return _predict_blocks(room, candidate, rows, coef, intercept)
        blocks = (rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK))
        parts = [machine.features(room.table(candidate, block)) @ coef + intercept for block in blocks]
        return np.vstack([np.empty((0, len(intercept))), *parts])

    if candidate.name == X_ALONE and room.plain is not None:
        known, unknown = line_scores(*room.plain, room.targets, room.weight)
    else:
        known, unknown = ridge.left_out, predict(room.unknown, ridge.coef, ridge.intercept)
    if noise is None:
        return _CandidateFit(candidate, path, ridge, known, unknown)
    noise_known = path.left_out(noise, ridge.alpha, room.groups)
    noise_unknown = predict(probed, *path.solve(noise, ridge.alpha))
    return _CandidateFit(candidate, path, ridge, known, unknown, noise_known, noise_unknown)


@dataclass
class _Product:
    """The teacher on the privileged features, and on X times a factor of them."""

    room: Classroom
    h: np.ndarray
    direction: np.ndarray
    fit: ProductFit

    @classmethod
    def of(cls, room: Classroom, x_path: RidgePath) -> _Product | None:
        """None where no privileged column changes what X says."""
        Z = _side_by_side(room, room.known)
        found = factor(x_path.rows, Z, room.targets, room.weight, room.groups)
        if found is None:
            return None
        return cls(room, *found, fit_product(x_path, Z, found[0], room.targets, room.groups))

    def clear_loss(self, best: float, by_likelihood: bool) -> float | None:
        """Its loss, if left-out rows speak clearly for it; None otherwise.

        Against the best sum, and against the same teacher with one factor for all rows: its scales are not among those of the sums.
        """
        room, fit = self.room, self.fit
        loss = _loss(fit.ridge.left_out, room, by_likelihood)
        if not self._is_clear(best, loss, by_likelihood):
            return None
        sums = fit_product(fit.x_path, fit.Z, np.ones(len(self.h)), room.targets, room.groups)
        best = _loss(sums.ridge.left_out, room, by_likelihood)
        return loss if self._is_clear(best, loss, by_likelihood) else None

    def _is_clear(self, best: float, loss: float, by_likelihood: bool) -> bool:
        n = self.room.weight.sum()
        evidence = -n * np.array([best, loss]) if by_likelihood else gaussian_evidence(np.array([best, loss]), n)
        return is_clear(evidence[1] - evidence[0], n)

    def as_candidate(self, noise: np.ndarray, probed: np.ndarray) -> _CandidateFit:
        """What it tells the student: with the factor that X lets expect, not with the row's own."""
        room, fit = self.room, self.fit
        told = [
            values
            for targets, others in ((room.targets, room.unknown), (noise, probed))
            for values in (
                fit.left_out(targets, room.groups),
                fit.predict(take(room.A, others), _side_by_side(room, others), targets),
            )
        ]
        candidate = TeacherCandidate(PRODUCT, (1.0,) * len(room.spaces), 1.0, "product")
        return _CandidateFit(candidate, fit.path, fit.ridge, *told)

    def column_evidence(self) -> np.ndarray:
        """Log-evidence lost if the factor does without each column."""
        room, fit = self.room, self.fit
        lost = np.zeros(fit.Z.shape[1])
        for j in np.flatnonzero(self.direction[1:]):
            h = self.h - self.direction[1 + j] * fit.Z[:, j]
            without = fit_product(fit.x_path, fit.Z, h, room.targets, room.groups)
            errors = [squared_error(f.ridge.left_out, room.targets, room.weight) for f in (fit, without)]
            lost[j] = -np.diff(gaussian_evidence(np.array(errors), fit.path.total))[0]
        return lost


def _side_by_side(room: Classroom, rows: np.ndarray) -> np.ndarray:
    return np.hstack([space[rows] for space in room.spaces])


def _gamma(room: Classroom, candidate: TeacherCandidate) -> float:
    """One over the number of columns, each counted with its squared scale."""
    columns = [space.shape[1] for space in room.spaces] + [room.A.shape[1]]
    return 1.0 / float(np.dot(np.square([*candidate.space_scales, candidate.x_scale]), columns))


def _predict_blocks(
    room: Classroom, candidate: TeacherCandidate, rows: np.ndarray, coef: np.ndarray, intercept: np.ndarray
) -> np.ndarray:
    """Predictions of rows without stacking their columns."""
    values = np.tile(intercept, (len(rows), 1))
    if not len(rows):
        return values
    start = 0
    for scale, block in [*zip(candidate.space_scales, room.spaces), (candidate.x_scale, room.A)]:
        if scale:
            stop = start + block.shape[1]
            values += np.asarray(take(block, rows) @ (scale * coef[start:stop]))
            start = stop
    return values


def _column_evidence(fits: list[_CandidateFit], weights: np.ndarray, room: Classroom) -> np.ndarray:
    """Log-evidence that the linear teachers on privileged features lose, on average, without each column."""
    sizes = [space.shape[1] for space in room.spaces]
    lost = np.zeros(sum(sizes))
    pairs = [(w, f) for w, f in zip(weights, fits) if any(f.candidate.space_scales) and f.candidate.kernel == "linear"]
    best = max(weight for weight, _ in pairs)
    pairs = [(weight, fit) for weight, fit in pairs if weight >= SMALL_WEIGHT * best]
    for weight, fit in pairs:
        seen = np.concatenate([np.full(size, scale > 0) for size, scale in zip(sizes, fit.candidate.space_scales)])
        base = squared_error(fit.known, room.targets, room.weight)
        without = fit.path.errors_without(room.targets, fit.ridge.alpha, np.arange(seen.sum()), room.groups)
        share = weight / sum(w for w, _ in pairs) if best > 0 else 1 / len(pairs)
        lost[seen] += share * fit.path.total / 2 * np.log(without / max(base, np.finfo(float).tiny))
    return lost
