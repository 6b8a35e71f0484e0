"""Surrogate learning: a student that learns, from X, the less noisy score of a teacher that sees privileged features."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import check_is_fitted

from lupi.inputs.decorators import fit_context
from lupi.inputs.training_set import ArrayRows, check_rows, check_training_set
from lupi.inputs.types import Array, MatrixLike, PrivilegedLike, RandomState, VectorLike
from lupi.privacy import WithoutPrivilegedRows, model_part
from lupi.surrogate.estimators import EstimatorMember, SoftLabelStudent, make_folds
from lupi.surrogate.members import (
    MEMBERS,
    Standardizer,
    Student,
    SurrogateData,
    column_order,
    combine,
    distinct_rows,
    fit_student,
    make_pool,
    member_names,
)
from lupi.surrogate.report import Explanation, explain_fit
from lupi.surrogate.targets import ClassTarget, NumberTarget, Target, log_probabilities
from lupi.surrogate.teachers import Teachers, can_teach, fit_teachers, make_surrogate

# Fewer distinct rows are no evidence; above so many labeled rows one refit on half of them suffices, and refits take so many
# unlabeled rows.
FEWEST_ROWS, MANY_ROWS = 20, 2000
CLOSED_FORM_ONLY = "estimator='ridge', teacher=None and groups=None: everything else needs its rows in memory"


@dataclass(eq=False, repr=False)
class SurrogateBase(WithoutPrivilegedRows, MetaEstimatorMixin, BaseEstimator):
    """Parameters (the fields) and `fit` of both estimators."""

    estimator: Any = None
    _: KW_ONLY
    teacher: Any = None
    cv: Any = 5
    unlabeled: Any = None
    n_jobs: int | None = None
    random_state: RandomState = None

    # Routed to fit by every meta-estimator, without a call of set_fit_request.
    __metadata_request__fit = {"privileged": True, "groups": True}
    _needed = ("_model",)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [HasMethods(["fit", "predict"]), StrOptions(set(MEMBERS)), list, tuple, None],
        "teacher": [HasMethods(["fit", "predict"]), None],
        "cv": ["cv_object"],
        "unlabeled": "no_validation",
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator).input_tags if member_names(self.estimator) is None else None
        tags.input_tags.sparse = inner is None or inner.sparse
        tags.input_tags.allow_nan = inner is not None and inner.allow_nan
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
            Targets; NaN, None, pandas' NA and the value `unlabeled` mark unlabeled rows.
        privileged : array-like, data frame, or a list or dict of these, optional
            Features that exist at training time only, one row per example; several privileged tables as a list or dict.
            A row that is entirely NaN is not available. None fits the baseline.
        sample_weight : array-like of shape (n_samples,), optional
            Counts: weight 2 equals two copies of the row, zero-weight rows are dropped.
        groups : array-like of shape (n_samples,), optional
            Rows that belong together, such as those of one patient, are left out together.

        Returns
        -------
        self : object
        """
        data = self._check(X, y, privileged, sample_weight, groups)
        target: Target = NumberTarget() if data.rows.classes is None else ClassTarget(len(self.classes_))
        scaler = Standardizer().fit(data.rows.X, data.rows.weight)
        A = scaler.rows(data.rows.X)
        stages = fit_stages(self, data, A, target, scaler)
        honest = honest_outputs(self, data, A, target, scaler, stages)
        students, self._model = combine(stages.students, data, target, stages.teachers, honest)
        teachers, surrogate = stages.teachers, stages.surrogate if len(students) > 1 else None
        self._report, self.teacher_weights_ = {}, {}
        if teachers is not None:
            self._report = dict(explain_fit(data, A, target, teachers, students))
            self.teacher_weights_ = teachers.weights
        pool = students[-1].pool
        self.member_weights_ = dict(zip(pool.members, pool.weights_.tolist()))
        self.plain_weight_ = students[0].weight
        self.n_labeled_, self.n_unlabeled_ = len(data.labeled), len(data.unlabeled)
        self.surrogate_ = None
        if surrogate is not None:
            values = np.full((data.rows.n_rows, surrogate.shape[1]), np.nan)
            values[data.rows.kept[data.scored]] = surrogate
            self.surrogate_ = values[:, 0] if values.shape[1] == 1 else values
        return self

    def _check(self, X: Any, y: Any, privileged: Any, sample_weight: Any, groups: Any) -> SurrogateData:
        """Check the parameters and the input of `fit`; sets ``classes_``."""
        name, members = type(self).__name__, member_names(self.estimator)
        if members == [] or not set(members or ()) <= set(MEMBERS):
            raise ValueError(f"{name}: `estimator` must name members of {list(MEMBERS)}, got {self.estimator!r}.")
        closed_form = self.estimator == "ridge" and self.teacher is None and groups is None
        allow_nan = get_tags(self).input_tags.allow_nan
        options: dict[str, Any] = {"dense_privileged": True, "min_rows": 2, "allow_nan": allow_nan}
        options["in_memory"] = "" if closed_form else CLOSED_FORM_ONLY
        rows = check_training_set(self, X, y, privileged, sample_weight, groups, **options)
        if rows.classes is not None:
            self.classes_ = rows.classes
            if len(rows.classes) > 2 and not rows.X.allows(rows.n_rows):
                raise ValueError(f"{name} on {rows.n_rows} rows in chunks needs two classes, got {len(rows.classes)}.")
        return SurrogateData(rows)

    def _scores(self, X: MatrixLike) -> Array:
        """Calibrated output of shape (n, k)."""
        rows = check_rows(self, X, allow_nan=get_tags(self).input_tags.allow_nan)
        own_table = self._model.scaler is None and hasattr(X, "columns")
        return self._model.scores(X if own_table else rows)

    def explain(self) -> Explanation:
        """Report what the teachers and the student are worth.

        Returns
        -------
        Explanation
            A dict that prints as text: weights of the teachers, their quality on left-out rows, how well X predicts the
            surrogate, how many more labeled rows it is worth, and which privileged columns carry it.
        """
        check_is_fitted(self)
        return Explanation(self._report)

    @property
    def estimator_(self) -> Any:
        """The fitted student of the surrogate; the baseline where there is no surrogate."""
        return _fitted(self._model.parts[-1][1])

    @property
    def baseline_(self) -> Any:
        """The fitted student of the labels."""
        return _fitted(self._model.parts[0][1])


@dataclass(frozen=True)
class Stages:
    """What one fit makes of the training rows; without teachers or surrogate, the baseline is the only student."""

    students: list[Student]
    teachers: Teachers | None = None
    surrogate: Array | None = None


def fit_stages(model: Any, data: SurrogateData, A: Any, target: Target, scaler: Any, *, report: bool = True) -> Stages:
    """Fit the baseline, the teachers, and the student of their surrogate; without `report`, what prediction needs."""
    features = ArrayRows(data.rows.table()) if member_names(model.estimator) is None else A
    columns, labels = target.columns(data.rows.target[data.labeled]), data.codes(data.labeled)
    plain = fit_student(make_pool(model, scaler), data, features, data.labeled, columns, labels=labels)
    if not can_teach(data, type(model).__name__, warn=report):
        return Stages([plain])
    teachers = fit_teachers(data, A, target, plain.outputs, model, report=report)
    surrogate = make_surrogate(teachers, target, data)
    if surrogate is None:
        return Stages([plain], teachers)
    # Logits of many unlabeled rows are learned better as differences of probabilities.
    bounded = data.rows.classes is not None and surrogate.shape[1] == 1 and is_pool(model) and len(data.unlabeled)
    learned = np.tanh(surrogate / 2) if bounded else surrogate
    left_out = np.flatnonzero(np.isin(data.scored, data.taught))
    pool = make_pool(model, scaler, of_surrogate=True)
    student = fit_student(pool, data, features, data.scored, learned, cross_fit_rows=left_out)
    return Stages([plain, replace(student, targets=surrogate)], teachers, surrogate)


def honest_outputs(
    model: Any, data: SurrogateData, A: Any, target: Target, scaler: Any, stages: Stages
) -> list[Array] | None:
    """Outputs of the labeled rows by students that were fitted, teachers included, without the row's fold.

    Left-out outputs of the surrogate's student are not honest: its teachers have seen the label. Returns shape
    (n_labeled, n_members, k) for each student, NaN for rows in no fold; None without a pool, and for a handful of rows.
    """
    if not is_pool(model):
        return None
    labels, groups = data.rows.target[data.labeled], data.groups(data.labeled)
    X = A.take(data.labeled)
    columns = column_order(X, target.columns(labels), data.rows.weight[data.labeled])
    unit = distinct_rows(X.values[:, columns]) if groups is None else groups
    rank = np.unique(np.column_stack([labels, unit]), axis=0, return_inverse=True)[1].ravel()
    if rank.max() + 1 < FEWEST_ROWS:
        return None
    # Folds depend on the rows' values, not on their order; numbers are spread by their ranks.
    strata = rank // 5 if data.rows.classes is None else labels
    many = isinstance(model.cv, Integral) and len(labels) > MANY_ROWS
    folds = make_folds(np.arange(len(labels)), strata, unit, np.random.RandomState(0), 2 if many else model.cv)
    folds = folds[:1] if many else folds
    kept = data.unlabeled[:: 1 + len(data.unlabeled) // MANY_ROWS]
    refitted = Parallel(model.n_jobs)(delayed(_refit)(model, data, A, target, scaler, fold, kept) for fold in folds)
    outputs = [np.full((len(labels), *student.scaled.shape[1:]), np.nan) for student in stages.students]
    for fold, parts in zip(folds, refitted):
        for k, values in enumerate(outputs):
            # A fold without a surrogate: its baseline for every member.
            values[fold] = parts[k][1] if k < len(parts) else parts[0][0][:, None]
    return outputs


def _refit(
    model: Any, data: SurrogateData, A: Any, target: Target, scaler: Any, fold: Array, unlabeled: Array
) -> list[tuple[Array, Array]]:
    """Outputs of a fold by students fitted without it: their means, and their members' outputs."""
    rest = np.sort(np.concatenate([np.delete(data.labeled, fold), unlabeled]))
    stages = fit_stages(model, SurrogateData(data.rows.take(rest)), A.take(rest), target, scaler, report=False)
    left_out = A.take(data.labeled[fold]).operand
    members = [student.pool.scaled_outputs(left_out) for student in stages.students]
    return [(student.pool.mean(scaled), scaled) for student, scaled in zip(stages.students, members)]


def is_pool(model: Any) -> bool:
    """Whether evidence weights the students: not for a single closed form, nor for an estimator or a teacher of the user's."""
    return member_names(model.estimator) is not None and model.estimator != "ridge" and model.teacher is None


def _fitted(pool: Any) -> Any:
    """The pool itself, or the fitted estimator of the user's."""
    member = next(iter(pool.members.values()))
    if not isinstance(member, EstimatorMember):
        return pool
    inner = member.estimator_
    return inner.estimator_ if isinstance(inner, SoftLabelStudent) else inner


@model_part
class SurrogateClassifier(ClassifierMixin, SurrogateBase):
    r"""Classification by the score of a teacher that sees privileged features; the recommended method.

    Teachers on :math:`[Z, cX]` for several scales c, and one on X alone, are fitted to the labels and averaged by their
    evidence on left-out rows. A teacher on X *times* a factor of Z joins them where a column changes the meaning of X, such as
    "this label was wrong" (rows in memory only). Their score, calibrated by a logistic or softmax regression, gives every
    row, labeled or not, a *surrogate*: a target with less noise than the label. A student learns the surrogate from X, and
    its output is averaged with that of the baseline, the same student on the labels. Prediction needs X alone.

    Guards against useless privileged features: the teacher on X alone, which returns the baseline's estimate; a slope that is
    never negative (at 0 the model is the baseline); and the baseline's weight, l / (l + u) against 1 for the student with l
    labeled and u unlabeled rows, plus that of the teacher on X alone (not with ``"ridge"`` and one score). With a pool, refits
    without each fold of the labeled rows move it; if all rows are labeled, the model is the baseline unless they show a gain.

    Parameters
    ----------
    estimator : estimator, list of str, "ridge" or None, default=None
        The student. None is a pool of four members: "ridge" (adaptive ridge: columns weighted by their correlation with the
        target), "sparse" (elastic net; in the baseline only), "rbf" (RBF ridge) and "forest" (a small forest). A list of these
        names is a pool of some of them, and ``"ridge"`` alone is in closed form. A regressor learns the calibrated logit
        (with several classes, their probabilities), a classifier gets soft labels as weights; a search (GridSearchCV) is
        scored against the surrogate.
    teacher : estimator, default=None
        Fitted to [Z, cX] and cross-fitted. None: linear ridges in closed form, with a pool or several classes also RBF ridges,
        and with a pool and two classes also forests and an elastic net.
    cv : int or splitter, default=5
        Folds of a pool's refits, and for cross-fitting your own `estimator` or `teacher`.
    unlabeled : object, default=None
        A value of `y` that means "no label", such as -1, in addition to NaN, None and pandas' NA.
    n_jobs : int, default=None
        Processes for the refits.
    random_state : int, RandomState or None, default=None
        For the forest and the folds.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    estimator_ : estimator
        The fitted student of the surrogate: your estimator, or the pool of members.
    baseline_ : estimator
        The fitted student of the labels. The same as `estimator_` where nothing was learned from privileged features.
    teacher_weights_ : dict of str to float
        Weight of every teacher by name; they sum to 1. Empty without privileged features.
    member_weights_ : dict of str to float
        Weight of every member of the student by name; they sum to 1.
    plain_weight_ : float
        Weight of the baseline in the output.
    surrogate_ : ndarray of shape (n_samples,) or (n_samples, n_classes), or None
        Target of the training rows: calibrated logits of two classes, probabilities of several; NaN for rows without one.
        None where nothing was learned from privileged features. Never saved.
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
    The gain is large where X is wide, Z narrow and the label noisy given Z, and with unlabeled rows. A row of `privileged`
    that is entirely NaN is not available: a labeled row then counts in the baseline only, an unlabeled row is dropped.
    `privileged=None` fits the baseline.

    Examples
    --------
    One row in five has a label; all rows have privileged features.

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

    def decision_function(self, X: MatrixLike) -> Array:
        """Calibrated log-odds of the second class, or log-probabilities of the classes up to a constant.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: MatrixLike) -> Array:
        """Class probabilities, calibrated on left-out outputs.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.asarray(np.exp(log_probabilities(self._scores(X))))

    def predict(self, X: MatrixLike) -> Array:
        """Predict the most probable class from X alone.

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
    """Regression on the score of a teacher that sees privileged features; the recommended method.

    Teachers, surrogate, student and guards are those of :class:`SurrogateClassifier`. The surrogate is the averaged score of
    the teachers, and the output is calibrated by a line.

    Parameters
    ----------
    estimator : estimator, list of str, "ridge" or None, default=None
        The student. None is a pool of four members: "ridge" (adaptive ridge: columns weighted by their correlation with the
        target), "sparse" (elastic net; in the baseline only), "rbf" (RBF ridge) and "forest" (a small forest). A list of these
        names is a pool of some of them, and ``"ridge"`` alone is in closed form. A regressor learns the
        surrogate; a search (GridSearchCV) is scored against it.
    teacher : estimator, default=None
        Fitted to [Z, cX] and cross-fitted. None: linear ridges in closed form, with a pool also RBF ridges, forests and an
        elastic net.
    cv : int or splitter, default=5
        Folds of a pool's refits, and for cross-fitting your own `estimator` or `teacher`.
    unlabeled : object, default=None
        A value of `y` that means "no label", such as -1, in addition to NaN, None and pandas' NA.
    n_jobs : int, default=None
        Processes for the refits.
    random_state : int, RandomState or None, default=None
        For the forest and the folds.

    Attributes
    ----------
    estimator_ : estimator
        The fitted student of the surrogate: your estimator, or the pool of members.
    baseline_ : estimator
        The fitted student of the labels. The same as `estimator_` where nothing was learned from privileged features.
    teacher_weights_ : dict of str to float
        Weight of every teacher by name; they sum to 1. Empty without privileged features.
    member_weights_ : dict of str to float
        Weight of every member of the student by name; they sum to 1.
    plain_weight_ : float
        Weight of the baseline in the output.
    surrogate_ : ndarray of shape (n_samples,) or None
        Target of the training rows; NaN for rows without one. None where nothing was learned from privileged features. Never
        saved.
    n_labeled_, n_unlabeled_ : int
        Rows that took part.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If X is a data frame.

    See Also
    --------
    lupi.SurrogateClassifier : the method, its guards and its risk.
    lupi.Distillation : imitation of one teacher on the privileged features.

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

    def predict(self, X: MatrixLike) -> Array:
        """Predict from X alone.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._scores(X)[:, 0]
