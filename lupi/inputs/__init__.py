"""The one door for what users pass to `fit`: decision features, targets, weights, groups and privileged features.

Everything below this layer may rely on: float64, C order or canonical CSR, labels 0..k-1, no NaN.
"""

from lupi.inputs.checks import (
    ClassificationInput,
    PrivilegedInput,
    TargetInput,
    check_classes,
    check_group,
    check_magnitude,
    check_partial_targets,
    check_privileged,
    check_sample_weight,
    effective_class_weight,
    is_chunked,
    is_per_space,
    warn_of_minus_one,
)
from lupi.inputs.containers import column_names, is_frame
from lupi.inputs.spaces import check_privileged_sequence, check_privileged_spaces, names_of_spaces

__all__ = [
    "ClassificationInput",
    "PrivilegedInput",
    "TargetInput",
    "check_classes",
    "check_group",
    "check_magnitude",
    "check_partial_targets",
    "check_privileged",
    "check_privileged_sequence",
    "check_privileged_spaces",
    "check_sample_weight",
    "column_names",
    "effective_class_weight",
    "is_chunked",
    "is_frame",
    "is_per_space",
    "names_of_spaces",
    "warn_of_minus_one",
]
