"""An ONNX graph that grows by operations; kernels and trees as operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper, numpy_helper

from lupi.kernels import Kernel

if TYPE_CHECKING:
    import onnx

    from lupi.surrogate.members import ForestMember

# Versions of the standard and of its operators for trees that current runtimes support.
OPSET, TREE_OPSET, IR_VERSION = 17, 3, 8


class Graph:
    """Nodes, constants and outputs; methods return the names of their results.

    Arguments of operations are names, or arrays and numbers, which become constants.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.inputs: list[Any] = []
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, name: str, width: int, dtype: Any = None) -> str:
        """An input of `width` columns."""
        self.inputs.append(helper.make_tensor_value_info(name, self._type(dtype or self.dtype), ["n", width]))
        return name

    def constant(self, value: Any, dtype: Any = None) -> str:
        """An array; by default numbers with a fraction have the type of the graph."""
        value = np.asarray(value, dtype)
        if dtype is None and value.dtype.kind == "f":
            value = value.astype(self.dtype)
        name = f"constant {len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name))
        return name

    def op(self, kind: str, *inputs: Any, out: str | None = None, domain: str = "", **attributes: Any) -> str:
        """The result of an operator."""
        names = [part if isinstance(part, str) else self.constant(part) for part in inputs]
        name = out or f"result {len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [name], domain=domain, **attributes))
        return name

    def output(
        self, name: str, kind: str, *inputs: Any, width: int | None = None, dtype: Any = None, **attributes: Any
    ) -> None:
        """The result of an operator as an output: a vector, or a matrix of `width` columns."""
        shape: list[Any] = ["n"] if width is None else ["n", width]
        self.outputs.append(helper.make_tensor_value_info(name, self._type(dtype or self.dtype), shape))
        self.op(kind, *inputs, out=name, **attributes)

    def cast(self, name: str, dtype: Any) -> str:
        """The values in another type."""
        return self.op("Cast", name, to=self._type(dtype))

    @staticmethod
    def _type(dtype: Any) -> int:
        return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def model(self, version: str) -> onnx.ModelProto:
        """The model of this graph."""
        graph = helper.make_graph(self.nodes, "lupi", self.inputs, self.outputs, initializer=self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", TREE_OPSET)]
        options = {"producer_name": "lupi", "producer_version": version, "ir_version": IR_VERSION}
        return helper.make_model(graph, opset_imports=opsets, **options)

    def scale(self, X: str, shift: Any, scale: np.ndarray) -> str:
        """(X - shift) / scale."""
        return self.op("Div", self.op("Sub", X, shift), scale)

    def affine(self, X: str, coef: np.ndarray, intercept: Any) -> str:
        """X @ coef + intercept, with `coef` of shape (n_features, k)."""
        return self.op("Add", self.op("MatMul", X, coef), np.asarray(intercept, dtype=float))

    def kernel(self, X: str, rows: np.ndarray, kernel: Kernel) -> str:
        """Kernel matrix of X and rows."""
        op, gamma = self.op, float(kernel.gamma)
        if callable(kernel.name):
            raise TypeError("a custom kernel function cannot be written as ONNX; use one of the named kernels.")
        if kernel.name in ("laplacian", "chi2", "intersection"):
            return self._pairwise_kernel(op("Unsqueeze", X, [1]), self.constant(rows[None]), kernel.name, gamma)
        inner = op("MatMul", X, rows.T)
        if kernel.name == "linear":
            return inner
        if kernel.name == "rbf":
            squares = op("ReduceSum", op("Mul", X, X), [1], keepdims=1)
            distance = op("Add", op("Add", op("Mul", inner, -2.0), squares), (rows**2).sum(axis=1))
            # Rounding can make it negative.
            return op("Exp", op("Mul", op("Max", distance, 0.0), -gamma))
        affine = op("Add", op("Mul", inner, gamma), float(kernel.coef0))
        return op("Tanh", affine) if kernel.name == "sigmoid" else op("Pow", affine, float(kernel.degree))

    def _pairwise_kernel(self, X: str, rows: str, name: str, gamma: float) -> str:
        """Kernels that are sums over features, of shapes (n, 1, d) and (1, m, d)."""
        op = self.op
        if name == "intersection":
            return op("ReduceSum", op("Min", X, rows), [2], keepdims=0)
        parts = op("Abs", op("Sub", X, rows))
        if name == "chi2":
            total = op("Add", X, rows)
            # 0 / 0 counts as 0.
            parts = op("Div", op("Mul", parts, parts), op("Where", op("Equal", total, 0.0), 1.0, total))
        return op("Exp", op("Mul", op("ReduceSum", parts, [2], keepdims=0), -gamma))

    def forest(self, X: str, forest: ForestMember) -> str:
        """Mean of the trees, in single precision as in training; rounding thresholds down keeps x <= threshold unchanged."""
        sizes = np.diff(forest.roots_, append=len(forest.left_))
        tree = np.repeat(np.arange(len(sizes)), sizes)
        start, leaf = forest.roots_[tree], forest.left_ == np.arange(len(forest.left_))
        node = np.arange(len(leaf)) - start
        threshold = forest.threshold_.astype(np.float32)
        above = threshold.astype(np.float64) > forest.threshold_
        threshold[above] = np.nextafter(threshold[above], np.float32(-np.inf))
        leaves, k = np.flatnonzero(leaf), forest.value_.shape[1]
        found = self.op(
            "TreeEnsembleRegressor",
            self.cast(X, np.float32),
            domain="ai.onnx.ml",
            n_targets=k,
            aggregate_function="AVERAGE",
            nodes_treeids=tree.tolist(),
            nodes_nodeids=node.tolist(),
            nodes_featureids=forest.feature_.tolist(),
            nodes_modes=["LEAF" if end else "BRANCH_LEQ" for end in leaf],
            nodes_values=np.where(leaf, 0, threshold).astype(np.float32).tolist(),
            nodes_truenodeids=np.where(leaf, 0, forest.left_ - start).tolist(),
            nodes_falsenodeids=np.where(leaf, 0, forest.right_ - start).tolist(),
            target_treeids=np.repeat(tree[leaves], k).tolist(),
            target_nodeids=np.repeat(node[leaves], k).tolist(),
            target_ids=np.tile(np.arange(k), len(leaves)).tolist(),
            target_weights=forest.value_[leaves].astype(np.float32).ravel().tolist(),
        )
        return self.cast(found, self.dtype)
