"""ONNX graph of a fitted model."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from lupi import __version__
from lupi.files import write_atomically
from lupi.interop.formula import Formula, Linear, Scaling, SupportVectorSum, Trees
from lupi.interop.reading import formula_of
from lupi.kernels import Kernel

if TYPE_CHECKING:
    import onnx

# Versions of the standard and of its operators for trees that current runtimes support.
OPSET, TREE_OPSET, IR_VERSION = 17, 3, 8


def to_onnx(model: Any, path: str | PathLike[str] | None = None, *, dtype: str = "float64") -> onnx.ModelProto:
    """Convert a fitted model to ONNX, for runtimes without Python.

    Parameters
    ----------
    model : estimator
        Fitted: SVMPlus, SVM2Plus, SVM2K, SVRPlus, OneClassSVMPlus, RankSVM, RankTransfer with any named kernel;
        SurrogateClassifier, SurrogateRegressor; KnowledgeTransfer and Distillation with a linear student; a search
        over one of these, PrivilegedColumns around it (the input is then the decision columns alone), or a pipeline of
        scalers and it.
    path : path-like or None, default=None
        File to write, such as ``model.onnx``; None writes none.
    dtype : {"float64", "float32"}, default="float64"
        Type of input, weights and outputs. "float64" reproduces `decision_function`; "float32" is smaller, and works in
        runtimes without doubles.

    Returns
    -------
    onnx.ModelProto
        Input: `X` of shape (n, n_features), decision features only. Outputs: `label` and `decision_function` of a classifier,
        `probabilities` if it has them; `prediction` of a regressor; `decision_function` of a ranker; `label` (+1 inside, -1
        outside) and `decision_function` of a one-class machine.

    Raises
    ------
    TypeError
        If the model has a part that cannot be converted, such as a kernel function of yours.

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
    if dtype not in ("float64", "float32"):
        raise ValueError(f"`dtype` must be 'float64' or 'float32', got {dtype!r}.")
    formula = formula_of(model)
    graph = _Graph(np.dtype(dtype))
    scaled = reduce(lambda name, scaling: _scale(graph, name, scaling), formula.scalings, "X")
    terms = [_TERMS[type(term)](graph, scaled, term) for term in formula.terms]
    values = reduce(lambda total, term: graph.op("Add", total, term), [*terms, graph.constant(formula.intercept)])
    made = graph.build(formula.n_features, _OUTPUTS[formula.kind](graph, values, formula))
    opsets = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("ai.onnx.ml", TREE_OPSET)]
    found = onnx.helper.make_model(made, opset_imports=opsets, producer_name="lupi", producer_version=__version__)
    found.ir_version = IR_VERSION
    if formula.feature_names is not None:
        onnx.helper.set_model_props(found, {"feature_names": "\n".join(map(str, formula.feature_names))})
    onnx.checker.check_model(found)
    if path is not None:
        write_atomically(path, found.SerializeToString())
    return found


class _Graph:
    """Nodes and constants; methods return the names of their results."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        from onnx import helper, numpy_helper

        self.dtype, self.tensor_type = dtype, helper.np_dtype_to_tensor_dtype(dtype)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._helper, self._array = helper, numpy_helper

    def constant(self, value: Any, dtype: type[Any] | None = None) -> str:
        name = f"c{len(self.constants)}"
        value = np.asarray(value, dtype=self.dtype if dtype is None else dtype)
        if value.dtype == object:
            text: Any = [str(part).encode() for part in value.ravel()]
            made = self._helper.make_tensor(name, 8, value.shape, text)
        else:
            made = self._array.from_array(np.ascontiguousarray(value), name)
        self.constants.append(made)
        return name

    def op(self, kind: str, *inputs: str, out: str | None = None, domain: str = "", **attributes: Any) -> str:
        name = out or f"n{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name

    def sum(self, name: str, axis: int, keep: bool = False) -> str:
        return self.op("ReduceSum", name, self.constant([axis], np.int64), keepdims=int(keep))

    def cast(self, name: str, dtype: np.dtype[Any] | type[Any]) -> str:
        return self.op("Cast", name, to=self._helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def column(self, name: str, out: str) -> str:
        """A matrix of one column as a vector."""
        return self.op("Squeeze", name, self.constant([1], np.int64), out=out)

    def build(self, n_features: int, outputs: dict[str, tuple[Any, list[Any]]]) -> Any:
        """The graph with its input and outputs (name -> type or None, shape)."""
        info = self._helper.make_tensor_value_info
        inputs = [info("X", self.tensor_type, ["n", n_features])]
        ends = [info(name, kind or self.tensor_type, shape) for name, (kind, shape) in outputs.items()]
        return self._helper.make_graph(self.nodes, "lupi", inputs, ends, initializer=self.constants)


def _scale(graph: _Graph, name: str, scaling: Scaling) -> str:
    name = graph.op("Sub", name, graph.constant(scaling.shift))
    name = graph.op("Div", name, graph.constant(scaling.scale))
    if np.isfinite(scaling.limit):
        name = graph.op("Clip", name, graph.constant(-scaling.limit), graph.constant(scaling.limit))
    return name


def _linear(graph: _Graph, name: str, term: Linear) -> str:
    return graph.op("MatMul", name, graph.constant(term.coef))


def _expansion(graph: _Graph, name: str, term: SupportVectorSum) -> str:
    if callable(term.kernel.name):
        raise TypeError("a kernel function of yours cannot be written as ONNX; use one of the named kernels.")
    values = _KERNELS[term.kernel.name](graph, name, term.rows, term.kernel)
    return graph.op("MatMul", values, graph.constant(term.coef))


def _inner(graph: _Graph, name: str, rows: np.ndarray, kernel: Kernel) -> str:
    return graph.op("MatMul", name, graph.constant(rows.T))


def _affine_inner(graph: _Graph, name: str, rows: np.ndarray, kernel: Kernel) -> str:
    scaled = graph.op("Mul", _inner(graph, name, rows, kernel), graph.constant(kernel.gamma))
    return graph.op("Add", scaled, graph.constant(kernel.coef0))


def _decay(graph: _Graph, distance: str, kernel: Kernel) -> str:
    return graph.op("Exp", graph.op("Mul", distance, graph.constant(-kernel.gamma)))


def _rbf(graph: _Graph, name: str, rows: np.ndarray, kernel: Kernel) -> str:
    squares = graph.sum(graph.op("Mul", name, name), 1, keep=True)
    double = graph.op("Mul", _inner(graph, name, rows, kernel), graph.constant(-2.0))
    distance = graph.op("Add", graph.op("Add", double, squares), graph.constant((rows**2).sum(axis=1)))
    # Rounding can make it negative.
    return _decay(graph, graph.op("Max", distance, graph.constant(0.0)), kernel)


def _poly(graph: _Graph, name: str, rows: np.ndarray, kernel: Kernel) -> str:
    return graph.op("Pow", _affine_inner(graph, name, rows, kernel), graph.constant(kernel.degree))


def _sigmoid(graph: _Graph, name: str, rows: np.ndarray, kernel: Kernel) -> str:
    return graph.op("Tanh", _affine_inner(graph, name, rows, kernel))


def _pairs(graph: _Graph, name: str, rows: np.ndarray) -> tuple[str, str]:
    """Inputs and rows as arrays that broadcast: (n, 1, d) and (1, m, d)."""
    return graph.op("Unsqueeze", name, graph.constant([1], np.int64)), graph.constant(rows[None])


def _laplacian(graph: _Graph, name: str, rows: np.ndarray, kernel: Kernel) -> str:
    return _decay(graph, graph.sum(graph.op("Abs", graph.op("Sub", *_pairs(graph, name, rows))), 2), kernel)


def _chi2(graph: _Graph, name: str, rows: np.ndarray, kernel: Kernel) -> str:
    pair = _pairs(graph, name, rows)
    difference, total = graph.op("Sub", *pair), graph.op("Add", *pair)
    # 0 / 0 counts as 0.
    empty = graph.op("Equal", total, graph.constant(0.0))
    total = graph.op("Where", empty, graph.constant(1.0), total)
    return _decay(graph, graph.sum(graph.op("Div", graph.op("Mul", difference, difference), total), 2), kernel)


def _intersection(graph: _Graph, name: str, rows: np.ndarray, kernel: Kernel) -> str:
    return graph.sum(graph.op("Min", *_pairs(graph, name, rows)), 2)


def _trees(graph: _Graph, name: str, term: Trees) -> str:
    """The forest in single precision, as in training; thresholds are rounded down so that x <= threshold is unchanged."""
    sizes = np.diff(term.roots, append=len(term.left))
    tree = np.repeat(np.arange(len(sizes)), sizes)
    start, leaf = term.roots[tree], term.left == np.arange(len(term.left))
    node = np.arange(len(leaf)) - start
    threshold = term.threshold.astype(np.float32)
    above = threshold.astype(np.float64) > term.threshold
    threshold[above] = np.nextafter(threshold[above], np.float32(-np.inf))
    leaves, k = np.flatnonzero(leaf), term.value.shape[1]
    found = graph.op(
        "TreeEnsembleRegressor",
        graph.cast(name, np.float32),
        domain="ai.onnx.ml",
        n_targets=k,
        aggregate_function="AVERAGE",
        nodes_treeids=tree.tolist(),
        nodes_nodeids=node.tolist(),
        nodes_featureids=term.feature.tolist(),
        nodes_modes=["LEAF" if end else "BRANCH_LEQ" for end in leaf],
        nodes_values=np.where(leaf, 0, threshold).astype(np.float32).tolist(),
        nodes_truenodeids=np.where(leaf, 0, term.left - start).tolist(),
        nodes_falsenodeids=np.where(leaf, 0, term.right - start).tolist(),
        target_treeids=np.repeat(tree[leaves], k).tolist(),
        target_nodeids=np.repeat(node[leaves], k).tolist(),
        target_ids=np.tile(np.arange(k), len(leaves)).tolist(),
        target_weights=term.value[leaves].astype(np.float32).ravel().tolist(),
    )
    return graph.op("Mul", graph.cast(found, graph.dtype), graph.constant(term.factor))


def _label_type(classes: np.ndarray) -> tuple[type[Any], int]:
    """Type of the labels in the graph, and its number in the standard; other labels become text."""
    for general, kind, number in ((np.integer, np.int64, 7), (np.floating, np.float64, 11), (np.bool_, np.bool_, 9)):
        if np.issubdtype(classes.dtype, general):
            return kind, number
    return object, 8


def _classifier(graph: _Graph, values: str, formula: Formula) -> dict[str, tuple[Any, list[Any]]]:
    binary, classes = len(formula.intercept) == 1, np.asarray(formula.classes)
    if binary:
        scores = graph.column(values, "decision_function")
        chosen = graph.cast(graph.op("Greater", scores, graph.constant(0.0)), np.int64)
    else:
        graph.op("Identity", values, out="decision_function")
        chosen = graph.op("ArgMax", values, axis=1, keepdims=0)
    kind, number = _label_type(classes)
    graph.op("Gather", graph.constant(classes.astype(kind), kind), chosen, out="label")
    outputs = {"label": (number, ["n"]), "decision_function": (None, ["n"] if binary else ["n", len(classes)])}
    if formula.logistic:
        outputs["probabilities"] = (None, ["n", len(classes)])
        if binary:
            positive = graph.op("Sigmoid", values)
            negative = graph.op("Sub", graph.constant(1.0), positive)
            graph.op("Concat", negative, positive, out="probabilities", axis=1)
        else:
            graph.op("Softmax", values, out="probabilities", axis=1)
    return outputs


def _outlier(graph: _Graph, values: str, formula: Formula) -> dict[str, tuple[Any, list[Any]]]:
    scores = graph.column(values, "decision_function")
    inside = graph.op("GreaterOrEqual", scores, graph.constant(0.0))
    graph.op("Where", inside, graph.constant(1, np.int64), graph.constant(-1, np.int64), out="label")
    return {"label": (7, ["n"]), "decision_function": (None, ["n"])}


def _regressor(graph: _Graph, values: str, formula: Formula) -> dict[str, tuple[Any, list[Any]]]:
    return {graph.column(values, "prediction"): (None, ["n"])}


def _ranker(graph: _Graph, values: str, formula: Formula) -> dict[str, tuple[Any, list[Any]]]:
    return {graph.column(values, "decision_function"): (None, ["n"])}


_TERMS: dict[type, Callable[..., str]] = {Linear: _linear, SupportVectorSum: _expansion, Trees: _trees}
_KERNELS = {
    "linear": _inner,
    "rbf": _rbf,
    "poly": _poly,
    "sigmoid": _sigmoid,
    "laplacian": _laplacian,
    "chi2": _chi2,
    "intersection": _intersection,
}
_OUTPUTS = {"classifier": _classifier, "outlier": _outlier, "regressor": _regressor, "ranker": _ranker}
