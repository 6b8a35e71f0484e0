"""What `fit` of the surrogate estimators is given, checked and sorted: who has a label, who has privileged features."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import validate_data

from lupi.inputs import (
    check_group,
    check_magnitude,
    check_partial_targets,
    check_privileged_spaces,
    check_sample_weight,
    is_chunked,
)
from lupi.inputs.chunked_input import read_chunks
from lupi.inputs.chunked_rows import ChunkedRows, rows_here
from lupi.inputs.types import Matrix, MatrixLike, PrivilegedLike, VectorLike
from lupi.surrogate import fit_ridge

if TYPE_CHECKING:
    from lupi.inputs.checks import TargetInput
    from lupi.inputs.chunked_rows import AnyRows
    from lupi.surrogate.base import SurrogateBase

# Area under the curve above which labeled and unlabeled rows are called easily told apart.
TOLD_APART = 0.8
# Rows of each kind that are looked at for it, at most.
TOLD_APART_ROWS = 2000


@dataclass
class SurrogateInput:
    """Rows that take part, and their roles (as positions among the rows kept).

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, n_features)
    table : array or data frame
        The same for a student of the user's, as the user gave it.
    y : ndarray of shape (n,)
        Class numbers, or numbers; -1 or NaN in unlabeled rows.
    weight : ndarray of shape (n,)
    groups : ndarray of int of shape (n,) or None
    spaces : list of (ndarray, ndarray of bool)
        Values of every privileged space, and which rows have them.
    space_names, column_names : list
        Names of the spaces; of their columns, as "space/column" if there are several.
    labeled, taught, unlabeled : ndarray of int
        Rows with a label; those of them with privileged features; rows with privileged features but no label.
    kept : ndarray of int
        Where the rows were in what the user gave.
    n_rows : int
        How many the user gave.
    """

    X: object
    table: object
    y: np.ndarray
    weight: np.ndarray
    groups: np.ndarray | None
    spaces: list[Any]
    space_names: list[Any]
    column_names: list[Any]
    labeled: np.ndarray
    taught: np.ndarray
    unlabeled: np.ndarray
    kept: np.ndarray
    n_rows: int
    can_teach: bool

    @property
    def with_surrogate(self) -> np.ndarray:
        """Rows that the teachers score."""
        return np.sort(np.concatenate([self.taught, self.unlabeled]))


def check_surrogate_input(
    model: SurrogateBase,
    X: MatrixLike,
    y: VectorLike,
    privileged: PrivilegedLike,
    sample_weight: VectorLike | None,
    groups: VectorLike | None,
) -> SurrogateInput:
    """Check what `fit` was given; sets `n_features_in_`, `feature_names_in_` and `classes_` on the model.

    Returns
    -------
    SurrogateInput
    """
    name = type(model).__name__
    _check_scales(model.scales, name)
    table = X
    finite = "allow-nan" if get_tags(model).input_tags.allow_nan else True
    if is_chunked(X):
        chunks = read_chunks(model, X, privileged, (np.float64,), y=y, sample_weight=sample_weight, groups=groups)
        table, privileged = chunks.table(), chunks.privileged
        y, sample_weight, groups = chunks.vectors.values()
        chunks.set_columns(model)
    if isinstance(table, ChunkedRows):
        X = _closed_form_only(model, table, groups)
    else:
        X = validate_data(
            model,
            table,
            accept_sparse="csr",
            dtype=np.float64,
            order="C",
            ensure_all_finite=finite,
            ensure_min_samples=2,
        )
    check_magnitude(X, "X", estimator_name=name)
    targets = check_partial_targets(
        y, X, classification=model._is_classification, unlabeled=model.unlabeled, estimator_name=name
    )
    weight = check_sample_weight(sample_weight, X.shape[0], estimator_name=name)
    if groups is not None:
        groups = check_group(groups, X.shape[0], estimator_name=name, argument="groups")
    spaces, space_names, column_names = _check_spaces(privileged, table, X.shape[0], name)
    available = np.zeros(X.shape[0], dtype=bool)
    for _, there in spaces:
        available |= there
    useless = ~targets.labeled & ~available
    if useless.any() and spaces:
        warnings.warn(
            f"{name}: {useless.sum()} rows have neither a label nor privileged features and are left out.",
            UserWarning,
            stacklevel=4,
        )
    kept = np.flatnonzero((weight > 0) & ~useless)
    if not targets.labeled[kept].any():
        raise ValueError(
            f"{name}: every example with a label has `sample_weight` 0; at least one needs a positive weight."
        )
    if model._is_classification:
        _check_classes(model, targets, weight, name)
        if isinstance(X, ChunkedRows) and len(model.classes_) > 2:
            raise ValueError(
                f"{name} on {X.shape[0]} rows in chunks tells two classes apart; `y` has {len(model.classes_)}."
            )
    part = SurrogateInput(
        X=take(X, kept),
        table=_safe_indexing(table, kept) if hasattr(table, "columns") and not model._own_student else take(X, kept),
        y=targets.y[kept],
        weight=weight[kept],
        groups=None if groups is None else np.unique(groups[kept], return_inverse=True)[1],
        spaces=[(take(values, kept), there[kept]) for values, there in spaces],
        space_names=space_names,
        column_names=column_names,
        labeled=np.flatnonzero(targets.labeled[kept]),
        taught=np.flatnonzero(targets.labeled[kept] & available[kept]),
        unlabeled=np.flatnonzero(~targets.labeled[kept]),
        kept=kept,
        n_rows=X.shape[0],
        can_teach=False,
    )
    part.can_teach = bool(available.any()) and _can_teach(part, name)
    return part


def _closed_form_only(model: SurrogateBase, X: ChunkedRows, groups: VectorLike | None) -> ChunkedRows:
    """Rows in blocks are for what needs sums over them only."""
    if model.estimator != "ridge" or model.teacher is not None or groups is not None:
        raise ValueError(
            f"{type(model).__name__} on {X.shape[0]} rows in chunks needs estimator='ridge', teacher=None and groups=None: "
            "these are sums over the rows; everything else needs them in memory."
        )
    return X


def take(array: AnyRows, rows: np.ndarray) -> AnyRows:
    """Rows of an array; the array itself, not a copy, if they are all rows in order."""
    if len(rows) == array.shape[0] and (np.diff(rows) == 1).all():
        return array
    return array.view(rows) if isinstance(array, ChunkedRows) else array[rows]


def joined_parts(parts: list[Any]) -> Matrix:
    """Tables side by side; sparse if the last one is."""
    if sparse.issparse(parts[-1]):
        return sparse.hstack([sparse.csr_array(part) for part in parts], format="csr")
    return np.hstack(parts)


def _check_classes(model: SurrogateBase, targets: TargetInput, weight: np.ndarray, name: str) -> None:
    model.classes_ = classes = np.asarray(targets.classes)
    if len(classes) < 2:
        raise ValueError(
            f"{name} needs at least two classes, but `y` has only one class: {classes[0]!r}. "
            "Pass examples of every class that is to be told apart."
        )
    rows = targets.labeled
    empty = np.bincount(targets.y[rows], weights=weight[rows], minlength=len(classes)) == 0
    if empty.any():
        raise ValueError(
            f"{name}: every example of class {classes[empty][0]!r} has `sample_weight` 0. "
            "Each class needs an example with a positive weight; remove the examples of that class instead."
        )


def _check_scales(scales: Sequence[float], name: str) -> None:
    values = np.asarray(scales, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all() or values.min() < 0:
        raise ValueError(
            f"{name}: `scales` is {scales!r}, but must hold at least one number, each 0 or larger: the scales of X beside "
            "the privileged features."
        )


def _check_spaces(privileged: PrivilegedLike, table: MatrixLike, n_samples: int, name: str) -> tuple[Any, ...]:
    """Every privileged space as (values, available), the names of spaces and columns."""
    checked = check_privileged_spaces(privileged, n_samples, estimator_name=name, accept_sparse=False, index_of=table)
    columns = []
    for key, space in checked.items():
        names = space.feature_names if space.feature_names is not None else range(space.data.shape[1])
        columns += [str(column) if key is None else f"{key}/{column}" for column in names]
    return [(space.data, space.available) for space in checked.values()], list(checked), columns


def _can_teach(data: SurrogateInput, name: str) -> bool:
    """Whether the labeled rows with privileged features can teach anything; warns if not."""
    y = data.y[data.taught]
    if len(y) >= 2 and np.ptp(y) > 0 and (data.groups is None or np.ptp(data.groups[data.taught]) > 0):
        return True
    warnings.warn(
        f"{name}: fewer than two different targets (or groups) among the rows that have a label and privileged "
        "features, so there is nothing to learn from `privileged`; the plain student is fitted.",
        UserWarning,
        stacklevel=5,
    )
    return False


def missingness_warning(name: str, data: SurrogateInput, spaces: list[Any], A: AnyRows) -> None:
    """Warn if a ridge on (Z, X) tells labeled from unlabeled rows, left out, with an area above 0.8."""
    parts = [part[:: 1 + len(part) // TOLD_APART_ROWS] for part in (data.taught, data.unlabeled)]
    rows = np.concatenate(parts)
    table = joined_parts([rows_here(part, rows) for part in (*spaces, A)])
    missing = np.repeat([-1.0, 1.0], [len(part) for part in parts])
    groups = None if data.groups is None else data.groups[rows]
    weight = data.weight[rows]
    fit = fit_ridge(table, missing[:, None], weight, groups)
    area = area_under_curve(fit.left_out[:, 0], missing > 0, weight)
    if area > TOLD_APART:
        warnings.warn(
            f"{name}: labeled and unlabeled rows are easily told apart from X and `privileged` (area under the curve "
            f"{area:.2f} on left-out rows), so the labels are not missing at random: what holds for the labeled rows "
            "may not hold for the others. Compare with a fit on the labeled rows alone.",
            UserWarning,
            stacklevel=5,
        )


def area_under_curve(score: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> float:
    """Weighted share of pairs (positive, other) in the right order; ties count half.

    Examples
    --------
    >>> area_under_curve(np.array([1.0, 2.0, 2.0]), np.array([False, False, True]), np.ones(3))
    0.75
    """
    values, place = np.unique(score, return_inverse=True)
    ups = np.bincount(place, weights=weight * positive, minlength=len(values))
    downs = np.bincount(place, weights=weight * ~positive, minlength=len(values))
    return float(ups @ (np.cumsum(downs) - downs / 2) / (ups.sum() * downs.sum()))
