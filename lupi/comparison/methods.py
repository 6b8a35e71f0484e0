"""The methods that a comparison knows, with their grids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVR

from lupi.comparison.metrics import METRICS
from lupi.estimators.distillation import Distillation
from lupi.estimators.knowledge_transfer import KnowledgeTransfer
from lupi.estimators.rank_svm import RankSVM
from lupi.estimators.rank_transfer import RankTransfer
from lupi.estimators.svm2_plus import SVM2Plus
from lupi.estimators.svm_2k import SVM2K
from lupi.estimators.svm_plus import SVMPlus

# Twelve candidates for every method: a larger grid alone can look like a gain.
COARSE = (0.1, 1.0, 10.0, 100.0)
FINE = tuple(np.geomspace(0.1, 100.0, 12).tolist())
LINEAR_SCALE = 0.01
# A ranking SVM pays per pair, and there are about n/4 pairs for each example.
COARSE_PAIRS = (1e-4, 1e-3, 1e-2, 1e-1)
FINE_PAIRS = tuple(np.geomspace(1e-4, 1e-1, 12).tolist())
THREE = (0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Method:
    """A row of the comparison.

    Attributes
    ----------
    name, title : str
        For the command line and for people.
    build : callable
        From (kernel, seed, regression) to an unfitted estimator.
    grid : dict
        Candidates of the inner cross-validation.
    plain : str
        The method it becomes without privileged features: its control "privileged off". Empty for a plain method.
    reference : bool
        Whether it is trained *and tested* on the privileged features: no method for use, but what they are worth.
    tasks : tuple of str
        "classification", "regression", "ranking" (metrics of scores, two classes).
    by_name : bool
        Whether it takes part only if it is asked for.
    """

    name: str
    title: str
    build: Callable
    grid: dict
    plain: str = ""
    reference: bool = False
    tasks: tuple[str, ...] = ("classification",)
    by_name: bool = False

    @property
    def privileged(self):
        """Whether it learns from privileged features that it will not see later."""
        return bool(self.plain)


def _svm(kernel, seed, regression):
    return SVR(kernel=kernel) if regression else SVMPlus(kernel=kernel)


def _rank_svm(kernel, seed, regression):
    return RankSVM(kernel=kernel, random_state=seed)


def _kernels(kernel):
    return {"kernel": kernel, "privileged_kernel": kernel}


def _knowledge_transfer(kernel, seed, regression):
    return KnowledgeTransfer(_svm(kernel, seed, regression), Ridge(), random_state=seed)


def _distillation(kernel, seed, regression):
    teacher = Ridge() if regression else LogisticRegression(max_iter=2000)
    return Distillation(_svm(kernel, seed, regression), teacher)


BOTH = ("classification", "regression")
METHODS = {
    method.name: method
    for method in (
        Method("svm", "SVM", _svm, {"C": FINE}, tasks=BOTH),
        Method("l2svm", "L2-SVM", lambda k, s, r: SVM2Plus(kernel=k), {"C": FINE}),
        Method(
            "ranksvm",
            "rank SVM",
            _rank_svm,
            {"C": FINE_PAIRS},
            tasks=("ranking",),
        ),
        Method("svm+", "SVM+", lambda k, s, r: SVMPlus(**_kernels(k)), {"C": COARSE, "lam": THREE}, plain="svm"),
        Method("svm2+", "SVM2+", lambda k, s, r: SVM2Plus(**_kernels(k)), {"C": COARSE, "lam": THREE}, plain="l2svm"),
        Method("svm2k", "SVM-2K", lambda k, s, r: SVM2K(**_kernels(k)), {"C": COARSE, "D": THREE}, plain="svm"),
        Method(
            "ranktransfer",
            "Rank Transfer",
            lambda k, s, r: RankTransfer(**_kernels(k), random_state=s),
            {"C": COARSE_PAIRS, "C_privileged": (1e-3, 1e-2, 1e-1)},
            plain="ranksvm",
            tasks=("ranking",),
        ),
        Method(
            "transfer",
            "knowledge transfer",
            _knowledge_transfer,
            {"estimator__C": COARSE, "regressor__alpha": (1.0, 10.0, 100.0)},
            plain="svm",
            tasks=BOTH,
        ),
        Method(
            "distillation",
            "distillation",
            _distillation,
            {"estimator__C": COARSE, "imitation": (0.3, 0.6, 0.9)},
            plain="svm",
            tasks=BOTH,
        ),
        Method("reference", "privileged only (reference)", _svm, {"C": FINE}, reference=True, tasks=BOTH),
        Method(
            "rankreference",
            "privileged only, rank SVM (reference)",
            _rank_svm,
            {"C": FINE_PAIRS},
            reference=True,
            tasks=("ranking",),
            by_name=True,
        ),
    )
}


def choose_methods(names, metric, n_classes):
    """Methods by name, with the plain counterparts they need; those that the metric allows if no names are given.

    Parameters
    ----------
    names : sequence of str or None
        Names in ``METHODS``.
    metric : str
        Name of the metric.
    n_classes : int
        Number of classes; ignored in regression.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> choose_methods(["svm2+"], "ap", 2)
    ('l2svm', 'svm2+')
    >>> choose_methods(None, "r2", 0)
    ('svm', 'transfer', 'distillation', 'reference')
    """
    possible = {"regression"} if not METRICS[metric].classification else {"classification"}
    if METRICS[metric].uses == "scores" and n_classes == 2:
        possible.add("ranking")
    allowed = [name for name, method in METHODS.items() if possible & set(method.tasks)]
    if names is None:
        return tuple(name for name in allowed if not METHODS[name].by_name)
    for name in names:
        if name not in METHODS:
            raise ValueError(f"no method is called {name!r}; the methods are {', '.join(METHODS)}.")
        if name not in allowed:
            kind = f"{n_classes} classes" if METRICS[metric].classification else "a numeric target"
            raise ValueError(
                f"the method {name!r} cannot be measured by {metric!r} with {kind}; possible here: {', '.join(allowed)}."
            )
    wanted = set(names) | {METHODS[name].plain for name in names if METHODS[name].plain}
    return tuple(name for name in allowed if name in wanted)


def candidates(method, grids=None, kernel="rbf"):
    """Grid of a method: the user's, or the built-in one.

    The built-in constants are for kernels with values up to 1; the inner products of standardized columns are
    as large as the number of columns, and call for smaller ones.

    Returns
    -------
    dict
    """
    if method.name in (grids or {}):
        return dict(grids[method.name])
    grid = dict(method.grid)
    if kernel == "linear":
        key = "estimator__C" if "estimator__C" in grid else "C"
        grid[key] = tuple(LINEAR_SCALE * value for value in grid[key])
    return grid
