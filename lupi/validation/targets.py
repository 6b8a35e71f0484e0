"""Checks of decision features, labels, weights and group ids."""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data


class ClassificationInput(NamedTuple):
    """Decision features, encoded labels and weights after validation.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
        Float64 decision features.
    y : ndarray of shape (n_samples,), dtype int
        Labels as positions in `classes`.
    classes : ndarray
        The distinct labels, sorted.
    sample_weight : ndarray of shape (n_samples,)
        Non-negative weights; every class has a positive one.
    """

    X: np.ndarray | sparse.csr_array | sparse.csr_matrix
    y: np.ndarray
    classes: np.ndarray
    sample_weight: np.ndarray


def check_classification_input(estimator, X, y, sample_weight=None):
    """Check and encode the input of a classifier's `fit`.

    Sets `n_features_in_` and `feature_names_in_` on the estimator, as scikit-learn's own `validate_data` does.

    Parameters
    ----------
    estimator : estimator
        The classifier that is being fitted.
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        Decision features.
    y : array-like of shape (n_samples,)
        Labels of any type, two classes or more.
    sample_weight : array-like of shape (n_samples,), float or None
        Non-negative weights; None means 1 for every example.

    Returns
    -------
    ClassificationInput

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from lupi.validation import check_classification_input
    >>> checked = check_classification_input(SVC(), [[0.0], [1.0], [2.0]], ["no", "yes", "no"])
    >>> checked.y, checked.classes.tolist(), checked.sample_weight
    (array([0, 1, 0]), ['no', 'yes'], array([1., 1., 1.]))
    """
    X, y = validate_data(estimator, X, y, accept_sparse="csr", dtype=np.float64, order="C")
    check_classification_targets(y)
    classes, encoded = np.unique(y, return_inverse=True)
    name = type(estimator).__name__
    if len(classes) < 2:
        raise ValueError(
            f"{name} needs at least two classes, but `y` has only one class: {classes[0]!r}. "
            "Pass examples of every class that is to be told apart."
        )
    weight = check_sample_weight(sample_weight, X.shape[0], estimator_name=name)
    empty = np.bincount(encoded, weights=weight, minlength=len(classes)) == 0
    if empty.any():
        raise ValueError(
            f"{name}: every example of class {classes[empty][0]!r} has `sample_weight` 0. "
            "Each class needs an example with a positive weight; remove the examples of that class instead."
        )
    return ClassificationInput(X=X, y=encoded.astype(np.int64, copy=False), classes=classes, sample_weight=weight)


def check_sample_weight(sample_weight, n_samples, *, estimator_name="fit"):
    """Check example weights; None gives ones, a number is repeated.

    Parameters
    ----------
    sample_weight : array-like of shape (n_samples,), float or None
        The weights.
    n_samples : int
        Number of examples.
    estimator_name : str, default="fit"
        Who asks; begins the error messages.

    Returns
    -------
    ndarray of shape (n_samples,)

    Examples
    --------
    >>> from lupi.validation import check_sample_weight
    >>> check_sample_weight(None, 3)
    array([1., 1., 1.])
    """
    if sample_weight is None:
        return np.ones(n_samples)
    if np.isscalar(sample_weight):
        sample_weight = np.full(n_samples, sample_weight)
    weight = check_array(
        sample_weight, dtype=np.float64, order="C", ensure_2d=False, allow_nd=True, input_name="sample_weight"
    )
    prefix = f"{estimator_name}: `sample_weight`"
    if weight.shape != (n_samples,):
        raise ValueError(f"{prefix} has shape {weight.shape}, expected ({n_samples},): one weight for each example.")
    if weight.min() < 0:
        raise ValueError(
            f"{prefix} has negative values (the smallest is {weight.min():g}); weights must be 0 or larger."
        )
    if weight.max() == 0:
        raise ValueError(
            f"{prefix} is zero for every example; at least two classes need examples with a positive weight."
        )
    return weight


def effective_class_weight(class_weight, classes, y):
    """Weight of each class, in the order of `classes`.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        As in scikit-learn's classifiers: label -> weight, or weights inversely proportional to the class frequencies.
    classes : ndarray of shape (n_classes,)
        The labels.
    y : ndarray of shape (n_samples,), dtype int
        Encoded labels: positions in `classes`.

    Returns
    -------
    ndarray of shape (n_classes,)

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.validation import effective_class_weight
    >>> effective_class_weight({"rare": 5}, np.array(["common", "rare"]), np.array([0, 0, 1]))
    array([1., 5.])
    """
    weight = np.asarray(compute_class_weight(class_weight, classes=classes, y=classes[y]), dtype=np.float64)
    wrong = ~(np.isfinite(weight) & (weight > 0))
    if wrong.any():
        raise ValueError(
            f"`class_weight` of class {classes[wrong][0]!r} is {weight[wrong][0]:g}; class weights must be positive."
        )
    return weight


def check_group(group, n_samples, *, estimator_name="fit", argument="group"):
    """Check ids that say which examples belong together: queries of a ranking, or groups that no split may part.

    Parameters
    ----------
    group : array-like of shape (n_samples,) or None
        Ids of any type.
    n_samples : int
        Number of examples.
    estimator_name, argument : str
        Who asks, and what the argument is called; they begin the error messages.

    Returns
    -------
    ndarray of shape (n_samples,), dtype int, or None
        Groups as 0, 1, ... in the order of their ids.

    Examples
    --------
    >>> from lupi.validation import check_group
    >>> check_group(["b", "a", "b"], 3)
    array([1, 0, 1])
    """
    if group is None:
        return None
    prefix = f"{estimator_name}: `{argument}`"
    ids = np.asarray(group)
    if ids.ndim == 2 and ids.shape[1] == 1:
        ids = ids.ravel()
    if ids.shape != (n_samples,):
        raise ValueError(f"{prefix} has shape {ids.shape}, expected ({n_samples},): one id for each example.")
    missing = [value is None or value != value for value in ids.tolist()]
    if any(missing):
        raise ValueError(f"{prefix} has no id for example {missing.index(True)}; give every example one.")
    try:
        return np.unique(ids, return_inverse=True)[1]
    except TypeError:  # ids of several types have no order of their own; that of their text does as well
        return np.unique(ids.astype(str), return_inverse=True)[1]
