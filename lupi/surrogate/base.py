"""What the surrogate classifier and regressor share: teachers, students, their average and its calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from lupi.inputs.decorators import fit_context
from lupi.inputs.types import Matrix, MatrixLike, PrivilegedLike, RandomState, VectorLike
from lupi.privacy import WithoutPrivilegedRows
from lupi.surrogate import blend
from lupi.surrogate.explanation import Explanation, student_facts, teacher_facts
from lupi.surrogate.input import check_surrogate_input, missingness_warning, take
from lupi.surrogate.students import AveragedStudent, Standardizer, standardized_space
from lupi.surrogate.teachers import Classroom, fitted_lesson, make_candidates, ridge_lesson
from lupi.surrogate.wrapped import SoftLabelStudent, WrappedStudent

if TYPE_CHECKING:
    from lupi.inputs.chunked_rows import AnyRows
    from lupi.surrogate.calibration import Calibration
    from lupi.surrogate.input import SurrogateInput
    from lupi.surrogate.teachers import Lesson

Student: TypeAlias = AveragedStudent | WrappedStudent

# Final slope, relative to the spread of the target, below which the output is only an order.
SMALLEST_SLOPE = 1e-3
# Share of the labels in the final calibration, the rest is the surrogate's. On follow-up and simulated tables this gives
# slopes of out-of-sample labels on logits between 0.9 and 1.1; labels alone 0.6 to 0.9, the surrogate alone 1.0 to 1.3.
LABEL_SHARE = 0.25


class SurrogateBase(WithoutPrivilegedRows, MetaEstimatorMixin, BaseEstimator):
    """Everything but the meaning of y.

    A subclass says what the students learn (``_targets``), how scores become a surrogate (``_surrogate``) and how they
    are calibrated (``_calibrate`` by targets, ``_calibrate_soft`` by surrogates).
    """

    # Routed to fit by every meta-estimator, without a call of set_fit_request.
    __metadata_request__fit = {"privileged": True, "groups": True}
    # Made from the privileged features of single rows.
    _privileged_rows_in = ("surrogate_",)

    _parameter_constraints: dict[str, Any] = {
        "estimator": [HasMethods(["fit", "predict"]), StrOptions({"ridge"}), None],
        "teacher": [HasMethods(["fit", "predict"]), None],
        "scales": ["array-like"],
        "average_plain": ["boolean"],
        "unlabeled": "no_validation",
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        teacher: Any = None,
        scales: Sequence[float] = (0, 0.1, 0.3, 1),
        average_plain: bool = True,
        unlabeled: Any = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.teacher = teacher
        self.scales = scales
        self.average_plain = average_plain
        self.unlabeled = unlabeled
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def _own_student(self) -> bool:
        return self.estimator is None or isinstance(self.estimator, str)

    @property
    def _is_closed_form(self) -> bool:
        """Ridge with one score: its teacher on X alone is a ridge too, in place of the plain student."""
        return self.estimator == "ridge" and not (self._is_classification and len(self.classes_) > 2)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._own_student or get_tags(self.estimator).input_tags.sparse
        tags.input_tags.allow_nan = not self._own_student and get_tags(self.estimator).input_tags.allow_nan
        return tags

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: MatrixLike,
        y: VectorLike,
        privileged: PrivilegedLike | None = None,
        sample_weight: VectorLike | None = None,
        groups: VectorLike | None = None,
    ) -> Self:
        """Fit teachers, surrogate and students.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask collection of shape (n_samples, n_features)
            Decision features. A Dask array or frame stays in its chunks (``estimator="ridge"``, two classes or numbers).
        y : array-like of shape (n_samples,)
            Targets; NaN, None, pandas' NA and the value `unlabeled` mark rows without one.
        privileged : array-like, data frame, or a list or dict of these, optional
            Features that exist at training time only, one row for each example; several privileged spaces as a list or
            dict. A row that is entirely NaN is not available. None fits the plain student.
        sample_weight : array-like of shape (n_samples,), optional
            Counts: weight 2 is the row twice, weight 0 is no row.
        groups : array-like of shape (n_samples,), optional
            Rows that belong together, such as those of one patient: they are left out together.

        Returns
        -------
        self : object
        """
        data = check_surrogate_input(self, X, y, privileged, sample_weight, groups)
        scaler = Standardizer().fit(data.X, data.weight)
        A = scaler.transform(data.X)
        self.n_labeled_, self.n_unlabeled_ = len(data.labeled), len(data.unlabeled)
        targets = self._targets(data.y[data.labeled])
        self._plain = self._fit_student(data, A, scaler, data.labeled, targets, labels=data.y[data.labeled])
        self._student, self._plain_share = self._plain, 1.0
        self._facts: dict[str, Any] = {}
        for name in ("teacher_weights_", "product_weight_", "teacher_slope_", "surrogate_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        lesson = self._teach(data, A) if data.can_teach else None
        if lesson is not None and lesson.surrogate is not None:
            self._learn(data, A, scaler, lesson)
        self._output = self._calibrated_output(data, A, lesson)
        for student in (self._student, self._plain):
            student.__dict__.pop("left_out_", None)
        return self

    def _teach(self, data: SurrogateInput, A: AnyRows) -> Lesson:
        """Scores of the teachers, calibrated to a surrogate unless they say nothing."""
        y, weight = data.y[data.taught], data.weight[data.taught]
        targets = self._targets(y)
        room = Classroom(
            [standardized_space(z, there, data.weight) for z, there in data.spaces],
            A,
            known=data.taught,
            unknown=data.unlabeled,
            targets=targets,
            weight=weight,
            groups=None if data.groups is None else data.groups[data.taught],
            labels=y if self._is_classification else None,
            plain=None if self._is_closed_form else self._plain_outputs(data, A),
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        if len(data.unlabeled):
            missingness_warning(type(self).__name__, data, room.spaces, A)
        kernels = ("linear", "rbf") if targets.shape[1] > 1 and self.teacher is None else ("linear",)
        candidates = make_candidates(self.scales, data.space_names, kernels)
        lesson = (
            ridge_lesson(room, candidates) if self.teacher is None else fitted_lesson(room, candidates, self.teacher)
        )
        weights = lesson.weights[: len(candidates) - 1].reshape(len(kernels), -1).sum(axis=0)
        self.teacher_weights_ = np.append(weights, lesson.weights[-1])
        self.product_weight_ = float(lesson.weights[len(candidates) - 1 : -1].sum())
        calibration = self._calibrate(lesson.known, y, weight)
        self.teacher_slope_ = calibration.slope
        n_classes = len(self.classes_) if self._is_classification else None
        self._facts = teacher_facts(lesson, calibration.slope, data, targets, y, weight, n_classes)
        if calibration.slope > 0.0:
            scores = np.empty((len(data.y), targets.shape[1]))
            scores[data.taught], scores[data.unlabeled] = lesson.known, lesson.unknown
            rows = data.with_surrogate
            lesson.surrogate = self._surrogate(calibration, scores[rows], data.y[rows])
        return lesson

    def _plain_outputs(self, data: SurrogateInput, A: Matrix) -> tuple[np.ndarray, np.ndarray]:
        """Outputs of the plain student: left-out ones of the taught rows, ordinary ones of the unlabeled."""
        known = self._plain.left_out_[np.isin(data.labeled, data.taught)]
        if not len(data.unlabeled):
            return known, known[:0]
        return known, self._student_output(self._plain, data, A, data.unlabeled)

    def _learn(self, data: SurrogateInput, A: AnyRows, scaler: Standardizer, lesson: Lesson) -> None:
        """Fit the student of the surrogate; its share beside the plain one."""
        rows, surrogate = data.with_surrogate, np.asarray(lesson.surrogate)
        self.surrogate_ = np.full((data.n_rows, surrogate.shape[1]), np.nan)
        self.surrogate_[data.kept[rows]] = surrogate
        self.surrogate_ = self.surrogate_[:, 0] if surrogate.shape[1] == 1 else self.surrogate_
        labeled = np.flatnonzero(np.isin(rows, data.taught))
        self._student = self._fit_student(data, A, scaler, rows, surrogate, honest=labeled)
        share = data.weight[data.labeled].sum() / data.weight[rows].sum() if self.average_plain else 0.0
        self._plain_share = share / (1.0 + share)
        if self.average_plain:
            self._plain_share = 1.0 - (1.0 - self._plain_share) * (1.0 - self._own_echo(lesson))
        self._facts = student_facts(self._facts, data, A, lesson, self._student.left_out_, self._plain_share)

    def _own_echo(self, lesson: Lesson) -> float:
        """How far the surrogate is the plain student's own output, which has nothing to add to it."""
        return 0.0 if self._is_closed_form else lesson.weights[-1]

    def _calibrated_output(self, data: SurrogateInput, A: AnyRows, lesson: Lesson | None) -> Calibration:
        """From averaged outputs to logits (or numbers), with left-out outputs on both sides.

        The labels alone make the output too sure (they took part in the teacher), the surrogate alone a little too shy
        (its teacher shrinks): a blend of both is right.
        """
        outputs = self._left_out_outputs(data, A)
        labeled = data.labeled[~np.isnan(outputs[data.labeled, 0])]
        if not len(
            labeled
        ):  # one row, or one group: nobody could be left out, and the plain student's own outputs have to do
            labeled = data.labeled
            outputs[labeled] = self._student_output(self._plain, data, A, labeled) / self._plain.spread_
        y, weight = data.y[labeled], data.weight[labeled]
        found: Calibration = self._calibrate(outputs[labeled], y, weight)
        if self._plain_share < 1.0 and lesson is not None and lesson.surrogate is not None:
            rows, surrogate = data.with_surrogate, lesson.surrogate
            there = ~np.isnan(outputs[rows, 0])
            soft = self._calibrate_soft(outputs[rows[there]], surrogate[there], data.weight[rows[there]])
            found = blend(found, soft, 1.0 - (1.0 - LABEL_SHARE) * (1.0 - self._own_echo(lesson)))
        return replace(found, slope=max(found.slope, SMALLEST_SLOPE * self._target_spread(y, weight)))

    def _left_out_outputs(self, data: SurrogateInput, A: AnyRows) -> np.ndarray:
        """Averaged outputs of all rows, by students that did not see the row; NaN where there are none."""
        total = np.zeros((len(data.y), self._plain.left_out_.shape[1]))
        for student, rows, share in (
            (self._plain, data.labeled, self._plain_share),
            (self._student, data.with_surrogate, 1.0 - self._plain_share),
        ):
            if share:
                output = np.empty_like(total)
                output[rows] = student.left_out_
                others = np.setdiff1d(np.arange(len(total)), rows)
                if len(others):
                    output[others] = self._student_output(student, data, A, others)
                total += share / student.spread_ * output
        return total

    def _fit_student(
        self,
        data: SurrogateInput,
        A: AnyRows,
        scaler: Standardizer,
        rows: np.ndarray,
        targets: np.ndarray,
        labels: np.ndarray | None = None,
        honest: np.ndarray | None = None,
    ) -> Student:
        weight = data.weight[rows]
        groups = None if data.groups is None else data.groups[rows]
        if self._own_student:
            members = ("ridge",) if self.estimator == "ridge" else AveragedStudent().members
            student = AveragedStudent(members, random_state=self.random_state)
            return student.fit(take(A, rows), targets, weight, groups, scaler)
        student = WrappedStudent(self.estimator, n_jobs=self.n_jobs, random_state=self.random_state)
        return student.fit(
            _safe_indexing(data.table, rows), targets, weight, groups,
            labels=labels if self._is_classification else None, honest=honest,
        )  # fmt: skip

    def _student_output(self, student: Student, data: SurrogateInput, A: AnyRows, rows: np.ndarray) -> np.ndarray:
        if self._own_student:
            return student.predict_scaled(take(A, rows))
        return student.predict(_safe_indexing(data.table, rows))

    def _scores(self, X: MatrixLike) -> np.ndarray:
        """Calibrated output of shape (n, k)."""
        check_is_fitted(self)
        finite = "allow-nan" if get_tags(self).input_tags.allow_nan else True
        checked = validate_data(
            self, X, accept_sparse="csr", dtype=np.float64, order="C", ensure_all_finite=finite, reset=False
        )
        table = X if hasattr(X, "columns") and not self._own_student else checked
        output: Any = self._plain.predict(table) / self._plain.spread_ * self._plain_share if self._plain_share else 0.0
        if self._plain_share < 1.0:
            output = output + (1.0 - self._plain_share) * self._student.predict(table) / self._student.spread_
        return self._output.logits(output)

    def explain(self) -> Explanation:
        """What the teachers and the student were worth.

        Returns
        -------
        Explanation
            A dict of numbers that prints as text: weights of the teachers, their quality on left-out rows, how much of
            the surrogate X can predict, about how many more labeled rows it is worth, and which privileged columns
            carry it (log-evidence lost without each, at the same penalty).
        """
        check_is_fitted(self)
        return Explanation(self._facts)

    @property
    def estimator_(self) -> Any:
        """The fitted student of the surrogate; the plain student where there is no surrogate."""
        return _unwrapped(self._student)

    @property
    def plain_estimator_(self) -> Any:
        """The fitted student of the labels."""
        return _unwrapped(self._plain)


def _unwrapped(student: Student) -> BaseEstimator:
    """What the user knows of a student: his own estimator, fitted."""
    inner = getattr(student, "estimator_", student)
    return inner.estimator_ if isinstance(inner, SoftLabelStudent) else inner
