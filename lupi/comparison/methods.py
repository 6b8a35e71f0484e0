"""The methods that a comparison knows, with their grids, and how other estimators become methods."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from inspect import signature
from itertools import chain

import numpy as np
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.utils.validation import has_fit_parameter

from lupi.comparison.protocol import METRICS

# A method and its plain counterpart have the same number of candidates: a larger grid alone can look like a gain.
COARSE = (0.1, 1.0, 10.0, 100.0)
FINE = tuple(np.geomspace(0.1, 100.0, 12).tolist())
LINEAR_SCALE = 0.01
# A ranking SVM pays per pair, and there are about n/4 pairs for each example.
COARSE_PAIRS = (1e-4, 1e-3, 1e-2, 1e-1)
FINE_PAIRS = tuple(np.geomspace(1e-4, 1e-1, 12).tolist())
THREE = (0.1, 1.0, 10.0)
KERNELS_TRIED = ("rbf", "linear")


@dataclass(frozen=True)
class Method:
    """A row of the comparison.

    Attributes
    ----------
    name, title : str
        For the command line and for people.
    make : callable
        From `regression` (bool) to an unfitted estimator.
    grid : dict
        Candidates of the inner cross-validation; empty where the method needs none.
    plain : str
        The method it becomes without privileged features: its control "privileged off". Empty for a plain method, and
        for one that cannot be fitted without them.
    role : {"privileged", "plain", "reference"}
        A reference is trained *and tested* on the privileged features: no method for use, but what they are worth.
    sees : {"X", "privileged", "both"}
        What its features are, in training and test.
    tasks : tuple of str
        "classification", "regression", "ranking" (metrics of scores, two classes).
    by_name : bool
        Whether it takes part only if it is asked for.
    rotates : bool
        Whether a linear kernel's fit is the same on rotated features, which are fewer in wide tables.
    kernels : dict
        Where the kernel is a parameter: its names, and the name of the price that linear kernels need smaller.
    unlabeled : bool
        Whether it learns from rows without a label, too.
    closed_form : bool
        Whether a fit is so quick that a hundred permutations are.
    origin : str
        Of an estimator that a user brought: digest of its parameters and grid.
    regression_title : str
        Another title where the target is a number.
    """

    name: str
    title: str
    make: Callable
    grid: dict
    plain: str = ""
    role: str = "plain"
    sees: str = "X"
    tasks: tuple[str, ...] = ("classification", "regression")
    by_name: bool = False
    rotates: bool = True
    kernels: tuple[str, ...] = ()
    unlabeled: bool = False
    closed_form: bool = False
    origin: str = ""
    regression_title: str = ""

    @property
    def privileged(self):
        """Whether it learns from privileged features that it will not see later."""
        return self.role == "privileged"

    @property
    def key(self):
        """Name in the store."""
        return f"{self.name}~{self.origin}" if self.origin else self.name

    def build(self, regression, seed):
        """Unfitted estimator, everything random in it from this seed."""
        estimator = self.make(regression)
        names = [name for name in estimator.get_params() if name.split("__")[-1] == "random_state"]
        return estimator.set_params(**dict.fromkeys(names, seed))


def _estimator(regression, classifier, regressor="", /, **params):
    """An estimator from the names of its module and class; modules are loaded when they are needed."""
    module, name = (regressor if regression else classifier).split(":")
    return getattr(import_module(module), name)(**params)


def _make(classifier, regressor="", /, **params):
    return partial(_by_task, classifier, regressor or classifier, tuple(params.items()))


def _by_task(classifier, regressor, params, regression):
    return _estimator(regression, classifier, regressor, **dict(params))


SVM = ("lupi.svm.svm_plus:SVMPlus", "sklearn.svm:SVR")
SURROGATE = ("lupi.surrogate.surrogate:SurrogateClassifier", "lupi.surrogate.surrogate:SurrogateRegressor")


def _logistic(regression):
    from sklearn.linear_model import LogisticRegression, Ridge

    return Ridge() if regression else LogisticRegression(max_iter=2000)


def _forest(regression):
    from lupi.comparison.forest import TunedForest

    return TunedForest(regression)


def _boosting(regression):
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    # Small trees of coarse bins: as good on a few hundred rows, and a fifth of the time where there are many columns. Words
    # come as one column for each: with categories of its own, its file would hold functions, which `lupi.load` refuses.
    sizes = {"max_iter": 60, "min_samples_leaf": 5, "max_leaf_nodes": 8, "max_bins": 64}
    return kind(**sizes, early_stopping=False, categorical_features=None)


def _boosted_surrogate(regression):
    from lupi.surrogate.surrogate import SurrogateClassifier, SurrogateRegressor

    return SurrogateRegressor(_boosting(True)) if regression else SurrogateClassifier(_boosting(True))


def _transfer(regression):
    from sklearn.linear_model import Ridge

    from lupi.meta.baselines import KnowledgeTransfer

    return KnowledgeTransfer(_estimator(regression, *SVM), Ridge())


def _distillation(regression):
    from lupi.meta.baselines import Distillation

    return Distillation(_estimator(regression, *SVM))


BOTH = ("kernel", "privileged_kernel", "C")
ONE = ("kernel", "C")
INNER = ("estimator__kernel", "estimator__C")
CLASSES = ("classification",)
RANKING = ("ranking",)
METHODS = {
    method.name: method
    for method in (
        # Plain.
        Method(
            "linear", "logistic regression", _logistic, {"C": (0.01, 0.1, 1.0, 10.0)}, regression_title="ridge regression"
        ),
        Method("forest", "random forest", _forest, {}),
        Method("boosting", "gradient boosting", _boosting, {"learning_rate": (0.03, 0.1)}),
        Method("svm", "SVM", _make(*SVM), {"C": FINE}, kernels=ONE),
        Method(
            "surrogate-plain", "averaged student", _make(*SURROGATE), {}, by_name=True
        ),
        Method("ridge-plain", "ridge student", _make(*SURROGATE, estimator="ridge"), {}, by_name=True),
        Method("boosted-plain", "boosted student", _boosted_surrogate, {}, by_name=True),
        Method(
            "l2svm", "L2-SVM", _make("lupi.svm.svm_plus:SVM2Plus"), {"C": FINE}, tasks=CLASSES, kernels=ONE,
            by_name=True,
        ),
        Method(
            "ranksvm", "rank SVM", _make("lupi.ranking.rank_svm:RankSVM"), {"C": FINE_PAIRS}, tasks=RANKING,
            kernels=ONE, by_name=True,
        ),
        # With privileged features.
        Method(
            "surrogate", "surrogate", _make(*SURROGATE), {}, plain="surrogate-plain", role="privileged", unlabeled=True
        ),
        Method(
            "surrogate-ridge", "surrogate, ridge", _make(*SURROGATE, estimator="ridge"), {}, plain="ridge-plain",
            role="privileged", unlabeled=True, closed_form=True,
        ),
        Method(
            "surrogate-boosted", "surrogate, boosted", _boosted_surrogate, {}, plain="boosted-plain",
            role="privileged", unlabeled=True,
        ),
        Method(
            "svm2+", "SVM2+", _make("lupi.svm.svm_plus:SVM2Plus"), {"C": COARSE, "lam": THREE}, plain="l2svm",
            role="privileged", tasks=CLASSES, kernels=BOTH,
        ),
        Method(
            "distillation", "distillation", _distillation, {"estimator__C": COARSE, "imitation": (0.3, 0.6, 0.9)},
            plain="svm", role="privileged", kernels=INNER, by_name=True, rotates=False,
        ),
        Method(
            "transfer", "knowledge transfer", _transfer,
            {"estimator__C": COARSE, "regressor__alpha": (1.0, 10.0, 100.0)}, plain="svm", role="privileged",
            kernels=INNER, by_name=True,
        ),
        Method(
            "ranktransfer", "Rank Transfer", _make("lupi.ranking.rank_transfer:RankTransfer"),
            {"C": COARSE_PAIRS, "C_privileged": (1e-3, 1e-2, 1e-1)}, plain="ranksvm", role="privileged", tasks=RANKING,
            kernels=BOTH, by_name=True,
        ),
        Method(
            "svm+", "SVM+", _make(*SVM), {"C": COARSE, "lam": THREE}, plain="svm", role="privileged", tasks=CLASSES,
            kernels=BOTH, by_name=True,
        ),
        Method(
            "svr+", "SVR+", _make("lupi.svm.svr_plus:SVRPlus"), {"C": COARSE, "lam": THREE}, plain="svm",
            role="privileged", tasks=("regression",), kernels=BOTH, by_name=True,
        ),
        Method(
            "svm2k", "SVM-2K", _make("lupi.svm.svm_2k:SVM2K"), {"C": COARSE, "D": THREE}, plain="svm",
            role="privileged", tasks=CLASSES, kernels=BOTH, by_name=True,
        ),
        # What the privileged features are worth.
        Method(
            "reference", "privileged only", _make(*SVM), {"C": FINE}, role="reference", sees="privileged", kernels=ONE
        ),
        Method("joint", "X with privileged", _make(*SVM), {"C": FINE}, role="reference", sees="both", kernels=ONE),
        Method(
            "rankreference", "privileged only, rank SVM", _make("lupi.ranking.rank_svm:RankSVM"), {"C": FINE_PAIRS},
            role="reference", sees="privileged", tasks=RANKING, kernels=ONE, by_name=True,
        ),
    )
}  # fmt: skip
BASELINES = ("linear", "forest", "boosting", "svm")


def choose_methods(methods, baselines, metric, n_classes):
    """The methods of a comparison, with the plain counterparts they need.

    Parameters
    ----------
    methods, baselines : sequence or None
        Names in ``METHODS``, ``"package.module:Class"``, estimators, or (name, estimator, grid). None: those that the
        metric allows and that do not have to be asked for. An estimator whose `fit` takes `privileged` is a method,
        any other a plain baseline, in whichever list it stands.
    metric : str
        Name of the metric.
    n_classes : int
        Number of classes; ignored in regression.

    Returns
    -------
    dict of str to Method
        Plain ones first.

    Examples
    --------
    >>> list(choose_methods(["svm2+"], [], "ap", 2))
    ['l2svm', 'svm2+']
    >>> list(choose_methods(["surrogate"], None, "r2", 0))
    ['linear', 'forest', 'boosting', 'svm', 'surrogate-plain', 'surrogate']
    """
    regression = not METRICS[metric].classification
    possible = {"regression"} if regression else {"classification"}
    if METRICS[metric].uses == "scores" and n_classes == 2:
        possible.add("ranking")
    known = METHODS
    allowed = [name for name, method in known.items() if possible & set(method.tasks)]
    if methods is None:
        methods = [name for name in allowed if not known[name].by_name and known[name].role != "plain"]
    if baselines is None:
        baselines = [name for name in BASELINES if name in allowed]
    chosen = {}
    for wanted in chain(baselines, methods):
        if isinstance(wanted, str) and ":" not in wanted:
            if wanted not in known:
                raise ValueError(
                    f"no method is called {wanted!r}; the methods are {', '.join(known)}, or package.module:Class."
                )
            if wanted not in allowed:
                kind = "a numeric target" if regression else f"{n_classes} classes"
                raise ValueError(
                    f"the method {wanted!r} cannot be measured by {metric!r} with {kind}; possible here: "
                    f"{', '.join(allowed)}."
                )
            method = known[wanted]
            if regression and method.regression_title:
                method = replace(method, title=method.regression_title)
            found = [known[method.plain], method] if method.plain else [method]
        else:
            found = _from_estimator(wanted, regression)
        for method in found:
            if method.name in chosen and chosen[method.name] is not method and chosen[method.name] != method:
                raise ValueError(
                    f"two methods are called {method.name!r}; give one another name: (name, estimator, grid)."
                )
            chosen[method.name] = method
    order = {"plain": 0, "privileged": 1, "reference": 2}
    place = {name: k for k, name in enumerate(known)}
    ranked = sorted(chosen.values(), key=lambda m: (order[m.role], place.get(m.name, len(place))))
    return {method.name: method for method in ranked}


def _from_estimator(wanted, regression):
    """An estimator as a method, and its plain counterpart if `fit` can do without the privileged features."""
    name, estimator, grid = wanted if isinstance(wanted, tuple) else (None, wanted, {})
    if isinstance(estimator, str):
        estimator = load_estimator(estimator)
    if isinstance(estimator, type) or (
        not isinstance(estimator, BaseEstimator) and not hasattr(estimator, "get_params")
    ):
        raise ValueError(
            f"{estimator!r} is no estimator; give a name, an unfitted estimator such as SVMPlus(), or (name, estimator, "
            "grid)."
        )
    if is_regressor(estimator) != regression and not has_fit_parameter(estimator, "privileged"):
        kind = "regressor" if regression else "classifier"
        raise ValueError(f"{type(estimator).__name__} is no {kind}, which this target needs.")
    name = name or type(estimator).__name__
    grid = {key: tuple(values) for key, values in (grid or {}).items()}
    text = repr(
        (estimator.__class__.__module__, sorted(map(repr, estimator.get_params().items())), sorted(grid.items()))
    )
    method = Method(
        name,
        name,
        partial(_copy_of, estimator),
        grid,
        role="privileged" if has_fit_parameter(estimator, "privileged") else "plain",
        unlabeled="unlabeled" in estimator.get_params(),
        origin=hashlib.sha256(text.encode()).hexdigest()[:10],
    )
    if not method.privileged or signature(estimator.fit).parameters["privileged"].default is not None:
        return [method]
    plain = replace(method, name=f"{name}-plain", title=f"{name} without the columns", role="plain", unlabeled=False)
    return [plain, replace(method, plain=plain.name)]


def _copy_of(estimator, regression):
    return clone(estimator)


def load_estimator(path):
    """An estimator of the class at ``package.module:Class``, with its default parameters.

    Examples
    --------
    >>> load_estimator("sklearn.naive_bayes:GaussianNB")
    GaussianNB()
    """
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)()
    except ModuleNotFoundError as problem:
        raise ValueError(f"{path!r}: {problem}; is it spelled package.module:Class, and installed?") from None
    except AttributeError:
        raise ValueError(f"{path!r}: the module {module} has no class {name}.") from None
    except TypeError as problem:
        raise ValueError(
            f"{path!r} cannot be made without arguments ({problem}); use lupi.compare in Python."
        ) from None


def candidates(method, grids=None, kernel=None, regression=False):
    """Grids of a method, as ``ParameterGrid`` takes them: the user's, or the built-in ones, one for each kernel.

    The built-in constants are for kernels with values up to 1; the inner products of standardized columns are
    as large as the number of columns, and call for smaller ones.

    Returns
    -------
    list of dict

    Examples
    --------
    >>> candidates(METHODS["l2svm"], {"l2svm": {"C": (1.0,)}}, "linear")
    [{'kernel': ('linear',), 'C': (1.0,)}]
    """
    given = dict(grids[method.name]) if method.name in (grids or {}) else None
    grid = dict(method.grid if given is None else given)
    if method.make is _logistic and regression and given is None:
        return [{"alpha": tuple(1.0 / (2 * C) for C in grid["C"])}]
    if not method.kernels:
        return [grid]
    *names, price = method.kernels
    if any(name in grid for name in names):
        return [grid]
    found = []
    for chosen in KERNELS_TRIED if kernel is None else (kernel,):
        scaled = dict(grid)
        if chosen == "linear" and given is None:
            scaled[price] = tuple(LINEAR_SCALE * value for value in grid[price])
        found.append(dict.fromkeys(names, (chosen,)) | scaled)
    return found
