"""Kernels of either space: functions with their parameters fixed, matrices, rows on demand, explicit features."""

from lupi.kernels.features import FeatureSpace
from lupi.kernels.products import scale_and_mirror
from lupi.kernels.rows import KernelRows
from lupi.kernels.space import (
    KERNEL_CONSTRAINTS,
    KERNELS,
    PRIVILEGED_KERNEL_CONSTRAINTS,
    Kernel,
    Space,
    check_definite,
    fits,
    make_space,
    resolve_gamma,
)

__all__ = [
    "KERNELS",
    "KERNEL_CONSTRAINTS",
    "PRIVILEGED_KERNEL_CONSTRAINTS",
    "FeatureSpace",
    "Kernel",
    "KernelRows",
    "Space",
    "check_definite",
    "fits",
    "make_space",
    "resolve_gamma",
    "scale_and_mirror",
]
