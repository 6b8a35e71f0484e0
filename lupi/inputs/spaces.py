"""Several privileged spaces: their tables, and parameters with one value per space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils._param_validation import make_constraint

from lupi.inputs.types import PrivilegedLike

# Containers of several tables, or of one parameter value per table.
SEVERAL = (list, tuple, dict)


def is_per_space(value: Any) -> bool:
    """Whether a parameter has one value per privileged space: a list, tuple or dict."""
    return isinstance(value, SEVERAL)


def per_space(constraint: list[Any]) -> list[Any]:
    """The parameter constraint that also allows a list, tuple or dict of values."""
    return [*constraint, list, tuple, dict]


def split_spaces(privileged: PrivilegedLike, estimator_name: str, *, several: bool | None = None) -> dict[Any, Any]:
    """Tables or sequences of inputs by name or number of their space; a single one has the key None.

    A dict is always several spaces. A list or tuple is several spaces if `several`, or, with several=None, if an element of it is a
    2-D table.
    """
    if privileged is None:
        return {}
    if isinstance(privileged, Mapping):
        spaces = dict(privileged)
    elif isinstance(privileged, list | tuple) and (any(map(_is_table, privileged)) if several is None else several):
        spaces = dict(enumerate(privileged))
    elif several:
        raise ValueError(
            f"{estimator_name}: parameters have one value per space, so `privileged` must be a list or dict with the inputs of "
            f"each space; got {privileged!r:.60}."
        )
    else:
        return {None: privileged}
    empty = [name for name, table in spaces.items() if table is None]
    if empty or not spaces:
        problem = f"has None for the space {empty[0]!r}" if empty else "names no space"
        raise ValueError(f"{estimator_name}: `privileged` {problem}; give a table for each space, or privileged=None.")
    return spaces


def values_per_space(estimator: Any, argument: str, names: list[Any]) -> list[Any]:
    """Values of a parameter in the order of the spaces; a single value is repeated.

    Raises ValueError if the values do not match the names of the spaces ([None] for a single table) or are not valid.
    """
    value, owner = getattr(estimator, argument), type(estimator).__name__
    if not names or not is_per_space(value):
        return [value] * len(names)
    given = f"{owner}: `{argument}` has one value per space, {value!r}"
    if names == [None]:
        raise ValueError(f"{given}, but `privileged` is one table; give a single value, or a list or dict of tables.")
    if isinstance(value, dict) and set(value) != set(names):
        raise ValueError(f"{given}, but the spaces of `privileged` are {names}; give a value for each of them.")
    if len(value) != len(names):
        raise ValueError(
            f"{given}, but `privileged` has {len(names)} spaces; give {len(names)} values, or one for all."
        )
    found = [value[name] for name in names] if isinstance(value, dict) else list(value)
    allowed = [one for one in estimator._parameter_constraints[argument] if one not in (list, tuple, dict)]
    constraints = [make_constraint(constraint) for constraint in allowed]
    for name, one in zip(names, found):
        if not any(constraint.is_satisfied_by(one) for constraint in constraints):
            raise ValueError(
                f"The '{argument}' parameter of {owner} must be {' or '.join(map(str, constraints))} for each space; got "
                f"{one!r} for the space {name!r}."
            )
    return found


def check_per_space(estimator: Any, names: list[Any]) -> None:
    """Check every parameter of the privileged spaces that has one value per space."""
    for argument, value in vars(estimator).items():
        parameter = argument == "lam" or (argument.startswith("privileged_") and not argument.endswith("_"))
        if parameter and is_per_space(value):
            values_per_space(estimator, argument, names)


def _is_table(value: Any) -> bool:
    return len(value.shape if hasattr(value, "shape") else np.shape(value)) == 2
