"""Surrogate learning: a student that learns, from X, the less noisy score of a teacher who sees privileged features."""

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, _fit_context
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from lupi.estimators.surrogate_input import check_surrogate_input, missingness_warning
from lupi.estimators.surrogate_students import AveragedStudent, Standardizer
from lupi.estimators.surrogate_teachers import fitted_lesson, make_candidates, ridge_lesson
from lupi.estimators.surrogate_wrapped import LOGIT_LIMIT, WrappedStudent
from lupi.problems.surrogate import Calibration, calibrate, calibrate_values, spread

# Final slope, relative to the spread of the target, below which the output is only an order.
SMALLEST_SLOPE = 1e-3


class _Surrogate(MetaEstimatorMixin, BaseEstimator):
    """What the classifier and the regressor share: everything but the meaning of y."""

    # Routed to fit by every meta-estimator, without a call of set_fit_request.
    __metadata_request__fit = {"privileged": True, "groups": True}
    # Left out by lupi.save: made from the privileged features of single rows.
    _privileged_rows_in = ("surrogate_",)

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"]), StrOptions({"ridge"}), None],
        "teacher": [HasMethods(["fit", "predict"]), None],
        "scales": ["array-like"],
        "average_plain": ["boolean"],
        "unlabelled": "no_validation",
        "n_jobs": [None, int],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator=None,
        *,
        teacher=None,
        scales=(0, 0.1, 0.3, 1),
        average_plain=True,
        unlabelled=None,
        n_jobs=None,
        random_state=None,
    ):
        self.estimator = estimator
        self.teacher = teacher
        self.scales = scales
        self.average_plain = average_plain
        self.unlabelled = unlabelled
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def _own_student(self):
        return self.estimator is None or isinstance(self.estimator, str)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._own_student or get_tags(self.estimator).input_tags.sparse
        tags.input_tags.allow_nan = not self._own_student and get_tags(self.estimator).input_tags.allow_nan
        return tags

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, privileged=None, sample_weight=None, groups=None):
        """Fit teachers, surrogate and students.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Decision features.
        y : array-like of shape (n_samples,)
            Targets; NaN, None, pandas' NA and the value `unlabelled` mark rows without one.
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
        self.n_labelled_, self.n_unlabelled_ = len(data.labelled), len(data.unlabelled)
        targets = self._targets(data.y[data.labelled])
        self._plain = self._fit_student(data, A, scaler, data.labelled, targets, labels=data.y[data.labelled])
        lesson = self._teach(data, A) if data.can_teach else None
        self._student = self._plain
        self._plain_share, honest = 1.0, self._plain.left_out_ / self._plain.spread_
        if lesson is not None:
            honest = self._learn(data, A, scaler, lesson, honest)
        self._set_output(honest, data.y[data.labelled], data.weight[data.labelled])
        for student in (self._student, self._plain):
            vars(student).pop("left_out_", None)
        return self

    def _teach(self, data, A):
        """Steps 1 to 4: scores of the teachers, calibrated; None where they say nothing."""
        spaces = [Standardizer().fit(z[there], data.weight[there]).transform(z) for z, there in data.spaces]
        for space, (_, there) in zip(spaces, data.spaces):
            space[~there] = 0.0
        if len(data.unlabelled):
            missingness_warning(type(self).__name__, data, spaces, A)
        y, weight = data.y[data.taught], data.weight[data.taught]
        groups = None if data.groups is None else data.groups[data.taught]
        targets = self._targets(y)
        several = y if targets.shape[1] > 1 else None
        kernels = ("linear",) if several is None or self.teacher is not None else ("linear", "rbf")
        candidates = make_candidates(self.scales, data.space_names, kernels)
        if self.teacher is None:
            lesson = ridge_lesson(
                candidates, spaces, A, data.taught, data.unlabelled, targets, weight, groups, several, self.random_state
            )
        else:
            labels = y if self._is_classification else None
            lesson = fitted_lesson(
                self.teacher, candidates, spaces, A, data.taught, data.unlabelled, targets, weight, groups, labels,
                self.n_jobs, self.random_state,
            )  # fmt: skip
        self.teacher_weights_ = lesson.weights.reshape(len(kernels), -1).sum(axis=0)
        calibration = self._calibrate(lesson.known, y, weight)
        self.teacher_slope_ = calibration.slope
        if calibration.slope == 0.0:
            return None
        return self._surrogate(calibration, np.vstack([lesson.known, lesson.unknown]))

    def _learn(self, data, A, scaler, surrogate, honest_plain):
        """Steps 5 and 6: the student of the surrogate, averaged with the plain one."""
        rows = np.concatenate([data.taught, data.unlabelled])
        self.surrogate_ = np.full((data.n_rows, surrogate.shape[1]), np.nan)
        self.surrogate_[data.kept[rows]] = surrogate
        self.surrogate_ = self.surrogate_[:, 0] if surrogate.shape[1] == 1 else self.surrogate_
        self._student = self._fit_student(data, A, scaler, rows, surrogate, honest=np.arange(len(data.taught)))
        share = data.weight[data.labelled].sum() / data.weight[rows].sum() if self.average_plain else 0.0
        self._plain_share = share / (1.0 + share)
        honest = np.empty_like(honest_plain)
        taught = np.isin(data.labelled, data.taught)
        honest[taught] = self._student.left_out_[: len(data.taught)]
        if not taught.all():
            honest[~taught] = self._student_output(self._student, data, A, data.labelled[~taught])
        honest /= self._student.spread_
        return (1.0 - self._plain_share) * honest + self._plain_share * honest_plain

    def _fit_student(self, data, A, scaler, rows, targets, labels=None, honest=None):
        weight = data.weight[rows]
        groups = None if data.groups is None else data.groups[rows]
        if self._own_student:
            members = ("ridge",) if self.estimator == "ridge" else AveragedStudent().members
            student = AveragedStudent(members, random_state=self.random_state)
            return student.fit(A[rows], targets, weight, groups, scaler)
        student = WrappedStudent(self.estimator, n_jobs=self.n_jobs, random_state=self.random_state)
        return student.fit(
            _safe_indexing(data.table, rows), targets, weight, groups,
            labels=labels if self._is_classification else None, honest=honest,
        )  # fmt: skip

    def _student_output(self, student, data, A, rows):
        if self._own_student:
            return student.predict_scaled(A[rows])
        return student.predict(_safe_indexing(data.table, rows))

    def _set_output(self, honest, y, weight):
        """Calibrate the averaged output with left-out values of the labelled rows."""
        found = self._calibrate(honest, y, weight)
        slope = max(found.slope, SMALLEST_SLOPE * self._target_spread(y, weight))
        self._output = Calibration(found.centre, found.scale, found.intercept, slope)

    def _scores(self, X):
        """Calibrated output of shape (n, k)."""
        check_is_fitted(self)
        finite = "allow-nan" if get_tags(self).input_tags.allow_nan else True
        checked = validate_data(
            self, X, accept_sparse="csr", dtype=np.float64, order="C", ensure_all_finite=finite, reset=False
        )
        table = X if hasattr(X, "columns") and not self._own_student else checked
        output = self._plain.predict(table) / self._plain.spread_ * self._plain_share if self._plain_share else 0.0
        if self._plain_share < 1.0:
            output = output + (1.0 - self._plain_share) * self._student.predict(table) / self._student.spread_
        return self._output.logits(output)

    @property
    def estimator_(self):
        """The fitted student of the surrogate; the plain student where there is no surrogate."""
        return getattr(self._student, "estimator_", self._student)

    @property
    def plain_estimator_(self):
        """The fitted student of the labels."""
        return getattr(self._plain, "estimator_", self._plain)


class SurrogateClassifier(ClassifierMixin, _Surrogate):
    _is_classification = True

    def _targets(self, y):
        """Signs: one column for two classes, otherwise one a class."""
        if len(self.classes_) == 2:
            return 2.0 * y[:, None] - 1.0
        signs = np.full((len(y), len(self.classes_)), -1.0)
        signs[np.arange(len(y)), y] = 1.0
        return signs

    def _calibrate(self, scores, y, weight):
        return calibrate(scores, y, weight)

    def _surrogate(self, calibration, scores):
        """Clipped logits of two classes, probabilities of several."""
        logits = calibration.logits(scores)
        return np.clip(logits, -LOGIT_LIMIT, LOGIT_LIMIT) if logits.shape[1] == 1 else softmax(logits, axis=1)

    def _target_spread(self, y, weight):
        return 1.0

    def decision_function(self, X):
        """Calibrated log-odds of the second class, or one log-probability (up to a constant) a class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X):
        """Class probabilities, calibrated on left-out outputs.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        scores = self._scores(X)
        if scores.shape[1] == 1:
            positive = expit(scores[:, 0])
            return np.column_stack([1.0 - positive, positive])
        return softmax(scores, axis=1)

    def predict(self, X):
        """The most probable class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores = self._scores(X)
        best = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes_[best]


class SurrogateRegressor(RegressorMixin, _Surrogate):
    _is_classification = False

    def _targets(self, y):
        return y[:, None]

    def _calibrate(self, scores, y, weight):
        return calibrate_values(scores, y, weight)

    def _surrogate(self, calibration, scores):
        return scores

    def _target_spread(self, y, weight):
        return spread(y[:, None], weight)

    def predict(self, X):
        """Predict from X alone.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._scores(X)[:, 0]
