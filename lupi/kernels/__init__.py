"""Kernels of either space: functions with their parameters fixed, full matrices, rows on demand, explicit features."""

from lupi.kernels.functions import (
    KERNELS,
    PROBE,
    Kernel,
    KernelRows,
    LandmarkFeatures,
    check_definite,
    fits,
    resolve_gamma,
    scale_and_mirror,
)
from lupi.kernels.spaces import Space

__all__ = [
    "KERNELS",
    "PROBE",
    "Kernel",
    "KernelRows",
    "LandmarkFeatures",
    "Space",
    "check_definite",
    "fits",
    "resolve_gamma",
    "scale_and_mirror",
]
