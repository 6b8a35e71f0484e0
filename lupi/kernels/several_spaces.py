"""Several privileged spaces as one: parameters one value per space, features side by side, kernels added up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval, make_constraint

from lupi.inputs import PrivilegedInput, check_privileged_spaces, is_per_space, names_of_spaces
from lupi.kernels import KERNEL_CONSTRAINTS, Kernel, SumKernel, all_are
from lupi.model_parts import model_part

POSITIVE = [Interval(Real, 0, None, closed="neither")]
# Of a parameter that may have one value per space: a list in the order of the spaces, or a dict by their names.
PER_SPACE: dict[str, Any] = {
    **{f"privileged_{name}": [*constraint, list, tuple, dict] for name, constraint in KERNEL_CONSTRAINTS.items()},
    "lam": [*POSITIVE, list, tuple, dict],
}


def values_per_space(estimator: Any, argument: str, names: list[Any]) -> list[Any]:
    """A parameter's value for each of the privileged spaces.

    Parameters
    ----------
    estimator : estimator
    argument : str
        Name of its parameter.
    names : list
        Names of the spaces, or their numbers; [None] for a single table.

    Returns
    -------
    list
        In the order of the names.

    Raises
    ------
    ValueError
        With the name of the argument, if the values are not one per space, or not valid.
    """
    value, who = getattr(estimator, argument), type(estimator).__name__
    if not is_per_space(value):
        return [value] * len(names)
    given = f"{who}: `{argument}` has one value per space, {value!r}"
    if names == [None]:
        raise ValueError(f"{given}, but `privileged` is one table; give a single value, or a list or dict of tables.")
    if isinstance(value, dict):
        if set(value) != set(names):
            raise ValueError(f"{given}, but the spaces of `privileged` are {names}; give a value for each of them.")
        found = [value[name] for name in names]
    elif len(value) != len(names):
        raise ValueError(
            f"{given}, but `privileged` has {len(names)} spaces; give {len(names)} values, or one for all."
        )
    else:
        found = list(value)
    allowed = [one for one in estimator._parameter_constraints[argument] if one not in (list, tuple, dict)]
    constraints = [make_constraint(constraint) for constraint in allowed]
    for name, one in zip(names, found):
        if not any(constraint.is_satisfied_by(one) for constraint in constraints):
            raise ValueError(
                f"The '{argument}' parameter of {who} must be {' or '.join(map(str, constraints))} for each space; got "
                f"{one!r} for the space {name!r}."
            )
    return found


def shares_of_spaces(estimator: Any, names: list[Any]) -> tuple[tuple[float, ...], float]:
    r"""Weights of the kernels, and the weight of the norm that belongs to their sum.

    With :math:`w_m = \lambda_0 / \lambda_m` and :math:`1 / \lambda_0 = \sum_m 1 / \lambda_m` the sum of :math:`w_m K_m` over
    :math:`\lambda_0` is that of :math:`K_m / \lambda_m`.
    """
    shares = 1.0 / np.array(values_per_space(estimator, "lam", names), dtype=float)
    return tuple(map(float, shares / shares.sum())), float(1.0 / shares.sum())


def rows_of_spaces(blocks: list[tuple[Any, np.ndarray]]) -> tuple[Any, np.ndarray]:
    """Features side by side, as a :class:`SumKernel` takes them, of the examples that have any space; and which these are.

    Parameters
    ----------
    blocks : list of (ndarray or None, bool ndarray)
        Features of the examples that have the space (None where none has), and which these are.
    """
    available = np.any([known for _, known in blocks], axis=0)
    columns = []
    for features, known in blocks:
        block = np.zeros((len(known), 0 if features is None else features.shape[1]))
        if features is not None:
            block[known] = features
        columns.append(block)
    there = np.column_stack([known for _, known in blocks]).astype(float)
    return np.hstack([*columns, there])[available], available


@model_part
@dataclass(frozen=True)
class SpaceStack:
    """How several privileged spaces were made one.

    Attributes
    ----------
    names : tuple
        Names of the spaces, or their numbers.
    widths : tuple of int
        Number of columns of each.
    weights : tuple of float
        Of the kernels in their sum.
    form : {"linear", "precomputed", "sum"}
        Linear kernels: columns times roots of the weights. Kernel matrices: added up. Others: a :class:`SumKernel`.
    lam : float or None
        Weight of the norm that belongs to the sum, where ``lam`` has one value per space; None where one is for all.
    """

    names: tuple[Any, ...]
    widths: tuple[int, ...]
    weights: tuple[float, ...]
    form: str
    lam: float | None = None

    @classmethod
    def of(cls, estimator: Any, spaces: dict[Any, PrivilegedInput]) -> SpaceStack:
        """Of checked spaces, by an estimator's parameters; one without ``lam`` gives every space the weight 1."""
        names, lam = list(spaces), None
        kernels = values_per_space(estimator, "privileged_kernel", names)
        form = "sum"
        if any(kernel == "precomputed" for kernel in kernels if isinstance(kernel, str)):
            form = "precomputed"
            if not all_are(kernels, "precomputed"):
                raise ValueError(
                    f"{type(estimator).__name__}: `privileged_kernel` is 'precomputed' for some spaces only; give the "
                    "kernel matrices of all spaces, or the features of all."
                )
        elif all_are(kernels, "linear"):
            form = "linear"
        weights = (1.0,) * len(names)
        if hasattr(estimator, "lam"):
            weights, total = shares_of_spaces(estimator, names)
            lam = total if is_per_space(estimator.lam) else None
        widths = tuple(int(space.data.shape[1]) for space in spaces.values())
        return cls(tuple(names), widths, weights, form, lam)

    def effective_lam(self, lam: Any) -> float:
        """Weight of the norm that belongs to the sum of the kernels."""
        return self.lam if self.lam is not None else lam / len(self.names)

    def stacked(self, spaces: dict[Any, PrivilegedInput]) -> PrivilegedInput:
        """The spaces as one table; an example is available where it has any of them."""
        parts = [spaces[name] for name in self.names]
        available = np.any([part.available for part in parts], axis=0)
        if self.form == "precomputed":
            return PrivilegedInput(sum(w * part.data for w, part in zip(self.weights, parts)), available)
        if self.form == "linear":
            blocks = [np.sqrt(w) * part.data for w, part in zip(self.weights, parts)]
            if any(sparse.issparse(block) for block in blocks):
                return PrivilegedInput(sparse.csr_matrix(sparse.hstack(blocks)), available)
            return PrivilegedInput(np.hstack(blocks), available)
        dense = [part.data.toarray() if sparse.issparse(part.data) else part.data for part in parts]
        there = np.column_stack([part.available for part in parts]).astype(float)
        return PrivilegedInput(np.ascontiguousarray(np.hstack([*dense, there])), available)

    def kernel(self, estimator: Any, table: Any, weight: np.ndarray) -> Kernel:
        """The kernel of the stacked table; every gamma from the examples that have its space."""
        if self.form != "sum":
            return Kernel(self.form, argument="privileged")
        names, parts = list(self.names), []
        values = {name: values_per_space(estimator, f"privileged_{name}", names) for name in KERNEL_CONSTRAINTS}
        ends = np.cumsum((0, *self.widths))
        for m in range(len(names)):
            there = table[:, ends[-1] + m] > 0
            one = SimpleNamespace(**{f"privileged_{name}": value[m] for name, value in values.items()})
            rows = table[there, ends[m] : ends[m + 1]] if there.any() else np.zeros((1, self.widths[m]))
            part = Kernel.of(one, rows, "privileged_", weight[there] if there.any() else np.ones(1))
            parts.append(replace(part, argument=f"privileged[{names[m]!r}]"))
        return SumKernel("sum", argument="privileged", parts=tuple(parts), widths=self.widths, weights=self.weights)

    @property
    def column_scale(self) -> np.ndarray:
        """Factors of the columns of linear kernels."""
        return np.repeat(np.sqrt(self.weights), self.widths)

    def read(self, privileged: Any, estimator_name: str) -> PrivilegedInput:
        """The same stack of new examples."""
        names = names_of_spaces(privileged)
        if set(names) != set(self.names):
            raise ValueError(
                f"{estimator_name}: the spaces of `privileged` were {list(self.names)} in fit, and are {names} here."
            )
        first = privileged[names[0]]
        n = first.shape[0] if hasattr(first, "shape") else len(first)
        spaces = check_privileged_spaces(privileged, n, estimator_name=estimator_name)
        for name, width in zip(self.names, self.widths):
            if spaces[name].data.shape[1] != width:
                raise ValueError(
                    f"{estimator_name}: `privileged[{name!r}]` has {spaces[name].data.shape[1]} features, but had {width} "
                    "in fit."
                )
        return self.stacked(spaces)


@dataclass(frozen=True)
class StackedInput(PrivilegedInput):
    """Several spaces as one table, with what makes them one."""

    stack: SpaceStack | None = None
    kernel: Kernel | None = None

    def take(self, rows: np.ndarray, precomputed: bool = False) -> StackedInput:
        """Some of the examples; of a kernel matrix these rows and columns. Their kernel is to be chosen by them alone."""
        part = super().take(rows, precomputed)
        return StackedInput(part.data, part.available, None, self.stack)


def refuse_several(estimator: Any, privileged: Any) -> None:
    """Refuse several spaces where one table is needed."""
    if isinstance(privileged, list | tuple | dict):
        raise ValueError(
            f"{type(estimator).__name__}: `privileged` in chunks must be one collection, not a {type(privileged).__name__}; put "
            "the columns of all spaces side by side, e.g. with dask.array.hstack."
        )


def check_spaces(estimator: Any, privileged: Any, n_samples: int, **options: Any) -> PrivilegedInput | None:
    """Privileged features of one or several spaces, these as one table.

    Parameters
    ----------
    estimator : estimator
        Who asks; its parameters say how spaces are put together.
    privileged : array-like, list or dict of these, PrivilegedInput or None
    n_samples : int
        Number of examples.
    **options
        Further arguments of ``check_privileged``.

    Returns
    -------
    PrivilegedInput or None
        Of several spaces with its ``stack``; its kernel is not chosen yet.
    """
    options |= {
        "estimator_name": type(estimator).__name__,
        "precomputed": all_are(estimator.privileged_kernel, "precomputed"),
    }
    if isinstance(privileged, PrivilegedInput):
        return privileged
    names = names_of_spaces(privileged)
    spaces = check_privileged_spaces(privileged, n_samples, **options)
    if names == [None]:
        for argument in PER_SPACE:
            if hasattr(estimator, argument):
                values_per_space(estimator, argument, names)
    if not names or names == [None]:
        return spaces.get(None)
    stack = SpaceStack.of(estimator, spaces)
    table = stack.stacked(spaces)
    return StackedInput(table.data, table.available, None, stack)
