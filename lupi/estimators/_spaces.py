"""From validated data to a kernel space: features, full matrix or rows on demand."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from lupi.kernels import PROBE, Kernel, KernelRows, check_definite, fits, resolve_gamma
from lupi.problems import Space


def make_kernel(estimator, data, prefix="", weight=None):
    """Kernel of the decision space, or with ``prefix="privileged_"`` of the privileged one, its gamma resolved on the data."""
    name = getattr(estimator, f"{prefix}kernel")
    gamma = getattr(estimator, f"{prefix}gamma")
    uses_gamma = isinstance(name, str) and name not in ("linear", "precomputed")
    return Kernel(
        name,
        gamma=resolve_gamma(gamma, data, weight) if uses_gamma else 1.0,
        degree=getattr(estimator, f"{prefix}degree"),
        coef0=getattr(estimator, f"{prefix}coef0"),
        argument="privileged" if prefix else "X",
    )


def make_space(kernel, data, cache_size, *, weight=1.0, available=None):
    """Space of the training data.

    Features where the kernel is linear and they are fewer than the examples, the full matrix where it fits into
    ``cache_size``, otherwise rows on demand.
    """
    n = data.shape[0]
    if kernel.name == "linear" and not sparse.issparse(data) and data.shape[1] < 0.7 * n:
        return Space(factor=data, weight=weight)
    if kernel.name != "precomputed" and not fits(n, cache_size):
        if kernel.unsafe:
            index = np.arange(n) if available is None else np.flatnonzero(available)
            index = np.random.default_rng(0).choice(index, min(len(index), PROBE), replace=False)
            check_definite(kernel, kernel(data[index]))
        return Space(source=KernelRows(kernel, data, cache_size, available), weight=weight)
    # A kernel function never sees the placeholder rows of examples that are not available.
    part = available is not None and not available.all() and kernel.name != "precomputed"
    matrix = kernel(data[available] if part else data)
    if kernel.unsafe:
        check_definite(kernel, matrix)
    if part:
        known, matrix = matrix, np.zeros((n, n))
        matrix[np.ix_(available, available)] = known
    return Space(matrix=np.ascontiguousarray(matrix), weight=weight)
