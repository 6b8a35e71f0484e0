"""Kernels and their spaces: functions, matrices, values on demand, explicit features."""

from lupi.kernels.kernel import (
    KERNEL_CONSTRAINTS,
    KERNELS,
    Kernel,
    SumKernel,
    all_are,
    check_definite,
    resolve_gamma,
    scale_and_mirror,
)
from lupi.kernels.linalg import pivoted_cholesky
from lupi.kernels.nystroem import FeatureSpace
from lupi.kernels.space import LARGE_MATRIX, KernelRows, Space, fits, make_space, require_matrix

__all__ = [
    "KERNELS",
    "KERNEL_CONSTRAINTS",
    "LARGE_MATRIX",
    "FeatureSpace",
    "Kernel",
    "KernelRows",
    "Space",
    "SumKernel",
    "all_are",
    "check_definite",
    "fits",
    "make_space",
    "pivoted_cholesky",
    "require_matrix",
    "resolve_gamma",
    "scale_and_mirror",
]
