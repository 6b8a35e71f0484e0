"""Teachers: scores of all rows from the privileged features, averaged by evidence and calibrated to a surrogate."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax
from sklearn.base import is_classifier

from lupi.inputs.rows import ArrayRows, side_by_side
from lupi.inputs.training_set import PrivilegedBlock
from lupi.surrogate.estimators import EstimatorMember
from lupi.surrogate.members import KERNEL_GRID, RbfPath, Sample, Settings, SurrogateData, pool_outputs, standardized
from lupi.surrogate.products import ProductFit, factor, fit_product, is_clear
from lupi.surrogate.ridge import BLOCK, EPS, TINY, RidgePath, fit_ridge, squared_error
from lupi.surrogate.targets import Calibration, Target, area_under_curve, calibrate, log_loss, one_hot

if TYPE_CHECKING:
    from lupi.surrogate.students import Student

X_ALONE, PRODUCT = "X alone", "Z times X"
# Scales of X beside the privileged features; 0 is Z alone.
SCALES = (0, 0.1, 0.3, 1)
# With several privileged tables, each one leads in turn and the others have these scales.
OTHER_TABLES = (0.0, 0.3)
# Teachers below this fraction of the largest weight take no part in the evidence of the columns.
SMALL_WEIGHT = 0.01
# Draws of label noise, and unlabeled rows (at most) on which they are propagated.
N_PROBES, PROBED_ROWS = 24, 2000
# Labeled and unlabeled rows differ if a ridge separates them with an AUC above this; rows of each kind that it sees (at most).
SEPARABLE, SEPARATION_ROWS = 0.8, 2000


@dataclass(frozen=True)
class Candidate:
    """Input of one teacher: every privileged table and X, each times a scale (0: not used), and the kernel."""

    name: str
    table_scales: tuple[float, ...]
    x_scale: float
    kernel: str = "linear"


@dataclass(frozen=True)
class TeacherData:
    """Data of the teachers.

    Attributes
    ----------
    tables : list of Rows
        Standardized privileged features.
    A : Rows
        Standardized decision features.
    taught, unlabeled : ndarray of int
        Rows with privileged features, with and without a label.
    targets : ndarray of shape (n_taught, k)
    weight : ndarray of shape (n_taught,)
    groups, labels : ndarray of int of shape (n_taught,) or None
        Group numbers; class codes.
    by_likelihood : bool
        Whether evidence is the log-loss of calibrated scores, and not the squared error.
    plain : tuple of two ndarrays or None
        Outputs of the plain student for taught rows (left-out) and unlabeled rows: the teacher on X alone. None: a ridge.
    """

    tables: list[Any]
    A: Any
    taught: np.ndarray
    unlabeled: np.ndarray
    targets: np.ndarray
    weight: np.ndarray
    groups: np.ndarray | None
    labels: np.ndarray | None
    by_likelihood: bool
    plain: tuple[np.ndarray, np.ndarray] | None

    def table(self, candidate: Candidate, rows: np.ndarray) -> Any:
        """Columns that a candidate sees; sparse if X is and takes part."""
        scales = [*candidate.table_scales, candidate.x_scale]
        used = [(part.take(rows), scale) for part, scale in zip([*self.tables, self.A], scales) if scale]
        return side_by_side(*zip(*used))

    def privileged(self, rows: np.ndarray) -> np.ndarray:
        """Privileged features of some rows, side by side."""
        return np.hstack([table.values[rows] for table in self.tables])

    def evidence(self, scores: np.ndarray) -> float:
        r"""Log-evidence of left-out scores: :math:`-n/2 \log \mathrm{MSE}`, or -n times the log-loss."""
        n = self.weight.sum()
        if not self.by_likelihood or self.labels is None:
            return gaussian_evidence(squared_error(scores, self.targets, self.weight), n)
        calibration = calibrate(scores, one_hot(self.labels, max(2, scores.shape[1])), self.weight)
        return float(-n * log_loss(calibration.logits(scores), self.labels, self.weight))


@dataclass(frozen=True)
class Teachers:
    """Fitted teachers, averaged by evidence.

    Attributes
    ----------
    weights : dict of str to float
        Weight by name; they sum to 1, and the last one is X alone.
    plain_weight : float
        Weight of the teacher that is the plain student itself; 0 if X alone is a ridge.
    taught, unlabeled : ndarray of shape (n, k)
        Scores: left-out ones of the taught rows, ordinary ones of the unlabeled rows.
    calibration : Calibration
        From scores to the target; slope 0 if the scores do not follow the labels.
    noise : ndarray or None
        Scores of label noise, for the taught and the probed unlabeled rows.
    x_alpha : float or None
        Penalty of a ridge on X alone.
    column_evidence : ndarray or None
        Log-evidence lost without each privileged column.
    """

    weights: dict[str, float]
    plain_weight: float
    taught: np.ndarray
    unlabeled: np.ndarray
    calibration: Calibration
    noise: np.ndarray | None = None
    x_alpha: float | None = None
    column_evidence: np.ndarray | None = None


@dataclass(frozen=True)
class Surrogate:
    """Targets of the student: `values` of shape (n, k) for `rows`."""

    rows: np.ndarray
    values: np.ndarray


def can_teach(data: SurrogateData, name: str) -> bool:
    """Whether the labeled rows with privileged features have different targets and groups; warns if not."""
    if not data.rows.available.any():
        return False
    y, groups = data.rows.target[data.taught], data.groups(data.taught)
    if len(y) >= 2 and np.ptp(y) > 0 and (groups is None or np.ptp(groups) > 0):
        return True
    warnings.warn(
        f"{name}: fewer than two different targets (or groups) among the rows that have a label and privileged features, so "
        "there is nothing to learn from `privileged`; the baseline is fitted.",
        UserWarning,
        stacklevel=4,
    )
    return False


def fit_teachers(
    data: SurrogateData, A: Any, features: Any, target: Target, plain: Student, model: Any, settings: Settings
) -> Teachers:
    """Fit all teachers; average their scores with weights proportional to their evidence, and calibrate the average.

    `model` is the estimator whose parameters `estimator` and `teacher` choose the kind of teachers.
    """
    y, weight = data.rows.target[data.taught], data.rows.weight[data.taught]
    targets, teacher = target.columns(y), model.teacher
    # With a ridge and one score the plain student is in closed form too, and a ridge on X takes its place.
    closed_form = model.estimator == "ridge" and targets.shape[1] == 1
    tables = [standardized(_with_gaps(block), data.rows.weight) for block in data.rows.privileged]
    if len(data.unlabeled):
        _warn_if_not_at_random(type(model).__name__, data, [*tables, A])
    inputs = TeacherData(
        tables,
        A,
        data.taught,
        data.unlabeled,
        targets,
        weight,
        groups=data.groups(data.taught),
        labels=target.labels(y),
        by_likelihood=targets.shape[1] > 1 or (teacher is not None and is_classifier(teacher)),
        plain=None if closed_form else _plain_outputs(data, features, plain),
    )
    kernels = ("linear", "rbf") if targets.shape[1] > 1 and teacher is None else ("linear",)
    candidates = make_candidates([block.name for block in data.rows.privileged], kernels)
    if teacher is None:
        found = _ridge_teachers(inputs, candidates, settings)
    else:
        found = _estimator_teachers(inputs, candidates, teacher, settings)
    return Teachers(
        plain_weight=0.0 if closed_form else list(found["weights"].values())[-1],
        calibration=target.calibrate(found["taught"], y, weight),
        **found,
    )


def make_surrogate(teachers: Teachers | None, target: Target, data: SurrogateData) -> Surrogate | None:
    """Calibrated scores of the taught and unlabeled rows; None if the scores do not follow the labels."""
    if teachers is None or teachers.calibration.slope == 0.0:
        return None
    scores = np.empty((len(data.rows), teachers.taught.shape[1]))
    scores[data.taught], scores[data.unlabeled] = teachers.taught, teachers.unlabeled
    rows = data.scored
    return Surrogate(rows, target.surrogate(teachers.calibration, scores[rows], data.rows.target[rows]))


def make_candidates(names: list[Any], kernels: tuple[str, ...] = ("linear",)) -> list[Candidate]:
    """Candidates [Z, cX] for every scale c in every kernel, and X alone as the last one.

    With several privileged tables: all of them together, and each one with the others at a smaller scale.

    Examples
    --------
    >>> [candidate.name for candidate in make_candidates([None])]
    ['Z', 'Z + 0.1 X', 'Z + 0.3 X', 'Z + 1 X', 'X alone']
    """
    m = len(names)
    mixes = [("Z" if m == 1 else "all spaces", (1.0,) * m)]
    for j in range(m if m > 1 else 0):
        for other in OTHER_TABLES:
            label = str(names[j]) if other == 0 else f"{names[j]} + {other:g} others"
            mixes.append((label, tuple(1.0 if i == j else other for i in range(m))))
    return [
        *(
            Candidate(
                f"{label}{f' + {c:g} X' if c else ''}{' (rbf)' if kernel == 'rbf' else ''}", scales, float(c), kernel
            )
            for kernel in kernels
            for label, scales in mixes
            for c in SCALES
        ),
        Candidate(X_ALONE, (0.0,) * m, 1.0),
    ]


def gaussian_evidence(error: float, n: float) -> float:
    r"""Log-evidence :math:`-n/2 \log \mathrm{MSE}` of normal errors, up to a constant."""
    return float(-n / 2 * np.log(max(error, TINY)))


def label_noise(weight: np.ndarray) -> np.ndarray:
    """Noise of unit variance for rows of these weights, of shape (n, N_PROBES); the same in every call."""
    signs = np.random.default_rng(0).integers(0, 2, size=(len(weight), N_PROBES)) * 2.0 - 1.0
    return np.asarray(signs / np.sqrt(weight)[:, None])


def probed_rows(n: int) -> np.ndarray:
    """Positions of the unlabeled rows on which noise is propagated."""
    return np.arange(0, n, 1 + n // PROBED_ROWS)


def line_scores(
    left_out: np.ndarray, others: np.ndarray, targets: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of the plain student on the scale of the targets: least squares with one slope of at least 0.

    Scores of the labeled rows (of which `left_out` are the outputs) come from the line without that row.
    """
    total = weight.sum()
    center, mean = weight @ left_out / total, weight @ targets / total
    unit, residual = left_out - center, targets - mean
    square = max((weight @ np.square(unit)).sum(), TINY)
    slope = max((weight @ (unit * residual)).sum() / square, 0.0)
    leverage = 1.0 / total + (np.square(unit) / square if slope else 0.0)
    keep = np.maximum(1.0 - np.minimum(weight, 1.0)[:, None] * leverage, EPS)
    return targets - (residual - slope * unit) / keep, mean + slope * (others - center)


def _with_gaps(block: PrivilegedBlock) -> Any:
    """Rows of a privileged table with NaN where they are not available."""
    if not block.rows.resident:
        return block.rows.with_gaps()
    return ArrayRows(np.where(block.available[:, None], block.rows.values, np.nan))


def _plain_outputs(data: SurrogateData, features: Any, plain: Student) -> tuple[np.ndarray, np.ndarray]:
    taught = plain.left_out[np.isin(data.labeled, data.taught)]
    if not len(data.unlabeled):
        return taught, taught[:0]
    return taught, pool_outputs(features.take(data.unlabeled), plain.pool)


def _warn_if_not_at_random(name: str, data: SurrogateData, tables: list[Any]) -> None:
    """Warn if a ridge on X and Z separates labeled from unlabeled rows."""
    parts = [part[:: 1 + len(part) // SEPARATION_ROWS] for part in (data.taught, data.unlabeled)]
    rows = np.concatenate(parts)
    joined = side_by_side([ArrayRows(table.load(rows)) for table in tables], [1.0] * len(tables))
    missing, weight = np.repeat([-1.0, 1.0], [len(part) for part in parts]), data.rows.weight[rows]
    fit = fit_ridge(RidgePath(joined, weight), missing[:, None], data.groups(rows))
    area = area_under_curve(fit.left_out[:, 0], missing > 0, weight)
    if area > SEPARABLE:
        warnings.warn(
            f"{name}: X and `privileged` separate labeled from unlabeled rows (AUC {area:.2f} on left-out rows), so the labels "
            "are not missing at random: what holds for the labeled rows may not hold for the others. Compare with a fit on "
            "the labeled rows alone.",
            UserWarning,
            stacklevel=5,
        )


@dataclass(frozen=True)
class _TeacherFit:
    """One teacher in closed form: scores of the taught and the unlabeled rows, and what it makes of label noise."""

    candidate: Candidate
    path: RidgePath
    alpha: float
    taught: np.ndarray
    unlabeled: np.ndarray
    noise: np.ndarray | None


def _ridge_teachers(inputs: TeacherData, candidates: list[Candidate], settings: Settings) -> dict[str, Any]:
    """Teachers in closed form; a product of Z and X joins them, before X alone, where the evidence for it is clear."""
    # Noise takes dozens of numbers per row: it is not propagated if the rows do not fit into memory.
    noise = label_noise(inputs.weight) if inputs.A.resident else None
    fits = [_fit_candidate(inputs, candidate, noise, settings) for candidate in candidates]
    evidence = [inputs.evidence(fit.taught) for fit in fits]
    column_evidence = None
    if noise is not None and (product := _clear_product(inputs, fits[-1].path, max(evidence))) is not None:
        evidence.insert(-1, inputs.evidence(product.fit.ridge.left_out))
        fits.insert(-1, product.as_teacher(noise))
        column_evidence = product.column_evidence()
    weights = softmax(evidence)
    if column_evidence is None:
        column_evidence = _column_evidence(fits, weights, inputs)
    return {
        "weights": {fit.candidate.name: float(weight) for fit, weight in zip(fits, weights)},
        "taught": np.tensordot(weights, [fit.taught for fit in fits], axes=1),
        "unlabeled": np.tensordot(weights, [fit.unlabeled for fit in fits], axes=1),
        "noise": None if noise is None else np.tensordot(weights, [fit.noise for fit in fits], axes=1),
        "x_alpha": fits[-1].alpha,
        "column_evidence": column_evidence,
    }


def _estimator_teachers(
    inputs: TeacherData, candidates: list[Candidate], teacher: Any, settings: Settings
) -> dict[str, Any]:
    """Cross-fitted teachers of the user's kind."""
    scores = []
    for candidate in candidates:
        if candidate.name == X_ALONE and inputs.plain is not None:
            scores.append(line_scores(*inputs.plain, inputs.targets, inputs.weight))
            continue
        member = EstimatorMember(teacher, settings.cv, settings.n_jobs, settings.random_state)
        table = inputs.table(candidate, inputs.taught)
        taught = member.fit_left_out(Sample(table, inputs.targets, inputs.weight, inputs.groups, labels=inputs.labels))
        others = inputs.table(candidate, inputs.unlabeled).values
        scores.append((taught, member.predict(others) if others.shape[0] else taught[:0]))
    weights = softmax([inputs.evidence(taught) for taught, _ in scores])
    return {
        "weights": {candidate.name: float(weight) for candidate, weight in zip(candidates, weights)},
        "taught": np.tensordot(weights, [taught for taught, _ in scores], axes=1),
        "unlabeled": np.tensordot(weights, [unlabeled for _, unlabeled in scores], axes=1),
    }


def _fit_candidate(
    inputs: TeacherData, candidate: Candidate, noise: np.ndarray | None, settings: Settings
) -> _TeacherFit:
    table = inputs.table(candidate, inputs.taught)
    if candidate.kernel == "linear":
        rbf, path = None, RidgePath(table, inputs.weight)
        ridge = fit_ridge(path, inputs.targets, inputs.groups)
    else:
        columns = [part.shape[1] for part in (*inputs.tables, inputs.A)]
        gamma = 1.0 / float(np.dot(np.square([*candidate.table_scales, candidate.x_scale]), columns))
        rbf = RbfPath.of(table.values, inputs.weight, gamma, settings.random_state)
        path = rbf.path
        ridge = fit_ridge(path, inputs.targets, inputs.groups, grid=KERNEL_GRID)

    def predict(rows: np.ndarray, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        if rbf is None:
            return _linear_scores(inputs, candidate, rows, coef, intercept)
        blocks = (rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK))
        parts = [
            rbf.kernel_values(inputs.table(candidate, block).values) @ rbf.dual(coef) + intercept for block in blocks
        ]
        return np.vstack([np.empty((0, len(intercept))), *parts])

    if candidate.name == X_ALONE and inputs.plain is not None:
        taught, unlabeled = line_scores(*inputs.plain, inputs.targets, inputs.weight)
    else:
        taught, unlabeled = ridge.left_out, predict(inputs.unlabeled, ridge.coef, ridge.intercept)
    noise_scores = None
    if noise is not None:
        probed = inputs.unlabeled[probed_rows(len(inputs.unlabeled))]
        left_out = path.left_out(noise, ridge.alpha, inputs.groups)
        noise_scores = np.vstack([left_out, predict(probed, *path.solve(noise, ridge.alpha))])
    return _TeacherFit(candidate, path, ridge.alpha, taught, unlabeled, noise_scores)


def _linear_scores(
    inputs: TeacherData, candidate: Candidate, rows: np.ndarray, coef: np.ndarray, intercept: np.ndarray
) -> np.ndarray:
    """Predictions of rows without stacking their columns."""
    values, start = np.tile(intercept, (len(rows), 1)), 0
    for scale, part in [*zip(candidate.table_scales, inputs.tables), (candidate.x_scale, inputs.A)]:
        if scale and len(rows):
            stop = start + part.shape[1]
            values += part.take(rows).times(scale * coef[start:stop])
            start = stop
    return values


@dataclass(frozen=True)
class _Product:
    """The teacher on the privileged features and on X times a factor of them."""

    inputs: TeacherData
    h: np.ndarray
    direction: np.ndarray
    fit: ProductFit

    def as_teacher(self, noise: np.ndarray) -> _TeacherFit:
        """Scores for the student: with the factor expected given X, not with the row's own."""
        inputs, fit = self.inputs, self.fit

        def predict(rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
            return fit.predict(inputs.A.values[rows], inputs.privileged(rows), targets)

        probed = inputs.unlabeled[probed_rows(len(inputs.unlabeled))]
        noise_scores = np.vstack([fit.left_out(noise, inputs.groups), predict(probed, noise)])
        candidate = Candidate(PRODUCT, (1.0,) * len(inputs.tables), 1.0, "product")
        taught, unlabeled = fit.left_out(inputs.targets, inputs.groups), predict(inputs.unlabeled, inputs.targets)
        return _TeacherFit(candidate, fit.path, fit.ridge.alpha, taught, unlabeled, noise_scores)

    def column_evidence(self) -> np.ndarray:
        """Log-evidence lost if the factor does without each column."""
        inputs, fit = self.inputs, self.fit
        base = squared_error(fit.ridge.left_out, inputs.targets, inputs.weight)
        lost = np.zeros(fit.Z.shape[1])
        for j in np.flatnonzero(self.direction[1:]):
            h = self.h - self.direction[1 + j] * fit.Z[:, j]
            without = fit_product(fit.x_path, fit.Z, h, inputs.targets, inputs.groups)
            error = squared_error(without.ridge.left_out, inputs.targets, inputs.weight)
            lost[j] = gaussian_evidence(base, fit.path.total) - gaussian_evidence(error, fit.path.total)
        return lost


def _clear_product(inputs: TeacherData, x_path: RidgePath, best: float) -> _Product | None:
    """The product, if it is clearly better than the best sum and than itself with one factor for all rows."""
    Z, n = inputs.privileged(inputs.taught), inputs.weight.sum()
    found = factor(x_path.rows.values, Z, inputs.targets, inputs.weight, inputs.groups)
    if found is None:
        return None
    fit = fit_product(x_path, Z, found[0], inputs.targets, inputs.groups)
    evidence = inputs.evidence(fit.ridge.left_out)
    if not is_clear(evidence - best, n):
        return None
    # The scales of this sum are not among those of the candidates.
    sums = fit_product(x_path, Z, np.ones(len(Z)), inputs.targets, inputs.groups)
    return _Product(inputs, *found, fit) if is_clear(evidence - inputs.evidence(sums.ridge.left_out), n) else None


def _column_evidence(fits: list[_TeacherFit], weights: np.ndarray, inputs: TeacherData) -> np.ndarray:
    """Mean log-evidence that the linear teachers on privileged features lose without each column."""
    sizes = [table.shape[1] for table in inputs.tables]
    lost = np.zeros(sum(sizes))
    pairs = [(w, f) for w, f in zip(weights, fits) if any(f.candidate.table_scales) and f.candidate.kernel == "linear"]
    best = max(weight for weight, _ in pairs)
    pairs = [(weight, fit) for weight, fit in pairs if weight >= SMALL_WEIGHT * best]
    for weight, fit in pairs:
        seen = np.concatenate([np.full(size, scale > 0) for size, scale in zip(sizes, fit.candidate.table_scales)])
        base = squared_error(fit.taught, inputs.targets, inputs.weight)
        without = fit.path.errors_without(inputs.targets, fit.alpha, np.arange(seen.sum()), inputs.groups)
        share = weight / sum(w for w, _ in pairs) if best > 0 else 1 / len(pairs)
        lost[seen] += share * fit.path.total / 2 * np.log(without / max(base, TINY))
    return lost
