"""A fitted model as an ONNX graph, node by node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from lupi import __version__
from lupi.interop.formula import Linear, SupportVectorSum, Trees
from lupi.interop.reading import formula_of

if TYPE_CHECKING:
    import onnx

    from lupi.interop.formula import Formula, Scaling
    from lupi.kernels import Kernel

# Of the standard and of its part for trees: old enough for the runtimes in use.
OPSET, TREE_OPSET, IR_VERSION = 17, 3, 8


def to_onnx(model: Any, *, dtype: str = "float64") -> onnx.ModelProto:
    """Turn a fitted model into an ONNX model, for runtimes without Python.

    Parameters
    ----------
    model : estimator
        Fitted: SVMPlus, SVM2Plus, SVM2K, OneClassSVMPlus, RankSVM, RankTransfer with any kernel but a function of yours,
        SurrogateClassifier, SurrogateRegressor; KnowledgeTransfer and Distillation with a linear student; a search
        over one of these, PrivilegedColumns around it (the input is then the decision columns alone), or a pipeline of
        scalers and it.
    dtype : {"float64", "float32"}, default="float64"
        Of input, weights and values. "float64" keeps the values of `decision_function`; "float32" is smaller, and for runtimes
        without doubles.

    Returns
    -------
    onnx.ModelProto
        ``onnx.save(found, "model.onnx")`` writes it. Input: `X` of shape (n, n_features), decision features only. Outputs: `label`
        and `decision_function` of a classifier, `probabilities` where it has them; `prediction` of a regressor;
        `decision_function` of a ranker; `label` (+1 inside, -1 outside) and `decision_function` of a one-class machine.

    Raises
    ------
    TypeError
        If the model has a part that ONNX has no operations for here, such as a kernel function of yours.

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
        raise ImportError('`to_onnx` needs onnx: pip install "lupi[onnx]".') from None
    if dtype not in ("float64", "float32"):
        raise ValueError(f"`dtype` must be 'float64' or 'float32'; got {dtype!r}.")
    formula = formula_of(model)
    graph = _Graph(np.dtype(dtype))
    name = "X"
    for scaling in formula.scalings:
        name = _scaled(graph, name, scaling)
    values = graph.op("Add", _total(graph, name, formula), graph.constant(formula.intercept))
    outputs = _OUTPUTS[formula.kind](graph, values, formula)
    made = graph.build(formula.n_features, outputs)
    opsets = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("ai.onnx.ml", TREE_OPSET)]
    found = onnx.helper.make_model(made, opset_imports=opsets, producer_name="lupi", producer_version=__version__)
    found.ir_version = IR_VERSION
    if formula.feature_names is not None:
        onnx.helper.set_model_props(found, {"feature_names": "\n".join(map(str, formula.feature_names))})
    onnx.checker.check_model(found)
    return found


class _Graph:
    """Nodes and constants, named by number."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        from onnx import helper, numpy_helper

        self.dtype, self.kind = dtype, helper.np_dtype_to_tensor_dtype(dtype)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._helper, self._array = helper, numpy_helper

    def constant(self, value: float | list[int] | np.ndarray, dtype: type[Any] | None = None) -> str:
        """Name of an array in the graph."""
        name = f"c{len(self.constants)}"
        value = np.asarray(value, dtype=self.dtype if dtype is None else dtype)
        if value.dtype == object:
            made = self._helper.make_tensor(name, 8, value.shape, [str(part).encode() for part in value.ravel()])  # type: ignore[misc]  # onnx names numbers only
        else:
            made = self._array.from_array(np.ascontiguousarray(value), name)
        self.constants.append(made)
        return name

    def op(self, kind: str, *inputs: str, out: str | None = None, domain: str = "", **attributes: Any) -> str:
        """Name of what a node gives."""
        name = out or f"n{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name

    def reduce(self, name: str, axis: int, keep: bool) -> str:
        """Sum over an axis."""
        return self.op("ReduceSum", name, self.constant([axis], np.int64), keepdims=int(keep))

    def cast(self, name: str, dtype: np.dtype[Any] | type[Any], out: str | None = None) -> str:
        """Another type of numbers."""
        return self.op("Cast", name, out=out, to=self._helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def column(self, name: str, out: str) -> str:
        """One column as a vector."""
        return self.op("Squeeze", name, self.constant([1], np.int64), out=out)

    def build(self, n_features: int, outputs: dict[str, Any]) -> Any:
        """The graph with its input and outputs (name -> type, shape)."""
        info = self._helper.make_tensor_value_info
        entry = [info("X", self.kind, ["n", n_features])]
        ends = [info(name, self.kind if kind is None else kind, shape) for name, (kind, shape) in outputs.items()]
        return self._helper.make_graph(self.nodes, "lupi", entry, ends, initializer=self.constants)


def _scaled(graph: _Graph, name: str, scaling: Scaling) -> str:
    name = graph.op("Sub", name, graph.constant(scaling.shift))
    name = graph.op("Div", name, graph.constant(scaling.scale))
    if np.isfinite(scaling.limit):
        name = graph.op("Clip", name, graph.constant(-scaling.limit), graph.constant(scaling.limit))
    return name


def _total(graph: _Graph, name: str, formula: Formula) -> str:
    parts = [_TERMS[type(term)](graph, name, term) for term in formula.terms]
    total: str = parts[0]
    for part in parts[1:]:
        total = graph.op("Add", total, part)
    return total


def _linear(graph: _Graph, name: str, term: Linear) -> str:
    return graph.op("MatMul", name, graph.constant(term.coef))


def _expansion(graph: _Graph, name: str, term: SupportVectorSum) -> str:
    kernel = term.kernel
    if callable(kernel.name):
        raise TypeError("a kernel function of yours cannot be written as ONNX; use one of the named kernels.")
    return graph.op("MatMul", _KERNELS[kernel.name](graph, name, term.rows, kernel), graph.constant(term.coef))


def _inner(graph: _Graph, name: str, rows: np.ndarray, kernel: Kernel | None = None) -> str:
    return graph.op("MatMul", name, graph.constant(rows.T))


def _affine_inner(graph: _Graph, name: str, rows: np.ndarray, kernel: Kernel) -> str:
    scaled = graph.op("Mul", _inner(graph, name, rows), graph.constant(kernel.gamma))
    return graph.op("Add", scaled, graph.constant(kernel.coef0))


def _rbf(graph: _Graph, name: str, rows: np.ndarray, kernel: Kernel) -> str:
    squares = graph.reduce(graph.op("Mul", name, name), 1, keep=True)
    double = graph.op("Mul", _inner(graph, name, rows), graph.constant(-2.0))
    distance = graph.op("Add", graph.op("Add", double, squares), graph.constant((rows**2).sum(axis=1)))
    # Rounding may leave a little below 0.
    distance = graph.op("Max", distance, graph.constant(0.0))
    return graph.op("Exp", graph.op("Mul", distance, graph.constant(-kernel.gamma)))


def _poly(graph: _Graph, name: str, rows: np.ndarray, kernel: Kernel) -> str:
    return graph.op("Pow", _affine_inner(graph, name, rows, kernel), graph.constant(kernel.degree))


def _sigmoid(graph: _Graph, name: str, rows: np.ndarray, kernel: Kernel) -> str:
    return graph.op("Tanh", _affine_inner(graph, name, rows, kernel))


def _pairs(graph: _Graph, name: str, rows: np.ndarray) -> tuple[str, str]:
    """Both sides with an axis for the other: (n, 1, d) and (1, m, d)."""
    return graph.op("Unsqueeze", name, graph.constant([1], np.int64)), graph.constant(rows[None])


def _laplacian(graph: _Graph, name: str, rows: np.ndarray, kernel: Kernel) -> str:
    distance = graph.reduce(graph.op("Abs", graph.op("Sub", *_pairs(graph, name, rows))), 2, keep=False)
    return graph.op("Exp", graph.op("Mul", distance, graph.constant(-kernel.gamma)))


def _chi2(graph: _Graph, name: str, rows: np.ndarray, kernel: Kernel) -> str:
    pair = _pairs(graph, name, rows)
    difference, total = graph.op("Sub", *pair), graph.op("Add", *pair)
    # Where both are 0 the share is 0 / 0, and counts as 0.
    empty = graph.op("Equal", total, graph.constant(0.0))
    total = graph.op("Where", empty, graph.constant(1.0), total)
    share = graph.op("Div", graph.op("Mul", difference, difference), total)
    return graph.op("Exp", graph.op("Mul", graph.reduce(share, 2, keep=False), graph.constant(-kernel.gamma)))


def _intersection(graph: _Graph, name: str, rows: np.ndarray, kernel: Kernel) -> str:
    return graph.reduce(graph.op("Min", *_pairs(graph, name, rows)), 2, keep=False)


def _trees(graph: _Graph, name: str, term: Trees) -> str:
    """The forest, in single precision like its training: thresholds rounded down, so that x <= threshold stays the same."""
    leaf, spans = term.leaf, term.spans()
    tree = np.repeat(np.arange(len(spans)), [last - first for first, last in spans])
    start = term.roots[tree]
    node = np.arange(len(leaf)) - start
    threshold = term.threshold.astype(np.float32)
    above = threshold.astype(np.float64) > term.threshold
    threshold[above] = np.nextafter(threshold[above], np.float32(-np.inf))
    at, k = np.flatnonzero(leaf), term.value.shape[1]
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
        target_treeids=np.repeat(tree[at], k).tolist(),
        target_nodeids=np.repeat(node[at], k).tolist(),
        target_ids=np.tile(np.arange(k), len(at)).tolist(),
        target_weights=term.value[at].astype(np.float32).ravel().tolist(),
    )
    return graph.op("Mul", graph.cast(found, graph.dtype), graph.constant(term.factor))


def _label_type(classes: np.ndarray) -> tuple[type[Any], int]:
    """Type of the labels in the graph, and the standard's number for it; what is no number becomes text."""
    for general, kind, number in ((np.integer, np.int64, 7), (np.floating, np.float64, 11), (np.bool_, np.bool_, 9)):
        if np.issubdtype(classes.dtype, general):
            return kind, number
    return object, 8


def _classifier(graph: _Graph, values: str, formula: Formula) -> dict[str, tuple[Any, ...]]:
    binary = formula.n_outputs == 1
    outputs: dict[str, Any] = {}
    if binary:
        scores = graph.column(values, "decision_function")
        chosen = graph.cast(graph.op("Greater", scores, graph.constant(0.0)), np.int64)
    else:
        scores = graph.op("Identity", values, out="decision_function")
        chosen = graph.op("ArgMax", values, axis=1, keepdims=0)
    classes = np.asarray(formula.classes)
    kind, number = _label_type(classes)
    graph.op("Gather", graph.constant(classes.astype(kind), kind), chosen, out="label")
    outputs["label"] = (number, ["n"])
    outputs["decision_function"] = (None, ["n"] if binary else ["n", formula.n_outputs])
    if formula.logistic:
        if binary:
            positive = graph.op("Sigmoid", values)
            other = graph.op("Sub", graph.constant(1.0), positive)
            graph.op("Concat", other, positive, out="probabilities", axis=1)
        else:
            graph.op("Softmax", values, out="probabilities", axis=1)
        outputs["probabilities"] = (None, ["n", len(classes)])
    return outputs


def _outlier(graph: _Graph, values: str, formula: Formula) -> dict[str, tuple[Any, ...]]:
    scores = graph.column(values, "decision_function")
    inside = graph.op("GreaterOrEqual", scores, graph.constant(0.0))
    graph.op("Where", inside, graph.constant(1, np.int64), graph.constant(-1, np.int64), out="label")
    return {"label": (7, ["n"]), "decision_function": (None, ["n"])}


def _regressor(graph: _Graph, values: str, formula: Formula) -> dict[str, tuple[None, list[Any]]]:
    graph.column(values, "prediction")
    return {"prediction": (None, ["n"])}


def _ranker(graph: _Graph, values: str, formula: Formula) -> dict[str, tuple[None, list[Any]]]:
    graph.column(values, "decision_function")
    return {"decision_function": (None, ["n"])}


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
