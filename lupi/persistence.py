"""Models on disk, without pickle: loading a file executes no code of that file."""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from collections.abc import Iterable, Iterator
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from lupi.files import write_atomically
from lupi.privacy import MODEL_PARTS, without_local_data
from lupi.privacy import keep_privileged as keeping

# Number of the file format, the content of the archive member of this name.
FORMAT_MEMBER, MODEL_FORMAT = "lupi_format", 1

# Largest ratio of unpacked to packed bytes: models are stored, and sparse matrices are packed to about a tenth.
MOST_UNPACKED = 200
# Methods of archives that unpack no more than they are asked for.
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

# Compiled code follows the node numbers of these without checks.
TREES = ("sklearn.tree._tree.Tree", "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor")

# Types beyond those that skops trusts: they hold data only.
DATA_TYPES = {
    "scipy.sparse._csr": "csr_matrix csr_array",
    "sklearn._loss._loss": "CyHalfBinomialLoss CyHalfMultinomialLoss CyHalfSquaredError CyAbsoluteError CyHalfPoissonLoss",
    "sklearn.metrics._scorer": "_PassthroughScorer",
    "sklearn.utils._metadata_requests": "MetadataRequest MethodMetadataRequest",
    "sklearn.model_selection._split": "KFold GroupKFold ShuffleSplit "
    "StratifiedKFold StratifiedGroupKFold StratifiedShuffleSplit",
}
TRUSTED = {*TREES, *(f"{module}.{name}" for module, names in DATA_TYPES.items() for name in names.split())}


def save(model: Any, path: str | PathLike[str], *, keep_privileged: bool = False) -> None:
    """Save a fitted model of this library, or a scikit-learn pipeline around one.

    The file (skops format, no pickle) is written completely or not at all. It holds the parameters and what prediction from X
    needs, support vectors among it, which are rows of X. It holds no privileged training rows, correcting functions, teachers or
    surrogates, nothing else that a fit found, and no paths of this machine, such as the cache of a localizer.

    Parameters
    ----------
    model : estimator
        Fitted estimator.
    path : path-like
        The file.
    keep_privileged : bool, default=False
        Whether the file also holds privileged training rows, and all else that a fit found.

    Raises
    ------
    TypeError
        For a model that contains anything but known estimators and data, such as a function that you wrote; and, unless
        `keep_privileged`, for models from which privileged cells can be computed: a KnowledgeTransfer with privileged features, and
        a kernel SVM2Plus with one privileged column in a linear privileged kernel if every row is a support vector.

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
        content = skops.io.dumps(without_local_data(model))
    untrusted = [name for name in skops.io.get_untrusted_types(data=content) if not _is_trusted(name)]
    if untrusted:
        advice = "use estimators of lupi and scikit-learn, and no functions of your own"
        raise TypeError(f"the model contains {', '.join(untrusted)}, which lupi.load would reject; {advice}.")
    file = io.BytesIO(content)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(FORMAT_MEMBER, str(MODEL_FORMAT))
    write_atomically(path, file.getvalue())


def load(path: str | PathLike[str]) -> Any:
    """Load a model that :func:`save` wrote. Executes no code from the file.

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
        If the file is damaged, is not a model, was written by a newer version, or holds types that are not trusted: classes
        other than those of scikit-learn, numpy and scipy that skops trusts, and the registered classes of lupi.
    """
    import skops.io

    content = Path(path).read_bytes()
    try:
        room = _Room(content)
        members = _members(content, room)
        room.take(_sizes_of_references(members))
        version, content = int(members[FORMAT_MEMBER]), _stored(members)
        named = skops.io.get_untrusted_types(data=content)
        untrusted = [name for name in named if not _is_trusted(name)]
        if version <= MODEL_FORMAT and not untrusted:
            model = skops.io.loads(content, trusted=named)
            _check_parts(model)
            return model
    except Warning:  # of scikit-learn, about a file of another version, where warnings are errors
        raise
    except Exception as error:  # damaged content can fail in any way
        problem = f"is damaged or is not a model of lupi ({type(error).__name__}: {str(error)[:300]})"
        raise ValueError(f"{path} {problem}; save it again with lupi.save.") from None
    if version > MODEL_FORMAT:
        known = f"model format {version}; this version reads {MODEL_FORMAT}"
        raise ValueError(f"{path} was written by a newer version of lupi ({known}). Update lupi to load it.")
    raise ValueError(f"{path} is not loaded, because it holds types that lupi does not trust: {', '.join(untrusted)}")


def _is_trusted(name: str) -> bool:
    """Whether a file may hold a type in addition to those that skops trusts."""
    if name in TRUSTED:
        return True
    module, _, _ = name.rpartition(".")
    if not re.fullmatch(r"lupi(\.\w+)+", module, flags=re.ASCII):
        return False
    try:
        import_module(module)  # its classes register themselves
    except ImportError:
        return False
    return name in MODEL_PARTS


class _Room:
    """Bytes that the archives of a file, and all references to their members, may unpack to."""

    def __init__(self, content: bytes) -> None:
        self.packed, self.taken = len(content), 0

    def take(self, size: int) -> None:
        """Count some bytes; ValueError if these are too many."""
        self.taken += size
        if self.taken > MOST_UNPACKED * self.packed + 2**20:
            raise ValueError(f"{self.packed} bytes would unpack to {self.taken} or more")


def _members(content: bytes, room: _Room) -> dict[str, bytes]:
    """Members of an archive; sizes are checked before anything is unpacked, and nested archives are stored again."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries, members = archive.infolist(), {}
        if len({entry.filename for entry in entries}) < len(entries):
            raise ValueError("two members have the same name")
        room.take(sum(entry.file_size for entry in entries))
        for entry in entries:
            if entry.compress_type not in PACKINGS:
                raise ValueError(f"{entry.filename} is packed by method {entry.compress_type}; use one of {PACKINGS}")
            with archive.open(entry) as packed:
                # Never more than the size that was counted, whatever the packed bytes hold.
                members[entry.filename] = packed.read(entry.file_size)
    # By the first bytes, since a schema can refer to any member as an array.
    for name, member in members.items():
        if member.startswith(b"PK"):
            members[name] = _stored(_members(member, room))
        elif member.startswith(b"\x93NUMPY"):
            _check_array(name, member)
    return members


def _stored(members: dict[str, bytes]) -> bytes:
    """An archive that is not packed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return file.getvalue()


def _sizes_of_references(members: dict[str, bytes]) -> int:
    """Bytes of all members that the objects of a schema refer to: each object has a copy of its own."""
    waiting, seen, total = [json.loads(members["schema.json"])], set(), 0
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            reference = part.get("__id__"), part.get("file")
            if isinstance(reference[1], str) and not (reference[0] and reference in seen):
                total += len(members[reference[1]])
                seen.add(reference)
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return total


def _check_array(name: str, member: bytes) -> None:
    """Reject an array whose header claims another size than it has, before memory is allocated."""
    file = io.BytesIO(member)
    version = np.lib.format.read_magic(file)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(file)
    held, claimed = len(member) - file.tell(), math.prod(shape) * dtype.itemsize
    if dtype.hasobject or held != claimed:
        raise ValueError(f"the array {name} holds {held} bytes, but claims {claimed}")


def _check_parts(model: Any) -> None:
    """Reject sparse matrices and trees with indices out of range, which compiled code would follow."""
    for value, n_features in _parts(model):
        if sparse.issparse(value) and hasattr(value, "check_format"):
            value.check_format(full_check=True)
        elif f"{type(value).__module__}.{type(value).__name__}" in TREES:
            _check_tree(value, n_features)


def _parts(model: Any) -> Iterator[tuple[Any, int]]:
    """Every object in a model, with the number of features of the nearest estimator around it."""
    waiting, seen = [(model, 0)], set()
    while waiting:
        value, n_features = waiting.pop()
        if (id(value), n_features) in seen:
            continue
        seen.add((id(value), n_features))
        yield value, n_features
        children: Iterable[Any] = ()
        if isinstance(value, BaseEstimator):
            children, n_features = vars(value).values(), int(getattr(value, "n_features_in_", n_features))
        elif isinstance(value, dict):
            children = value.values()
        elif isinstance(value, np.ndarray) and value.dtype == object:
            children = value.ravel().tolist()
        elif isinstance(value, list | tuple):
            children = value
        waiting += [(child, n_features) for child in children]


def _check_tree(tree: Any, n_features: int) -> None:
    """Reject a tree unless every inner node leads to two later nodes by an existing feature."""
    if hasattr(tree, "children_left"):
        nodes, leaf = tree.__getstate__()["nodes"], tree.children_left == -1
        left, right, feature = nodes["left_child"], nodes["right_child"], nodes["feature"]
        n_features = min(n_features, tree.n_features)
    else:
        nodes, leaf = tree.nodes, tree.nodes["is_leaf"] == 1
        left, right, feature = nodes["left"], nodes["right"], nodes["feature_idx"]
        if (nodes["is_categorical"] == 1).any() and nodes["bitset_idx"].max() >= len(tree.raw_left_cat_bitsets):
            raise ValueError("a tree refers to categories that do not exist")
    inner = np.flatnonzero(~leaf)
    children = np.stack([left, right]).astype(np.int64)[:, inner]
    features = np.asarray(feature, dtype=np.int64)[inner]
    if not len(leaf) or (children <= inner).any() or (children >= len(leaf)).any():
        raise ValueError("a tree refers to nodes that do not exist or lead back")
    if (features < 0).any() or (features >= n_features).any():
        raise ValueError("a tree refers to features that do not exist")
