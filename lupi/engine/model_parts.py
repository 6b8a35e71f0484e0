"""The classes that a model file may contain: each one registers itself, where it is defined."""

from __future__ import annotations

import re
from importlib import import_module

_PARTS: dict[str, type] = {}


def model_part(kind):
    """Register a class of this library, so that :func:`lupi.load` makes its objects from a file.

    Only for classes that run no code when they are made from a file: their attributes are set, nothing is called.

    Parameters
    ----------
    kind : type

    Returns
    -------
    type
        The same.
    """
    _PARTS[f"{kind.__module__}.{kind.__qualname__}"] = kind
    return kind


def is_model_part(name) -> bool:
    """Whether a name, such as ``lupi.tasks.chain.Chain``, is that of a registered class (or function) of this library.

    Its module is imported if that was not done yet: one of lupi's own, whatever a file may say.

    Examples
    --------
    >>> is_model_part("lupi.tasks.chain.Chain"), is_model_part("lupi.persistence.load"), is_model_part("os.system")
    (True, False, False)
    """
    module, _, _ = name.rpartition(".")
    if not re.fullmatch(r"lupi(\.\w+)+", module, flags=re.ASCII):
        return False
    try:
        import_module(module)
    except ImportError:
        return False
    return name in _PARTS
