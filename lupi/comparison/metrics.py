"""The metrics of a comparison; larger is better for each."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import balanced_accuracy_score, r2_score

from lupi.estimators.ranking_metrics import area_of_ranking, precision_of_ranking


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


def _accuracy(y, predicted):
    """Share of right answers, without the checks of scikit-learn, which cost more than a small fit."""
    return np.mean(y == predicted)


METRICS = {
    "ap": Metric("average precision", _per_class(precision_of_ranking), uses="scores"),
    "accuracy": Metric("accuracy", _accuracy),
    "auc": Metric("area under the ROC curve", _per_class(area_of_ranking), uses="scores"),
    "balanced_accuracy": Metric("balanced accuracy", balanced_accuracy_score),
    "r2": Metric("R²", r2_score, classification=False),
}


def scores_of(model, X):
    """Scores by which a fitted model orders rows: decision values, or else probabilities.

    Returns
    -------
    ndarray of shape (n_samples,) for two classes and rankers, else (n_samples, n_classes)
    """
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X))
    shares = np.asarray(model.predict_proba(X))
    return shares[:, 1] if shares.shape[1] == 2 else shares


def measure(metric, model, X, y, classes):
    """Score of a fitted model on test rows.

    Parameters
    ----------
    metric : str
        One of ``METRICS``.
    model : estimator
        With `decision_function` or `predict_proba` for rankings, `predict` otherwise.
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
        scores = scores_of(model, X)
        if not np.isfinite(scores).all():
            raise ValueError("the fitted model gives scores that are not finite.")
        return float(chosen.function(y, scores, classes))
    return float(chosen.function(y, model.predict(X)))
