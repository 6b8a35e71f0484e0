"""Teachers: scores of all rows from the privileged features, averaged by evidence and calibrated to a surrogate."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import is_classifier

from lupi.inputs.training_set import ArrayRows, side_by_side
from lupi.inputs.types import Array
from lupi.surrogate.members import (
    KERNEL_GRID,
    MEMBERS,
    ForestMember,
    RbfPath,
    Sample,
    Standardizer,
    SurrogateData,
    make_member,
    member_names,
    rbf_values,
)
from lupi.surrogate.products import ProductFit, factor, fit_product, is_clear
from lupi.surrogate.ridge import EPS, GRID, TINY, RidgePath, fit_ridge, squared_error
from lupi.surrogate.targets import Calibration, Target, area_under_curve, calibrate, log_loss, one_hot

X_ALONE, PRODUCT = "X alone", "Z times X"
# Scales of X beside the privileged features; 0 is Z alone.
SCALES = (0, 0.1, 0.3, 1)
# Curved teachers beside the linear ones: kernel or member, and scale of X.
NONLINEAR = (("rbf", 0), ("rbf", 0.3), ("rbf", 1), ("forest", 0), ("forest", 1), ("sparse", 1))
# Exponent of the evidence of all these.
TEMPER = 0.4
# Those that are members; their trees see at most 2000 rows.
TEACHING_MEMBERS = {"forest": partial(ForestMember, most_rows=2000), "sparse": MEMBERS["sparse"]}
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
    """Input of one teacher: the scales of the privileged tables and of X, which comes last (0: not used), and the kernel."""

    name: str
    scales: tuple[float, ...]
    kernel: str = "linear"


@dataclass(frozen=True)
class TeacherData:
    """Data of the teachers."""

    tables: list[Any]  # standardized privileged features, and X as the last table
    taught: Array  # rows with a label and privileged features
    unlabeled: Array  # rows with privileged features alone
    sample: Sample  # targets, weights, groups and class codes of the taught rows
    by_likelihood: bool  # whether evidence is the log-loss of calibrated scores, and not the squared error
    plain: tuple[Array, Array] | None  # line_scores of the plain student, for taught and unlabeled rows
    noise: Any  # label noise; None for rows in chunks, since it takes dozens of numbers per row

    def table(self, candidate: Candidate, rows: Array) -> Any:
        """Columns that a candidate sees; sparse if X is and takes part."""
        used = [(part.take(rows), scale) for part, scale in zip(self.tables, candidate.scales) if scale]
        return side_by_side(*zip(*used))

    def privileged(self, rows: Array) -> Array:
        """Privileged features of some rows, side by side."""
        return np.hstack([table.values[rows] for table in self.tables[:-1]])

    def evidence(self, scores: Array) -> float:
        r"""Log-evidence of left-out scores: :math:`-n/2 \log \mathrm{MSE}`, or -n times the log-loss."""
        labels, weight = self.sample.labels, self.sample.weight
        if not self.by_likelihood or labels is None:
            return gaussian_evidence(squared_error(scores, self.sample.targets, weight), weight.sum())
        calibration = calibrate(scores, one_hot(labels, max(2, scores.shape[1])), weight)
        return float(-weight.sum() * log_loss(calibration.logits(scores), labels, weight))


@dataclass(frozen=True)
class Teachers:
    """Fitted teachers, averaged by evidence."""

    weights: dict[str, float]  # by name; they sum to 1
    plain_weight: float  # of the teacher that is the plain student itself; 0 if X alone is a ridge
    taught: Array  # left-out scores, (n, k)
    unlabeled: Array  # ordinary scores
    calibration: Calibration  # from scores to the target; slope 0 if the scores do not follow the labels
    noise: Array | None  # scores of label noise, for the taught and the probed unlabeled rows
    x_alpha: float | None  # penalty of a ridge on X alone
    column_evidence: Array | None  # log-evidence lost without each privileged column
    clear: bool  # whether a product is among them, which takes clear evidence


def can_teach(data: SurrogateData, name: str, *, warn: bool = True) -> bool:
    """Whether the labeled rows with privileged features have different targets and groups; warns if not."""
    if not data.rows.available.any():
        return False
    y, groups = data.rows.target[data.taught], data.groups(data.taught)
    if len(y) >= 2 and np.ptp(y) > 0 and (groups is None or np.ptp(groups) > 0):
        return True
    if not warn:
        return False
    warnings.warn(
        f"{name}: fewer than two different targets (or groups) among the rows that have a label and privileged features, so "
        "there is nothing to learn from `privileged`; the baseline is fitted.",
        UserWarning,
        stacklevel=4,
    )
    return False


def fit_teachers(
    data: SurrogateData, A: Any, target: Target, plain: Array, model: Any, *, report: bool = True
) -> Teachers:
    """Fit all teachers; average their scores with weights proportional to their evidence, and calibrate the average.

    `plain` are the plain student's outputs of all rows. The parameters `estimator` and `teacher` of the estimator `model`
    choose the kind of teachers.
    """
    y, teacher, names = data.rows.target[data.taught], model.teacher, [block.name for block in data.rows.privileged]
    sample = data.sample(A, data.taught, target.columns(y), labels=data.codes(data.taught))
    several = sample.targets.shape[1] > 1
    # With a ridge and one score the plain student is in closed form too, and a ridge on X takes its place.
    closed_form = model.estimator == "ridge" and not several
    with_gaps = [block.rows.with_gaps(block.available) for block in data.rows.privileged]
    tables = [*(Standardizer().fit(Z, data.rows.weight).rows(Z) for Z in with_gaps), A]
    if len(data.unlabeled) and report:
        _warn_if_not_at_random(type(model).__name__, data, tables)
    pooled = teacher is None and member_names(model.estimator) is not None and not closed_form
    candidates = make_candidates(names, ("linear", "rbf") if several and teacher is None else ("linear",))
    if pooled and not several:
        candidates[-1:-1] = [
            Candidate(_label("Z", c, kernel), (1.0,) * len(names) + (float(c),), kernel) for kernel, c in NONLINEAR
        ]
    line = None
    if not closed_form:
        line = line_scores(plain[data.taught], plain[data.unlabeled], sample.targets, sample.weight)
    noise = label_noise(sample.weight) if report and A.allows(N_PROBES * len(candidates)) else None
    by_likelihood = several or (teacher is not None and is_classifier(teacher))
    inputs = TeacherData(tables, data.taught, data.unlabeled, sample, by_likelihood, line, noise)
    fit_one = _fit_ridge if teacher is None else _fit_estimator
    fits = [fit_one(inputs, candidate, model) for candidate in candidates]
    evidence = [inputs.evidence(fit.taught) for fit in fits]
    in_memory = A.allows(N_PROBES * len(candidates))
    found = _clear_product(inputs, fits[-1].path, max(evidence)) if fits[-1].path is not None and in_memory else None
    if found is not None:
        evidence.insert(-1, inputs.evidence(found[0].ridge.left_out))
        fits.insert(-1, _product_teacher(inputs, found[0]))
    # Many candidates that agree: the full evidence is too sure.
    weights = softmax(np.multiply(TEMPER if pooled and not several else 1.0, evidence))

    def mean(values: list[Any]) -> Array:
        return np.asarray(np.tensordot(weights, values, axes=1))

    known = [k for k, fit in enumerate(fits) if fit.noise is not None and weights[k] > 0]  # in closed form
    taught = mean([fit.taught for fit in fits])
    return Teachers(
        weights={fit.candidate.name: float(weight) for fit, weight in zip(fits, weights)},
        plain_weight=0.0 if closed_form else float(weights[-1]),
        taught=taught,
        unlabeled=mean([fit.unlabeled for fit in fits]),
        calibration=target.calibrate(taught, y, sample.weight),
        noise=np.average([fits[k].noise for k in known], axis=0, weights=weights[known]) if known else None,
        x_alpha=fits[-1].alpha,
        column_evidence=_column_evidence(fits, weights, inputs) if found is None else _product_evidence(inputs, *found),
        clear=found is not None,
    )


def make_surrogate(teachers: Teachers | None, target: Target, data: SurrogateData) -> Array | None:
    """Targets of the student, of shape (n_scored, k): calibrated scores; None if the scores do not follow the labels."""
    if teachers is None or teachers.calibration.slope == 0.0:
        return None
    scores = np.empty((len(data.rows), teachers.taught.shape[1]))
    scores[data.taught], scores[data.unlabeled] = teachers.taught, teachers.unlabeled
    return target.surrogate(teachers.calibration, scores[data.scored], data.rows.target[data.scored])


def make_candidates(names: list[Any], kernels: tuple[str, ...] = ("linear",)) -> list[Candidate]:
    """Candidates [Z, cX] for every scale c in every kernel, and X alone as the last one.

    With several privileged tables: all of them together, and each one with the others at a smaller scale.
    """
    m = len(names)
    mixes = [("Z" if m == 1 else "all spaces", (1.0,) * m)]
    for (j, name), other in product(enumerate(names) if m > 1 else (), OTHER_TABLES):
        label = f"{name} + {other:g} others" if other else str(name)
        mixes.append((label, tuple(1.0 if i == j else other for i in range(m))))
    candidates = []
    for kernel, (label, scales), c in product(kernels, mixes, SCALES):
        candidates.append(Candidate(_label(label, c, kernel), (*scales, float(c)), kernel))
    return [*candidates, Candidate(X_ALONE, (0.0,) * m + (1.0,))]


def _label(table: str, c: float, kernel: str) -> str:
    return (f"{table} + {c:g} X" if c else table) + ("" if kernel == "linear" else f" ({kernel})")


def gaussian_evidence(error: float, n: float) -> float:
    r"""Log-evidence :math:`-n/2 \log \mathrm{MSE}` of normal errors, up to a constant."""
    return float(-n / 2 * np.log(max(error, TINY)))


def label_noise(weight: Array) -> Array:
    """Noise of unit variance for rows of these weights, of shape (n, N_PROBES); the same in every call."""
    signs = np.random.default_rng(0).integers(0, 2, size=(len(weight), N_PROBES)) * 2.0 - 1.0
    return np.asarray(signs / np.sqrt(weight)[:, None])


def probed_rows(n: int) -> Array:
    """Positions of the unlabeled rows on which noise is propagated."""
    return np.arange(0, n, 1 + n // PROBED_ROWS)


def line_scores(left_out: Array, others: Array, targets: Array, weight: Array) -> tuple[Array, Array]:
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
    """One teacher: scores of the taught and the unlabeled rows; in closed form, also what it makes of label noise."""

    candidate: Candidate
    taught: Array
    unlabeled: Array
    path: Any = None
    alpha: float | None = None
    noise: Array | None = None


def _fit_estimator(inputs: TeacherData, candidate: Candidate, model: Any) -> _TeacherFit:
    """A cross-fitted teacher of the user's kind."""
    if candidate.name == X_ALONE and inputs.plain is not None:
        return _TeacherFit(candidate, *inputs.plain)
    member = make_member(model.teacher, model)
    taught = member.fit_left_out(replace(inputs.sample, X=inputs.table(candidate, inputs.taught)))
    others = inputs.table(candidate, inputs.unlabeled).values
    return _TeacherFit(candidate, taught, member.predict(others) if others.shape[0] else taught[:0])


def _fit_ridge(inputs: TeacherData, candidate: Candidate, model: Any) -> _TeacherFit:
    """A teacher in closed form."""
    table, others = inputs.table(candidate, inputs.taught), inputs.table(candidate, inputs.unlabeled)
    if candidate.kernel in TEACHING_MEMBERS:
        member = TEACHING_MEMBERS[candidate.kernel](model.random_state)
        left_out = member.fit_left_out(replace(inputs.sample, X=table))
        return _TeacherFit(candidate, left_out, member.predict(others.operand) if others.shape[0] else left_out[:0])
    targets, weight, groups, rbf = inputs.sample.targets, inputs.sample.weight, inputs.sample.groups, None
    if candidate.kernel == "rbf":
        columns = [part.shape[1] for part in inputs.tables]
        rbf = RbfPath.of(table.values, weight, 1.0 / float(np.square(candidate.scales) @ columns), model.random_state)
    path = RidgePath(table, weight) if rbf is None else rbf.path
    ridge = fit_ridge(path, targets, groups, grid=GRID if rbf is None else KERNEL_GRID)

    def predict(rows: Any, coef: Array, intercept: Array) -> Array:
        if not rows.shape[0]:
            return np.empty((0, len(intercept)))
        values = rows.times(coef) if rbf is None else rbf_values(rows.values, rbf.landmarks, rbf.gamma, rbf.dual(coef))
        return np.asarray(values + intercept)

    scores = inputs.plain if candidate.name == X_ALONE else None
    noise_scores = None
    if inputs.noise is not None:
        left_out = path.left_out(inputs.noise, ridge.alpha, groups)
        probed = others.take(probed_rows(others.shape[0]))
        noise_scores = np.vstack([left_out, predict(probed, *path.solve(inputs.noise, ridge.alpha))])
    taught, unlabeled = scores or (ridge.left_out, predict(others, ridge.coef, ridge.intercept))
    return _TeacherFit(candidate, taught, unlabeled, path, ridge.alpha, noise_scores)


def _clear_product(inputs: TeacherData, x_path: RidgePath, best: float) -> tuple[ProductFit, Array] | None:
    """The product and its direction, if it is clearly better than the best sum and than one factor for all rows."""
    Z, sample = inputs.privileged(inputs.taught), inputs.sample
    found = factor(x_path.rows.values, Z, sample.targets, sample.weight, sample.groups)
    if found is None:
        return None

    def is_worth(fit: ProductFit, other: float) -> bool:
        return is_clear(inputs.evidence(fit.ridge.left_out) - other, sample.weight.sum())

    fit = fit_product(x_path, Z, found[0], sample.targets, sample.groups)
    if not is_worth(fit, best):
        return None
    # The scales of this sum are not among those of the candidates.
    sums = fit_product(x_path, Z, np.ones(len(Z)), sample.targets, sample.groups)
    return (fit, found[1]) if is_worth(fit, inputs.evidence(sums.ridge.left_out)) else None


def _product_teacher(inputs: TeacherData, fit: ProductFit) -> _TeacherFit:
    """Scores for the student: with the factor expected given X, not with the row's own."""

    def scores(targets: Array, rows: Array) -> tuple[Array, Array]:
        others = fit.predict(inputs.tables[-1].values[rows], inputs.privileged(rows), targets)
        return fit.left_out(targets, inputs.sample.groups), others

    noise = None
    if inputs.noise is not None:
        noise = np.vstack(scores(inputs.noise, inputs.unlabeled[probed_rows(len(inputs.unlabeled))]))
    candidate = Candidate(PRODUCT, (1.0,) * len(inputs.tables), "product")
    return _TeacherFit(candidate, *scores(inputs.sample.targets, inputs.unlabeled), fit.path, fit.ridge.alpha, noise)


def _product_evidence(inputs: TeacherData, fit: ProductFit, direction: Array) -> Array:
    """Log-evidence lost if the factor does without each column."""
    sample, lost = inputs.sample, np.zeros(fit.Z.shape[1])

    def evidence(product: ProductFit) -> float:
        error = squared_error(product.ridge.left_out, sample.targets, sample.weight)
        return gaussian_evidence(error, fit.path.total)

    for j in np.flatnonzero(direction[1:]):
        h = fit.h - direction[1 + j] * fit.Z[:, j]
        lost[j] = evidence(fit) - evidence(fit_product(fit.x_path, fit.Z, h, sample.targets, sample.groups))
    return lost


def _column_evidence(fits: list[_TeacherFit], weights: Array, inputs: TeacherData) -> Array | None:
    """Mean log-evidence that the linear teachers on privileged features lose without each column; None if not known."""
    if fits[0].path is None:
        return None
    targets, weight, groups = inputs.sample.targets, inputs.sample.weight, inputs.sample.groups
    sizes = [table.shape[1] for table in inputs.tables[:-1]]
    lost = np.zeros(sum(sizes))
    linear = [(w, f) for w, f in zip(weights, fits) if any(f.candidate.scales[:-1]) and f.candidate.kernel == "linear"]
    best = max(share for share, _ in linear)
    pairs = [(share, fit) for share, fit in linear if share >= SMALL_WEIGHT * best]
    total = sum(share for share, _ in pairs)
    for share, fit in pairs:
        seen = np.repeat(np.array(fit.candidate.scales[:-1]) > 0, sizes)
        base = squared_error(fit.taught, targets, weight)
        without = fit.path.errors_without(targets, fit.alpha, np.arange(seen.sum()), groups)
        part = share / total if best > 0 else 1 / len(pairs)
        lost[seen] += part * fit.path.total / 2 * np.log(without / max(base, TINY))
    return lost
