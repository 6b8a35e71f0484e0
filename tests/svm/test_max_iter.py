"""`max_iter` is kept by every estimator that has it, with every solver and kernel that it names."""

import inspect
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import StrOptions

import lupi
from lupi.datasets import make_privileged
from lupi.structured import Multiclass

TASKS = {"task": Multiclass(2, 12), "privileged_task": Multiclass(2, 5)}


def iterative():
    """Every public class with `max_iter`, each with every solver, linear or not, and both losses where there are two."""
    for name in lupi.__all__:
        kind = getattr(lupi, name)
        if not (inspect.isclass(kind) and issubclass(kind, BaseEstimator)):
            continue
        known = inspect.signature(kind).parameters
        if "max_iter" not in known:
            continue
        allowed = kind._parameter_constraints
        fixed = {name: task for name, task in TASKS.items() if name in known}
        for solver in _options(allowed, "solver"):
            for loss in _options(allowed, "loss"):
                for kernel in ("linear", "rbf") if "kernel" in known else (None,):
                    kernels = {k: kernel for k in ("kernel", "privileged_kernel") if k in known and kernel}
                    chosen = {"solver": solver, "loss": loss}
                    params = fixed | kernels | {k: v for k, v in chosen.items() if v is not None}
                    if kind is lupi.RankTransferCV:
                        params |= {"Cs": [1.0], "Cs_privileged": [1.0], "cv": 2}
                    yield pytest.param(
                        kind, params, id=f"{name}-{'-'.join(str(v) for v in (solver, loss, kernel) if v)}"
                    )


def _options(allowed, name):
    found = [choice for choice in allowed.get(name, []) if isinstance(choice, StrOptions)]
    return sorted(found[0].options) if found else [None]


@pytest.mark.parametrize(("kind", "params"), list(iterative()))
def test_no_fit_takes_more_iterations_than_allowed(kind, params):
    X, y, Z = make_privileged(40, 12, 5, random_state=0, return_X_y_privileged=True)
    extra = {"privileged": Z} if "privileged" in inspect.signature(kind.fit).parameters else {}
    for max_iter in (1, 4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it was not enough
            try:
                model = kind(**params, tol=1e-10, max_iter=max_iter).fit(X, y, **extra)
            except ValueError as refused:  # solvers that do not suit the loss or the kernel say so
                assert "solver" in str(refused) or "max_iter" in str(refused)  # noqa: PT017
                return
        assert 0 <= model.n_iter_ <= max_iter
        assert np.isfinite(model.dual_gap_)


def test_the_contract_meets_every_family():
    classes = {param.values[0].__name__ for param in iterative()}
    assert {"SVMPlus", "SVM2Plus", "SVM2K", "OneClassSVMPlus", "RankSVM", "RankTransfer", "RankTransferCV"} <= classes
    assert {"StructuralSVM", "StructuralSVMPlus", "JKSE", "JKSEPlus"} <= classes
