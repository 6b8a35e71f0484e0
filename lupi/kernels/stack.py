"""Several privileged blocks as one table with one kernel, the sum of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from lupi.inputs import ArrayRows, PrivilegedBlock, check_privileged_rows, per_space, side_by_side, values_per_space
from lupi.kernels.kernel import KERNEL_CONSTRAINTS, Kernel, SumKernel
from lupi.privacy import model_part

if TYPE_CHECKING:
    from collections.abc import Hashable

# Constraints of kernel parameters that may have one value per privileged space.
PRIVILEGED_KERNEL_CONSTRAINTS: dict[str, Any] = {
    f"privileged_{name}": per_space(constraint) for name, constraint in KERNEL_CONSTRAINTS.items()
}


@model_part
@dataclass(frozen=True)
class BlockStack:
    r"""How privileged blocks become one: the kernel :math:`\sum_m w_m K_m` with :math:`w_m = \lambda_0 / \lambda_m`.

    With :math:`1 / \lambda_0 = \sum_m 1 / \lambda_m`, this kernel over :math:`\lambda_0` is :math:`\sum_m K_m / \lambda_m`.
    An example that lacks a block contributes nothing to its kernel.

    Attributes
    ----------
    columns : tuple of (name, n_columns)
        Of each block.
    weights : tuple of float
        :math:`w_m`; 1 for an estimator without ``lam``.
    form : {"single", "linear", "precomputed", "sum"}
        One block; columns times roots of the weights; kernel matrices added up; columns and one flag per block that
        marks the examples that have it, for a :class:`SumKernel`.
    """

    columns: tuple[tuple[Hashable | None, int], ...]
    weights: tuple[float, ...]
    form: str

    @classmethod
    def of(cls, estimator: Any, blocks: Sequence[PrivilegedBlock]) -> BlockStack:
        """Stack of the blocks of a training set, by the parameters of an estimator."""
        columns = tuple((block.name, block.rows.shape[1]) for block in blocks)
        if len(blocks) == 1:
            return cls(columns, (1.0,), "single")
        names = [block.name for block in blocks]
        kernels = [kernel if isinstance(kernel, str) else "" for kernel in _values(estimator, "kernel", names)]
        form = kernels[0] if set(kernels) in ({"linear"}, {"precomputed"}) else "sum"
        if form == "sum" and "precomputed" in kernels:
            raise ValueError(
                f"{type(estimator).__name__}: `privileged_kernel` is 'precomputed' for some spaces only; pass kernel matrices "
                "for all spaces, or features for all."
            )
        weights = (1.0,) * len(names)
        if hasattr(estimator, "lam"):
            shares = 1.0 / np.array(values_per_space(estimator, "lam", names), dtype=float)
            weights = tuple(map(float, shares / shares.sum()))
        return cls(columns, weights, form)

    def lam(self, estimator: Any) -> float:
        r"""Weight :math:`\lambda_0` of the norm that belongs to the kernel."""
        return float(1.0 / np.sum(1.0 / np.array(values_per_space(estimator, "lam", self.names), dtype=float)))

    @property
    def names(self) -> list[Any]:
        """Names of the blocks."""
        return [name for name, _ in self.columns]

    @property
    def column_scale(self) -> np.ndarray:
        """Factors of the columns of a linear stack."""
        return np.repeat(np.sqrt(self.weights), [n_columns for _, n_columns in self.columns])

    def join(self, blocks: Sequence[PrivilegedBlock]) -> PrivilegedBlock:
        """The blocks as one; an example is available where it has any of them."""
        if self.form == "single":
            return blocks[0]
        available = np.any([block.available for block in blocks], axis=0)
        if self.form == "linear":
            return PrivilegedBlock(
                None, side_by_side([b.rows for b in blocks], np.sqrt(self.weights).tolist()), available
            )
        values = [block.rows.values for block in blocks]
        if self.form == "precomputed":
            total = sum(weight * matrix for weight, matrix in zip(self.weights, values))
            return PrivilegedBlock(None, ArrayRows(total, square=blocks[0].rows.square), available)
        flags = np.column_stack([block.available for block in blocks]).astype(float)
        dense = [matrix.toarray() if sparse.issparse(matrix) else matrix for matrix in values]
        return PrivilegedBlock(None, ArrayRows(np.ascontiguousarray(np.hstack([*dense, flags]))), available)

    def kernel(self, estimator: Any, joined: PrivilegedBlock, weight: np.ndarray) -> Kernel:
        """Kernel of the joined block; gamma of each block is resolved on the examples that have it."""
        if self.form != "sum" and (self.form != "single" or not joined.rows.resident):
            return Kernel(self.form if self.form != "single" else "linear", argument="privileged")
        if self.form == "single":
            values = joined.rows.values if joined.rows.square else joined.rows.values[joined.available]
            return Kernel.of(estimator, values, "privileged_", weight[joined.available])
        settings = zip(*(_values(estimator, key, self.names) for key in KERNEL_CONSTRAINTS))
        return self.sum_kernel(
            [
                replace(
                    Kernel.fixed(*setting, data=data if len(data) else np.zeros((1, data.shape[1])), weight=kept),
                    argument=f"privileged[{name!r}]",
                )
                for setting, name, (data, kept) in zip(settings, self.names, self._parts(joined, weight))
            ]
        )

    def sum_kernel(self, parts: Sequence[Kernel]) -> SumKernel:
        """Sum of one kernel per block, on the columns of a joined block."""
        widths = tuple(n_columns for _, n_columns in self.columns)
        return SumKernel("sum", argument="privileged", parts=tuple(parts), widths=widths, weights=self.weights)

    def _parts(self, joined: PrivilegedBlock, weight: np.ndarray) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """Features and weights of the examples that have each block."""
        values, ends = joined.rows.values, np.cumsum([0, *(n_columns for _, n_columns in self.columns)])
        masks = [values[:, ends[-1] + m] > 0 for m in range(len(self.columns))]
        return [
            (values[mask, start:end], weight[mask] if mask.any() else None)
            for mask, start, end in zip(masks, ends, ends[1:])
        ]

    def read(self, estimator: Any, privileged: Any) -> PrivilegedBlock:
        """New privileged rows, checked against those of `fit` and joined."""
        return self.join(check_privileged_rows(estimator, privileged, self.columns))


def _values(estimator: Any, key: str, names: list[Any]) -> list[Any]:
    return values_per_space(estimator, f"privileged_{key}", names)
