"""Privileged input that is more than one table: several spaces, or structured inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lupi.inputs.checks import PrivilegedInput, check_privileged, wrong_length
from lupi.inputs.types import PrivilegedLike


def check_privileged_spaces(
    privileged: PrivilegedLike, n_samples: int, *, estimator_name: str = "fit", **options: Any
) -> dict[Any, PrivilegedInput]:
    """Check one or several privileged spaces.

    Parameters
    ----------
    privileged : array-like, list of two-dimensional tables, dict of name -> table, or None
        A list of tables (arrays, sparse matrices, frames) or a dict means several spaces; each has its own missing rows.
        Anything else is one space.
    n_samples : int
        Number of examples in `X`.
    estimator_name : str, default="fit"
        Who asks; begins the error messages.
    **options
        Further arguments of :func:`check_privileged`.

    Returns
    -------
    dict of PrivilegedInput
        By the name of the space, or by its number in the list; a single table has the key None. Empty for None.

    Examples
    --------
    >>> from lupi.inputs import check_privileged_spaces
    >>> spaces = check_privileged_spaces({"tests": [[1.0], [2.0]], "wages": [[3.0, 4.0], [5.0, 6.0]]}, 2)
    >>> {name: space.data.shape for name, space in spaces.items()}
    {'tests': (2, 1), 'wages': (2, 2)}
    """
    if privileged is None:
        return {}
    spaces = _spaces_of(privileged)
    if spaces is None:
        checked = check_privileged(privileged, n_samples, estimator_name=estimator_name, **options)
        return {} if checked is None else {None: checked}
    empty = [name for name, block in spaces.items() if block is None]
    if empty or not spaces:
        raise ValueError(
            f"{estimator_name}: `privileged` "
            f"{f'has None for the space {empty[0]!r}' if empty else 'names no space'}; "
            "give a table for each space, or privileged=None."
        )
    found = {
        name: check_privileged(
            block, n_samples, estimator_name=estimator_name, argument=f"privileged[{name!r}]", **options
        )
        for name, block in spaces.items()
    }
    return {name: checked for name, checked in found.items() if checked is not None}


def names_of_spaces(privileged: PrivilegedLike) -> list[Any]:
    """Names of the privileged spaces that a user gave.

    Parameters
    ----------
    privileged : object
        As in :func:`check_privileged_spaces`.

    Returns
    -------
    list
        Keys of a dict, numbers of a list; [None] for a single table, [] for None.

    Examples
    --------
    >>> from lupi.inputs import names_of_spaces
    >>> names_of_spaces({"tests": [[1.0]], "wages": [[2.0]]}), names_of_spaces([[1.0], [2.0]]), names_of_spaces(None)
    (['tests', 'wages'], [None], [])
    """
    if privileged is None:
        return []
    spaces = _spaces_of(privileged)
    return [None] if spaces is None else list(spaces)


def _spaces_of(privileged: PrivilegedLike) -> dict[Any, Any] | None:
    """Spaces by name or number; None where there is one table."""
    if isinstance(privileged, Mapping):
        return dict(privileged)
    if isinstance(privileged, list | tuple) and any(_is_table(block) for block in privileged):
        return dict(enumerate(privileged))
    return None


def check_privileged_sequence(
    privileged: PrivilegedLike, n_samples: int, *, estimator_name: str = "fit", argument: str = "privileged"
) -> PrivilegedInput | None:
    """Check privileged inputs that are no rows of a table: images, sequences, whatever a structured task reads.

    Parameters
    ----------
    privileged : sequence or None
        One input for each example; an entry None says that it is not available for this example.
    n_samples : int
        Number of examples in `X`.
    estimator_name, argument : str
        As in :func:`check_privileged`.

    Returns
    -------
    PrivilegedInput or None

    Examples
    --------
    >>> from lupi.inputs import check_privileged_sequence
    >>> check_privileged_sequence(["picture", None], 2).available
    array([ True, False])
    """
    if privileged is None:
        return None
    prefix = f"{estimator_name}: `{argument}`"
    if isinstance(privileged, str | Mapping) or not hasattr(privileged, "__len__"):
        raise ValueError(f"{prefix} must be a sequence with one input for each example; got {privileged!r:.60}.")
    if len(privileged) != n_samples:
        raise wrong_length(prefix, len(privileged), "inputs", n_samples, "None")
    return PrivilegedInput(privileged, np.array([entry is not None for entry in privileged], dtype=bool))


def _is_table(block: Any) -> bool:
    return len(block.shape if hasattr(block, "shape") else np.shape(block)) == 2
