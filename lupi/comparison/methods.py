"""Methods of a comparison, with their grids, and how other estimators become methods."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from inspect import signature
from itertools import chain
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.utils.validation import has_fit_parameter

from lupi.comparison.problem import METRICS

# A method and its counterpart have the same number of candidates: a larger grid alone can look like a gain.
COARSE = (0.1, 1.0, 10.0, 100.0)
FINE = tuple(np.geomspace(0.1, 100.0, 12).tolist())
LINEAR_SCALE = 0.01
# The loss of a ranking SVM is a sum over pairs, about n/4 per example.
COARSE_PAIRS = (1e-4, 1e-3, 1e-2, 1e-1)
FINE_PAIRS = tuple(np.geomspace(1e-4, 1e-1, 12).tolist())
THREE = (0.1, 1.0, 10.0)
KERNELS_TRIED = ("rbf", "linear")


@dataclass(frozen=True)
class Method:
    """A row of the comparison. A reference is trained *and tested* on the privileged features: an upper bound."""

    name: str  # for the command line
    title: str  # for the report
    make: Callable[[bool], Any]  # from `regression` to an unfitted estimator
    grid: dict[str, Any] = field(default_factory=dict)  # candidates of the inner cross-validation
    counterpart: str = ""  # the corresponding method without privileged features
    role: str = "baseline"  # or "privileged", "reference"
    sees: str = "X"  # features in training and test: "X", "privileged", "both"
    tasks: tuple[str, ...] = ("classification", "regression")  # or "ranking": metrics of the order, two classes
    by_name: bool = False  # whether it takes part only if it is named
    rotates: bool = (
        True  # whether a linear kernel's fit is the same on rotated features, which are fewer in wide tables
    )
    kernels: tuple[str, ...] = ()  # kernel parameters, then the penalty that is smaller with linear kernels
    unlabeled: bool = False  # whether it learns from unlabeled rows
    closed_form: bool = False  # whether a fit is fast enough for a hundred permutations
    origin: str = ""  # digest of the parameters and grid of a user's estimator
    if_regression: dict[str, Any] = field(default_factory=dict)  # fields that differ for a numeric target

    @property
    def privileged(self):
        """Whether it learns from privileged features that it will not see later."""
        return self.role == "privileged"

    @property
    def key(self):
        """Name in the store."""
        return f"{self.name}~{self.origin}" if self.origin else self.name

    def build(self, task, seed):
        """Unfitted estimator whose random states are this seed."""
        estimator = self.make(task == "regression")
        names = [name for name in estimator.get_params() if name.split("__")[-1] == "random_state"]
        return estimator.set_params(**dict.fromkeys(names, seed))


def load_estimator(path, **params):
    """An estimator of the class at ``package.module:Class``.

    Examples
    --------
    >>> load_estimator("sklearn.naive_bayes:GaussianNB")
    GaussianNB()
    """
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)(**params)
    except ModuleNotFoundError as error:
        raise ValueError(f"{path!r}: {error}; expected the path of an installed class, package.module:Class.") from None
    except AttributeError:
        raise ValueError(f"{path!r}: the module {module} has no class {name}.") from None
    except TypeError as error:
        raise ValueError(f"{path!r} requires arguments ({error}); use lupi.compare in Python.") from None


def _create(classifier, regressor, params, regression):
    parts = {name: value(regression) if isinstance(value, partial) else value for name, value in params.items()}
    return load_estimator(regressor if regression else classifier, **parts)


def _make(classifier, regressor="", /, **params):
    """From `regression` to an estimator; a parameter that is itself made by `_make` is a nested estimator."""
    return partial(_create, classifier, regressor or classifier, params)


def _forests(name, regressor_only=False, **params):
    kinds = [f"sklearn.ensemble:{name}{kind}" for kind in ("Regressor", "Classifier")]
    return _make(kinds[0] if regressor_only else kinds[1], kinds[0], **params)


# Small trees of coarse bins are as good on a few hundred rows and take a fifth of the time. Words are one-hot encoded:
# a model with categories holds functions, which `lupi.load` refuses.
BOOSTING: dict[str, Any] = {"max_iter": 60, "min_samples_leaf": 5, "max_leaf_nodes": 8, "max_bins": 64}
BOOSTING |= {"early_stopping": False, "categorical_features": None}
SVM = _make("lupi:SVMPlus", "sklearn.svm:SVR")
SURROGATES = {
    name: _make("lupi:SurrogateClassifier", "lupi:SurrogateRegressor", **params)
    for name, params in {
        "averaged": {},
        "ridge": {"estimator": "ridge"},
        "boosted": {"estimator": _forests("HistGradientBoosting", regressor_only=True, **BOOSTING)},
    }.items()
}
BOTH, ONE, INNER = ("kernel", "privileged_kernel", "C"), ("kernel", "C"), ("estimator__kernel", "estimator__C")
CLASSES, RANKING = ("classification",), ("ranking",)
BASELINES = ("linear", "forest", "boosting", "svm")
_Privileged = partial(Method, role="privileged")
_Reference = partial(Method, role="reference")
METHODS = {
    method.name: method
    for method in (
        Method(
            "linear", "logistic regression",
            _make("sklearn.linear_model:LogisticRegression", "sklearn.linear_model:Ridge", max_iter=2000),
            {"C": (0.01, 0.1, 1.0, 10.0)},
            if_regression={"title": "ridge regression", "grid": {"alpha": (50.0, 5.0, 0.5, 0.05)}},
        ),
        Method("forest", "random forest", _forests("RandomForest"), {"min_samples_leaf": (1, 5)}),
        Method(
            "boosting", "gradient boosting", _forests("HistGradientBoosting", **BOOSTING), {"learning_rate": (0.03, 0.1)}
        ),
        Method("svm", "SVM", SVM, {"C": FINE}, kernels=ONE),
        Method("surrogate-plain", "averaged student", SURROGATES["averaged"], by_name=True),
        Method("ridge-plain", "ridge student", SURROGATES["ridge"], by_name=True),
        Method("boosted-plain", "boosted student", SURROGATES["boosted"], by_name=True),
        Method("l2svm", "L2-SVM", _make("lupi:SVM2Plus"), {"C": FINE}, tasks=CLASSES, kernels=ONE, by_name=True),
        Method("ranksvm", "rank SVM", _make("lupi:RankSVM"), {"C": FINE_PAIRS}, tasks=RANKING, kernels=ONE, by_name=True),
        # With privileged features.
        _Privileged("surrogate", "surrogate", SURROGATES["averaged"], {}, "surrogate-plain", unlabeled=True),
        _Privileged(
            "surrogate-ridge", "surrogate, ridge", SURROGATES["ridge"], {}, "ridge-plain", unlabeled=True, closed_form=True
        ),
        _Privileged("surrogate-boosted", "surrogate, boosted", SURROGATES["boosted"], {}, "boosted-plain", unlabeled=True),
        _Privileged("svm2+", "SVM2+", _make("lupi:SVM2Plus"), {"C": COARSE, "lam": THREE}, "l2svm", tasks=CLASSES, kernels=BOTH),
        _Privileged(
            "distillation", "distillation", _make("lupi:Distillation", estimator=SVM),
            {"estimator__C": COARSE, "imitation": (0.3, 0.6, 0.9)}, "svm", kernels=INNER, by_name=True, rotates=False,
        ),
        _Privileged(
            "transfer", "knowledge transfer",
            _make("lupi:KnowledgeTransfer", estimator=SVM, regressor=_make("sklearn.linear_model:Ridge")),
            {"estimator__C": COARSE, "regressor__alpha": (1.0, 10.0, 100.0)}, "svm", kernels=INNER, by_name=True,
        ),
        _Privileged(
            "ranktransfer", "Rank Transfer", _make("lupi:RankTransfer"),
            {"C": COARSE_PAIRS, "C_privileged": (1e-3, 1e-2, 1e-1)}, "ranksvm", tasks=RANKING, kernels=BOTH, by_name=True,
        ),
        _Privileged("svm+", "SVM+", SVM, {"C": COARSE, "lam": THREE}, "svm", tasks=CLASSES, kernels=BOTH, by_name=True),
        _Privileged(
            "svr+", "SVR+", _make("lupi:SVRPlus"), {"C": COARSE, "lam": THREE}, "svm", tasks=("regression",), kernels=BOTH,
            by_name=True,
        ),
        _Privileged(
            "svm2k", "SVM-2K", _make("lupi:SVM2K"), {"C": COARSE, "D": THREE}, "svm", tasks=CLASSES, kernels=BOTH, by_name=True
        ),
        # Upper bounds.
        _Reference("reference", "privileged only", SVM, {"C": FINE}, sees="privileged", kernels=ONE),
        _Reference("joint", "X with privileged", SVM, {"C": FINE}, sees="both", kernels=ONE),
        _Reference(
            "rankreference", "privileged only, rank SVM", _make("lupi:RankSVM"), {"C": FINE_PAIRS}, sees="privileged",
            tasks=RANKING, kernels=ONE, by_name=True,
        ),
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
    if methods is None:
        methods = [name for name in allowed if not METHODS[name].by_name and METHODS[name].role != "baseline"]
    if baselines is None:
        baselines = [name for name in BASELINES if name in allowed]
    chosen: dict[str, Method] = {}
    for wanted in chain(baselines, methods):
        if not isinstance(wanted, str) or ":" in wanted:
            found = _from_estimator(wanted, regression)
        elif wanted not in METHODS:
            raise ValueError(
                f"no method is called {wanted!r}; the methods are {', '.join(METHODS)}, or package.module:Class."
            )
        elif wanted not in allowed:
            kind = "a numeric target" if regression else f"{n_classes} classes"
            raise ValueError(
                f"the method {wanted!r} cannot be measured by {metric!r} with {kind}; possible here: {', '.join(allowed)}."
            )
        else:
            found = [METHODS[name] for name in (METHODS[wanted].counterpart, wanted) if name]
        for method in found:
            method = replace(method, **method.if_regression) if regression else method
            if chosen.setdefault(method.name, method) != method:
                raise ValueError(
                    f"two methods are called {method.name!r}; rename one of them: (name, estimator, grid)."
                )
    roles, places = ("baseline", "privileged", "reference"), list(METHODS)
    place = lambda m: (roles.index(m.role), places.index(m.name) if m.name in places else len(places))  # noqa: E731
    return {method.name: method for method in sorted(chosen.values(), key=place)}


def _from_estimator(wanted, regression):
    """An estimator as a method, with its counterpart if `fit` does not require the privileged features."""
    name, estimator, grid = wanted if isinstance(wanted, tuple) else (None, wanted, {})
    estimator = load_estimator(estimator) if isinstance(estimator, str) else estimator
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise ValueError(
            f"{estimator!r} is not an estimator; pass a name, an unfitted estimator such as SVMPlus(), or (name, estimator, "
            "grid)."
        )
    takes_privileged = has_fit_parameter(estimator, "privileged")
    if is_regressor(estimator) != regression and not takes_privileged:
        raise ValueError(
            f"{type(estimator).__name__} is not a {'regressor' if regression else 'classifier'}, which this target requires."
        )
    name = name or type(estimator).__name__
    grid = {key: tuple(values) for key, values in (grid or {}).items()}
    params = sorted(map(repr, estimator.get_params().items()))
    text = repr((type(estimator).__module__, params, sorted(grid.items())))
    method = Method(
        name,
        name,
        partial(_copy_of, estimator),
        grid,
        role="privileged" if takes_privileged else "baseline",
        unlabeled="unlabeled" in estimator.get_params(),
        origin=hashlib.sha256(text.encode()).hexdigest()[:10],
    )
    if not takes_privileged or signature(estimator.fit).parameters["privileged"].default is not None:
        return [method]
    title = f"{name} without the columns"
    plain = replace(method, name=f"{name}-plain", title=title, role="baseline", unlabeled=False)
    return [plain, replace(method, counterpart=plain.name)]


def _copy_of(estimator, regression):
    return clone(estimator)


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
