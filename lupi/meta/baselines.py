"""Generalized distillation and knowledge transfer: baselines around any scikit-learn estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.extmath import softmax
from sklearn.utils.validation import has_fit_parameter

from lupi.inputs.decorators import fit_context
from lupi.inputs.training_set import TrainingSet, check_rows, check_training_set
from lupi.inputs.types import MatrixLike, PrivilegedLike, RandomState, VectorLike
from lupi.meta.privileged_columns import Delegation
from lupi.privacy import model_part, privileged_is_kept

ESTIMATOR = HasMethods(["fit", "predict"])
# Soft labels below this share of a class are dropped.
SMALLEST_SHARE = 1e-3


class _Student(Delegation):
    """Score and tags of a fitted student, ``estimator_``."""

    __metadata_request__fit = {"privileged": True}

    def score(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike | None = None) -> float:
        """Score of the student: accuracy or R2.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        float
        """
        features = self._features(X)  # raises NotFittedError
        return float(self.estimator_.score(features, y, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags


def _check(student: _Student, X: MatrixLike, y: VectorLike, privileged: PrivilegedLike) -> TrainingSet:
    """Check the input of `fit`; there may be one privileged table."""
    target = "classes" if is_classifier(student.estimator) else "numbers"
    data = check_training_set(student, X, y, privileged, target=target, dense_privileged=True)
    if len(data.privileged) > 1:
        raise ValueError(
            f"{type(student).__name__}: `privileged` has {len(data.privileged)} tables; pass one table with all columns."
        )
    return data


def _append(X: MatrixLike, columns: np.ndarray, passthrough: bool) -> MatrixLike:
    """The columns, after X if `passthrough`."""
    columns = np.reshape(columns, (len(columns), -1))
    if not passthrough:
        return columns
    return sparse.hstack([X, columns], format="csr") if sparse.issparse(X) else np.hstack([X, columns])


@model_part
@dataclass(eq=False, repr=False)
class Distillation(_Student):
    r"""Fit a teacher on the privileged features, then any estimator on X to imitate it [1]_.

    The teacher's log-probabilities, divided by the temperature, give each training example a soft label
    :math:`s_i`. The student is fitted to :math:`(1 - \lambda) y_i + \lambda s_i`, with the imitation :math:`\lambda`
    between 0 (labels only) and 1 (teacher only). A classifier is fitted to each example once per class, weighted by the
    share of that class; a regressor is fitted to the mixed target. Unlabeled rows get the teacher's label.

    Parameters
    ----------
    estimator : estimator
        The student. The ``fit`` of a classifier must take ``sample_weight``.
    teacher : estimator, default=None
        Estimator on the privileged features; ``LogisticRegression()`` or ``Ridge()`` if None. A classifier needs
        ``predict_proba``.
    imitation : float in [0, 1], default=0.5
        Weight of the teacher's labels.
    temperature : float > 0, default=1.0
        Divides the teacher's log-probabilities: values above 1 soften the labels. Not used in regression.
    passthrough : bool, default=False
        Whether the teacher sees X in addition to the privileged features.
    cv : int, default=None
        Number of folds of the teacher's out-of-fold predictions for labeled rows; at most the rows of the smallest class.
        None: the teacher predicts the rows that it was fitted on, as in [1]_.
    unlabeled : object, default=None
        Value of `y` that marks unlabeled rows, such as -1, in addition to NaN, None and pandas' NA.
    random_state : int, RandomState or None, default=None
        Seed of the folds.

    Attributes
    ----------
    estimator_ : estimator
        The fitted student.
    teacher_ : estimator or None
        The fitted teacher; None without privileged features. Not saved.
    classes_ : ndarray
        Labels, if the student is a classifier.
    n_features_in_ : int
        Number of decision features.

    See Also
    --------
    SurrogateClassifier : Cross-fitted teachers on the privileged and decision features, weighted by their evidence.

    Notes
    -----
    Without `cv`, a teacher that overfits returns the labels. Useless privileged features do harm. An example whose row of
    ``privileged`` is entirely NaN keeps its label. ``privileged=None`` fits the student to the labels.

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

    _needed = ("estimator_",)

    _parameter_constraints = {
        "estimator": [ESTIMATOR],
        "teacher": [ESTIMATOR, None],
        "imitation": [Interval(Real, 0, 1, closed="both")],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "passthrough": ["boolean"],
        "cv": [Interval(Integral, 2, None, closed="left"), None],
        "random_state": ["random_state"],
        "unlabeled": "no_validation",
    }

    estimator: Any
    teacher: Any = None
    _: KW_ONLY
    imitation: float = 0.5
    temperature: float = 1.0
    passthrough: bool = False
    cv: int | None = None
    unlabeled: Any = None
    random_state: RandomState = None

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: MatrixLike, y: VectorLike, privileged: PrivilegedLike | None = None) -> Self:
        """Fit the teacher, then the student.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Decision features.
        y : array-like of shape (n_samples,)
            Targets; NaN, None, pandas' NA and the value `unlabeled` mark unlabeled rows.
        privileged : array-like of shape (n_samples, n_privileged), optional
            Features that exist at training time only. A row that is entirely NaN is not available for that example.

        Returns
        -------
        Distillation
            This object.
        """
        data = _check(self, X, y, privileged)
        labeled, scored, classes = data.labeled, np.flatnonzero(data.available), data.classes
        X, taught = data.X.values, labeled & data.available
        self.teacher_: Any = None
        if len(np.unique(data.target[taught])) < (1 if classes is None else 2):
            self.estimator_ = clone(self.estimator).fit(X[labeled], data.labels[labeled])
            return self
        default = Ridge() if classes is None else LogisticRegression(max_iter=1000)
        teacher = default if self.teacher is None else self.teacher
        Z = _append(X, data.privileged[0].rows.values, self.passthrough)
        self.teacher_ = clone(teacher).fit(Z[taught], data.labels[taught])
        method = "predict" if classes is None else "predict_proba"
        predictions = getattr(self.teacher_, method)(Z[scored])
        strata = np.zeros(taught.sum()) if classes is None else data.target[taught]
        n_folds = min(self.cv or 1, np.unique(strata, return_counts=True)[1].min())
        if n_folds > 1:
            folds = StratifiedKFold(n_folds, shuffle=True, random_state=self.random_state).split(strata, strata)
            left_out = cross_val_predict(teacher, Z[taught], data.labels[taught], cv=folds, method=method)
            predictions[labeled[scored]] = left_out
        # One column of numbers, or the share of every class.
        given = data.target[:, None] if classes is None else data.target[:, None] == np.arange(len(classes))
        mixed = np.where(labeled[:, None], given, 0.0)
        imitation = np.where(labeled[scored, None], self.imitation, 1.0)
        soft = self._soft_targets(predictions, classes)
        mixed[scored] = (1.0 - imitation) * mixed[scored] + imitation * soft
        if classes is None:
            self.estimator_ = clone(self.estimator).fit(X, mixed[:, 0])
        else:
            rows, codes = np.nonzero(mixed > SMALLEST_SHARE)
            weight = mixed[rows, codes]
            self.estimator_ = clone(self.estimator).fit(X[rows], classes[codes], sample_weight=weight)
        return self

    def _soft_targets(self, predictions: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
        """The teacher's numbers, or its probabilities at the temperature, one column per class."""
        if classes is None:
            return np.reshape(predictions, (-1, 1))
        if not has_fit_parameter(self.estimator, "sample_weight"):
            raise TypeError(
                "Distillation weights each example by its share of every class, so the student's `fit` must take "
                f"`sample_weight`; that of {type(self.estimator).__name__} does not."
            )
        probabilities = np.zeros((len(predictions), len(classes)))
        probabilities[:, np.searchsorted(classes, self.teacher_.classes_)] = predictions
        return np.asarray(softmax(np.log(np.maximum(probabilities, np.finfo(float).tiny)) / self.temperature))

    def _features(self, X: MatrixLike) -> MatrixLike:
        return check_rows(self, X)


@model_part
@dataclass(eq=False, repr=False)
class KnowledgeTransfer(_Student):
    """Learn to predict the privileged features, append the predictions to X, and fit any estimator on both [1]_.

    The student is fitted to out-of-fold predictions: it sees the same kind of features at training and prediction time.

    Parameters
    ----------
    estimator : estimator
        Classifier or regressor on the extended features: the student.
    regressor : estimator, default=None
        Predicts all privileged features from X; ``Ridge(tol=1e-10)`` if None. If regressor and student are both linear, the
        predictions only change the regularization.
    passthrough : bool, default=True
        Whether the student sees X in addition to the predictions. False suits a target that depends on X only through the
        privileged features.
    cv : int, default=5
        Number of folds of the out-of-fold predictions.
    unlabeled : object, default=None
        Value of `y` that marks unlabeled rows, such as -1, in addition to NaN, None and pandas' NA.
    random_state : int, RandomState or None, default=None
        Seed of the folds.

    Attributes
    ----------
    estimator_ : estimator
        The fitted student.
    regressor_ : estimator or None
        The fitted regressor; None without privileged features.
    classes_ : ndarray
        Labels, if the student is a classifier.
    n_features_in_ : int
        Number of decision features.

    Notes
    -----
    The regressor uses the rows with privileged features, the student the labeled rows. ``privileged=None`` fits the student
    on X.

    Prediction requires the regressor, from which privileged features can be restored, even from ``Ridge`` where X has more
    columns than rows. :func:`lupi.save`, :func:`lupi.to_onnx` and pickle therefore refuse a model that was fitted with privileged
    features, unless :func:`lupi.keep_privileged` allows it.

    References
    ----------
    .. [1] V. Vapnik, R. Izmailov. Learning using privileged information: similarity control and knowledge transfer.
       JMLR, 2015.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from lupi import KnowledgeTransfer
    >>> from lupi.datasets import load_digits_lowres
    >>> X, y, privileged = load_digits_lowres(classes=(3, 8), return_X_y_privileged=True)
    >>> model = KnowledgeTransfer(SVC(), random_state=0).fit(X[::2], y[::2], privileged=privileged[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _needed = ("estimator_", "regressor_")

    _parameter_constraints = {
        "estimator": [ESTIMATOR],
        "regressor": [ESTIMATOR, None],
        "passthrough": ["boolean"],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
        "unlabeled": "no_validation",
    }

    estimator: Any
    regressor: Any = None
    _: KW_ONLY
    passthrough: bool = True
    cv: int = 5
    unlabeled: Any = None
    random_state: RandomState = None

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: MatrixLike, y: VectorLike, privileged: PrivilegedLike | None = None) -> Self:
        """Fit the regressor of the privileged features, then the student.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Decision features.
        y : array-like of shape (n_samples,)
            Targets; NaN, None, pandas' NA and the value `unlabeled` mark unlabeled rows.
        privileged : array-like of shape (n_samples, n_privileged), optional
            Features that exist at training time only. A row that is entirely NaN is not available for that example.

        Returns
        -------
        KnowledgeTransfer
            This object.
        """
        data = _check(self, X, y, privileged)
        X, rows = data.X.values, np.flatnonzero(data.available)
        self.regressor_: Any = None
        if len(rows) > 1:
            A, Z = X[rows], data.privileged[0].rows.values[rows]
            regressor = Ridge(tol=1e-10) if self.regressor is None else self.regressor
            self.regressor_ = clone(regressor).fit(A, Z)
            predictions = self.regressor_.predict(X)
            folds = KFold(min(self.cv, len(rows)), shuffle=True, random_state=self.random_state)
            predictions[rows] = cross_val_predict(regressor, A, Z, cv=folds)
            X = _append(X, predictions, self.passthrough)
        self.estimator_ = clone(self.estimator).fit(X[data.labeled], data.labels[data.labeled])
        return self

    def _features(self, X: MatrixLike) -> MatrixLike:
        X = check_rows(self, X)
        return X if self.regressor_ is None else _append(X, self.regressor_.predict(X), self.passthrough)

    def __getstate__(self) -> dict[str, Any]:
        if getattr(self, "regressor_", None) is not None and not privileged_is_kept():
            raise TypeError(
                "this KnowledgeTransfer can be neither saved nor pickled nor exported: it predicts with functions that were fitted "
                "to the privileged features and may hold them. Allow it with lupi.save(..., keep_privileged=True), within "
                "lupi.keep_privileged(), or with `lupi fit --keep-privileged`."
            )
        return super().__getstate__()
