"""What the kernel machines share: training data with its spaces, what a fit leaves behind, prediction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from lupi.inputs import check_classes, check_magnitude, check_privileged, effective_class_weight, is_chunked
from lupi.inputs.chunked_input import check_target, not_linear, read_chunks
from lupi.inputs.chunked_rows import ChunkedRows
from lupi.inputs.types import KernelName, MatrixLike, PrivilegedLike, VectorLike
from lupi.kernels import KERNEL_CONSTRAINTS, FeatureSpace, Kernel, Space, all_are, make_space
from lupi.kernels.several_spaces import PER_SPACE, POSITIVE, SpaceStack, check_spaces, refuse_several
from lupi.privacy import WithoutPrivilegedRows
from lupi.solution import MAX_TIME, unfinished
from lupi.svm import over_weights
from lupi.svm.landmarks import LandmarkExpansions, LandmarkFeatures, weights_of
from lupi.svm.paths import WarmStartedPath
from lupi.svm.solve import SOLVERS

if TYPE_CHECKING:
    from lupi.inputs.chunked_rows import AnyRows
    from lupi.solution import Solution
    from lupi.svm.kernel_qp import Expansion
    from lupi.svm.paths import Problems

NON_NEGATIVE = [Interval(Real, 0, None, closed="left")]

# What linear functions can be trained in; kernel matrices are always in the first.
PRECISIONS = [np.float64, np.float32]
# What holds several privileged spaces, or one value of a parameter for each.
SEVERAL = (list, tuple, dict)
# What scikit-learn's check of X leaves behind.
COLUMNS = ("n_features_in_", "feature_names_in_")
# What a fit leaves behind only with certain kernels, or only with privileged features.
OPTIONAL_ATTRIBUTES = (
    "support_vectors_",
    "coef_",
    "privileged_dual_coef_",
    "privileged_intercept_",
    "privileged_coef_",
    "_privileged_rows",
    "_privileged_data",
    "_stack",
    "_landmark_coef",
    "approximation_error_",
    "privileged_approximation_error_",
)


@dataclass
class TrainingData(LandmarkFeatures):
    """Checked input of a fit and its spaces: what does not depend on prices such as C and lam.

    Attributes
    ----------
    X : array or sparse matrix of shape (n, n_features)
        Examples with a positive weight.
    kept : ndarray of shape (n,)
        Their rows in what the user gave.
    weight : ndarray of shape (n,)
        Their weights; of a classifier with the weights of the classes.
    kernel : Kernel
    cache_size : float
        Megabytes for a kernel matrix.
    Z : array, sparse matrix or None
        Privileged features, and None where no example has any.
    available : ndarray of bool, shape (n,)
        Which examples have them.
    privileged_kernel : Kernel or None
    n_privileged : int
        Number of privileged features in what the user gave.
    privileged : Space or None
        Formed when it is first needed.
    by_features : bool
        Whether both functions are to be linear in features: a number of components was asked for.
    landmarks : FeatureSpace or None
        These features in place of a decision kernel that is not linear.
    approximation : FeatureSpace or None
        Features of the available examples that stand for the privileged kernel where its matrix is out of reach.
    remarks : list of Warning
        What a user should know about the spaces.
    labels, classes : ndarray
        Of a classifier: the positions of the examples' classes, and the classes.
    columns : dict
        What scikit-learn's check of X has set on the estimator.
    """

    X: Any
    kept: np.ndarray
    weight: np.ndarray
    kernel: Kernel
    cache_size: float
    Z: Any
    available: np.ndarray
    privileged_kernel: Any
    n_privileged: int
    privileged: Space | None = None
    by_features: bool = False
    landmarks: FeatureSpace | None = None
    approximation: FeatureSpace | None = None
    remarks: list[Warning] = field(default_factory=list)
    labels: np.ndarray | None = None
    classes: Any = None
    columns: dict[str, Any] = field(default_factory=dict)
    stack: SpaceStack | None = None

    @classmethod
    def of(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        privileged: PrivilegedLike,
        weight: np.ndarray,
        cache_size: float = np.inf,
        *,
        index_of: MatrixLike,
    ) -> TrainingData:
        """Check the privileged features (``index_of``: X as the user gave it), and resolve both kernels on what counts."""
        if estimator.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"kernel='precomputed' needs a square matrix of shape (n_samples, n_samples) as `X`; got {X.shape}."
            )
        check_magnitude(X, "X", estimator_name=type(estimator).__name__)
        dtypes = PRECISIONS if _linear(estimator) else PRECISIONS[:1]
        options = {"index_of": index_of, "dtypes": dtypes}
        if isinstance(privileged, SEVERAL) or _per_space(estimator):
            checked = check_spaces(estimator, privileged, X.shape[0], **options)
        else:
            given = estimator.privileged_kernel == "precomputed"
            name = type(estimator).__name__
            checked = check_privileged(privileged, X.shape[0], estimator_name=name, precomputed=given, **options)
        # An example of weight 0 is one that is not there.
        kept = np.flatnonzero(weight > 0)
        X, weight = _rows(X, kept, estimator.kernel), weight[kept]
        kernel = Kernel.of(estimator, X, weight=weight)
        stack = getattr(checked, "stack", None)
        Z, available, privileged_kernel = None, np.zeros(len(kept), dtype=bool), None
        if checked is not None and checked.available[kept].any():
            given = all_are(estimator.privileged_kernel, "precomputed")
            Z, available = _rows(checked.data, kept, "precomputed" if given else ""), checked.available[kept]
            known = Z if given or available.all() or isinstance(Z, ChunkedRows) else Z[available]
            if stack is not None:
                privileged_kernel = stack.kernel(estimator, known, weight[available])
            else:
                privileged_kernel = Kernel.of(estimator, known, "privileged_", weight[available])
        n_privileged = 0 if checked is None else checked.data.shape[1]
        return cls(X, kept, weight, kernel, cache_size, Z, available, privileged_kernel, n_privileged, stack=stack)

    def lam(self, lam: Any) -> float:
        """Weight of the correcting function's norm, from that of the estimator: of several spaces one for their sum."""
        return lam if self.stack is None else self.stack.effective_lam(lam)

    @cached_property
    def decision(self) -> Space:
        """Space of the decision features."""
        return make_space(self.kernel, self.X.astype(np.float64, copy=False), self.cache_size)

    def over_weights(self, solver: str, smooth: bool) -> bool:
        """Whether to solve over the weights of linear functions, which needs no kernel matrix."""
        if self.by_features:
            return True
        linear = all(kernel is None or kernel.name == "linear" for kernel in (self.kernel, self.privileged_kernel))
        if solver == "newton" and not linear:
            raise ValueError(
                "solver='newton' works on the weights of linear functions: use kernel='linear' and "
                "privileged_kernel='linear', or solver='auto'."
            )
        n_weights = self.X.shape[1] + 1 + (0 if self.Z is None else self.Z.shape[1] + 1)
        possible = linear and solver in SOLVERS["linear"]
        chosen = possible and (solver == "newton" or over_weights(self.X.shape[0], n_weights, smooth))
        if isinstance(self.X, ChunkedRows) and not chosen:
            raise not_linear(self.X)
        return chosen

    def privileged_space(self, cache_size: float = np.inf) -> Space:
        """Space of the privileged features, formed once for all prices that are tried on the data."""
        if self.privileged is None:
            Z = self.Z.astype(np.float64, copy=False)
            self.privileged = make_space(self.privileged_kernel, Z, cache_size, available=self.available)
        return self.privileged

    @property
    def signs(self) -> list[np.ndarray]:
        """Labels -1 and +1 of the one-vs-rest problems; of the second class alone when there are two."""
        signs = [np.where(self.labels == k, 1.0, -1.0) for k in range(len(self.classes))]
        return signs[1:] if len(signs) == 2 else signs


def _per_space(estimator: BaseEstimator) -> bool:
    """Whether some parameter has one value for each privileged space."""
    return any(isinstance(getattr(estimator, name, None), SEVERAL) for name in PER_SPACE)


def _linear(estimator: BaseEstimator) -> bool:
    """Whether both functions are linear: these are kept in single precision where the user gave that."""
    other = estimator.privileged_kernel
    return estimator.kernel == "linear" and (
        all_are(other, "linear") if isinstance(other, SEVERAL) else other == "linear"
    )


def _rows(data: AnyRows, kept: np.ndarray, kernel: KernelName) -> AnyRows:
    """Rows (and, of a kernel matrix, columns) of the examples that count."""
    if len(kept) == data.shape[0]:
        return data
    if isinstance(data, ChunkedRows):
        return data.view(kept)
    return data[np.ix_(kept, kept)] if kernel == "precomputed" else data[kept]


class KernelMachine(WithoutPrivilegedRows, LandmarkExpansions, BaseEstimator):
    """A decision function and a correcting function by kernel expansions: what they leave behind, and their values."""

    # The privileged features are routed to fit by every meta-estimator, without a call of set_fit_request.
    __metadata_request__fit = {"privileged": True}
    _privileged_rows_in = ("_privileged_data",)
    # Models of files that were written before the parameter was there.
    max_time: float | None = None
    _stack: SpaceStack | None = None

    _parameter_constraints: dict[str, Any] = {
        **KERNEL_CONSTRAINTS,
        **{name: constraint for name, constraint in PER_SPACE.items() if name != "lam"},
        "solver": [StrOptions(set(SOLVERS["kernel"]))],
        "tol": POSITIVE,
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "max_time": MAX_TIME,
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _store_functions(self, data: TrainingData, problems: Problems, solutions: list[Solution]) -> None:
        """Both functions of every problem, and what is known of their values."""
        # Nothing of an earlier fit with another kernel or with privileged features may remain.
        for name in OPTIONAL_ATTRIBUTES:
            self.__dict__.pop(name, None)
        self._kernel = data.kernel
        decisions = [problem.decision(solution) for problem, solution in zip(problems, solutions)]
        coefficients = np.vstack([function.coefficients for function in decisions])
        support = np.flatnonzero(np.any(coefficients != 0, axis=0))
        self.support_ = data.kept[support]
        self.dual_coef_ = coefficients[:, support]
        self.intercept_ = np.array([function.intercept for function in decisions])
        if data.landmarks is not None:
            self._store_landmarks(data, weights_of(decisions))
        elif decisions[0].weights is not None:
            self.coef_ = weights_of(decisions)
        elif data.kernel.name != "precomputed":
            self.support_vectors_ = data.X[support]
        if data.kernel.name == "linear" and decisions[0].weights is None:
            self.coef_ = np.asarray(self.dual_coef_ @ self.support_vectors_)
        if data.Z is not None:
            self._store_privileged(data, [problem.privileged(s) for problem, s in zip(problems, solutions)])
        self.n_privileged_features_in_ = data.n_privileged
        self.n_iter_ = int(max(solution.n_iter for solution in solutions))
        self.objective_ = float(sum(solution.objective for solution in solutions))
        self.dual_gap_ = float(max(solution.gap for solution in solutions))

    def _store_privileged(self, data: TrainingData, functions: list[Expansion]) -> None:
        self._privileged_kernel = kernel = data.privileged_kernel
        coefficients = np.vstack([function.coefficients for function in functions])[:, data.available]
        self.privileged_dual_coef_ = coefficients
        # A problem may have several functions of the space: a row of coefficients and an intercept each.
        self.privileged_intercept_ = np.hstack([function.intercept for function in functions])
        self._privileged_rows = data.kept[data.available]
        self._stack = data.stack
        if data.approximation is not None:
            self._store_privileged_landmarks(data, functions)
        elif functions[0].weights is not None:
            self.privileged_coef_ = weights_of(functions)
        elif kernel.name == "linear":
            self.privileged_coef_ = np.asarray(coefficients @ data.Z[data.available])
        elif kernel.name != "precomputed":
            self._privileged_data = data.Z[data.available]
        if data.stack is not None and hasattr(self, "privileged_coef_"):
            # In units of the features that the user gave.
            self.privileged_coef_ = self.privileged_coef_ * data.stack.column_scale

    def _decision_values(self, X: MatrixLike) -> np.ndarray:
        """Values of the decision functions without intercepts, one column each."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False)
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
            NaN where a row is entirely NaN. Of a regressor two columns: the slack above of the tube, and the one below.
        """
        check_is_fitted(self)
        name = type(self).__name__
        if not hasattr(self, "privileged_dual_coef_"):
            raise ValueError(
                f"this {name} was fitted without privileged features, so it has no correcting function; "
                "call fit with privileged=Z."
            )
        n = privileged.shape[0] if hasattr(privileged, "shape") else len(privileged)
        if self._stack is not None:
            checked: Any = self._stack.read(privileged, f"{name}.correcting_function")
        else:
            checked = check_privileged(privileged, n, estimator_name=f"{name}.correcting_function")
        if checked.data.shape[1] != self.n_privileged_features_in_:
            raise ValueError(
                f"`privileged` has {checked.data.shape[1]} features, but {name} was fitted with "
                f"{self.n_privileged_features_in_}."
            )
        values = self._privileged_values(checked.data) + self.privileged_intercept_
        values[~checked.available] = np.nan
        return np.asarray(values.ravel() if values.shape[1] == 1 else values)

    def _privileged_values(self, Z: MatrixLike) -> np.ndarray:
        if hasattr(self, "privileged_coef_"):
            scale = 1.0 if self._stack is None else self._stack.column_scale
            return np.asarray(Z @ (self.privileged_coef_ / scale).T)
        given = self._privileged_kernel.name == "precomputed"
        if not given and not hasattr(self, "_privileged_data"):
            raise ValueError(
                f"this {type(self).__name__} was loaded, and files and pickles hold no privileged rows, which the correcting "
                "function of a non-linear privileged kernel needs; call correcting_function before, use "
                "privileged_kernel='linear', or write it within lupi.keep_privileged()."
            )
        rows = self._privileged_rows if given else self._privileged_data
        coefficients = getattr(self, "_landmark_coef", self.privileged_dual_coef_)
        return np.asarray(self._privileged_kernel.expand(Z, rows, coefficients))


class KernelClassifier(WarmStartedPath, ClassifierMixin, KernelMachine):
    """Kernel classifiers, one against the rest: a subclass has a ``fit``, and says which problems its data pose."""

    _parameter_constraints: dict[str, Any] = {
        **KernelMachine._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "cache_size": POSITIVE,
    }

    def _check(
        self, X: MatrixLike, y: VectorLike, privileged: PrivilegedLike = None, sample_weight: VectorLike | None = None
    ) -> TrainingData:
        """Checked input with the decision space; sets the attributes of scikit-learn's checks."""
        if self.kernel == "precomputed" and sparse.issparse(X):
            raise ValueError("kernel='precomputed' needs a dense matrix, but `X` is sparse; pass X.toarray().")
        dtypes = PRECISIONS if _linear(self) else PRECISIONS[:1]
        if is_chunked(X):
            refuse_several(self, privileged)
            chunks = read_chunks(self, X, privileged, dtypes, y=y, sample_weight=sample_weight)
            X, privileged = chunks.table(), chunks.privileged
            y, sample_weight = chunks.vectors.values()
            chunks.set_columns(self)
        if isinstance(X, ChunkedRows):
            if not _linear(self):
                raise not_linear(X)
            self.n_features_in_ = X.shape[1]
            valid_X, y = X, check_target(y)
        else:
            valid_X, y = validate_data(self, X, y, accept_sparse="csr", dtype=dtypes, order="C")
        checked = check_classes(valid_X, y, sample_weight, estimator_name=type(self).__name__)
        data = TrainingData.of(self, valid_X, privileged, checked.sample_weight, self.cache_size, index_of=X)
        data.classes, data.labels = checked.classes, checked.y[data.kept]
        class_weight = effective_class_weight(self.class_weight, checked.classes, checked.y, checked.sample_weight)
        data.weight = data.weight * class_weight[data.labels]
        data.columns = {name: getattr(self, name) for name in COLUMNS if hasattr(self, name)}
        if getattr(self, "n_components", None) is not None:
            data.approximate(self.n_components, self.solver, self.random_state)
        return data

    def _remarks(self, problems: Problems, solutions: list[Solution]) -> Iterator[Warning]:
        """What a user should know about solutions that are no ordinary ones, as warnings; raises if there is none."""
        name = type(self).__name__
        for problem, solution in zip(problems, solutions):
            if problem.diverges(solution.point):
                raise ValueError(
                    f"{name}(correction='labeled', kappa=inf) has no solution on these data: without residual slack every "
                    "example must be separated by the decision and the privileged features together, and they are not "
                    "separable. Use a finite kappa (3 is the default), or correction='slack'."
                )
            if not solution.converged:
                yield unfinished(self, solution, "increase max_iter, scale the features, or lower C")
            elif problem.collapsed(solution):
                reason = (
                    "With kappa=inf the privileged features must explain every slack, and paying the same slack for all "
                    "examples is cheaper than using X: use a finite kappa (3 is the default)"
                    if problem.hard[0].any()
                    else "Slack is cheaper than using X: use a larger C or, with SVM+ and SVM2+, a kappa closer to 1"
                )
                yield UserWarning(
                    f"{name}: the solution collapsed to w = 0, the same decision for every example. {reason}."
                )

    def _store(self, data: TrainingData, problems: Problems, solutions: list[Solution]) -> Self:
        """Fitted attributes from the solutions of all classes."""
        self._store_functions(data, problems, solutions)
        self.classes_ = data.classes
        self.kkt_violation_ = float(max(solution.violation for solution in solutions))
        for name, value in data.columns.items():
            setattr(self, name, value)
        return self

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
