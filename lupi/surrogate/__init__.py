"""Surrogate learning in closed form: ridge teachers and students, their evidence, calibration and risk."""

from lupi.surrogate.calibration import (
    Calibration,
    blend,
    calibrate,
    calibrate_values,
    log_loss,
    one_hot,
)
from lupi.surrogate.evidence import gaussian_evidence, gaussian_weights, likelihood_weights
from lupi.surrogate.products import ProductFit, factor, fit_product, is_clear
from lupi.surrogate.ridge import (
    KernelPath,
    RidgeFit,
    RidgePath,
    choose_penalty,
    correlation,
    fit_ridge,
    spread,
)
from lupi.surrogate.risk import delta_bias, effective_rows, label_noise, overlap, plain_risk, surrogate_risk

__all__ = [
    "Calibration",
    "KernelPath",
    "ProductFit",
    "RidgeFit",
    "RidgePath",
    "blend",
    "calibrate",
    "calibrate_values",
    "choose_penalty",
    "correlation",
    "delta_bias",
    "effective_rows",
    "factor",
    "fit_product",
    "fit_ridge",
    "gaussian_evidence",
    "gaussian_weights",
    "is_clear",
    "label_noise",
    "likelihood_weights",
    "log_loss",
    "one_hot",
    "overlap",
    "plain_risk",
    "spread",
    "surrogate_risk",
]
