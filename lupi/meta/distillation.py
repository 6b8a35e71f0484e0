"""Generalized distillation: a student that imitates a teacher on the privileged features."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from lupi.inputs import check_magnitude, check_partial_targets, check_privileged, is_chunked
from lupi.inputs.chunked_input import read_chunks
from lupi.inputs.chunked_rows import ChunkedRows
from lupi.inputs.types import MatrixLike, PrivilegedLike, VectorLike
from lupi.meta._meta import StudentMethods
from lupi.meta.chunked_students import fit_rows, outputs
from lupi.model_parts import model_part
from lupi.privacy import WithoutPrivilegedRows
from lupi.surrogate.estimators import SMALLEST_SHARE
from lupi.surrogate.surrogate import SurrogateClassifier, SurrogateRegressor
from lupi.surrogate.targets import class_shares

if TYPE_CHECKING:
    from lupi.inputs.checks import TargetInput
    from lupi.inputs.chunked_rows import AnyRows


@model_part
class Distillation(StudentMethods, WithoutPrivilegedRows, MetaEstimatorMixin, BaseEstimator):
    r"""Fit a teacher on the privileged features, then any estimator on X to imitate it [1]_.

    The teacher's log-probabilities, divided by the temperature, give each training example a soft label
    :math:`s_i`. The student is fitted to :math:`(1 - \lambda) y_i + \lambda s_i`, the imitation :math:`\lambda`
    between 0 (the labels alone) and 1 (the teacher alone): a classifier sees each example once for every class, weighted
    with that class's share; a regressor gets the mixed target. A row without a label has the teacher's alone.

    Parameters
    ----------
    estimator : estimator
        The student. A classifier's ``fit`` has to take ``sample_weight``.
    teacher : estimator, default=None
        With ``teacher_features="auto"`` as in :class:`SurrogateClassifier`: None is the averaged ridge. On the
        privileged features alone ``LogisticRegression()`` or ``Ridge()`` if None, and a classifier needs ``predict_proba``.
    imitation : float in [0, 1], default=0.5
        Weight of the teacher's labels.
    temperature : float > 0, default=1.0
        Divides the teacher's log-probabilities: above 1 softer, below 1 harder labels. Not used in regression.
    teacher_features : {"auto", "privileged"}, default="auto"
        "auto": the teachers of :class:`SurrogateClassifier`, on the privileged features and X together, cross-fitted and
        averaged by their evidence; where they say nothing, the student learns the labels alone. "privileged": one
        teacher on the privileged features, who scores the rows that he was fitted on, as in [1]_; useless privileged
        features then do harm.
    unlabeled : object, default=None
        A value of `y` that means "no label", such as -1, beside NaN, None and pandas' NA.

    Attributes
    ----------
    estimator_ : estimator
        The fitted student.
    teacher_ : estimator or None
        The fitted teacher; with ``teacher_features="auto"`` the surrogate model that holds the averaged ones. None where
        there was nothing to teach. Not in a file or a pickle.
    classes_ : ndarray
        The labels, if the student is a classifier.
    n_features_in_ : int
        Number of decision features.

    Notes
    -----
    An example whose row of ``privileged`` is entirely NaN keeps its own label; without a label it is left out.
    ``privileged=None`` fits the student alone, on the rows with labels.

    References
    ----------
    .. [1] D. Lopez-Paz, L. Bottou, B. Schölkopf, V. Vapnik. Unifying distillation and privileged information.
       ICLR, 2016.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from lupi import Distillation
    >>> from lupi.datasets import load_digits_lowres
    >>> X, y, privileged = load_digits_lowres(classes=(3, 8), return_X_y_privileged=True)
    >>> model = Distillation(SVC()).fit(X[::2], y[::2], privileged=privileged[::2] / 16)
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    __metadata_request__fit = {"privileged": True}
    # A kernel or neighbor method keeps rows of its training data.
    _privileged_rows_in = ("teacher_",)

    _parameter_constraints: dict[str, Any] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "teacher": [HasMethods(["fit", "predict"]), None],
        "imitation": [Interval(Real, 0, 1, closed="both")],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "teacher_features": [StrOptions({"auto", "privileged"})],
        "unlabeled": "no_validation",
    }

    # Models of files that were written before these parameters existed.
    teacher_features, unlabeled = "privileged", None

    def __init__(
        self,
        estimator: Any,
        teacher: Any = None,
        *,
        imitation: float = 0.5,
        temperature: float = 1.0,
        teacher_features: str = "auto",
        unlabeled: Any = None,
    ) -> None:
        self.estimator = estimator
        self.teacher = teacher
        self.imitation = imitation
        self.temperature = temperature
        self.teacher_features = teacher_features
        self.unlabeled = unlabeled

    def fit(self, X: MatrixLike, y: VectorLike, privileged: PrivilegedLike | None = None) -> Self:
        """Fit the teacher, then the student.

        Parameters
        ----------
        X : array-like, sparse matrix or Dask collection of shape (n_samples, n_features)
            Decision features. A Dask array or frame stays in its chunks (students ``Ridge`` and linear kernel machines).
        y : array-like of shape (n_samples,)
            Targets; NaN, None, pandas' NA and the value `unlabeled` mark rows without one.
        privileged : array-like of shape (n_samples, n_privileged), optional
            Features that exist at training time only. A row that is entirely NaN is not available for that example.

        Returns
        -------
        Distillation
            This object.
        """
        features, target, weights = self._lesson(X, y, privileged)
        self.estimator_ = fit_rows(clone(self.estimator), features, target, **weights)
        return self

    def _lesson(
        self, X: MatrixLike, y: VectorLike, privileged: PrivilegedLike
    ) -> tuple[AnyRows, np.ndarray, dict[str, Any]]:
        """Fit the teacher; returns what the student is fitted on: features, target, keywords."""
        self._validate_params()
        given, given_privileged = X, privileged
        if is_chunked(X):
            chunks = read_chunks(self, X, privileged, (np.float64,), y=y)
            X, privileged, y = chunks.table(), chunks.privileged, chunks.vectors["y"]
            chunks.set_columns(self)
        if not isinstance(X, ChunkedRows):
            X = validate_data(self, X, accept_sparse="csr", dtype="numeric")
            check_magnitude(X, "X", estimator_name="Distillation")
        classification = is_classifier(self.estimator)
        known = check_partial_targets(
            y, X, classification=classification, unlabeled=self.unlabeled, estimator_name="Distillation"
        )
        privileged = check_privileged(
            privileged,
            X.shape[0],
            estimator_name="Distillation",
            accept_sparse=self.teacher_features == "privileged",  # the averaged teachers standardize
            index_of=given,
        )
        self.teacher_: Any = None
        available = None if privileged is None else privileged.available
        if available is None or len(np.unique(known.y[known.labeled & available])) < (2 if classification else 1):
            return self._labels_alone(X, known)
        if classification and not has_fit_parameter(self.estimator, "sample_weight"):
            raise TypeError(
                "Distillation weights each example with its share of every class, so the student's `fit` must take "
                f"`sample_weight`; that of {type(self.estimator).__name__} does not."
            )
        if self.teacher_features == "auto":
            soft = self._averaged_teachers(given, known, given_privileged)
        else:
            soft = self._one_teacher(X, known, privileged)
        if soft is None:
            return self._labels_alone(X, known)
        return (self._soft_labels if classification else self._mixed_targets)(X, known, soft)

    def _labels_alone(self, X: MatrixLike, known: TargetInput) -> tuple[AnyRows, np.ndarray, dict[str, Any]]:
        rows = np.flatnonzero(known.labeled)
        return _rows(X, rows), known.values[rows], {}

    def _averaged_teachers(self, X: MatrixLike, known: TargetInput, privileged: PrivilegedLike) -> np.ndarray | None:
        """Probabilities, or numbers, of cross-fitted teachers on [Z, X]; NaN where there are none, None if they say nothing."""
        kind = SurrogateClassifier if known.classes is not None else SurrogateRegressor
        missing = -1 if known.classes is not None else None
        # The plain student of the teachers' model is not needed here: the closed form is the quickest.
        self.teacher_ = kind("ridge", teacher=self.teacher, unlabeled=missing, random_state=0)
        self.teacher_.fit(X, known.y, privileged=privileged)
        surrogate = getattr(self.teacher_, "surrogate_", None)
        if surrogate is None or known.classes is None or surrogate.ndim == 2:
            return surrogate
        return class_shares(surrogate[:, None])

    def _one_teacher(self, X: MatrixLike, known: TargetInput, privileged: PrivilegedLike) -> np.ndarray:
        """The same of one teacher on Z, who has seen the labels of the rows that he scores."""
        rows = np.flatnonzero(known.labeled & privileged.available)
        scored = np.flatnonzero(privileged.available)
        if known.classes is None:
            self.teacher_ = clone(Ridge() if self.teacher is None else self.teacher)
            fit_rows(self.teacher_, privileged.data[rows], known.values[rows])
            soft = np.full(X.shape[0], np.nan)
            soft[scored] = np.ravel(outputs(_rows(privileged.data, scored), self.teacher_, "predict"))
            return soft
        self.teacher_ = clone(LogisticRegression(max_iter=1000) if self.teacher is None else self.teacher)
        fit_rows(self.teacher_, privileged.data[rows], known.values[rows])
        soft = np.full((X.shape[0], len(known.classes)), np.nan)
        soft[scored] = 0.0
        columns = np.searchsorted(known.classes, self.teacher_.classes_)
        soft[np.ix_(scored, columns)] = outputs(_rows(privileged.data, scored), self.teacher_, "predict_proba")
        return soft

    def _soft_labels(
        self, X: MatrixLike, known: TargetInput, soft: np.ndarray
    ) -> tuple[AnyRows, np.ndarray, dict[str, Any]]:
        """Every row once for each class, weighted with the class's share in its mixed label."""
        scored = ~np.isnan(soft[:, 0])
        shares = np.zeros_like(soft)
        shares[known.labeled, known.y[known.labeled]] = 1.0
        imitation = np.where(known.labeled, self.imitation, 1.0)[scored, None]
        shares[scored] = (1.0 - imitation) * shares[scored] + imitation * self._soften(soft[scored])
        example, label = np.nonzero(shares > SMALLEST_SHARE)
        return _rows(X, example), np.asarray(known.classes)[label], {"sample_weight": shares[example, label]}

    def _soften(self, probabilities: np.ndarray) -> np.ndarray:
        logits = np.log(np.maximum(probabilities, np.finfo(float).tiny)) / self.temperature
        soft = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(soft / soft.sum(axis=1, keepdims=True))

    def _mixed_targets(
        self, X: MatrixLike, known: TargetInput, soft: np.ndarray
    ) -> tuple[AnyRows, np.ndarray, dict[str, Any]]:
        scored = ~np.isnan(soft)
        mixed = known.y.copy()
        imitation = np.where(known.labeled, self.imitation, 1.0)
        own = np.where(known.labeled, known.y, 0.0)
        mixed[scored] = ((1.0 - imitation) * own + imitation * soft)[scored]
        rows = np.flatnonzero(known.labeled | scored)
        return _rows(X, rows), mixed[rows], {}

    def _features(self, X: MatrixLike) -> MatrixLike:
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype="numeric", reset=False)


def _rows(X: AnyRows, rows: np.ndarray) -> AnyRows:
    """Some of the rows; those in blocks stay there."""
    return X.view(rows) if isinstance(X, ChunkedRows) else _safe_indexing(X, rows)
