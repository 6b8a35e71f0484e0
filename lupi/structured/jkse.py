"""Joint kernel support estimation: structured outputs as a one-class problem, with and without privileged information."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import additive_chi2_kernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from lupi.inputs.decorators import fit_context
from lupi.inputs.structured_set import read_outputs
from lupi.inputs.training_set import check_privileged_rows, check_rows, check_training_set, per_space, values_per_space
from lupi.inputs.types import KernelName, MatrixLike, PrivilegedLike
from lupi.kernels import Kernel, resolve_gamma
from lupi.privacy import WithoutPrivilegedRows, model_part
from lupi.solution import MAX_TIME, deadline, unfinished
from lupi.structured.structural_svm import POSITIVE, TASK_METHODS, StructuredEstimator
from lupi.structured.task import Task, as_task, joint_features, normalized, privileged_tasks
from lupi.svm.auto import solve
from lupi.svm.duals import check_nu, one_class_dual, one_class_plus_dual
from lupi.svm.one_class_svm_plus import ONE_CLASS_SOLVERS

if TYPE_CHECKING:
    from lupi.inputs.training_set import PrivilegedBlock, TrainingSet

JOINT_KERNELS = {"chi2", "intersection", "rbf", "linear"}
GAMMA = [StrOptions({"scale"}), *POSITIVE]


@model_part
@dataclass(frozen=True)
class PlacedKernel(Kernel):
    r"""A kernel of word histograms times a Gaussian of the placement of the boxes.

    .. math::

        K((x, y), (x', y')) = k(h, h') \, \exp(-\|g - g'\|^2)

    where :math:`g` are the last ``n_geometry`` features, the placement times its scale, and :math:`h` are the others.
    """

    n_geometry: int = 0

    def __call__(self, A: Any, B: Any = None) -> np.ndarray:
        """Kernel matrix between the rows of A and of B (of A itself by default)."""
        words, places = np.split(A, [-self.n_geometry], axis=1)
        others = (None, None) if B is None else np.split(B, [-self.n_geometry], axis=1)
        return np.asarray(super().__call__(words, others[0]) * Kernel("rbf")(places, others[1]))


class PrivilegedSpace(NamedTuple):
    """A privileged space: its kernel, the features of the examples that have it, and its weight in the sum of all kernels."""

    kernel: Kernel
    rows: np.ndarray
    available: np.ndarray
    weight: float


def joint_kernel(name: str, gamma: float | str, features: np.ndarray, argument: str, n_geometry: int = 0) -> Kernel:
    """Kernel on joint features. gamma="scale" makes the mean chi2 distance 1, and is scikit-learn's for rbf."""
    words, value = features[:, : features.shape[1] - n_geometry], 1.0
    if name == "chi2" and gamma == "scale":
        if words.min() >= 0:
            distance = -additive_chi2_kernel(words)
            mean = distance.sum() / max(len(distance) * (len(distance) - 1), 1)
            value = 1.0 / mean if mean >= np.finfo(float).tiny else 1.0
    elif name in ("chi2", "rbf"):
        value = resolve_gamma(gamma, words)
    if n_geometry:
        return PlacedKernel(name, gamma=value, argument=argument, n_geometry=n_geometry)
    return Kernel(name, gamma=value, argument=argument)


@model_part
@dataclass(eq=False, repr=False)
class JKSE(StructuredEstimator):
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
    >>> from lupi.datasets import make_planted_boxes
    >>> from lupi.structured import BoxLocalization
    >>> X, Y, _ = make_planted_boxes(20, shape=(12, 16), n_words=10, n_points=80, random_state=0)
    >>> model = JKSE(BoxLocalization(10), nu=0.5).fit(X, Y)
    >>> model.dual_gap_ < 1e-6, len(model.predict(X[:2]))
    (True, 2)
    """

    task: Any
    nu: float = 0.5
    _: KW_ONLY
    kernel: str = "chi2"
    gamma: str | float = "scale"
    normalize: bool = False
    solver: str = "auto"
    tol: float = 1e-4
    max_iter: int = -1
    max_time: float | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
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
            self._estimate(check_training_set(self, X, Y, target="outputs", task=as_task(self.task)))
            return self

    def _estimate(self, data: TrainingSet, spaces: Sequence[PrivilegedSpace] = (), lam: float = 1.0) -> Any:
        """Solve the one-class problem and store the expansion; returns coefficients and intercept of the correcting function."""
        check_nu(self.nu)
        task = as_task(self.task)
        task.check(data.X.values, data.target)
        task.check_kernel(self.kernel)
        features = joint_features(task, data.X.values, data.target, self.normalize)
        self._kernel = joint_kernel(self.kernel, self.gamma, features, "X", task.n_geometry)
        problem: Any = one_class_dual(self._kernel(features), self.nu)
        if spaces:
            K = np.zeros((len(data), len(data)))
            for space in spaces:
                K[np.ix_(space.available, space.available)] += space.weight * space.kernel(space.rows)
            problem = one_class_plus_dual(problem.spaces[0].matrix, K, self.nu, lam, data.available)
        solution = solve(problem, self.solver, tol=self.tol, max_iter=self.max_iter)
        if not solution.converged:
            warnings.warn(unfinished(self, solution), stacklevel=4)
        alpha = problem.decision(solution).coefficients
        self.support_ = np.flatnonzero(alpha > 0)
        self.support_features_, self.dual_coef_ = features[self.support_], alpha[self.support_]
        self.gamma_ = self._kernel.gamma
        self.objective_, self.dual_gap_, self.n_iter_ = solution.objective, solution.gap, int(solution.n_iter)
        return problem.privileged(solution) if spaces else None

    def _outputs(self, task: Task, X: Any) -> list[Any]:
        """The output of each input that lies deepest in the support."""
        model = self._kernel, self.support_features_, self.dual_coef_, self.normalize
        return [task.argmax_kernel(x, *model) for x in X]

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
        X, Y = check_rows(self, X, task=self.task), read_outputs(Y, type(self).__name__)
        self.task.check(X, Y)
        features = joint_features(self.task, X, Y, self.normalize)
        return np.asarray(self._kernel(features, self.support_features_) @ self.dual_coef_)


@model_part
@dataclass(eq=False, repr=False)
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
    >>> from lupi.datasets import make_planted_boxes
    >>> from lupi.structured import BoxLocalization
    >>> X, Y, Z = make_planted_boxes(20, shape=(12, 16), n_words=10, n_points=80, n_privileged_words=5, random_state=0)
    >>> model = JKSEPlus(BoxLocalization(10), privileged_task=BoxLocalization(15)).fit(X, Y, privileged=Z)
    >>> model.dual_gap_ < 1e-4
    True
    """

    lam: Any = 1.0
    _: KW_ONLY
    privileged_task: Any = None
    privileged_kernel: KernelName = "chi2"
    privileged_gamma: str | float = "scale"
    privileged_normalize: bool = False

    __metadata_request__fit = {"privileged": True}
    _needed = ("_kernel", "support_features_", "dual_coef_")

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **JKSE._parameter_constraints,
        "lam": per_space(POSITIVE),
        "privileged_task": per_space([TASK_METHODS, None]),
        "privileged_kernel": per_space([StrOptions(JOINT_KERNELS)]),
        "privileged_gamma": per_space(GAMMA),
        "privileged_normalize": per_space(["boolean"]),
    }

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
            task, tasks = as_task(self.task), self.privileged_task
            data = check_training_set(self, X, Y, privileged, target="outputs", task=task, privileged_task=tasks)
            self._privileged_columns = data.privileged_columns
            spaces, lam = self._spaces(data) if data.available.any() else ({}, 1.0)
            correction = self._estimate(data, list(spaces.values()), lam)
            self._privileged_spaces: Any = spaces or None
            self.privileged_dual_coef_: Any = correction.coefficients if spaces else None
            self.privileged_intercept_: Any = correction.intercept if spaces else None
            return self

    def _spaces(self, data: TrainingSet) -> tuple[dict[Any, PrivilegedSpace], float]:
        """Every privileged space that an example has, by name, and the weight of the norm in the sum of all kernels."""
        names = [block.name for block in data.privileged]
        parameters = "lam", "privileged_kernel", "privileged_gamma"
        lams, kernels, gammas = (values_per_space(self, name, names) for name in parameters)
        features = self._features(data.privileged, data.target)
        total, spaces = float(np.sum(1.0 / np.array(lams, dtype=float))), {}
        for block, (rows, n_geometry), lam, kernel, gamma in zip(data.privileged, features, lams, kernels, gammas):
            if block.available.any():
                joint = joint_kernel(kernel, gamma, rows, "privileged", n_geometry)
                spaces[block.name] = PrivilegedSpace(joint, rows, block.available, 1.0 / (lam * total))
        return spaces, 1.0 / total

    def _features(self, blocks: Sequence[PrivilegedBlock], Y: Any) -> list[tuple[np.ndarray, int]]:
        """Features of the available examples of every privileged space, and how many of the last are a placement."""
        shares = values_per_space(self, "privileged_normalize", [block.name for block in blocks])
        out = []
        for block, task, share in zip(blocks, privileged_tasks(self, blocks, Y), shares):
            index, values = np.flatnonzero(block.available), block.rows.values
            if task is None:
                rows = values[index].toarray() if sparse.issparse(values) else values[index]
                out.append((normalized(rows) if share else rows, 0))
            else:
                rows = joint_features(task, [values[i] for i in index], [Y[i] for i in index], share)
                out.append((rows, task.n_geometry))
        return out

    def correcting_function(self, privileged: PrivilegedLike, Y: Any = None) -> np.ndarray:
        """Values of the correcting function: the slack that privileged features predict, i.e. how hard a pair is.

        Parameters
        ----------
        privileged : sequence of privileged inputs, or array-like of shape (n_samples, n_privileged)
            As in ``fit``.
        Y : sequence of outputs, optional
            Those of the privileged inputs; required with a ``privileged_task``.

        Returns
        -------
        ndarray of shape (n_samples,)
            NaN where a row is entirely NaN.
        """
        check_is_fitted(self, "dual_coef_")
        if self.privileged_dual_coef_ is None:
            raise ValueError("this JKSEPlus has no correcting function: it was fitted without privileged features.")
        if self.privileged_task is not None and Y is None:
            raise ValueError("JKSEPlus: correcting_function requires the outputs Y of the inputs of `privileged_task`.")
        blocks = check_privileged_rows(self, privileged, self._privileged_columns, task=self.privileged_task)
        available = np.any([block.available for block in blocks], axis=0)
        values = np.where(available, self.privileged_intercept_, np.nan)
        for block, (rows, _) in zip(blocks, self._features(blocks, Y if Y is None else read_outputs(Y, "JKSEPlus"))):
            space = self._privileged_spaces.get(block.name)
            if space is not None and block.available.any():
                coefficients = space.weight * np.asarray(self.privileged_dual_coef_)[space.available]
                values[block.available] += space.kernel.expand(rows, space.rows, coefficients)
        return values
