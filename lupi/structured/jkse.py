"""Joint kernel support estimation: structured outputs as a one-class problem, with and without privileged information."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from lupi.inputs import check_privileged, is_per_space, names_of_spaces
from lupi.inputs.decorators import fit_context
from lupi.inputs.types import KernelName, MatrixLike, PrivilegedLike
from lupi.kernels import SumKernel
from lupi.kernels.several_spaces import (
    PER_SPACE,
    POSITIVE,
    rows_of_spaces,
    shares_of_spaces,
    values_per_space,
)
from lupi.model_parts import model_part
from lupi.privacy import WithoutPrivilegedRows
from lupi.solution import MAX_TIME, deadline, unfinished
from lupi.structured.joint_features import JOINT_KERNELS, geometry_of, joint_features, joint_kernel, normalized
from lupi.structured.structural_svm import TASK_METHODS, check_examples, check_privileged_inputs
from lupi.svm import check_nu, one_class_dual, one_class_plus_dual
from lupi.svm.one_class_svm_plus import ONE_CLASS_SOLVERS
from lupi.svm.solve import solve

if TYPE_CHECKING:
    from lupi.inputs.checks import PrivilegedInput
    from lupi.kernels import Kernel
    from lupi.solution import Solution
    from lupi.structured.protocol import Task
    from lupi.svm.kernel_qp import KernelQP

GAMMA = [StrOptions({"scale"}), Interval(Real, 0, None, closed="neither")]


@model_part
class JKSE(BaseEstimator):
    r"""Joint kernel support estimation: the support of pairs (x, y) as a one-class SVM on their joint kernel.

    .. math::

        \min_a \; \tfrac{1}{2 \nu l} \sum_{ij} a_i a_j K((x_i, y_i), (x_j, y_j)), \quad 0 \le a_i \le 1,\;
        \sum_i a_i = \nu l; \qquad
        \hat y(x) = \operatorname{arg}\max_y \sum_i a_i K((x_i, y_i), (x, y))

    The kernel compares joint features; where boxes lie (``geometry=True`` of their task) is compared by a Gaussian that
    multiplies it. Prediction searches all boxes of a :class:`~lupi.structured.BoxLocalization` exactly, by branch and bound,
    and lists the outputs of tasks that have a method ``outputs(x)``.

    Parameters
    ----------
    task : Task
        Joint feature and loss; its own inference is not used.
    nu : float, default=0.5
        In (0, 1]: about the share of training pairs outside of the support.
    kernel : {"chi2", "intersection", "rbf", "linear"}, default="chi2"
        Kernel between joint features; boxes need one of the first two.
    gamma : "scale" or float, default="scale"
        Coefficient of chi2 and rbf; "scale" is one over the mean chi2 distance of the training pairs.
    normalize : bool, default=False
        Divide each joint feature by its sum. Raw counts tell a box's extent but need about two points a bin. The intersection
        kernel grows with the box and needs ``normalize=True`` to tell boxes apart. A box without points has no shares: it is
        never chosen then.
    solver, tol, max_iter, max_time
        As in :class:`OneClassSVMPlus`.

    Attributes
    ----------
    support_ : ndarray
        Training pairs with a positive coefficient.
    support_features_ : ndarray of shape (n_support, task.n_features)
        Their joint features.
    dual_coef_ : ndarray of shape (n_support,)
        Their coefficients, which sum to nu * n_samples.
    gamma_ : float
        Coefficient that was used.
    objective_, dual_gap_, n_iter_
        Primal value, relative duality gap, iterations.

    References
    ----------
    .. [1] C. Lampert, M. Blaschko. Structured prediction by joint kernel support estimation, 2009.
    .. [2] S. Sun, C. Zhang, Y. Tian. Joint kernel support estimation with privileged information, 2018, eq. 1-4.

    Examples
    --------
    >>> from lupi import JKSE
    >>> from lupi.datasets.planted_boxes import make_planted_boxes
    >>> from lupi.structured import BoxLocalization
    >>> X, Y, _ = make_planted_boxes(20, shape=(12, 16), n_words=10, n_points=80, random_state=0)
    >>> model = JKSE(BoxLocalization(10), nu=0.5).fit(X, Y)
    >>> model.dual_gap_ < 1e-6, len(model.predict(X[:2]))
    (True, 2)
    """

    # Models of files that were written before the parameter was there.
    max_time: float | None = None

    _parameter_constraints: dict[str, Any] = {
        "task": [TASK_METHODS],
        "nu": [Real],
        "kernel": [StrOptions(JOINT_KERNELS)],
        "gamma": GAMMA,
        "normalize": ["boolean"],
        "solver": [StrOptions(ONE_CLASS_SOLVERS)],
        "tol": POSITIVE,
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "max_time": MAX_TIME,
    }

    def __init__(
        self,
        task: Any,
        nu: float = 0.5,
        *,
        kernel: str = "chi2",
        gamma: str | float = "scale",
        normalize: bool = False,
        solver: str = "auto",
        tol: float = 1e-4,
        max_iter: int = -1,
        max_time: float | None = None,
    ) -> None:
        self.task = task
        self.nu = nu
        self.kernel = kernel
        self.gamma = gamma
        self.normalize = normalize
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, Y: Any) -> Self:
        """Find the support of the pairs (X, Y).

        Parameters
        ----------
        X : sequence of inputs
        Y : sequence of true outputs

        Returns
        -------
        self
        """
        with deadline(self.max_time):
            features = self._check(X, Y)
            problem = one_class_dual(self._kernel(features), self.nu)
            solution = solve(problem, self.solver, tol=self.tol, max_iter=self.max_iter)
            if not solution.converged:
                warnings.warn(unfinished(self, solution), stacklevel=3)
            return self._store(features, problem, solution)

    def _check(self, X: MatrixLike, Y: Sequence[Any]) -> np.ndarray:
        """Joint features of the pairs, and their kernel."""
        check_nu(self.nu)
        X, Y = check_examples(X, Y, self.task)
        if not (hasattr(self.task, "argmax_kernel") or hasattr(self.task, "outputs")):
            raise ValueError(
                f"task must be able to search with a kernel: {type(self.task).__name__} has neither outputs(x), a list of all "
                "outputs, nor argmax_kernel."
            )
        features = joint_features(self.task, X, Y, self.normalize)
        self._kernel = joint_kernel(self.kernel, self.gamma, features, "X", geometry_of(self.task))
        return features

    def _store(self, features: np.ndarray, problem: KernelQP, solution: Solution) -> Self:
        alpha = problem.decision(solution).coefficients
        self.support_ = np.flatnonzero(alpha > 0)
        self.support_features_, self.dual_coef_ = features[self.support_], alpha[self.support_]
        self.gamma_ = self._kernel.gamma
        self.objective_, self.dual_gap_, self.n_iter_ = solution.objective, solution.gap, int(solution.n_iter)
        return self

    def predict(self, X: MatrixLike) -> np.ndarray | list[Any]:
        """The output of each input that lies deepest in the support.

        Parameters
        ----------
        X : sequence of inputs

        Returns
        -------
        list or ndarray
            One output for each input; an array when the outputs are numbers.
        """
        check_is_fitted(self, "dual_coef_")
        found = [self._predict_one(x) for x in X]
        return np.asarray(found) if found and isinstance(found[0], (Integral, Real)) else found

    def _predict_one(self, x: Any) -> Any:
        if hasattr(self.task, "argmax_kernel"):
            return self.task.argmax_kernel(
                x, self.support_features_, self.dual_coef_, self.kernel, self.gamma_, self.normalize
            )
        outputs = list(self.task.outputs(x))
        return outputs[int(np.argmax(self.score_pairs([x] * len(outputs), outputs)))]

    def score_pairs(self, X: Sequence[Any], Y: Sequence[Any]) -> np.ndarray:
        """The kernel expansion of pairs: how deep in the support they lie.

        Parameters
        ----------
        X : sequence of inputs
        Y : sequence of outputs

        Returns
        -------
        ndarray
        """
        check_is_fitted(self, "dual_coef_")
        return np.asarray(
            self._kernel(joint_features(self.task, X, Y, self.normalize), self.support_features_) @ self.dual_coef_
        )

    def score(self, X: MatrixLike, Y: Any) -> float:
        """1 - mean loss of the predictions.

        Parameters
        ----------
        X : sequence of inputs
        Y : sequence of true outputs

        Returns
        -------
        float
        """
        return 1.0 - float(np.mean([self.task.loss(y, p) for y, p in zip(Y, self.predict(X))]))


@model_part
class JKSEPlus(WithoutPrivilegedRows, JKSE):
    r"""JKSE+: joint kernel support estimation whose slacks are a function of privileged features.

    .. math::

        \max_{a, d} -\tfrac{1}{2 \nu l} a'Ka - \tfrac{1}{2\lambda} (a - d)'K^*(a - d), \qquad
        a \ge 0,\; 1'a = \nu l,\; 0 \le d \le 1,\; 1'd = \nu l

    Parameters
    ----------
    task : Task
        As in :class:`JKSE`.
    nu : float, default=0.5
        In (0, 1].
    lam : float, or list or dict of float, default=1.0
        Weight of the correcting function's norm (gamma in the paper). As it goes to 0, JKSE comes back. Of several spaces one
        value for all, or one each.
    privileged_task : Task, list or dict of Task, or None, default=None
        Makes joint features of privileged inputs and true outputs. None: ``privileged`` is an array of features. Several tasks
        are several spaces: ``privileged`` is then a list or dict of their inputs.
    kernel, gamma, normalize
        As in :class:`JKSE`.
    privileged_kernel, privileged_gamma, privileged_normalize
        The same for the privileged space; of several spaces one value for all, or a list or dict with one each.
    solver, tol, max_iter, max_time
        As in :class:`OneClassSVMPlus`.

    Attributes
    ----------
    privileged_dual_coef_ : ndarray of shape (n_samples,) or None
        Coefficients of the correcting function; with ``privileged_intercept_`` after a fit with privileged features.
    support_, support_features_, dual_coef_, gamma_, objective_, dual_gap_, n_iter_
        As in :class:`JKSE`.

    References
    ----------
    .. [1] S. Sun, C. Zhang, Y. Tian. Joint kernel support estimation with privileged information, 2018, eq. 5 and 19-24.
       Its eq. 5 has x_i where the privileged input x*_i is meant.

    Examples
    --------
    >>> from lupi import JKSEPlus
    >>> from lupi.datasets.planted_boxes import make_planted_boxes
    >>> from lupi.structured import BoxLocalization
    >>> X, Y, Z = make_planted_boxes(20, shape=(12, 16), n_words=10, n_points=80, n_privileged_words=5, random_state=0)
    >>> model = JKSEPlus(BoxLocalization(10), privileged_task=BoxLocalization(15)).fit(X, Y, privileged=Z)
    >>> model.dual_gap_ < 1e-4
    True
    """

    __metadata_request__fit = {"privileged": True}
    _privileged_rows_in = ("_privileged_data",)

    _parameter_constraints: dict[str, Any] = {
        **JKSE._parameter_constraints,
        "lam": PER_SPACE["lam"],
        "privileged_task": [TASK_METHODS, None, list, tuple, dict],
        "privileged_kernel": [StrOptions(JOINT_KERNELS), list, tuple, dict],
        "privileged_gamma": [*GAMMA, list, tuple, dict],
        "privileged_normalize": ["boolean", list, tuple, dict],
    }

    def __init__(
        self,
        task: Any,
        nu: float = 0.5,
        lam: Any = 1.0,
        *,
        privileged_task: Any = None,
        kernel: str = "chi2",
        gamma: str | float = "scale",
        normalize: bool = False,
        privileged_kernel: KernelName = "chi2",
        privileged_gamma: str | float = "scale",
        privileged_normalize: bool = False,
        solver: str = "auto",
        tol: float = 1e-4,
        max_iter: int = -1,
        max_time: float | None = None,
    ) -> None:
        super().__init__(
            task,
            nu,
            kernel=kernel,
            gamma=gamma,
            normalize=normalize,
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            max_time=max_time,
        )
        self.lam = lam
        self.privileged_task = privileged_task
        self.privileged_kernel = privileged_kernel
        self.privileged_gamma = privileged_gamma
        self.privileged_normalize = privileged_normalize

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, Y: Any, privileged: PrivilegedLike | None = None) -> Self:
        """Find the support of the pairs (X, Y).

        Parameters
        ----------
        X : sequence of inputs
        Y : sequence of true outputs
        privileged : sequence of privileged inputs, array-like of shape (n_samples, n_privileged), or None
            Inputs of ``privileged_task`` if there is one, feature rows otherwise (a row of NaN is not available), or a list or
            dict of these for several spaces.
            None gives JKSE.

        Returns
        -------
        self
        """
        with deadline(self.max_time):
            features = self._check(X, Y)
            names = self._names_of_spaces(privileged)
            blocks = self._privileged_features(privileged, names, Y, X)
            rows, available = blocks[0] if len(blocks) == 1 else rows_of_spaces(blocks)
            if available.any():
                self._privileged_names = names
                self._privileged_kernel = self._kernel_of_spaces(blocks, names)
                K_star = np.zeros((len(X), len(X)))
                K_star[np.ix_(available, available)] = self._privileged_kernel(rows)
                lam = shares_of_spaces(self, names)[1]
                problem: Any = one_class_plus_dual(self._kernel(features), K_star, self.nu, lam, available)
            else:
                problem = one_class_dual(self._kernel(features), self.nu)
            solution = solve(problem, self.solver, tol=self.tol, max_iter=self.max_iter)
            if not solution.converged:
                warnings.warn(unfinished(self, solution), stacklevel=3)
            self.privileged_dual_coef_ = self.privileged_intercept_ = self._privileged_data = None
            if available.any():
                correction = problem.privileged(solution)
                self.privileged_dual_coef_, self.privileged_intercept_ = correction.coefficients, correction.intercept
                self._privileged_data, self._available = rows, available
            return self._store(features, problem, solution)

    def _names_of_spaces(self, privileged: PrivilegedLike) -> list[Any]:
        """Names of the privileged spaces: of tables, or, where tasks read them, of the tasks."""
        tasks = self.privileged_task
        if not is_per_space(tasks):
            return names_of_spaces(privileged) or [None] if tasks is None else [None]
        names = list(tasks) if isinstance(tasks, dict) else list(range(len(tasks)))
        given = list(privileged) if isinstance(privileged, dict) else list(range(len(privileged or [])))
        if privileged is not None and set(given) != set(names):
            raise ValueError(
                f"JKSEPlus: `privileged_task` has the spaces {names}, but `privileged` has {given}; give the inputs of every "
                "task, or privileged=None."
            )
        return names

    def _privileged_features(
        self, privileged: PrivilegedLike, names: list[Any], Y: Sequence[Any], X: MatrixLike
    ) -> list[tuple[Any, np.ndarray]]:
        """Of every privileged space: features of the examples that have it (None where none has), and which these are."""
        tasks = values_per_space(self, "privileged_task", names)
        normalize = values_per_space(self, "privileged_normalize", names)
        blocks: list[tuple[Any, np.ndarray]] = []
        for name, task, share in zip(names, tasks, normalize):
            several = name is not None and privileged is not None
            given = self._checked(privileged[name] if several else privileged, name, task, Y, X)
            if given is None or not given.available.any():
                blocks.append((None, np.zeros(len(X), dtype=bool)))
                continue
            index = np.flatnonzero(given.available)
            if task is None:
                features = given.data[index]
            else:
                features = joint_features(task, [given.data[i] for i in index], [Y[int(i)] for i in index], False)
            blocks.append((normalized(features, geometry_of(task)) if share else features, given.available))
        return blocks

    def _checked(
        self, privileged: PrivilegedLike, name: Any, task: Task | None, Y: Sequence[Any], X: MatrixLike
    ) -> PrivilegedInput | None:
        who = type(self).__name__
        if task is not None:
            return check_privileged_inputs(privileged, X, Y, task, estimator_name=who)
        argument = "privileged" if name is None else f"privileged[{name!r}]"
        return check_privileged(
            privileged, len(X), estimator_name=who, accept_sparse=False, index_of=X, argument=argument
        )

    def _kernel_of_spaces(self, blocks: list[tuple[Any, np.ndarray]], names: list[Any]) -> Kernel:
        """Kernel of the privileged space, or the weighted sum of those of several."""
        values = [values_per_space(self, f"privileged_{key}", names) for key in ("kernel", "gamma", "task")]
        parts = [
            joint_kernel(kernel, gamma, np.zeros((1, 1)) if rows is None else rows, "privileged", geometry_of(task))
            for (rows, _), kernel, gamma, task in zip(blocks, *values)
        ]
        if len(parts) == 1:
            return parts[0]
        widths = tuple(0 if rows is None else rows.shape[1] for rows, _ in blocks)
        weights = shares_of_spaces(self, names)[0]
        return SumKernel("sum", argument="privileged", parts=tuple(parts), widths=widths, weights=weights)

    def correcting_function(self, privileged: PrivilegedLike, Y: Any = None) -> np.ndarray:
        """Values of the correcting function: the slack that privileged features predict, i.e. how hard a pair is.

        Parameters
        ----------
        privileged : sequence of privileged inputs, or array-like of shape (n_samples, n_privileged)
            As in ``fit``.
        Y : sequence of outputs, optional
            Those of the privileged inputs; needed with a ``privileged_task``.

        Returns
        -------
        ndarray of shape (n_samples,)
            NaN where a row is entirely NaN.
        """
        check_is_fitted(self, "dual_coef_")
        if getattr(self, "_privileged_data", None) is None:
            raise ValueError(
                "this JKSEPlus has no correcting function: it was fitted without privileged features, or was loaded, and "
                "files and pickles hold no privileged rows."
            )
        privileged = privileged.toarray() if sparse.issparse(privileged) else privileged
        names = getattr(self, "_privileged_names", [None])
        given = privileged if names == [None] else privileged[names[0]]
        blocks = self._privileged_features(privileged, names, Y, given)
        features, available = blocks[0] if len(blocks) == 1 else rows_of_spaces(blocks)
        values = np.full(len(available), np.nan)
        if available.any():
            coefficients = np.asarray(self.privileged_dual_coef_)[self._available]
            expansion = self._privileged_kernel.expand(features, self._privileged_data, coefficients)
            values[available] = expansion + self.privileged_intercept_
        return values
