"""Joint features of inputs and outputs, and kernels between them."""

from __future__ import annotations

import numpy as np
from sklearn.metrics.pairwise import additive_chi2_kernel

from lupi.kernels import Kernel, resolve_gamma

JOINT_KERNELS = {"chi2", "intersection", "rbf", "linear"}


def joint_kernel(name, gamma, features, argument):
    """Kernel on joint features, its gamma resolved: "scale" makes the mean chi2 distance 1, and is scikit-learn's for rbf."""
    if name == "chi2" and gamma == "scale":
        if features.min() < 0:
            return Kernel("chi2", argument=argument)
        distance = -additive_chi2_kernel(features)
        mean = distance.sum() / max(len(distance) * (len(distance) - 1), 1)
        return Kernel("chi2", gamma=1.0 / mean if mean > 0 else 1.0, argument=argument)
    return Kernel(name, gamma=resolve_gamma(gamma, features) if name in ("chi2", "rbf") else 1.0, argument=argument)


def joint_features(task, X, Y, normalize):
    """Joint features of pairs, one row each."""
    out = np.array([task.joint_feature(x, y) for x, y in zip(X, Y)], dtype=float)
    return normalized(out) if normalize else out


def normalized(features):
    """Rows divided by their sum; empty rows stay zero."""
    total = features.sum(axis=1, keepdims=True)
    return features / np.where(total > 0, total, 1.0)
