"""Surrogate learning: a student that learns, from X, the less noisy score of a teacher who sees privileged features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin

from lupi.inputs.types import MatrixLike
from lupi.model_parts import model_part
from lupi.surrogate import calibrate, calibrate_values, one_hot, spread
from lupi.surrogate.base import SurrogateBase
from lupi.surrogate.wrapped import LOGIT_LIMIT, class_shares

if TYPE_CHECKING:
    from lupi.surrogate.calibration import Calibration


@model_part
class SurrogateClassifier(ClassifierMixin, SurrogateBase):
    r"""Learn classes from the score of a teacher who sees privileged features; the recommended method.

    Teachers on :math:`[Z, cX]` for several scales c, and one on X alone, are fitted to the labels and averaged by their
    evidence on left-out rows; one on X *times* a factor of Z joins them where a column says how X is to be read, such as "this
    label was wrong" (rows in memory only). Their score, calibrated by a logistic (softmax) regression, gives
    every row, labeled or not, a *surrogate*: a target with less noise than the
    label. A student learns the surrogate from X, and its output is averaged with that of the plain student on the labels.
    Prediction needs X alone.

    Three guards keep useless privileged features from doing harm: the teacher on X alone, which returns the plain
    estimate; a slope that is never negative (at 0 the plain student is used alone); and the plain student's share,
    l / (l + u) beside 1 for the other, with l labeled and u unlabeled rows. The other's share shrinks by the
    weight of the teacher on X alone; not so with ``"ridge"`` and one score, where that teacher is a ridge of its own.

    Parameters
    ----------
    estimator : estimator, "ridge" or None, default=None
        The student. None averages a ridge whose prior trusts columns that go with the target, an RBF ridge and a small
        forest; "ridge" is the first of them alone, in closed form. A regressor learns the calibrated logit
        (with several classes, their probabilities), a classifier gets soft labels as weights; a search (GridSearchCV)
        is scored against the surrogate on all rows.
    teacher : estimator, default=None
        Fitted to [Z, cX] and cross-fitted; None: ridge teachers in closed form,
        with several classes also in the space of the RBF kernel.
    scales : tuple of float, default=(0, 0.1, 0.3, 1)
        Scales of X beside the privileged features; 0 is Z alone.
    average_plain : bool, default=True
        Whether the plain student takes part in the output.
    unlabeled : object, default=None
        A value of `y` that means "no label", such as -1, beside NaN, None and pandas' NA.
    n_jobs : int, default=None
        Processes for the refits of a student or teacher of yours.
    random_state : int, RandomState or None, default=None
        For the forest and the folds.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    estimator_ : estimator
        The fitted student of the surrogate.
    plain_estimator_ : estimator
        The fitted plain student. The same as `estimator_` where nothing was learned from privileged features.
    teacher_weights_ : ndarray of shape (n_scales + 1,)
        Weights of the teachers, one a scale and one for X alone. (With several privileged spaces the scales repeat:
        all spaces together, then each with less of the others.) Only with privileged features, as the next three.
    product_weight_ : float
        Weight of the teacher on Z, and on X times a factor of Z; 0 unless left-out rows speak clearly for it. It and
        `teacher_weights_` sum to 1.
    teacher_slope_ : float
        Slope of the calibration, for a score of unit spread.
    surrogate_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Target of the training rows: calibrated logits of two classes, probabilities of several; NaN for rows without
        one. Not in a saved model.
    n_labeled_, n_unlabeled_ : int
        Rows that took part.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If X is a data frame.

    See Also
    --------
    lupi.Distillation : imitation of one teacher on the privileged features.

    Notes
    -----
    With :math:`y = Z\theta + \varepsilon`, :math:`Z = XB + \eta`, :math:`\sigma^2 = \mathrm{Var}(\varepsilon)`,
    :math:`\tau^2 = \mathrm{Var}(\eta\theta)` and p columns of X, least squares on n labels has the risk
    :math:`(\tau^2 + \sigma^2) p / n`, the student of the surrogate
    :math:`[\tau^2 p + \sigma^2 \mathrm{tr}(P_X P_Z)] / n`: a gain where X is wide, Z narrow and the label noisy.

    A row of `privileged` that is entirely NaN is not available: with a label it counts in the plain student only, without
    one it is left out. `privileged=None` fits the plain student.

    Examples
    --------
    One row in five has a label; the privileged features are known for all of them.

    >>> import numpy as np
    >>> from sklearn.model_selection import train_test_split
    >>> from lupi import SurrogateClassifier
    >>> from lupi.datasets import load_breast_cancer_followup
    >>> X, y, Z = load_breast_cancer_followup(return_X_y_privileged=True)
    >>> X, X_test, y, y_test, Z, _ = train_test_split(X, y, Z, train_size=300, random_state=0)
    >>> labels = np.where(np.arange(300) < 60, y, np.nan)
    >>> model = SurrogateClassifier("ridge").fit(X, labels, privileged=Z)
    >>> model.n_labeled_, model.n_unlabeled_
    (60, 240)
    >>> bool(model.score(X_test, y_test) > 0.9)
    True
    """

    _is_classification = True

    def _targets(self, y: np.ndarray) -> np.ndarray:
        """Signs: one column for two classes, otherwise one a class."""
        if len(self.classes_) == 2:
            return 2.0 * y[:, None] - 1.0
        signs = np.full((len(y), len(self.classes_)), -1.0)
        signs[np.arange(len(y)), y] = 1.0
        return signs

    def _calibrate(self, scores: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Calibration:
        return calibrate(scores, one_hot(y, len(self.classes_)), weight)

    def _calibrate_soft(self, scores: np.ndarray, surrogate: np.ndarray, weight: np.ndarray) -> Calibration:
        return calibrate(scores, class_shares(surrogate), weight)

    def _surrogate(self, calibration: Calibration, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Clipped logits of two classes; probabilities of several, where a known label counts half.

        With many classes and a handful of labels each, left-out scores err more often than labels do.
        """
        logits = calibration.logits(scores)
        if logits.shape[1] == 1:
            return np.asarray(np.clip(logits, -LOGIT_LIMIT, LOGIT_LIMIT))
        shares, known = softmax(logits, axis=1), y >= 0
        shares[known] = (shares[known] + one_hot(y[known], shares.shape[1])) / 2
        return np.asarray(shares)

    def _target_spread(self, y: np.ndarray, weight: np.ndarray) -> float:
        return 1.0

    def decision_function(self, X: MatrixLike) -> np.ndarray:
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

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
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
        return np.asarray(softmax(scores, axis=1))

    def predict(self, X: MatrixLike) -> np.ndarray:
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
        return np.asarray(self.classes_[best])


@model_part
class SurrogateRegressor(RegressorMixin, SurrogateBase):
    r"""Learn numbers from the score of a teacher who sees privileged features; the recommended method.

    Teachers on :math:`[Z, cX]` for several scales c, and one on X alone, are fitted to the labels and averaged by their
    evidence on left-out rows; one on X *times* a factor of Z joins them where a column says how X is to be read, such as the
    time at risk (rows in memory only). Their score gives every row, labeled or not, a *surrogate*: a target with less noise than
    the label. A student learns the surrogate from X, and its output is averaged with that of the plain student on the labels.
    Prediction needs X alone.

    Three guards keep useless privileged features from doing harm: the teacher on X alone, which returns the plain
    estimate; a slope that is never negative (at 0 the plain student is used alone); and the plain student's share,
    l / (l + u) beside 1 for the other, with l labeled and u unlabeled rows. The other's share shrinks by the
    weight of the teacher on X alone; not so with ``"ridge"`` and one score, where that teacher is a ridge of its own.

    Parameters
    ----------
    estimator : estimator, "ridge" or None, default=None
        The student. None averages a ridge whose prior trusts columns that go with the target, an RBF ridge and a small
        forest; "ridge" is the first of them alone, in closed form. A regressor, or a search over one, which
        is then scored against the surrogate on all rows.
    teacher : estimator, default=None
        Fitted to [Z, cX] and cross-fitted; None: ridge teachers in closed form.
    scales : tuple of float, default=(0, 0.1, 0.3, 1)
        Scales of X beside the privileged features; 0 is Z alone.
    average_plain : bool, default=True
        Whether the plain student takes part in the output.
    unlabeled : object, default=None
        A value of `y` that means "no label", such as -1, beside NaN, None and pandas' NA.
    n_jobs : int, default=None
        Processes for the refits of a student or teacher of yours.
    random_state : int, RandomState or None, default=None
        For the forest and the folds.

    Attributes
    ----------
    estimator_ : estimator
        The fitted student of the surrogate.
    plain_estimator_ : estimator
        The fitted plain student. The same as `estimator_` where nothing was learned from privileged features.
    teacher_weights_ : ndarray of shape (n_scales + 1,)
        Weights of the teachers, one a scale and one for X alone. (With several privileged spaces the scales repeat:
        all spaces together, then each with less of the others.) Only with privileged features, as the next three.
    product_weight_ : float
        Weight of the teacher on Z, and on X times a factor of Z; 0 unless left-out rows speak clearly for it. It and
        `teacher_weights_` sum to 1.
    teacher_slope_ : float
        Slope of the calibration, for a score of unit spread.
    surrogate_ : ndarray of shape (n_samples,)
        Target of the training rows; NaN for rows without one. Not in a saved model.
    n_labeled_, n_unlabeled_ : int
        Rows that took part.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If X is a data frame.

    See Also
    --------
    lupi.Distillation : imitation of one teacher on the privileged features.

    Notes
    -----
    With :math:`y = Z\theta + \varepsilon`, :math:`Z = XB + \eta`, :math:`\sigma^2 = \mathrm{Var}(\varepsilon)`,
    :math:`\tau^2 = \mathrm{Var}(\eta\theta)` and p columns of X, least squares on n labels has the risk
    :math:`(\tau^2 + \sigma^2) p / n`, the student of the surrogate
    :math:`[\tau^2 p + \sigma^2 \mathrm{tr}(P_X P_Z)] / n`: a gain where X is wide, Z narrow and the label noisy.

    A row of `privileged` that is entirely NaN is not available: with a label it counts in the plain student only, without
    one it is left out. `privileged=None` fits the plain student.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi import SurrogateRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 20))
    >>> Z = X[:, :2] + 0.3 * rng.normal(size=(200, 2))
    >>> y = Z.sum(axis=1) + rng.normal(size=200)
    >>> y[50:] = np.nan
    >>> model = SurrogateRegressor("ridge").fit(X, y, privileged=Z)
    >>> bool(np.corrcoef(model.predict(X), X[:, :2].sum(axis=1))[0, 1] > 0.9)
    True
    """

    _is_classification = False

    def _targets(self, y: np.ndarray) -> np.ndarray:
        return y[:, None]

    def _calibrate(self, scores: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Calibration:
        return calibrate_values(scores, y, weight)

    def _calibrate_soft(self, scores: np.ndarray, surrogate: np.ndarray, weight: np.ndarray) -> Calibration:
        return calibrate_values(scores, surrogate[:, 0], weight)

    def _surrogate(self, calibration: Calibration, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        return scores

    def _target_spread(self, y: np.ndarray, weight: np.ndarray) -> float:
        return spread(y[:, None], weight)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predict from X alone.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._scores(X)[:, 0]
