"""Kernels of either space: functions with their parameters fixed, matrices, rows on demand, explicit features."""

from lupi.inputs.memory import available_memory, require_memory
from lupi.kernels.blocks import KernelBlocks
from lupi.kernels.features import FeatureSpace
from lupi.kernels.pivoted import pivoted_cholesky
from lupi.kernels.products import add_signed_block, scale_and_mirror
from lupi.kernels.rows import KernelRows
from lupi.kernels.several import SumKernel
from lupi.kernels.space import (
    KERNEL_CONSTRAINTS,
    KERNELS,
    LARGE_MATRIX,
    PRIVILEGED_KERNEL_CONSTRAINTS,
    Kernel,
    Space,
    all_are,
    check_definite,
    fits,
    make_space,
    require_matrix,
    resolve_gamma,
)

__all__ = [
    "KERNELS",
    "KERNEL_CONSTRAINTS",
    "LARGE_MATRIX",
    "PRIVILEGED_KERNEL_CONSTRAINTS",
    "FeatureSpace",
    "Kernel",
    "KernelBlocks",
    "KernelRows",
    "Space",
    "SumKernel",
    "add_signed_block",
    "all_are",
    "available_memory",
    "check_definite",
    "fits",
    "make_space",
    "pivoted_cholesky",
    "require_matrix",
    "require_memory",
    "resolve_gamma",
    "scale_and_mirror",
]
