"""Models on disk, without pickle: reading a file runs no code of that file."""

from __future__ import annotations

import io
import json
import zipfile
from copy import copy
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator

from lupi.engine.files import write_atomically

# Classes of this library that a model file may contain, beside those that skops trusts by itself (scikit-learn, numpy,
# scipy). None of them runs code when it is made from a file.
TRUSTED = (
    "lupi.estimators.distillation.Distillation",
    "lupi.estimators.jkse.JKSE",
    "lupi.estimators.jkse.JKSEPlus",
    "lupi.estimators.knowledge_transfer.KnowledgeTransfer",
    "lupi.estimators.one_class_svm_plus.OneClassSVMPlus",
    "lupi.estimators.privileged_columns.PrivilegedColumns",
    "lupi.estimators.rank_svm.RankSVM",
    "lupi.estimators.rank_transfer.RankTransfer",
    "lupi.estimators.rank_transfer_cv.RankTransferCV",
    "lupi.estimators.structural_svm.StructuralSVM",
    "lupi.estimators.structural_svm_plus.StructuralSVMPlus",
    "lupi.estimators.surrogate.SurrogateClassifier",
    "lupi.estimators.surrogate.SurrogateRegressor",
    "lupi.estimators.surrogate_students.AveragedStudent",
    "lupi.estimators.surrogate_students.ForestMember",
    "lupi.estimators.surrogate_students.RbfMember",
    "lupi.estimators.surrogate_students.RbfRidge",
    "lupi.estimators.surrogate_students.RidgeMember",
    "lupi.estimators.surrogate_students.Standardizer",
    "lupi.estimators.surrogate_wrapped.SoftLabelStudent",
    "lupi.estimators.surrogate_wrapped.WrappedStudent",
    "lupi.estimators.svm2_plus.SVM2Plus",
    "lupi.estimators.svm_2k.SVM2K",
    "lupi.estimators.svm_plus.SVMPlus",
    "lupi.comparison.encode.TableEncoder",
    "lupi.comparison.model.TabularModel",
    "lupi.kernels.space.Kernel",
    "lupi.localize.localizer.Localizer",
    "lupi.problems.surrogate.calibration.Calibration",
    "lupi.tasks.boxes.BoxLocalization",
    "lupi.tasks.chain.Chain",
    "lupi.tasks.multiclass.Multiclass",
    "lupi.images.bag_of_words.BagOfVisualWords",
    "lupi.images.fisher.FisherVectors",
)

# Compiled code follows the numbers in these without a look: a file's trees are checked before anyone predicts with them.
TREES = ("sklearn.tree._tree.Tree", "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor")

# Modules, or single classes of them, that had another name when a file was written.
MOVED = {
    "lupi.experiments.tabular.TableEncoder": "lupi.comparison.encode",
    "lupi.experiments.tabular.TabularModel": "lupi.comparison.model",
    "lupi.kernels": "lupi.kernels.space",
    "lupi.vision.bag_of_words": "lupi.images.bag_of_words",
    "lupi.vision.fisher": "lupi.images.fisher",
}


def save(model, path):
    """Save a fitted model of this library, or a scikit-learn pipeline around one.

    The file (skops format, no pickle) appears as a whole or not at all. Privileged training rows are left out: what only
    the correcting function or a teacher needs is removed from the saved copy, prediction is not affected. (The support
    vectors of a kernel method are rows of X, and stay.) So are folders of this machine, such as the cache of a localizer.

    Parameters
    ----------
    model : estimator
        Fitted estimator.
    path : path-like
        The file.

    Raises
    ------
    TypeError
        For a model that contains something other than known estimators and data, such as a user's function.

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

    content = skops.io.dumps(_for_file(model))
    unknown = [name for name in skops.io.get_untrusted_types(data=content) if name not in TRUSTED + TREES]
    if unknown:
        raise TypeError(
            f"the model contains {', '.join(unknown)}, which lupi.load would refuse; use estimators of lupi and "
            "scikit-learn and no functions of your own (a named kernel instead of a callable)."
        )
    write_atomically(path, content)


def load(path):
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
        If the file is damaged, is no model, or holds types that are not on the list of trusted ones.
    """
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    content = Path(path).read_bytes()
    try:
        model = skops.io.loads(_present_names(content), trusted=[*TRUSTED, *TREES])
        _check_trees(model)
        return model
    except UntrustedTypesFoundException as problem:
        raise ValueError(f"{path} is not loaded, because it holds types that lupi does not trust: {problem}") from None
    except (zipfile.BadZipFile, KeyError, EOFError, OSError, TypeError, AttributeError, ValueError) as problem:
        raise ValueError(
            f"{path} is damaged or is no model of lupi ({type(problem).__name__}: {problem}); save it again with lupi.save."
        ) from None


def _present_names(content):
    """The same archive with the modules' present names, where it was written by an earlier version."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(parts["schema.json"])
    if not _rename_modules(schema):
        return content
    parts["schema.json"] = json.dumps(schema).encode()
    renamed = io.BytesIO()
    with zipfile.ZipFile(renamed, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return renamed.getvalue()


def _rename_modules(node):
    """Rename in place, at any depth; how many names that were."""
    if isinstance(node, list):
        return sum(_rename_modules(part) for part in node)
    if not isinstance(node, dict):
        return 0
    module = node.get("__module__")
    moved = MOVED.get(f"{module}.{node.get('__class__')}") or MOVED.get(module) if isinstance(module, str) else None
    if moved:
        node["__module__"] = moved
    return sum(_rename_modules(part) for part in node.values()) + (moved is not None)


def _check_trees(value, n_features=0):
    """Refuse trees that lead out of themselves, in a circle, or to features that there are not.

    Parameters
    ----------
    value : object
        Part of a loaded model.
    n_features : int
        Of the nearest estimator around it.
    """
    if isinstance(value, BaseEstimator):
        n_features = int(getattr(value, "n_features_in_", n_features))
        value = list(vars(value).values())
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, np.ndarray) and value.dtype == object:
        value = value.ravel().tolist()
    if isinstance(value, list | tuple):
        for part in value:
            _check_trees(part, n_features)
        return
    kind = f"{type(value).__module__}.{type(value).__name__}"
    if kind == TREES[0]:
        nodes, leaf = value.__getstate__()["nodes"], value.children_left == -1
        _check_nodes(
            nodes["left_child"], nodes["right_child"], nodes["feature"], leaf, min(n_features, value.n_features)
        )
    elif kind == TREES[1]:
        nodes = value.nodes
        _check_nodes(nodes["left"], nodes["right"], nodes["feature_idx"], nodes["is_leaf"] == 1, n_features)
        if (nodes["is_categorical"] == 1).any() and nodes["bitset_idx"].max() >= len(value.raw_left_cat_bitsets):
            raise ValueError("a tree asks for categories that there are not")


def _check_nodes(left, right, feature, leaf, n_features):
    """Every inner node leads to two later nodes, by a feature that exists."""
    here = np.arange(len(leaf))[~leaf]
    children = np.stack([left, right]).astype(np.int64)[:, ~leaf]
    features = np.asarray(feature, dtype=np.int64)[~leaf]
    if not len(leaf) or (children <= here).any() or (children >= len(leaf)).any():
        raise ValueError("a tree has no end")
    if (features < 0).any() or (features >= n_features).any():
        raise ValueError("a tree asks for features that there are not")


def _for_file(value):
    """Copy without what a file must not hold, at any depth.

    A class lists attributes with privileged rows in ``_privileged_rows_in`` (removed) and parameters that name places on this
    machine in ``_places_in`` (set to None, since a parameter has to exist).
    """
    if isinstance(value, BaseEstimator):
        stripped = copy(value)
        for name, part in vars(value).items():
            if name in getattr(value, "_privileged_rows_in", ()):
                delattr(stripped, name)
            elif name in getattr(value, "_places_in", ()):
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
