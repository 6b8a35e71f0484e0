"""The methods that a localizer can train, as data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from lupi.structured.jkse import JKSE, JKSEPlus
from lupi.structured.structural_svm import StructuralSVM
from lupi.structured.structural_svm_plus import StructuralSVMPlus

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from lupi.structured.boxes import BoxLocalization


class Learner(NamedTuple):
    """A way to learn boxes: its class, its parameters and whether it uses privileged images."""

    make: Callable[..., Any]
    parameters: tuple[str, ...]
    uses_privileged: bool


LEARNERS = {
    "ssvm": Learner(StructuralSVM, ("C", "tol", "max_iter", "random_state"), False),
    "ssvm+": Learner(StructuralSVMPlus, ("C", "lam", "rho", "inference", "tol", "max_iter", "random_state"), True),
    "jkse": Learner(JKSE, ("nu", "gamma", "normalize", "tol"), False),
    "jkse+": Learner(JKSEPlus, ("nu", "lam", "gamma", "normalize", "tol"), True),
}


# Parameters of the boxes' features, which every method has.
FEATURE_PARAMETERS = ("geometry", "geometry_scale")


def make_model(
    method: str, task: BoxLocalization, privileged_task: BoxLocalization | None, parameters: dict[str, Any]
) -> BaseEstimator:
    """An unfitted estimator of a method; parameters that the method does not have are left out."""
    kind = LEARNERS[method]
    chosen = {name: parameters[name] for name in kind.parameters if name in parameters}
    if method == "jkse+":
        # One theta for both spaces, as in Sun et al.; histograms of both are treated alike.
        chosen |= {f"privileged_{name}": chosen[name] for name in ("gamma", "normalize") if name in chosen}
    if kind.uses_privileged:
        chosen["privileged_task"] = privileged_task
    return kind.make(task, **chosen)
