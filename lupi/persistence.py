"""Models on disk, without pickle: reading a file runs no code of that file."""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from collections.abc import Callable, Iterable
from copy import copy
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from lupi.files import write_atomically
from lupi.model_parts import MODEL_PARTS
from lupi.privacy import keep_privileged as keeping

# Written into every file. 1, the one before, had no number; module names have changed since.
MODEL_FORMAT = 2

# Parts of a model are stored as they are; sparse matrices are packed, a tenth of their size or so. More is no model.
MOST_UNPACKED = 200

# Compiled code follows the numbers in these without a look: a file's trees are checked before anyone predicts with them.
TREES = ("sklearn.tree._tree.Tree", "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor")

# What a boosted model was fitted with: classes without data, but for one number. Newer versions of skops know them.
LOSSES = tuple(
    f"sklearn._loss._loss.Cy{name}"
    for name in ("HalfBinomialLoss", "HalfMultinomialLoss", "HalfSquaredError", "AbsoluteError", "HalfPoissonLoss")
)

# Support vectors of models that were fitted on sparse features; checked likewise.
SPARSE = ("scipy.sparse._csr.csr_matrix", "scipy.sparse._csr.csr_array")
# What a fitted search holds beside its model: which scorer, which folds. Data only, nothing of it runs in loading.
SEARCH_PARTS = (
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.utils._metadata_requests.MetadataRequest",  # of the scorer, before scikit-learn 1.8
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
    *(
        f"sklearn.model_selection._split.{name}"
        for name in (
            "KFold",
            "StratifiedKFold",
            "GroupKFold",
            "StratifiedGroupKFold",
            "ShuffleSplit",
            "StratifiedShuffleSplit",
        )
    ),
)

# Modules, or single classes of them, that had another name when a file was written.
MOVED = {
    "lupi.experiments.tabular.TableEncoder": "lupi.tabular.encoder",
    "lupi.experiments.tabular.TabularModel": "lupi.tabular.model",
    "lupi.kernels": "lupi.kernels.kernel",
    "lupi.vision.bag_of_words": "lupi.vision.bag_of_words",
    "lupi.vision.fisher": "lupi.vision.fisher",
}


class _NewerFormatError(Exception):
    """The file was written by a later version."""


def save(model: Any, path: str | PathLike[str], *, keep_privileged: bool = False) -> None:
    """Save a fitted model of this library, or a scikit-learn pipeline around one.

    The file (skops format, no pickle) appears as a whole or not at all. Privileged training rows are left out: what only
    the correcting function or a teacher needs is not in the file, prediction is not affected. (The support vectors of a
    kernel method are rows of X, and stay.) So are folders of this machine, such as the cache of a localizer.

    Parameters
    ----------
    model : estimator
        Fitted estimator.
    path : path-like
        The file.
    keep_privileged : bool, default=False
        Whether what was learned from single privileged rows goes into the file too.

    Raises
    ------
    TypeError
        For a model that contains something other than known estimators and data, such as a user's function; and for one
        that cannot predict without its privileged training rows, unless `keep_privileged`.

    Examples
    --------
    >>> import tempfile, lupi
    >>> from lupi.datasets import make_privileged
    >>> X, y, privileged = make_privileged(60, random_state=0, return_X_y_privileged=True)
    >>> model = lupi.SVM2Plus().fit(X, y, privileged=privileged)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lupi.save(model, f"{folder}/model.lupi")
    ...     again = lupi.load(f"{folder}/model.lupi")
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    import skops.io

    with keeping(keep_privileged):
        content = skops.io.dumps(_for_file(model))
    unknown = [name for name in skops.io.get_untrusted_types(data=content) if not _is_trusted(name)]
    if unknown:
        raise TypeError(
            f"the model contains {', '.join(unknown)}, which lupi.load would refuse; use estimators of lupi and "
            "scikit-learn and no functions of your own (a named kernel instead of a callable)."
        )
    write_atomically(path, _with_schema(content, lambda schema: schema | {"lupi_format": MODEL_FORMAT}))


def _is_trusted(name: str) -> bool:
    """Whether a file may hold this type, beside those that skops trusts by itself (scikit-learn, numpy, scipy)."""
    return name in TREES + LOSSES + SPARSE + SEARCH_PARTS or is_model_part(name)


def is_model_part(name: str) -> bool:
    """Whether a name, such as ``lupi.structured.chain.Chain``, is that of a registered class (or function) of this library.

    Its module is imported if that was not done yet: one of lupi's own, whatever a file may say.

    Examples
    --------
    >>> is_model_part("lupi.structured.chain.Chain"), is_model_part("lupi.persistence.load"), is_model_part("os.system")
    (True, False, False)
    """
    module, _, _ = name.rpartition(".")
    if not re.fullmatch(r"lupi(\.\w+)+", module, flags=re.ASCII):
        return False
    try:
        import_module(module)
    except ImportError:
        return False
    return name in MODEL_PARTS


def load(path: str | PathLike[str]) -> Any:
    """Load a model that :func:`save` wrote. Runs no code from the file.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    estimator

    Raises
    ------
    ValueError
        If the file is damaged, is no model, was written by a newer version, or holds types that are not trusted: classes
        other than those of scikit-learn, numpy and scipy that skops trusts, and those of lupi that are registered as parts
        of models.
    """
    import skops.io

    content = Path(path).read_bytes()
    try:
        content = _with_schema(content, _present_schema)
        named = skops.io.get_untrusted_types(data=content)
        unknown = [name for name in named if not _is_trusted(name)]
        if not unknown:
            model = skops.io.loads(content, trusted=named)
            _check_loaded(model)
            return model
    except _NewerFormatError as problem:
        raise ValueError(f"{path} {problem}; update lupi to load it.") from None
    except Warning:  # of scikit-learn, about a file of another version of it, where warnings are errors
        raise
    except Exception as problem:
        # What anyone has written can fail in any way: while it is unpacked, parsed, made into objects.
        raise ValueError(
            f"{path} is damaged or is no model of lupi ({type(problem).__name__}: {str(problem)[:300]}); save it again with "
            "lupi.save."
        ) from None
    raise ValueError(f"{path} is not loaded, because it holds types that lupi does not trust: {', '.join(unknown)}")


def _with_schema(content: bytes, change: Callable[..., Any]) -> bytes:
    """The same archive with another description of its content."""
    parts = _unpacked(content)
    for name, part in parts.items():
        # By their first bytes, since a description may call a part as it likes.
        if part.startswith(b"\x93NUMPY"):
            _check_array(name, part)
        elif part.startswith(b"PK"):
            for inner, array in _unpacked(part).items():
                _check_array(f"{name}/{inner}", array)
    parts["schema.json"] = json.dumps(change(json.loads(parts["schema.json"]))).encode()
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return changed.getvalue()


def _unpacked(content: bytes) -> dict[str, bytes]:
    """Parts of an archive, unless there are two of a name or they are far larger than the archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        if len({entry.filename for entry in entries}) < len(entries):
            raise ValueError("two parts have the same name")
        size = sum(entry.file_size for entry in entries)
        if size > MOST_UNPACKED * len(content) + 2**20:
            raise ValueError(f"{len(content)} bytes would unpack to {size}")
        return {entry.filename: archive.read(entry) for entry in entries}


def _check_array(name: str, part: bytes) -> None:
    """Refuse an array that claims another size than it has, before memory is asked for."""
    file = io.BytesIO(part)
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(file)
    held, claimed = len(part) - file.tell(), math.prod(shape) * dtype.itemsize
    if dtype.hasobject or held != claimed:
        raise ValueError(f"the array {name} holds {held} bytes, but claims {claimed}")


def _present_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The description in the present format, whatever earlier version wrote it."""
    written = schema.pop("lupi_format", 1)
    if type(written) is not int or written < 1:
        raise ValueError(f"its format is {written!r}")
    if written > MODEL_FORMAT:
        raise _NewerFormatError(
            f"was written by a newer lupi (model format {written}, this one reads up to {MODEL_FORMAT})"
        )
    _rename_modules(schema)
    return schema


def _rename_modules(node: Any) -> None:
    """Present names of modules, in place, at any depth."""
    if isinstance(node, list):
        for part in node:
            _rename_modules(part)
    elif isinstance(node, dict):
        module = node.get("__module__")
        if isinstance(module, str):
            node["__module__"] = MOVED.get(f"{module}.{node.get('__class__')}") or MOVED.get(module, module)
        for part in node.values():
            _rename_modules(part)


def _check_loaded(model: BaseEstimator) -> None:
    """Refuse what compiled code would follow without a look: sparse matrices and trees that lead out of themselves."""
    waiting, seen = [(model, 0)], set()
    while waiting:
        value, n_features = waiting.pop()
        if (id(value), n_features) in seen:
            continue
        seen.add((id(value), n_features))
        if isinstance(value, BaseEstimator):
            n_features = int(getattr(value, "n_features_in_", n_features))  # of the nearest estimator around a tree
        waiting += [(part, n_features) for part in _parts_of(value)]
        if sparse.issparse(value) and hasattr(value, "check_format"):
            value.check_format(full_check=True)
        elif f"{type(value).__module__}.{type(value).__name__}" in TREES:
            _check_tree(value, n_features)


def _parts_of(value: Any) -> Iterable[Any]:
    if isinstance(value, BaseEstimator):
        return list(vars(value).values())
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value.ravel().tolist()
    return value if isinstance(value, list | tuple) else ()


def _check_tree(tree: BaseEstimator, n_features: int) -> None:
    """Refuse a tree that leads out of itself, in a circle, or to features that there are not."""
    if hasattr(tree, "children_left"):
        nodes, leaf = tree.__getstate__()["nodes"], tree.children_left == -1
        n_features = min(n_features, tree.n_features)
        _check_nodes(nodes["left_child"], nodes["right_child"], nodes["feature"], leaf, n_features)
        return
    nodes = tree.nodes
    _check_nodes(nodes["left"], nodes["right"], nodes["feature_idx"], nodes["is_leaf"] == 1, n_features)
    if (nodes["is_categorical"] == 1).any() and nodes["bitset_idx"].max() >= len(tree.raw_left_cat_bitsets):
        raise ValueError("a tree asks for categories that there are not")


def _check_nodes(left: np.ndarray, right: np.ndarray, feature: np.ndarray, leaf: np.ndarray, n_features: int) -> None:
    """Every inner node leads to two later nodes, by a feature that exists."""
    here = np.arange(len(leaf))[~leaf]
    children = np.stack([left, right]).astype(np.int64)[:, ~leaf]
    features = np.asarray(feature, dtype=np.int64)[~leaf]
    if not len(leaf) or (children <= here).any() or (children >= len(leaf)).any():
        raise ValueError("a tree has no end")
    if (features < 0).any() or (features >= n_features).any():
        raise ValueError("a tree asks for features that there are not")


def _for_file(value: Any) -> Any:
    """Copy without what a file must not hold, at any depth.

    A class lists parameters that name places on this machine in ``_places_in``: they are set to None, since a parameter has
    to exist. Privileged rows are the business of ``WithoutPrivilegedRows``.
    """
    if isinstance(value, BaseEstimator):
        stripped = copy(value)
        for name, part in vars(value).items():
            if name in getattr(value, "_places_in", ()):
                setattr(stripped, name, None)
            else:
                setattr(stripped, name, _for_file(part))
        return stripped
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_for_file(part) for part in value)
    if type(value) is dict:
        return {key: _for_file(part) for key, part in value.items()}
    if isinstance(value, np.ndarray) and value.base is not None:
        return value.copy()  # a view would bring the rows of its base along
    return value
