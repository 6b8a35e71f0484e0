"""Generalized distillation: a student that imitates a teacher on the privileged features."""

from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from lupi.estimators._meta import StudentMethods
from lupi.validation import check_privileged

# Shares of a class below this change no fit, but would multiply the rows by the number of classes.
NEGLIGIBLE = 1e-3


class Distillation(StudentMethods, MetaEstimatorMixin, BaseEstimator):
    r"""Fit a teacher on the privileged features, then any estimator on X to imitate it [1]_.

    The teacher's log-probabilities, divided by the temperature, give each training example a soft label
    :math:`s_i`. The student is fitted to :math:`(1 - \lambda) y_i + \lambda s_i`, the imitation :math:`\lambda`
    between 0 (the labels alone) and 1 (the teacher alone): a classifier sees each example once for every class, weighted
    with that class's share; a regressor gets the mixed target.

    Parameters
    ----------
    estimator : estimator
        The student. A classifier's ``fit`` has to take ``sample_weight``.
    teacher : estimator, default=None
        Fitted on the privileged features; ``LogisticRegression()`` or ``Ridge()`` if None. A classifier needs
        ``predict_proba``.
    imitation : float in [0, 1], default=0.5
        Weight of the teacher's labels.
    temperature : float > 0, default=1.0
        Divides the teacher's log-probabilities: above 1 softer, below 1 harder labels. Not used in regression.

    Attributes
    ----------
    estimator_ : estimator
        The fitted student.
    teacher_ : estimator or None
        The fitted teacher; None without privileged features.
    classes_ : ndarray
        The labels, if the student is a classifier.
    n_features_in_ : int
        Number of decision features.

    Notes
    -----
    An example whose row of ``privileged`` is entirely NaN keeps its own label. ``privileged=None`` fits the student
    alone.

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
    # Left out by lupi.save: a kernel or neighbour method keeps rows of its training data.
    _privileged_rows_in = ("teacher_",)

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"])],
        "teacher": [HasMethods(["fit", "predict"]), None],
        "imitation": [Interval(Real, 0, 1, closed="both")],
        "temperature": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(self, estimator, teacher=None, *, imitation=0.5, temperature=1.0):
        self.estimator = estimator
        self.teacher = teacher
        self.imitation = imitation
        self.temperature = temperature

    def fit(self, X, y, privileged=None):
        """Fit the teacher, then the student.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Decision features.
        y : array-like of shape (n_samples,)
            Targets.
        privileged : array-like of shape (n_samples, n_privileged), optional
            Features that exist at training time only. A row that is entirely NaN is not available for that example.

        Returns
        -------
        Distillation
            This object.
        """
        features, target, weights = self._lesson(X, y, privileged)
        self.estimator_ = clone(self.estimator).fit(features, target, **weights)
        return self

    def _lesson(self, X, y, privileged):
        """Fit the teacher; returns what the student is fitted on: features, target, keywords."""
        self._validate_params()
        given = X
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype="numeric", multi_output=False)
        privileged = check_privileged(privileged, X.shape[0], estimator_name="Distillation", index_of=given)
        self.teacher_ = None
        if privileged is None or not self._can_teach(y, privileged.available):
            return X, y, {}
        return (self._soft_labels if is_classifier(self.estimator) else self._mixed_targets)(X, y, privileged)

    def _can_teach(self, y, available):
        needed = 2 if is_classifier(self.estimator) else 1
        return len(np.unique(y[available])) >= needed

    def _soft_labels(self, X, y, privileged):
        check_classification_targets(y)
        if not has_fit_parameter(self.estimator, "sample_weight"):
            raise TypeError(
                "Distillation weights each example with its share of every class, so the student's `fit` must take "
                f"`sample_weight`; that of {type(self.estimator).__name__} does not."
            )
        rows = np.flatnonzero(privileged.available)
        self.teacher_ = clone(LogisticRegression(max_iter=1000) if self.teacher is None else self.teacher)
        self.teacher_.fit(privileged.data[rows], y[rows])
        classes, encoded = np.unique(y, return_inverse=True)
        shares = np.zeros((len(y), len(classes)))
        shares[np.arange(len(y)), encoded] = 1.0
        shares[rows] *= 1.0 - self.imitation
        columns = np.searchsorted(classes, self.teacher_.classes_)
        shares[np.ix_(rows, columns)] += self.imitation * self._soften(
            self.teacher_.predict_proba(privileged.data[rows])
        )
        example, label = np.nonzero(shares > NEGLIGIBLE)
        return _safe_indexing(X, example), classes[label], {"sample_weight": shares[example, label]}

    def _soften(self, probabilities):
        logits = np.log(np.maximum(probabilities, np.finfo(float).tiny)) / self.temperature
        soft = np.exp(logits - logits.max(axis=1, keepdims=True))
        return soft / soft.sum(axis=1, keepdims=True)

    def _mixed_targets(self, X, y, privileged):
        rows = np.flatnonzero(privileged.available)
        self.teacher_ = clone(Ridge() if self.teacher is None else self.teacher).fit(privileged.data[rows], y[rows])
        mixed = np.asarray(y, dtype=np.float64).copy()
        mixed[rows] += self.imitation * (np.ravel(self.teacher_.predict(privileged.data[rows])) - mixed[rows])
        return X, mixed, {}

    def _features(self, X):
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype="numeric", reset=False)
