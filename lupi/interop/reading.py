"""Formulas of fitted models; a new kind of model is one more registered function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier, is_outlier_detector
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from lupi.inputs.types import Matrix, MatrixLike
from lupi.interop.formula import Formula, Linear, Scaling, SupportVectorSum, Trees
from lupi.kernels import Kernel
from lupi.meta.baselines import Distillation, KnowledgeTransfer
from lupi.meta.privileged_columns import PrivilegedColumns
from lupi.ranking.ranker import BaseRanker
from lupi.surrogate.estimators import EstimatorMember, SoftLabelStudent
from lupi.surrogate.forest import ForestMember
from lupi.surrogate.members import CLIP, RbfMember, RidgeMember
from lupi.surrogate.surrogate import SurrogateBase
from lupi.svm.kernel_machine import KernelClassifier
from lupi.svm.one_class_svm_plus import OneClassSVMPlus
from lupi.svm.svr_plus import SVRPlus

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from lupi.svm.kernel_machine import KernelMachine


@singledispatch
def formula_of(model: Any) -> Formula:
    """Formula of a fitted model; raises TypeError if it has none."""
    if hasattr(model, "best_estimator_"):
        return formula_of(model.best_estimator_)
    if hasattr(model, "coef_") and hasattr(model, "intercept_"):
        return _linear_formula(model, *linear_function(model))
    check_is_fitted(model)
    raise TypeError(
        f"a {type(model).__name__} cannot be exported; SVMPlus, SVM2Plus, SVM2K, SVRPlus, OneClassSVMPlus, RankSVM, RankTransfer, "
        "SurrogateClassifier and SurrogateRegressor can, as can KnowledgeTransfer and Distillation with linear students, and "
        "pipelines of scalers around them. lupi.save keeps any model."
    )


@formula_of.register
def _(model: KernelClassifier) -> Formula:
    return _machine_formula(model, "classifier", lambda: np.atleast_1d(model.intercept_))


@formula_of.register
def _(model: SVRPlus) -> Formula:
    return _machine_formula(model, "regressor", lambda: model.intercept_)


@formula_of.register
def _(model: OneClassSVMPlus) -> Formula:
    return _machine_formula(model, "outlier", lambda: np.array([-model.offset_]))


@formula_of.register
def _(model: BaseRanker) -> Formula:
    check_is_fitted(model)
    if hasattr(model, "best_estimator_"):
        return formula_of(model.best_estimator_)
    if hasattr(model, "coef_"):
        term: Linear | SupportVectorSum = Linear(np.reshape(model.coef_, (-1, 1)))
    else:
        term = _kernel_term(model, model.X_fit_, np.reshape(model.dual_coef_, (-1, 1)))
    return Formula(model.n_features_in_, np.zeros(1), (term,), "ranker", feature_names=_names(model))


@formula_of.register
def _(model: Pipeline) -> Formula:
    check_is_fitted(model)
    found = formula_of(model[-1])
    scalings = tuple(scaling_of(step) for _, step in model.steps[:-1] if step not in ("passthrough", None))
    return replace(found, scalings=scalings + found.scalings)


@formula_of.register(PrivilegedColumns)
@formula_of.register(Distillation)
def _(model: Any) -> Formula:
    check_is_fitted(model)
    return formula_of(model.estimator_)


@formula_of.register
def _(model: KnowledgeTransfer) -> Formula:
    check_is_fitted(model)
    coef, intercept = linear_function(model.estimator_)
    if model.regressor_ is not None:
        # The student's input is [X, predictions] or the predictions; both are linear functions of X.
        forward, offset = linear_function(model.regressor_)
        direct = len(coef) - forward.shape[1]
        ahead = coef[:direct] if direct else np.zeros((model.n_features_in_, coef.shape[1]))
        coef, intercept = ahead + forward @ coef[direct:], intercept + offset @ coef[direct:]
    return _linear_formula(model.estimator_, coef, intercept)


@formula_of.register
def _(model: SurrogateBase) -> Formula:
    check_is_fitted(model)
    fitted, terms = model._model, []
    calibration, scaler = fitted.calibration, fitted.scaler
    factor = calibration.slope / calibration.scale
    intercept = calibration.intercept - factor * calibration.center
    # The columns of a model that was fitted to sparse rows are scaled, but not centered.
    offset = None if scaler is None else (scaler.mean_ - scaler.shift_) / scaler.scale_
    for weight, pool in fitted.parts:
        for member, unit in zip(pool.members.values(), pool.units_):
            share = factor * weight / (len(pool.members) * unit * pool.scale_)
            term, constant = _member_term(member, share, offset)
            terms.append(term)
            intercept = intercept + constant - share * pool.center_
    return Formula(
        model.n_features_in_,
        np.atleast_1d(intercept),
        tuple(terms),
        "classifier" if is_classifier(model) else "regressor",
        scalings=() if scaler is None else (Scaling(scaler.mean_, scaler.scale_, CLIP),),
        classes=getattr(model, "classes_", None),
        logistic=is_classifier(model),
        feature_names=_names(model),
    )


@singledispatch
def _member_term(member: Any, share: float, offset: Any) -> tuple[Any, Any]:
    """Term and constant of a member's output times `share`; `offset` is added to the standardized columns."""
    raise TypeError(f"a {type(member).__name__} as a member of the student cannot be exported.")


@_member_term.register
def _(member: RidgeMember, share: float, offset: np.ndarray) -> tuple[Any, Any]:
    return Linear(share * member.coef_), share * (member.intercept_ + offset @ member.coef_)


@_member_term.register
def _(member: RbfMember, share: float, offset: np.ndarray) -> tuple[Any, Any]:
    kernel = Kernel("rbf", gamma=float(member.gamma_))
    return SupportVectorSum(kernel, _dense(member.landmarks_) - offset, share * member.coef_), share * member.intercept_


@_member_term.register
def _(member: ForestMember, share: float, offset: np.ndarray) -> tuple[Any, Any]:
    threshold = member.threshold_ - offset[member.feature_]
    return Trees(share, member.roots_, member.feature_, threshold, member.left_, member.right_, member.value_), 0.0


@_member_term.register
def _(member: EstimatorMember, share: float, offset: Any) -> tuple[Any, Any]:
    coef, intercept = _wrapped_function(member)
    return Linear(share * coef), share * intercept


def _wrapped_function(student: EstimatorMember) -> tuple[np.ndarray, np.ndarray]:
    """The linear function of a user's student, if it is one."""
    inner = student.estimator_
    if isinstance(inner, list):
        parts = [linear_function(part) for part in inner]
        return np.hstack([coef for coef, _ in parts]), np.concatenate([intercept for _, intercept in parts])
    inner = getattr(inner, "best_estimator_", inner)
    if isinstance(inner, SoftLabelStudent):
        inner = inner.estimator_
    coef, intercept = linear_function(inner)
    if coef.shape[1] != student.n_outputs_:
        raise TypeError(
            f"the {type(inner).__name__} has seen {len(inner.classes_)} of {student.n_outputs_} classes, so its values are not a "
            "linear function of X."
        )
    return coef, intercept


def linear_function(estimator: Any) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (n_features, k) and intercept (k,) of a fitted linear estimator, scalers before it included."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    if isinstance(estimator, Pipeline):
        coef, intercept = linear_function(estimator[-1])
        for _, step in reversed(estimator.steps[:-1]):
            if step not in ("passthrough", None):
                scaling = scaling_of(step)
                coef = coef / scaling.scale[:, None]
                intercept = intercept - scaling.shift @ coef
        return coef, intercept
    if not hasattr(estimator, "coef_"):
        check_is_fitted(estimator)
        raise TypeError(
            f"a {type(estimator).__name__} as a student cannot be exported; linear ones can, such as Ridge or "
            "LogisticRegression, alone or after scalers."
        )
    coef = np.atleast_2d(_dense(estimator.coef_)).T
    return coef, np.broadcast_to(np.atleast_1d(estimator.intercept_), coef.shape[1]).astype(float)


def scaling_of(step: Any) -> Scaling:
    """A fitted scaler as a `Scaling`."""
    check_is_fitted(step)
    if isinstance(step, StandardScaler):
        n = step.n_features_in_
        shift = np.zeros(n) if step.mean_ is None or not step.with_mean else step.mean_
        return Scaling(shift, np.ones(n) if step.scale_ is None else step.scale_)
    if isinstance(step, MinMaxScaler) and not step.clip:
        return Scaling(-step.min_ / step.scale_, 1.0 / step.scale_)
    if isinstance(step, MaxAbsScaler) and not getattr(step, "clip", False):
        return Scaling(np.zeros(step.n_features_in_), step.scale_)
    raise TypeError(
        f"a {type(step).__name__} cannot be exported; before the model there may be StandardScaler, MinMaxScaler and "
        "MaxAbsScaler (clip=False). Export model[-1], and transform its input yourself."
    )


def _linear_formula(estimator: BaseEstimator, coef: np.ndarray, intercept: np.ndarray) -> Formula:
    """Formula of an estimator of scikit-learn's whose values are linear."""
    last = estimator[-1] if isinstance(estimator, Pipeline) else getattr(estimator, "best_estimator_", estimator)
    kind: Any = "classifier" if is_classifier(last) else "outlier" if is_outlier_detector(last) else "regressor"
    logistic = isinstance(last, LogisticRegression) and not (last.solver == "liblinear" and len(intercept) > 1)
    return Formula(
        len(coef),
        intercept,
        (Linear(coef),),
        kind,
        classes=getattr(last, "classes_", None),
        logistic=logistic,
        feature_names=_names(estimator),
    )


def _machine_formula(model: KernelMachine, kind: Any, intercept: Callable[[], np.ndarray]) -> Formula:
    check_is_fitted(model)
    if hasattr(model, "coef_"):
        term: Linear | SupportVectorSum = Linear(np.asarray(model.coef_, dtype=float).T)
    else:
        rows = model.support_ if model.kernel == "precomputed" else model.support_vectors_
        term = _kernel_term(model, rows, model.dual_coef_.T)
    classes = getattr(model, "classes_", None)
    return Formula(model.n_features_in_, intercept(), (term,), kind, classes=classes, feature_names=_names(model))


def _kernel_term(model: BaseEstimator, rows: Matrix, coef: np.ndarray) -> Linear | SupportVectorSum:
    """Kernel expansion; with a precomputed kernel, rows are indices, and features are kernel values with all training rows."""
    if model._kernel.name != "precomputed":
        return SupportVectorSum(model._kernel, _dense(rows), coef)
    full = np.zeros((model.n_features_in_, coef.shape[1]))
    full[rows] = coef
    return Linear(full)


def _dense(array: MatrixLike) -> np.ndarray:
    return np.asarray(array.toarray() if sparse.issparse(array) else array, dtype=float)


def _names(model: BaseEstimator) -> np.ndarray | None:
    return getattr(model, "feature_names_in_", None)
