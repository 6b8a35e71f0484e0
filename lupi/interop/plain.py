"""A fitted model as a plain scikit-learn predictor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor, StackingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge, SGDOneClassSVM
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor
from sklearn.tree._tree import NODE_DTYPE, Tree

from lupi.interop.formula import Linear, SupportVectorSum, Trees
from lupi.interop.reading import formula_of

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from lupi.interop.formula import Formula, Scaling

# Kernels that scikit-learn has under the same name.
KNOWN = ("linear", "rbf", "poly", "sigmoid", "chi2", "laplacian")


def to_sklearn(model: Any) -> Any:
    """Turn a fitted model into a scikit-learn predictor that needs no lupi.

    Everything in it is scikit-learn's own, with the fitted attributes set, so it can be pickled and used where lupi is not
    installed. Linear models become one `LinearSVC`, `LogisticRegression` or `Ridge`; a kernel expansion becomes a
    `Nystroem` whose map gives the decision values; the averaged student of surrogate learning a stack of a ridge, a kernel
    expansion and a forest. It holds no privileged rows. It cannot be fitted again to the same effect.

    Parameters
    ----------
    model : estimator
        Fitted: SVMPlus, SVM2Plus, SVM2K, OneClassSVMPlus, RankSVM, RankTransfer, SurrogateClassifier, SurrogateRegressor;
        KnowledgeTransfer and Distillation with a linear student; a search over one of these, PrivilegedColumns around
        it (the result takes the decision columns alone), or a pipeline of scalers and it.

    Returns
    -------
    estimator
        With the same `predict`, and `decision_function` and `predict_proba` where the model has them. Of a ranker, `predict`
        gives the scores.

    Raises
    ------
    TypeError
        If scikit-learn has nothing that computes the same.

    Examples
    --------
    >>> import numpy as np
    >>> import lupi
    >>> from lupi.datasets import make_privileged
    >>> X, y, privileged = make_privileged(80, random_state=0, return_X_y_privileged=True)
    >>> model = lupi.SVM2Plus().fit(X, y, privileged=privileged)
    >>> plain = lupi.to_sklearn(model)
    >>> [type(step).__name__ for _, step in plain.steps]
    ['Nystroem', 'LinearSVC']
    >>> bool(np.allclose(plain.decision_function(X), model.decision_function(X)))
    True
    """
    formula = formula_of(model)
    steps = [step for k, scaling in enumerate(formula.scalings) for step in _scaler(scaling, k)]
    if len(formula.terms) == 1 and isinstance(formula.terms[0], Linear):
        last = _output(formula, formula.terms[0].coef.T)
    elif len(formula.terms) == 1 and isinstance(formula.terms[0], SupportVectorSum):
        steps.append(("kernel", _kernel_map(formula.terms[0])))
        last = _output(formula, np.eye(formula.n_outputs))
    else:
        steps.append(("students", _stack(formula)))
        last = _output(formula, np.hstack([np.eye(formula.n_outputs)] * len(formula.terms)))
    steps.append(("output", last))
    if formula.feature_names is not None:
        steps[0][1].feature_names_in_ = formula.feature_names
    return last if len(steps) == 1 else Pipeline(steps)


def _scaler(scaling: Scaling, k: int) -> Iterator[tuple[str, BaseEstimator]]:
    scaler = _filled(
        StandardScaler(),
        mean_=scaling.shift,
        scale_=scaling.scale,
        var_=scaling.scale**2,
        n_features_in_=len(scaling.shift),
        n_samples_seen_=1,
    )
    yield f"scale{k or ''}", scaler
    if np.isfinite(scaling.limit):
        limits = {"a_min": -scaling.limit, "a_max": scaling.limit}
        yield f"clip{k or ''}", FunctionTransformer(np.clip, kw_args=limits)


def _kernel_map(term: SupportVectorSum) -> BaseEstimator:
    """Kernel values times coefficients: what Nystroem does, with our coefficients in place of its whitening."""
    kernel = term.kernel
    if not callable(kernel.name) and kernel.name not in KNOWN:
        raise TypeError(
            f"scikit-learn has no {kernel.name} kernel; export with lupi.to_onnx, or keep it with lupi.save."
        )
    params = {} if callable(kernel.name) else {name: getattr(kernel, name) for name in ("gamma", "degree", "coef0")}
    return _filled(
        Nystroem(kernel.name, **params, n_components=len(term.rows)),
        components_=term.rows,
        component_indices_=np.arange(len(term.rows)),
        normalization_=np.ascontiguousarray(term.coef.T),
        n_features_in_=term.rows.shape[1],
    )


def _stack(formula: Formula) -> BaseEstimator:
    """The terms side by side, each the prediction of a regressor."""
    names = {Linear: "linear", SupportVectorSum: "kernel", Trees: "forest"}
    members = [(f"{names[type(term)]}{k}", _regressor(term, formula)) for k, term in enumerate(formula.terms)]
    return _filled(
        StackingRegressor(members, final_estimator=Ridge(), cv="prefit"),
        estimators_=[member for _, member in members],
        stack_method_=["predict"] * len(members),
    )


def _regressor(term: Any, formula: Formula) -> BaseEstimator:
    n, k = formula.n_features, formula.n_outputs
    if isinstance(term, Linear):
        return _ridge(term.coef.T, np.zeros(k))
    if isinstance(term, SupportVectorSum):
        return Pipeline([("kernel", _kernel_map(term)), ("sum", _ridge(np.eye(k), np.zeros(k)))])
    trees = [_tree(term, first, last, n) for first, last in term.spans()]
    return _filled(
        RandomForestRegressor(len(trees)), estimators_=trees, n_outputs_=k, n_features_in_=n, estimator_=trees[0]
    )


def _tree(term: Trees, first: int, last: int, n_features: int) -> BaseEstimator:
    leaf = term.leaf[first:last]
    nodes = np.zeros(last - first, dtype=NODE_DTYPE)
    nodes["left_child"] = np.where(leaf, -1, term.left[first:last] - first)
    nodes["right_child"] = np.where(leaf, -1, term.right[first:last] - first)
    nodes["feature"] = np.where(leaf, -2, term.feature[first:last])
    nodes["threshold"] = np.where(leaf, -2.0, term.threshold[first:last])
    nodes["n_node_samples"] = nodes["weighted_n_node_samples"] = 1
    k = term.value.shape[1]
    tree = Tree(n_features, np.ones(k, dtype=np.intp), k)
    values = np.ascontiguousarray(term.factor * term.value[first:last, :, None], dtype=np.float64)
    tree.__setstate__({"max_depth": len(nodes), "node_count": len(nodes), "nodes": nodes, "values": values})
    return _filled(DecisionTreeRegressor(), tree_=tree, n_outputs_=k, n_features_in_=n_features)


def _output(formula: Formula, coef: np.ndarray) -> BaseEstimator:
    """The last step, from what is before it to values and labels."""
    if formula.kind == "outlier":
        return _filled(
            SGDOneClassSVM(), coef_=coef[0], offset_=-formula.intercept, n_features_in_=coef.shape[1], n_iter_=0
        )
    if formula.kind != "classifier":
        return _ridge(coef, formula.intercept)
    last = LogisticRegression() if formula.logistic else LinearSVC()
    return _filled(
        last,
        coef_=coef,
        intercept_=formula.intercept,
        classes_=formula.classes,
        n_features_in_=coef.shape[1],
        n_iter_=np.zeros(1, dtype=np.int32),
    )


def _ridge(coef: np.ndarray, intercept: np.ndarray) -> BaseEstimator:
    single = len(intercept) == 1
    return _filled(
        Ridge(),
        coef_=coef[0] if single else coef,
        intercept_=float(intercept[0]) if single else intercept,
        n_features_in_=coef.shape[1],
        n_iter_=None,
    )


def _filled(estimator: BaseEstimator, **attributes: Any) -> BaseEstimator:
    for name, value in attributes.items():
        setattr(estimator, name, value)
    return estimator
