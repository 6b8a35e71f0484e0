"""Methods of a comparison, with their grids, and how other estimators become methods."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from inspect import signature
from itertools import chain
from typing import Any

import numpy as np
from sklearn import ensemble
from sklearn.base import clone, is_regressor
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.svm import SVR
from sklearn.utils.validation import has_fit_parameter

from lupi.comparison.problem import METRICS
from lupi.meta.baselines import Distillation, KnowledgeTransfer
from lupi.ranking.rank_transfer import RankTransfer
from lupi.ranking.ranker import RankSVM
from lupi.surrogate.surrogate import SurrogateClassifier, SurrogateRegressor
from lupi.svm.svm_2k import SVM2K
from lupi.svm.svm_plus import SVM2Plus, SVMPlus
from lupi.svm.svr_plus import SVRPlus

# A method and its counterpart have the same number of candidates: a larger grid alone can look like a gain.
COARSE = (0.1, 1.0, 10.0, 100.0)
FINE = tuple(np.geomspace(0.1, 100.0, 12).tolist())
LINEAR_SCALE = 0.01
# The loss of a ranking SVM is a sum over pairs, about n/4 per example.
COARSE_PAIRS = (1e-4, 1e-3, 1e-2, 1e-1)
FINE_PAIRS = tuple(np.geomspace(1e-4, 1e-1, 12).tolist())
THREE = (0.1, 1.0, 10.0)
KERNELS_TRIED = ("rbf", "linear")
# The word `recipes` among the methods of a comparison: what a practitioner would try first.
RECIPES = ("soft-labels", "predicted-z", "chain")
ROLES = ("baseline", "privileged", "reference")


@dataclass(frozen=True)
class Method:
    """A row of the comparison. A reference is trained *and tested* on the privileged features: an upper bound."""

    name: str  # for the command line
    title: str  # for the report
    estimator: Any  # unfitted
    grid: dict[str, Any] = field(default_factory=dict)  # candidates of the inner cross-validation
    counterpart: str = ""  # the corresponding method without privileged features
    role: str = "baseline"  # or another one of ROLES
    sees: str = "X"  # features in training and test: "X", "privileged", "both"
    tasks: tuple[str, ...] = ("classification", "regression")  # or "ranking": metrics of the order, two classes
    kernels: tuple[str, ...] = ()  # kernel parameters, then the penalty that is smaller with linear kernels
    origin: str = ""  # digest of the parameters and grid of a user's estimator
    if_regression: dict[str, Any] = field(default_factory=dict)  # fields that differ for a numeric target

    @property
    def privileged(self):
        """Whether it learns from privileged features that it will not see later."""
        return self.role == "privileged"

    @property
    def unlabeled(self):
        """Whether it learns from unlabeled rows."""
        return self.privileged and "unlabeled" in self.estimator.get_params()

    @property
    def key(self):
        """Name in the store."""
        return f"{self.name}~{self.origin}" if self.origin else self.name

    def build(self, seed):
        """Unfitted estimator whose random states are this seed."""
        names = [name for name in self.estimator.get_params() if name.split("__")[-1] == "random_state"]
        return clone(self.estimator).set_params(**dict.fromkeys(names, seed))


def load_estimator(path):
    """An estimator of the class at ``package.module:Class``.

    Examples
    --------
    >>> load_estimator("sklearn.naive_bayes:GaussianNB")
    GaussianNB()
    """
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)()
    except (ModuleNotFoundError, AttributeError, TypeError) as error:
        expected = "the path of an installed class, package.module:Class, that requires no arguments"
        raise ValueError(f"{path!r}: {error}; expected {expected}.") from None


def _surrogate(students):
    """Fields of a method that averages students."""
    return {"estimator": SurrogateClassifier(students), "if_regression": {"estimator": SurrogateRegressor(students)}}


# Small trees of coarse bins are as good on a few hundred rows and take a fifth of the time. Words are one-hot encoded:
# a model with categories holds functions, which `lupi.load` refuses.
BOOSTING: dict[str, Any] = {"max_iter": 60, "min_samples_leaf": 5, "max_leaf_nodes": 8, "max_bins": 64}
BOOSTING |= {"early_stopping": False, "categorical_features": None}
BOOSTED = ensemble.HistGradientBoostingRegressor(**BOOSTING)
# Kernel parameters and penalty.
BOTH, ONE, INNER = ("kernel", "privileged_kernel", "C"), ("kernel", "C"), ("estimator__kernel", "estimator__C")
CLASSES, REGRESSION, RANKING = ("classification",), ("regression",), ("ranking",)
_PLAIN_SVM: dict[str, Any] = {"estimator": SVMPlus(), "grid": {"C": FINE}, "kernels": ONE}
_PLAIN_SVM |= {"if_regression": {"estimator": SVR()}}
_RANKER: dict[str, Any] = {"estimator": RankSVM(), "grid": {"C": FINE_PAIRS}, "kernels": ONE, "tasks": RANKING}
# The penalty of each privileged column's prediction is chosen by leave-one-out.
PREDICTS_Z = RidgeCV((1.0, 10.0, 100.0, 1000.0), alpha_per_target=True)
LEAVES = {"estimator__min_samples_leaf": (1, 5)}
# What runs unless methods are named.
BASELINES = ("linear", "forest", "boosting", "svm")
DEFAULT = ("surrogate", "surrogate-ridge", "surrogate-boosted", "svm2+", "reference", "joint")
_Privileged = partial(Method, role="privileged")
_Reference = partial(Method, role="reference")
METHODS = {
    method.name: method
    for method in (
        Method(
            "linear", "logistic regression", LogisticRegression(max_iter=2000), {"C": (0.01, 0.1, 1.0, 10.0)},
            if_regression={"title": "ridge regression", "estimator": Ridge(), "grid": {"alpha": (50.0, 5.0, 0.5, 0.05)}},
        ),
        Method(
            "forest", "random forest", ensemble.RandomForestClassifier(), {"min_samples_leaf": (1, 5)},
            if_regression={"estimator": ensemble.RandomForestRegressor()},
        ),
        Method(
            "boosting", "gradient boosting", ensemble.HistGradientBoostingClassifier(**BOOSTING), {"learning_rate": (0.03, 0.1)},
            if_regression={"estimator": BOOSTED},
        ),
        Method("svm", "SVM", **_PLAIN_SVM),
        Method("surrogate-plain", "averaged student", **_surrogate(None)),
        Method("ridge-plain", "ridge student", **_surrogate("ridge")),
        Method("boosted-plain", "boosted student", **_surrogate(BOOSTED)),
        Method("l2svm", "L2-SVM", SVM2Plus(), {"C": FINE}, tasks=CLASSES, kernels=ONE),
        Method("ranksvm", "rank SVM", **_RANKER),
        # With privileged features.
        _Privileged("surrogate", "surrogate", **_surrogate(None), counterpart="surrogate-plain"),
        _Privileged("surrogate-ridge", "surrogate, ridge", **_surrogate("ridge"), counterpart="ridge-plain"),
        _Privileged("surrogate-boosted", "surrogate, boosted", **_surrogate(BOOSTED), counterpart="boosted-plain"),
        _Privileged("svm2+", "SVM2+", SVM2Plus(), {"C": COARSE, "lam": THREE}, "l2svm", tasks=CLASSES, kernels=BOTH),
        _Privileged(
            "distillation", "distillation", Distillation(SVMPlus()), {"estimator__C": COARSE, "imitation": (0.3, 0.6, 0.9)},
            "svm", kernels=INNER, if_regression={"estimator": Distillation(SVR())},
        ),
        _Privileged(
            "transfer", "knowledge transfer", KnowledgeTransfer(SVMPlus(), Ridge()),
            {"estimator__C": COARSE, "regressor__alpha": (1.0, 10.0, 100.0)},
            "svm", kernels=INNER, if_regression={"estimator": KnowledgeTransfer(SVR(), Ridge())},
        ),
        _Privileged(
            "ranktransfer", "Rank Transfer", RankTransfer(), {"C": COARSE_PAIRS, "C_privileged": (1e-3, 1e-2, 1e-1)},
            "ranksvm", tasks=RANKING, kernels=BOTH,
        ),
        _Privileged("svm+", "SVM+", SVMPlus(), {"C": COARSE, "lam": THREE}, "svm", tasks=CLASSES, kernels=BOTH),
        _Privileged("svr+", "SVR+", SVRPlus(), {"C": COARSE, "lam": THREE}, "svm", tasks=REGRESSION, kernels=BOTH),
        _Privileged("svm2k", "SVM-2K", SVM2K(), {"C": COARSE, "D": THREE}, "svm", tasks=CLASSES, kernels=BOTH),
        _Privileged(
            "soft-labels", "soft labels", Distillation(ensemble.RandomForestClassifier(), passthrough=True, cv=5), LEAVES,
            "forest", if_regression={"estimator": Distillation(ensemble.RandomForestRegressor(), passthrough=True, cv=5)},
        ),
        _Privileged(
            "predicted-z", "predicted columns", KnowledgeTransfer(ensemble.RandomForestClassifier(), PREDICTS_Z), LEAVES,
            "forest", if_regression={"estimator": KnowledgeTransfer(ensemble.RandomForestRegressor(), PREDICTS_Z)},
        ),
        _Privileged(
            "chain", "chain over the columns", KnowledgeTransfer(LogisticRegression(max_iter=2000), PREDICTS_Z, passthrough=False),
            {"estimator__C": (0.01, 0.1, 1.0, 10.0)}, "linear",
            if_regression={
                "estimator": KnowledgeTransfer(Ridge(), PREDICTS_Z, passthrough=False),
                "grid": {"estimator__alpha": (50.0, 5.0, 0.5, 0.05)},
            },
        ),
        # Upper bounds.
        _Reference("reference", "privileged only", sees="privileged", **_PLAIN_SVM),
        _Reference("joint", "X with privileged", sees="both", **_PLAIN_SVM),
        _Reference("rankreference", "privileged only, rank SVM", sees="privileged", **_RANKER),
    )
}  # fmt: skip


def choose_methods(methods, baselines, metric, n_classes):
    """The methods of a comparison by name, with their counterparts; baselines first. Arguments as in :func:`lupi.compare`.

    Examples
    --------
    >>> list(choose_methods(["svm2+"], [], "ap", 2))
    ['l2svm', 'svm2+']
    >>> list(choose_methods(["surrogate"], None, "r2", 0))
    ['linear', 'forest', 'boosting', 'svm', 'surrogate-plain', 'surrogate']
    """
    regression = METRICS[metric].task == "regression"
    possible = {METRICS[metric].task} | ({"ranking"} if METRICS[metric].rates_order and n_classes == 2 else set())
    allowed = [name for name, method in METHODS.items() if possible & set(method.tasks)]
    defaults = ((baselines, BASELINES), (methods, DEFAULT))
    chosen: dict[str, Method] = {}
    lists = ([name for name in default if name in allowed] if given is None else given for given, default in defaults)
    for wanted in chain(*lists):
        if not isinstance(wanted, str) or ":" in wanted:
            found = _from_estimator(wanted, regression)
        elif wanted not in METHODS:
            raise ValueError(
                f"no method is called {wanted!r}; use package.module:Class or one of {', '.join(METHODS)}."
            )
        elif wanted not in allowed:
            problem = (
                f"cannot be measured by {metric!r} with {f'{n_classes} classes' if n_classes else 'a numeric target'}"
            )
            raise ValueError(f"the method {wanted!r} {problem}; possible here: {', '.join(allowed)}.")
        else:
            found = [METHODS[name] for name in (METHODS[wanted].counterpart, wanted) if name]
        for method in found:
            method = replace(method, **method.if_regression) if regression else method
            if chosen.setdefault(method.name, method) != method:
                raise ValueError(f"two methods are called {method.name!r}; rename one: (name, estimator, grid).")
    places = {name: place for place, name in enumerate(METHODS)}

    def order(m):
        return (ROLES.index(m.role), places.get(m.name, len(places)))

    return {method.name: method for method in sorted(chosen.values(), key=order)}


def _from_estimator(wanted, regression):
    """An estimator as a method, with its counterpart if `fit` does not require the privileged features."""
    name, estimator, grid = wanted if isinstance(wanted, tuple) else (None, wanted, {})
    estimator = load_estimator(estimator) if isinstance(estimator, str) else estimator
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        wanted = "a name, an unfitted estimator such as SVMPlus(), or (name, estimator, grid)"
        raise ValueError(f"{estimator!r} is not an estimator; pass {wanted}.")
    kind, takes_privileged = type(estimator), has_fit_parameter(estimator, "privileged")
    name, required = name or kind.__name__, "regressor" if regression else "classifier"
    if is_regressor(estimator) != regression and not takes_privileged:
        raise ValueError(f"{kind.__name__} is not a {required}, which this target requires.")
    grid = {key: tuple(values) for key, values in (grid or {}).items()}
    settings = repr((kind.__module__, sorted(map(repr, estimator.get_params().items())), sorted(grid.items())))
    origin = hashlib.sha256(settings.encode()).hexdigest()[:10]
    plain = Method(name, name, estimator, grid, origin=origin)
    if not takes_privileged:
        return [plain]
    method = replace(plain, role="privileged")
    if signature(estimator.fit).parameters["privileged"].default is not None:
        return [method]
    plain = replace(plain, name=f"{name}-plain", title=f"{name} without the columns")
    return [plain, replace(method, counterpart=plain.name)]


def candidates(method, grids=None, kernel=None):
    """Grids of a method for ``ParameterGrid``: the user's, or the built-in ones, one per kernel.

    The built-in penalties suit kernels with values up to 1. Inner products of standardized columns grow with the number
    of columns, so linear kernels get smaller penalties.

    Examples
    --------
    >>> candidates(METHODS["l2svm"], {"l2svm": {"C": (1.0,)}}, "linear")
    [{'kernel': ('linear',), 'C': (1.0,)}]
    """
    built_in = method.name not in (grids or {})
    grid = dict(method.grid if built_in else grids[method.name])
    *names, penalty = method.kernels or ("",)
    if not names or any(name in grid for name in names):
        return [grid]
    scaled = grid | {penalty: tuple(LINEAR_SCALE * C for C in grid[penalty])} if built_in else grid
    kernels = KERNELS_TRIED if kernel is None else (kernel,)
    return [dict.fromkeys(names, (one,)) | (scaled if one == "linear" else grid) for one in kernels]
