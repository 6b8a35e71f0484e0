"""Shared by the kernel machines: spaces of the training data, fitted attributes, prediction."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, OutlierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from lupi.inputs.training_set import check_rows, check_training_set, per_space
from lupi.inputs.types import KernelName, MatrixLike, PrivilegedLike, VectorLike
from lupi.kernels import KERNEL_CONSTRAINTS, FeatureSpace, Kernel, Space, all_are, make_space
from lupi.kernels.kernel import PRIVILEGED_KERNEL_CONSTRAINTS, BlockStack
from lupi.privacy import WithoutPrivilegedRows
from lupi.solution import MAX_TIME, deadline, unfinished
from lupi.svm.auto import SOLVERS, solve, solve_near
from lupi.svm.kernel_qp import MANY_FEATURES, KernelQP

if TYPE_CHECKING:
    from lupi.inputs.training_set import TrainingSet
    from lupi.solution import Solution
    from lupi.svm.kernel_qp import DualForm

# One per class, or a single one.
Problems: TypeAlias = Sequence[KernelQP]
Solved: TypeAlias = "tuple[Problems, list[Solution]]"
Machine = TypeVar("Machine", bound="KernelMachine")

POSITIVE = [Interval(Real, 0, None, closed="neither")]
NON_NEGATIVE = [Interval(Real, 0, None, closed="left")]
LAM = per_space(POSITIVE)
KAPPA = [Interval(Real, 0, np.inf, closed="right")]
LINEAR_ONLY = (
    "kernel='linear', privileged_kernel='linear', solver='auto' and, with hinges, at most 5000 weights: these machines train on "
    "the weights of linear functions"
)
# So few examples are solved exactly on their kernel matrices.
VERY_FEW = 200
# Where weights are many, kernel matrices of up to this many examples are cheaper.
MOST_EXAMPLES = 5000
# The interior point factorizes a matrix over the weights; not over more of them.
MOST_WEIGHTS = 5000
# Private attributes of a fitted machine.
FITTED = ("_left_out", "_kernel", "_stack", "_privileged_kernel", "_privileged_data", "_landmark_coef")


@dataclass(frozen=True)
class Spaces:
    """Decision and privileged space of a training set; matrices are formed when they are first needed.

    Attributes
    ----------
    kernel : Kernel
    X : ndarray, CSR matrix or DaskRows
    stack : BlockStack or None
        How the privileged tables become one; None where no row is available.
    privileged_kernel : Kernel or None
    Z : ndarray, CSR matrix, DaskRows or None
        Rows of the stack, 0 where not available.
    available : ndarray of bool
    cache_size, privileged_cache_size : float
        Megabytes for a kernel matrix of each space.
    landmarks, privileged_landmarks : FeatureSpace or None
        Nystroem's features instead of a kernel.
    """

    kernel: Kernel
    X: Any
    available: np.ndarray
    stack: BlockStack | None = None
    privileged_kernel: Kernel | None = None
    Z: Any = None
    cache_size: float = np.inf
    privileged_cache_size: float = np.inf
    landmarks: FeatureSpace | None = None
    privileged_landmarks: FeatureSpace | None = None

    @cached_property
    def decision(self) -> Space:
        """Space of the decision features."""
        return make_space(self.kernel, self.X.astype(np.float64, copy=False), self.cache_size)

    @cached_property
    def privileged(self) -> Space:
        """Space of the privileged features."""
        assert self.privileged_kernel is not None
        Z = self.Z.astype(np.float64, copy=False)
        return make_space(self.privileged_kernel, Z, self.privileged_cache_size, available=self.available)

    def lam(self, estimator: Any) -> float:
        """Weight of the correcting function's norm."""
        return 1.0 if self.stack is None else self.stack.lam(estimator)

    @property
    def available_rows(self) -> Any:
        """Rows of the stack that are available; of a kernel matrix the same columns."""
        if self.available.all():
            return self.Z
        square = self.privileged_kernel is not None and self.privileged_kernel.name == "precomputed"
        return self.Z[np.ix_(self.available, self.available)] if square else self.Z[self.available]

    @property
    def explicit(self) -> tuple[Any, Any]:
        """Features of both spaces, in which the functions are linear."""
        X = self.X if self.landmarks is None else self.landmarks.values
        return X, self.Z if self.privileged_landmarks is None else self.landmark_rows

    @property
    def landmark_rows(self) -> np.ndarray:
        """Privileged features by landmarks; 0 where not available."""
        assert self.privileged_landmarks is not None
        values: np.ndarray = self.privileged_landmarks.values
        out = np.zeros((len(self.available), values.shape[1]), dtype=values.dtype)
        out[self.available] = values
        return out

    def over_weights(self, estimator: Any, data: TrainingSet, *, smooth: bool) -> bool:
        """Whether to solve over the weights of linear functions, which needs no kernel matrix."""
        if estimator.n_components is not None:
            return True
        linear = all(kernel is None or kernel.name == "linear" for kernel in (self.kernel, self.privileged_kernel))
        if estimator.solver == "newton" and not linear:
            raise ValueError(
                "solver='newton' works on the weights of linear functions: use kernel='linear' and "
                "privileged_kernel='linear', or solver='auto'."
            )
        n_weights = self.X.shape[1] + 1 + (0 if self.Z is None else self.Z.shape[1] + 1)
        needed = estimator.solver == "newton" or not data.X.allows(len(data))
        chosen = needed or over_weights(self.X.shape[0], n_weights, smooth)
        return linear and estimator.solver in SOLVERS["linear"] and chosen


def over_weights(n: int, n_weights: int, smooth: bool) -> bool:
    """Whether a problem with linear kernels is better posed over its weights than over kernel matrices."""
    if n <= VERY_FEW:
        return False
    if n_weights < MANY_FEATURES * n:
        return smooth or n_weights <= MOST_WEIGHTS
    return smooth and n > MOST_EXAMPLES


def fit_machine(
    machine: Machine,
    X: MatrixLike,
    y: VectorLike | None,
    privileged: PrivilegedLike | None,
    sample_weight: VectorLike | None = None,
) -> Machine:
    """Fit any kernel machine: check the input, make the spaces, pose the problems, solve them, store the functions."""
    with deadline(machine.max_time):
        data = check_input(machine, X, y, privileged, sample_weight)
        solve_and_store(machine, data, machine._spaces(data))
        return machine


def check_input(
    machine: Any,
    X: MatrixLike,
    y: VectorLike | None,
    privileged: PrivilegedLike | None,
    sample_weight: VectorLike | None,
) -> TrainingSet:
    """Checked input; machines that train on the weights of linear functions accept single precision and chunks."""
    options: dict[str, Any] = {"target": "none"} if isinstance(machine, OutlierMixin) else {}
    if hasattr(machine, "n_components"):
        linear = all_are(machine.kernel, "linear") and all_are(machine.privileged_kernel, "linear")
        by_weights = linear and machine.solver in SOLVERS["linear"]
        options = {"single": linear, "in_memory": "" if by_weights else LINEAR_ONLY}
    return check_training_set(machine, X, y, privileged, sample_weight, **options)


def solve_and_store(machine: Any, data: TrainingSet, spaces: Spaces, near: Solved | None = None) -> Solved:
    """Solve a machine's problems, from the solutions of similar problems where that helps, and set its fitted attributes."""
    problems, solutions = machine._problems(data, spaces), []
    for k, problem in enumerate(problems):
        solution = None if near is None else solve_near(problem, near[0][k], near[1][k], tol=machine.tol)
        solutions.append(solution or solve(problem, machine.solver, tol=machine.tol, max_iter=machine.max_iter))
    warn_about(machine, problems, solutions)
    store(machine, data, spaces, problems, solutions)
    return problems, solutions


def make_spaces(
    estimator: Any, data: TrainingSet, *, cache_sizes: tuple[float, float], privileged_components: int | None = None
) -> Spaces:
    """Kernels of both spaces, with gammas from the data; landmarks where the estimator or the caller asks for them."""
    X = data.X.operand
    kernel, privileged_kernel = Kernel.of(estimator, X, weight=data.weight), None
    spaces = Spaces(kernel, X, data.available, cache_size=cache_sizes[0], privileged_cache_size=cache_sizes[1])
    if data.available.any():
        stack = replace(BlockStack.of(estimator, data.privileged), columns=data.privileged_columns)
        joined = stack.join(data.privileged)
        privileged_kernel = stack.kernel(estimator, joined, data.weight)
        spaces = replace(spaces, stack=stack, privileged_kernel=privileged_kernel, Z=joined.rows.operand)
    n_components, landmarks, privileged = getattr(estimator, "n_components", None), None, None
    if n_components is not None and estimator.solver not in SOLVERS["linear"]:
        raise ValueError(
            f"solver={estimator.solver!r} works on kernel matrices, but n_components={n_components} replaces them by features; "
            "use solver='auto'."
        )
    if n_components is not None and kernel.name != "linear":
        landmarks = FeatureSpace.nystroem(kernel, X, n_components, estimator.random_state)
    privileged_components = n_components or privileged_components
    if privileged_components is not None and privileged_kernel is not None and privileged_kernel.name != "linear":
        privileged = FeatureSpace.nystroem(
            privileged_kernel, spaces.available_rows, privileged_components, estimator.random_state
        )
    return replace(spaces, landmarks=landmarks, privileged_landmarks=privileged)


def one_vs_rest(data: TrainingSet) -> list[np.ndarray]:
    """Labels -1 and +1 of each class against the others; of the second class alone if there are two."""
    assert data.classes is not None
    signs = [np.where(data.target == k, 1.0, -1.0) for k in range(len(data.classes))]
    return signs[1:] if len(signs) == 2 else signs


def warn_about(estimator: Any, problems: Problems, solutions: Sequence[Solution]) -> None:
    """Warn about solutions that are not converged or, of a classifier, collapsed; raise if a problem has no solution."""
    name, classifier = type(estimator).__name__, isinstance(estimator, KernelClassifier)
    for problem, solution in zip(problems, solutions):
        if classifier and problem.diverges(solution.point):
            raise ValueError(
                f"{name}(correction='labeled', kappa=inf) has no solution on these data: without residual slack every "
                "example must be separated by the decision and the privileged features together, and they are not "
                "separable. Use a finite kappa (3 is the default), or correction='slack'."
            )
        if not solution.converged:
            warnings.warn(unfinished(estimator, solution, estimator._advice), stacklevel=6)
        elif classifier and problem.collapsed(solution):
            reason = (
                "With kappa=inf the privileged features must explain every slack, and the same slack for all "
                "examples is cheaper than using X: use a finite kappa (3 is the default)"
                if problem.hard[0].any()
                else "Slack is cheaper than using X: use a larger C or, with SVM+ and SVM2+, a kappa closer to 1"
            )
            warnings.warn(
                f"{name}: the solution collapsed to w = 0, the same decision for every example. {reason}.",
                stacklevel=6,
            )


def store(estimator: Any, data: TrainingSet, spaces: Spaces, problems: Problems, solutions: Sequence[Solution]) -> None:
    """Set the fitted attributes, and delete those of an earlier fit."""
    for name in [name for name in vars(estimator) if name.endswith("_") or name in FITTED]:
        delattr(estimator, name)
    data.set_columns(estimator)
    if data.classes is not None:
        estimator.classes_ = data.classes
    estimator._kernel = spaces.kernel
    _store_decision(estimator, data, spaces, [p.decision(s) for p, s in zip(problems, solutions)])
    if spaces.stack is not None:
        _store_privileged(estimator, data, spaces, [p.privileged(s) for p, s in zip(problems, solutions)])
    estimator.n_privileged_features_in_ = sum(n_columns for _, n_columns in data.privileged_columns)
    estimator.n_iter_ = int(max(solution.n_iter for solution in solutions))
    estimator.objective_ = float(sum(solution.objective for solution in solutions))
    estimator.dual_gap_ = float(max(solution.gap for solution in solutions))
    estimator.kkt_violation_ = float(max(solution.violation for solution in solutions))


def _store_decision(estimator: Any, data: TrainingSet, spaces: Spaces, functions: Sequence[DualForm]) -> None:
    """Store the decision functions: by weights, or as expansions over support vectors or landmarks."""
    coefficients, weights = _stacked(functions)
    if spaces.landmarks is None:
        support = np.flatnonzero(np.any(coefficients != 0, axis=0))
        estimator.dual_coef_ = coefficients[:, support]
    else:
        support = np.asarray(spaces.landmarks.landmarks)
        estimator.dual_coef_ = spaces.landmarks.coefficients(np.asarray(weights).T).T
        estimator.approximation_error_ = spaces.landmarks.trace_error(spaces.X, estimator.random_state)
        weights = None
    estimator.support_ = data.kept[support]
    estimator.intercept_ = np.array([function.intercept for function in functions])
    if weights is None and spaces.kernel.name != "precomputed":
        estimator.support_vectors_ = spaces.X[support]
    if spaces.kernel.name == "linear":
        estimator.coef_ = np.asarray(estimator.dual_coef_ @ spaces.X[support]) if weights is None else weights


def _store_privileged(estimator: Any, data: TrainingSet, spaces: Spaces, functions: Sequence[DualForm]) -> None:
    """Store the correcting functions; a problem may have several, with a row of coefficients and an intercept each."""
    assert spaces.stack is not None
    assert spaces.privileged_kernel is not None
    coefficients, weights = _stacked(functions)
    coefficients = coefficients[:, spaces.available]
    kernel, landmarks = spaces.privileged_kernel, spaces.privileged_landmarks
    estimator._stack, estimator._privileged_kernel = spaces.stack, kernel
    estimator.privileged_dual_coef_ = coefficients
    estimator.privileged_intercept_ = np.hstack([function.intercept for function in functions])
    rows = np.flatnonzero(spaces.available)
    if landmarks is not None:
        weights = coefficients @ landmarks.values if weights is None else weights
        estimator._landmark_coef = landmarks.coefficients(weights.T).T
        rows = rows[landmarks.landmarks]
        estimator.privileged_approximation_error_ = landmarks.trace_error(spaces.available_rows, estimator.random_state)
    if kernel.name == "linear":
        weights = np.asarray(coefficients @ spaces.Z[rows]) if weights is None else weights
        # In units of the features that the user passed.
        estimator.privileged_coef_ = weights * spaces.stack.column_scale
    else:
        estimator._privileged_data = data.kept[rows] if kernel.name == "precomputed" else spaces.Z[rows]


def _stacked(functions: Sequence[DualForm]) -> tuple[np.ndarray, np.ndarray | None]:
    """Coefficients over the training rows and, where they are known, weights of all functions."""
    coefficients = np.vstack([function.coefficients for function in functions])
    if functions[0].weights is None:
        return coefficients, None
    return coefficients, np.vstack([np.asarray(function.weights) for function in functions])


@dataclass(eq=False, repr=False)
class KernelMachine(WithoutPrivilegedRows, BaseEstimator):
    """A decision function and a correcting function by kernel expansions; the fields are the parameters."""

    _: KW_ONLY
    kernel: KernelName = "rbf"
    gamma: str | float = "scale"
    degree: float = 3
    coef0: float = 0.0
    privileged_kernel: KernelName = "rbf"
    privileged_gamma: str | float = "scale"
    privileged_degree: float = 3
    privileged_coef0: float = 0.0
    solver: str = "auto"
    tol: float = 1e-3
    max_iter: int = -1
    max_time: float | None = None

    # Meta-estimators route the privileged features to fit without a call of set_fit_request.
    __metadata_request__fit = {"privileged": True}
    _needed = ("coef_", "intercept_")
    _needed_without_coef = ("dual_coef_", "support_", "support_vectors_", "_kernel")
    # Parameters whose values may differ between fits that share their spaces.
    _path_parameters: ClassVar[tuple[str, ...]] = ()
    _advice: ClassVar[str] = "increase max_iter, raise tol, scale the features, or lower C"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **KERNEL_CONSTRAINTS,
        **PRIVILEGED_KERNEL_CONSTRAINTS,
        "solver": [StrOptions(set(SOLVERS["kernel"]))],
        "tol": POSITIVE,
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "max_time": MAX_TIME,
    }

    def _spaces(self, data: TrainingSet) -> Spaces:
        return make_spaces(self, data, cache_sizes=(getattr(self, "cache_size", np.inf),) * 2)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _decision_values(self, X: MatrixLike) -> np.ndarray:
        """Values of the decision functions without intercepts, one column each."""
        X = check_rows(self, X)
        if hasattr(self, "coef_"):
            return np.asarray(X @ self.coef_.T)
        rows = self.support_ if self._kernel.name == "precomputed" else self.support_vectors_
        return self._kernel.expand(X, rows, self.dual_coef_)

    def correcting_function(self, privileged: PrivilegedLike) -> np.ndarray:
        """Values of the correcting function: the slack that privileged features predict, i.e. how hard an example is.

        Parameters
        ----------
        privileged : array-like of shape (n_samples, n_privileged), or a list or dict of these
            Privileged features, in the spaces of ``fit``; with ``privileged_kernel="precomputed"`` their kernel values with the
            training examples.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            NaN where a row is entirely NaN. Of a regressor two columns: the slack above the tube and the slack below it.
        """
        check_is_fitted(self)
        if "privileged_dual_coef_" not in {*vars(self), *self._left_out}:
            raise ValueError(
                f"this {type(self).__name__} was fitted without privileged features, so it has no correcting function; "
                "call fit with privileged=Z."
            )
        coefficients, kernel, stack = self.privileged_dual_coef_, self._privileged_kernel, self._stack
        joined = stack.read(self, privileged)
        if kernel.name == "linear":
            values = joined.rows.times((self.privileged_coef_ / stack.column_scale).T)
        else:
            coefficients = getattr(self, "_landmark_coef", coefficients)
            values = kernel.expand(joined.rows.values, self._privileged_data, coefficients)
        values = np.asarray(values + self.privileged_intercept_)
        values[~joined.available] = np.nan
        return np.asarray(values.ravel() if values.shape[1] == 1 else values)


@dataclass(eq=False, repr=False)
class KernelClassifier(ClassifierMixin, KernelMachine):
    """Prediction of kernel classifiers, one against the rest."""

    _: KW_ONLY
    class_weight: Any = None
    cache_size: float = 200

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **KernelMachine._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "cache_size": POSITIVE,
    }

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Distance-like score of every class; of the second class alone when there are two.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Decision features; with ``kernel="precomputed"`` their kernel values with the training examples.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        scores = self._decision_values(X) + self.intercept_
        return np.asarray(scores.ravel() if len(self.classes_) == 2 else scores)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predict labels; privileged features are never needed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])
