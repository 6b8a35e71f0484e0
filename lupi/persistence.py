"""Models on disk, without pickle: reading a file runs no code of that file."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from copy import copy
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator

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
    "lupi.experiments.tabular.TableEncoder",
    "lupi.experiments.tabular.TabularModel",
    "lupi.kernels.Kernel",
    "lupi.localize.localizer.Localizer",
    "lupi.problems.surrogate.calibration.Calibration",
    "lupi.tasks.boxes.BoxLocalization",
    "lupi.tasks.chain.Chain",
    "lupi.tasks.multiclass.Multiclass",
    "lupi.vision.bag_of_words.BagOfVisualWords",
    "lupi.vision.fisher.FisherVectors",
)


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
    unknown = [name for name in skops.io.get_untrusted_types(data=content) if name not in TRUSTED]
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
        return skops.io.loads(content, trusted=list(TRUSTED))
    except UntrustedTypesFoundException as problem:
        raise ValueError(f"{path} is not loaded, because it holds types that lupi does not trust: {problem}") from None
    except (zipfile.BadZipFile, KeyError, EOFError, OSError, TypeError, AttributeError, ValueError) as problem:
        raise ValueError(
            f"{path} is damaged or is no model of lupi ({type(problem).__name__}: {problem}); save it again with lupi.save."
        ) from None


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


def strict_json(value, indent=None):
    """JSON that every reader accepts: infinite numbers become the words "inf" and "-inf", NaN "nan", numpy's plain.

    Parameters
    ----------
    value : dict, list, number, str, bool or None
    indent : int, optional
        As in :func:`json.dumps`.

    Returns
    -------
    str

    Examples
    --------
    >>> strict_json({"kappa": [3.0, float("inf")], "n": np.int64(2)})
    '{"kappa": [3.0, "inf"], "n": 2}'
    """
    return json.dumps(_strict(value), indent=indent, allow_nan=False)


def _strict(value):
    if isinstance(value, dict):
        return {key: _strict(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return _strict(value.tolist())
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def write_atomically(path, content):
    """Write a file so that a reader sees the old one or the new one, never a part.

    Parameters
    ----------
    path : path-like
        The file; its folder is made if needed.
    content : bytes
        What it shall hold.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
