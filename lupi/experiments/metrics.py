"""The metrics of a comparison; larger is better for each."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import accuracy_score, balanced_accuracy_score, r2_score, roc_auc_score

from lupi.estimators.ranking_metrics import binary_average_precision


@dataclass(frozen=True)
class Metric:
    """A metric: its name for people, whether it judges rankings or predictions, and the function."""

    title: str
    function: Callable
    uses: str = "predictions"  # or "scores"
    classification: bool = True


def _per_class(function):
    """Mean over the classes, each against the rest, of a metric of scores; of the second class if there are two."""

    def measure(y, scores, classes):
        if scores.ndim == 1:
            return function(y == classes[1], scores)
        return float(
            np.mean([function(y == label, scores[:, k]) for k, label in enumerate(classes) if np.any(y == label)])
        )

    return measure


METRICS = {
    "ap": Metric("average precision", _per_class(binary_average_precision), uses="scores"),
    "accuracy": Metric("accuracy", accuracy_score),
    "auc": Metric("area under the ROC curve", _per_class(roc_auc_score), uses="scores"),
    "balanced_accuracy": Metric("balanced accuracy", balanced_accuracy_score),
    "r2": Metric("R²", r2_score, classification=False),
}


def measure(metric, model, X, y, classes):
    """Score of a fitted model on test rows.

    Parameters
    ----------
    metric : str
        One of ``METRICS``.
    model : estimator
        With `decision_function` for rankings, `predict` otherwise.
    X, y : ndarray
        Test rows.
    classes : ndarray or None
        The classes in the order of the columns of the model's scores.

    Returns
    -------
    float
    """
    chosen = METRICS[metric]
    if chosen.uses == "scores":
        return float(chosen.function(y, np.asarray(model.decision_function(X)), classes))
    return float(chosen.function(y, model.predict(X)))
