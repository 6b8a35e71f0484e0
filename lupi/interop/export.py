"""Fitted models as ONNX graphs: each kind of predictor writes its values, a new kind is one more registered function."""

from __future__ import annotations

from functools import reduce, singledispatch
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier, is_outlier_detector
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from lupi import __version__
from lupi.files import write_atomically
from lupi.inputs.types import MatrixLike
from lupi.kernels import Kernel
from lupi.meta.baselines import Distillation, KnowledgeTransfer
from lupi.meta.privileged_columns import PrivilegedColumns
from lupi.privacy import WithoutPrivilegedRows
from lupi.ranking.ranker import BaseRanker
from lupi.surrogate.estimators import EstimatorMember, SoftLabelStudent
from lupi.surrogate.members import CLIP, ForestMember, RbfMember, RidgeMember, SparseMember
from lupi.surrogate.surrogate import SurrogateBase
from lupi.svm.kernel_machine import KernelMachine

if TYPE_CHECKING:
    import onnx

    from lupi.interop.graph import Graph


def to_onnx(model: Any, path: str | PathLike[str] | None = None, *, dtype: str = "float64") -> onnx.ModelProto:
    """Convert a fitted model to ONNX, for runtimes without Python.

    Parameters
    ----------
    model : estimator
        Fitted: SVMPlus, SVM2Plus, SVM2K, SVRPlus, OneClassSVMPlus, RankSVM, RankTransfer with any named kernel;
        SurrogateClassifier, SurrogateRegressor; KnowledgeTransfer and Distillation with one of these or a linear estimator
        as student; a search over one of these, PrivilegedColumns around it (the input is then the decision columns alone),
        or a pipeline of scalers and it; :func:`tabular_model` of these, without columns of free text.
    path : path-like or None, default=None
        File to write, such as ``model.onnx``; None writes none.
    dtype : {"float64", "float32"}, default="float64"
        Type of input, weights and outputs. "float64" reproduces `decision_function`; "float32" is smaller, and works in
        runtimes without doubles.

    Returns
    -------
    onnx.ModelProto
        Input: `X` of shape (n, n_features), decision features only; of a :func:`tabular_model` one input of shape (n, 1) for
        each column, under its name: numbers (days since 1970 for dates, NaN for gaps) or strings ("" for gaps). Outputs:
        `label` and `decision_function` of a classifier, `probabilities` if it has them; `prediction` of a regressor;
        `decision_function` of a ranker; `label` (+1 inside, -1 outside) and `decision_function` of a one-class machine.

    Raises
    ------
    TypeError
        If the model has a part that cannot be converted, such as a custom kernel function; and for a KnowledgeTransfer with
        privileged features outside of :func:`lupi.keep_privileged`.

    Examples
    --------
    >>> import lupi
    >>> from lupi.datasets import make_privileged
    >>> X, y, privileged = make_privileged(80, random_state=0, return_X_y_privileged=True)
    >>> model = lupi.SVM2Plus().fit(X, y, privileged=privileged)
    >>> [output.name for output in lupi.to_onnx(model).graph.output]
    ['label', 'decision_function']
    """
    try:
        import onnx
    except ImportError:
        raise ImportError('`to_onnx` requires onnx: pip install "lupi[onnx]".') from None
    from lupi.interop.graph import Graph

    if dtype not in ("float64", "float32"):
        raise ValueError(f"`dtype` must be 'float64' or 'float32', got {dtype!r}.")
    graph, table = Graph(np.dtype(dtype)), getattr(model, "best_estimator_", model)
    reads_columns = hasattr(table, "encoder_")  # a TabularModel
    inner = table.estimator_ if reads_columns else model
    predictor = steps_of(inner)[-1]
    classes = predictor.classes_ if is_classifier(predictor) else []
    if reads_columns:
        values = write_values(inner, graph, table.encoder_.write(graph))
        if table.regression_:
            values = graph.op("Add", graph.op("Mul", values, table.target_scale_), table.target_mean_)
        classes = table.classes_[np.asarray(classes, dtype=np.intp)] if len(classes) else classes
    else:
        values = write_values(inner, graph, graph.input("X", predictor.n_features_in_))
    write_outputs(graph, values, predictor, classes)
    found = graph.model(__version__)
    if hasattr(predictor, "feature_names_in_"):
        onnx.helper.set_model_props(found, {"feature_names": "\n".join(map(str, predictor.feature_names_in_))})
    onnx.checker.check_model(found)
    if path is not None:
        write_atomically(path, found.SerializeToString())
    return found


def write_outputs(graph: Graph, values: str, predictor: Any, classes: Any) -> None:
    """Outputs of a predictor with these values, of shape (n, k)."""
    classes = np.asarray(classes)
    several = len(classes) if len(classes) > 2 else None
    scores = values if several else graph.op("Squeeze", values, [1])
    if is_classifier(predictor):
        # Runtimes support these types of labels; others become text.
        kind = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}.get(classes.dtype.kind, np.object_)
        labels = graph.constant(classes.astype(str) if kind is np.object_ else classes, kind)
        positive = graph.op("Greater", scores, 0.0)
        chosen = graph.op("ArgMax", values, axis=1, keepdims=0) if several else graph.cast(positive, np.int64)
        graph.output("label", "Gather", labels, chosen, dtype=kind)
    elif is_outlier_detector(predictor):
        inside = graph.op("GreaterOrEqual", scores, 0.0)
        graph.output("label", "Where", inside, 1, -1, dtype=np.int64)
    name = "decision_function" if hasattr(predictor, "decision_function") else "prediction"
    graph.output(name, "Identity", scores, width=several)
    student = steps_of(predictor.estimator_)[-1] if isinstance(predictor, KnowledgeTransfer) else predictor
    # With liblinear, the probabilities of several classes are no softmax.
    logistic = isinstance(student, LogisticRegression) and not (several and student.solver == "liblinear")
    if logistic or (is_classifier(student) and isinstance(student, SurrogateBase)):
        if several:
            graph.output("probabilities", "Softmax", values, width=several, axis=1)
        else:
            positive = graph.op("Sigmoid", values)
            graph.output("probabilities", "Concat", graph.op("Sub", 1.0, positive), positive, width=2, axis=1)


def steps_of(model: Any) -> list[Any]:
    """Scalers and predictor of a fitted model, without the pipelines, searches and wrappers around them."""
    check_is_fitted(model)
    if isinstance(model, Pipeline):
        scalers = [step for _, step in model.steps[:-1] if step not in ("passthrough", None)]
        return [*scalers, *steps_of(model[-1])]
    if isinstance(model, PrivilegedColumns | Distillation | SoftLabelStudent):
        return steps_of(model.estimator_)
    return steps_of(model.best_estimator_) if hasattr(model, "best_estimator_") else [model]


def write_values(model: Any, graph: Graph, X: str) -> str:
    """Values of a model, of shape (n, k): margins or log-odds (k = 1 for two classes), scores or numbers."""
    *scalers, predictor = steps_of(model)
    if isinstance(predictor, WithoutPrivilegedRows):
        predictor.__getstate__()  # raises unless the model may leave
    for step in scalers:
        X = graph.scale(X, *shift_and_scale(step))
    return predictor_values(predictor, graph, X)


def shift_and_scale(step: Any) -> tuple[Any, np.ndarray]:
    """What a fitted scaler subtracts, and by what it divides then."""
    check_is_fitted(step)
    if isinstance(step, StandardScaler):
        shift = step.mean_ if step.with_mean else None
        return 0.0 if shift is None else shift, np.ones(step.n_features_in_) if step.scale_ is None else step.scale_
    if isinstance(step, MinMaxScaler) and not step.clip:
        return -step.min_ / step.scale_, 1.0 / step.scale_
    if isinstance(step, MaxAbsScaler) and not getattr(step, "clip", False):
        return 0.0, step.scale_
    raise TypeError(
        f"a {type(step).__name__} cannot be exported; before the model there may be StandardScaler, MinMaxScaler and "
        "MaxAbsScaler (clip=False). Export model[-1], and transform its input yourself."
    )


@singledispatch
def predictor_values(model: Any, graph: Graph, X: str) -> str:
    """Values of a predictor; linear estimators of scikit-learn need no function of their own."""
    if hasattr(model, "coef_") and hasattr(model, "intercept_"):
        return graph.affine(X, np.atleast_2d(_dense(model.coef_)).T, model.intercept_)
    raise TypeError(
        f"a {type(model).__name__} cannot be exported; SVMPlus, SVM2Plus, SVM2K, SVRPlus, OneClassSVMPlus, RankSVM, RankTransfer, "
        "SurrogateClassifier and SurrogateRegressor can, as can linear estimators such as Ridge or LogisticRegression, alone, "
        "after scalers, or as students of KnowledgeTransfer, Distillation and surrogate models. lupi.save keeps any model."
    )


@predictor_values.register(KernelMachine)
@predictor_values.register(BaseRanker)
def _(model: Any, graph: Graph, X: str) -> str:
    intercept = -model.offset_ if is_outlier_detector(model) else getattr(model, "intercept_", 0.0)
    if hasattr(model, "coef_"):
        return graph.affine(X, np.atleast_2d(model.coef_).T, intercept)
    precomputed, coef = model._kernel.name == "precomputed", np.atleast_2d(model.dual_coef_).T
    if isinstance(model, BaseRanker):
        rows = model.X_fit_
    else:
        rows = model.support_ if precomputed else model.support_vectors_
    if not precomputed:
        return graph.affine(graph.kernel(X, _dense(rows), model._kernel), coef, intercept)
    # Rows are indices, and features are kernel values with all training rows.
    full = np.zeros((model.n_features_in_, coef.shape[1]))
    full[rows] = coef
    return graph.affine(X, full, intercept)


@predictor_values.register(KnowledgeTransfer)
def _(model: KnowledgeTransfer, graph: Graph, X: str) -> str:
    if model.regressor_ is not None:
        predictions = write_values(model.regressor_, graph, X)
        X = graph.op("Concat", X, predictions, axis=1) if model.passthrough else predictions
    return write_values(model.estimator_, graph, X)


@predictor_values.register(SurrogateBase)
def _(model: SurrogateBase, graph: Graph, X: str) -> str:
    scaler, calibration = model._model.scaler, model._model.calibration
    factor = calibration.slope / calibration.scale
    terms, constant = [], calibration.intercept - factor * calibration.center
    if scaler is not None:
        X = graph.op("Clip", graph.scale(X, scaler.mean_, scaler.scale_), -CLIP, CLIP)
        # Sparse columns are not centered; scaler.shift_ is mean_ otherwise.
        X = graph.op("Add", X, (scaler.mean_ - scaler.shift_) / scaler.scale_) if scaler.sparse_ else X
    for weight, pool in model._model.parts:
        for member, unit, part in zip(pool.members.values(), pool.units_, pool.weights_):
            share = factor * weight * part / (unit * pool.scale_)
            terms.append(graph.op("Mul", predictor_values(member, graph, X), share))
            constant = constant - share * pool.center_
    return graph.op("Add", reduce(lambda total, term: graph.op("Add", total, term), terms), constant)


@predictor_values.register(RidgeMember)
@predictor_values.register(SparseMember)
def _(member: RidgeMember | SparseMember, graph: Graph, X: str) -> str:
    return graph.affine(X, member.coef_, member.intercept_)


@predictor_values.register(RbfMember)
def _(member: RbfMember, graph: Graph, X: str) -> str:
    kernel = Kernel("rbf", gamma=float(member.gamma_))
    return graph.affine(graph.kernel(X, _dense(member.landmarks_), kernel), member.coef_, member.intercept_)


@predictor_values.register(ForestMember)
def _(member: ForestMember, graph: Graph, X: str) -> str:
    return graph.forest(X, member)


@predictor_values.register(EstimatorMember)
def _(member: EstimatorMember, graph: Graph, X: str) -> str:
    if isinstance(member.estimator_, list):
        return graph.op("Concat", *(write_values(part, graph, X) for part in member.estimator_), axis=1)
    student, n_classes = steps_of(member.estimator_)[-1], max(2, member.n_outputs_)
    if is_classifier(student) and len(student.classes_) != n_classes:
        raise TypeError(
            f"the {type(student).__name__} has seen {len(student.classes_)} of {n_classes} classes, so its values are not a "
            "linear function of X."
        )
    return write_values(member.estimator_, graph, X)


def _dense(array: MatrixLike) -> np.ndarray:
    return np.asarray(array.toarray() if sparse.issparse(array) else array, dtype=float)
