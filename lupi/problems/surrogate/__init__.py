"""Surrogate learning in closed form: ridge teachers and students, their evidence, calibration and risk."""

from lupi.problems.surrogate.calibration import Calibration, calibrate, calibrate_values, log_loss
from lupi.problems.surrogate.evidence import gaussian_weights, likelihood_weights
from lupi.problems.surrogate.ridge import (
    KernelPath,
    RidgeFit,
    RidgePath,
    choose_penalty,
    correlation,
    fit_ridge,
    spread,
)

__all__ = [
    "Calibration",
    "KernelPath",
    "RidgeFit",
    "RidgePath",
    "calibrate",
    "calibrate_values",
    "choose_penalty",
    "correlation",
    "fit_ridge",
    "gaussian_weights",
    "likelihood_weights",
    "log_loss",
    "spread",
]
