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
from lupi.meta.distillation import Distillation
from lupi.meta.knowledge_transfer import KnowledgeTransfer
from lupi.meta.privileged_columns import PrivilegedColumns
from lupi.ranking.rank_svm import BaseRanker
from lupi.surrogate.base import SurrogateBase
from lupi.surrogate.students import (
    CLIP,
    AveragedStudent,
    ForestMember,
    RbfMember,
    RidgeMember,
)
from lupi.surrogate.wrapped import SoftLabelStudent, WrappedStudent
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
    calibration, terms = model._output, []
    factor = calibration.slope / calibration.scale
    intercept = calibration.intercept - factor * calibration.center
    for student, share in ((model._plain, model._plain_share), (model._student, 1.0 - model._plain_share)):
        if share:
            found, constant = _student_terms(student, factor * share / student.spread_)
            terms += found
            intercept = intercept + constant
    own = isinstance(model._plain, AveragedStudent)
    scaler: Any = model._plain.scaler_ if own else None
    return Formula(
        model.n_features_in_,
        np.atleast_1d(intercept),
        tuple(terms),
        "classifier" if is_classifier(model) else "regressor",
        scalings=(Scaling(scaler.mean_, scaler.scale_, CLIP),) if own else (),
        classes=getattr(model, "classes_", None),
        logistic=is_classifier(model),
        feature_names=_names(model),
    )


def _student_terms(student: Any, factor: float) -> tuple[Any, ...]:
    """Terms and constant of a student's output, times a factor."""
    if isinstance(student, WrappedStudent):
        coef, intercept = _wrapped_function(student)
        return [Linear(factor * coef)], factor * intercept
    terms, constant = [], 0.0
    for member in student.members_:
        share = factor / len(student.members_) / max(member.spread_, 1e-12)
        found, intercept = _member_term(member, share)
        terms.append(found)
        constant = constant + share * (intercept - student.center_)
    return terms, constant


@singledispatch
def _member_term(member: Any, share: float) -> tuple[Any, Any]:
    raise TypeError(f"a {type(member).__name__} as a member of the averaged student cannot be exported.")


@_member_term.register
def _(member: RidgeMember, share: float) -> tuple[Any, Any]:
    return Linear(share * member.coef_), member.intercept_


@_member_term.register
def _(member: RbfMember, share: float) -> tuple[Any, Any]:
    machine = member.machine_
    coef = member.coef_ if machine.map_ is None else machine.map_ @ member.coef_
    return SupportVectorSum(
        Kernel("rbf", gamma=float(machine.gamma)), _dense(machine.landmarks_), share * coef
    ), member.intercept_


@_member_term.register
def _(member: ForestMember, share: float) -> tuple[Any, Any]:
    found = Trees(share, member.roots_, member.feature_, member.threshold_, member.left_, member.right_, member.value_)
    return found, 0.0


def _wrapped_function(student: WrappedStudent) -> tuple[np.ndarray, np.ndarray]:
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
