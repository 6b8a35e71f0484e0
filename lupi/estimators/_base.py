"""What the kernel classifiers share: the frame of ``fit``, one-vs-rest, intercepts, prediction."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from lupi.estimators._spaces import make_kernel, make_space
from lupi.kernels import KERNELS
from lupi.problems import Space
from lupi.solvers import SOLVERS, solve_near
from lupi.validation import check_classification_input, check_privileged, effective_class_weight

POSITIVE = [Interval(Real, 0, None, closed="neither")]
NON_NEGATIVE = [Interval(Real, 0, None, closed="left")]
KERNEL_CONSTRAINTS = {
    f"{prefix}{name}": constraint
    for prefix in ("", "privileged_")
    for name, constraint in {
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "degree": NON_NEGATIVE,
        "coef0": [Interval(Real, None, None, closed="neither")],
    }.items()
}

# What a fit leaves behind only with certain kernels, or only with privileged features.
OPTIONAL_ATTRIBUTES = (
    "support_vectors_",
    "coef_",
    "privileged_dual_coef_",
    "privileged_intercept_",
    "privileged_coef_",
    "_privileged_rows",
    "_privileged_data",
    "_privileged_weights",
)


@dataclass
class TrainingData:
    """Checked input of a fit, and what of it does not depend on C and lam.

    Attributes
    ----------
    X : array or sparse matrix of shape (n, n_features)
        Examples with a positive weight.
    labels : ndarray of shape (n,)
        Positions of their classes in `classes_`.
    kept : ndarray of shape (n,)
        Their rows in what the user gave.
    scale : ndarray of shape (n,)
        Weights that multiply C.
    decision : Space
    Z : array, sparse matrix or None
        Privileged features.
    available : ndarray of bool, shape (n,)
        Which examples have them.
    privileged : Space or None
        Formed when it is first needed.
    """

    X: object
    labels: np.ndarray
    kept: np.ndarray
    scale: np.ndarray
    decision: Space
    Z: object
    available: np.ndarray
    privileged: Space | None = None


class KernelClassifier(ClassifierMixin, BaseEstimator):
    """Frame of SVMPlus, SVM2Plus and SVM2K.

    A subclass says how its problem looks (``_prepare``), how its privileged function follows from a solution
    (``_privileged_expansion``), and what it is without privileged features.
    """

    # The privileged features are routed to fit by every meta-estimator, without a call of set_fit_request.
    __metadata_request__fit = {"privileged": True}
    # Left out by lupi.save.
    _privileged_rows_in = ("_privileged_data",)

    _parameter_constraints: dict = {
        **KERNEL_CONSTRAINTS,
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "solver": [StrOptions(set(SOLVERS))],
        "tol": POSITIVE,
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "cache_size": POSITIVE,
        "random_state": ["random_state"],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, privileged=None, sample_weight=None):
        """Fit to decision features, labels and privileged features.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Decision features; the kernel matrix with ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Labels of any type, two classes or more (one against the rest).
        privileged : array-like, sparse matrix or data frame of shape (n_samples, n_privileged), optional
            Features that exist at training time only. A row that is entirely NaN is not available for that example.
            None fits the plain counterpart.
        sample_weight : array-like of shape (n_samples,), optional
            Weights that multiply C.

        Returns
        -------
        self : object
        """
        data = self._check(X, y, privileged, sample_weight)
        self._solve(data)
        return self

    def _check(self, X, y, privileged, sample_weight):
        """Check the input, resolve both kernels on it and form their spaces."""
        if self.kernel == "precomputed" and sparse.issparse(X):
            raise ValueError("kernel='precomputed' needs a dense matrix, but `X` is sparse; pass X.toarray().")
        data = check_classification_input(self, X, y, sample_weight)
        known = check_privileged(
            privileged,
            data.X.shape[0],
            estimator_name=type(self).__name__,
            precomputed=self.privileged_kernel == "precomputed",
        )
        self.classes_ = data.classes
        # An example of weight 0 is one that is not there.
        kept = np.flatnonzero(data.sample_weight > 0)
        weight = data.sample_weight[kept]
        labels = data.y[kept]
        if self.kernel == "precomputed" and data.X.shape[0] != data.X.shape[1]:
            raise ValueError(
                f"kernel='precomputed' needs a square matrix of shape (n_samples, n_samples) as `X`; got {data.X.shape}."
            )
        X = self._rows(data.X, kept, self.kernel)
        self._kernel = make_kernel(self, X, weight=weight)
        Z, available = None, np.zeros(len(kept), dtype=bool)
        if known is not None and known.available[kept].any():
            Z, available = self._rows(known.data, kept, self.privileged_kernel), known.available[kept]
            rows = Z if self.privileged_kernel == "precomputed" else Z[available]
            self._privileged_kernel = make_kernel(self, rows, "privileged_", weight[available])
        self.n_privileged_features_in_ = 0 if known is None else known.data.shape[1]
        scale = weight * effective_class_weight(self.class_weight, self.classes_, data.y)[labels]
        decision = make_space(self._kernel, X, self.cache_size)
        return TrainingData(X, labels, kept, scale, decision, Z, available)

    def _solve(self, data, near=None):
        """Solve the problems of all classes and keep what they say.

        Parameters
        ----------
        data : TrainingData
        near : list of (KernelQP, Solution), optional
            Solutions for other parameters, to start from.

        Returns
        -------
        list of (KernelQP, Solution)
        """
        build = self._prepare(data)
        signs = [np.where(data.labels == k, 1.0, -1.0) for k in range(len(self.classes_))]
        signs = signs[1:] if len(signs) == 2 else signs
        solved = []
        for k, y_signed in enumerate(signs):
            problem = build(y_signed)
            solution = None if near is None else solve_near(problem, *near[k], tol=self.tol)
            if solution is None:
                solution = SOLVERS[self.solver](problem, tol=self.tol, max_iter=self.max_iter)
            self._inspect(problem, solution)
            solved.append((problem, solution))
        self._store(data, solved)
        return solved

    @staticmethod
    def _rows(data, kept, kernel):
        """Rows (and, of a kernel matrix, columns) of the examples that count."""
        if len(kept) == data.shape[0]:
            return data
        return data[np.ix_(kept, kept)] if kernel == "precomputed" else data[kept]

    def _privileged_space(self, data, cache_size=None):
        """Space of the privileged features, formed once for all parameters that are tried on the data."""
        if data.privileged is None:
            data.privileged = make_space(
                self._privileged_kernel, data.Z, cache_size or self.cache_size, available=data.available
            )
        return data.privileged

    def _inspect(self, problem, solution):
        """Say what a user should know about a solution that is not an ordinary one."""
        if problem.diverges(solution.x):
            raise ValueError(
                f"{type(self).__name__}(correction={self.correction!r}, kappa=inf) has no solution on these data: without "
                "residual slack every example must be separated by the decision and the privileged features together, and "
                "they are not separable. Use a finite kappa (3 is the default), or correction='slack'."
            )
        if not solution.converged:
            warnings.warn(
                f"{type(self).__name__} stopped after {solution.n_iter} iterations with a KKT violation of "
                f"{solution.certificate.violation:.2g} (tol={self.tol:g}); the relative duality gap is "
                f"{solution.certificate.gap:.2g}. Increase max_iter, scale the features, or lower C.",
                ConvergenceWarning,
                stacklevel=5,
            )
        norm = float(solution.certificate.expansions[0] @ solution.certificate.fields[0])
        # With features in the thousands a small w is no collapse: the decision must be the same everywhere, too.
        flat = float(np.ptp(solution.certificate.fields[0])) <= 1e-3
        collapsed = solution.converged and flat and norm <= 1e-10 * abs(solution.certificate.primal)
        if collapsed and len(problem.spaces) > 1:
            reason = (
                "With kappa=inf the privileged features must explain every slack, and paying the same slack for all "
                "examples is cheaper than using X: use a finite kappa (3 is the default)"
                if np.isinf(getattr(self, "kappa", 1.0))
                else "Slack is cheaper than using X: use a larger C or, with SVM+ and SVM2+, a kappa closer to 1"
            )
            warnings.warn(
                f"{type(self).__name__}: the solution collapsed to w = 0, the same decision for every example. {reason}.",
                UserWarning,
                stacklevel=5,
            )

    def _store(self, data, solved):
        """Fitted attributes from the solutions of all classes."""
        X, Z, available, kept, C = data.X, data.Z, data.available, data.kept, self.C * data.scale
        # Nothing of an earlier fit with another kernel or with privileged features may remain.
        for name in OPTIONAL_ATTRIBUTES:
            self.__dict__.pop(name, None)
        betas = np.vstack([solution.certificate.expansions[0] for _, solution in solved])
        support = np.flatnonzero(np.any(betas != 0, axis=0))
        self.support_ = kept[support]
        self.dual_coef_ = betas[:, support]
        self.intercept_ = np.array([solution.certificate.biases[0] for _, solution in solved])
        if self._kernel.name != "precomputed":
            self.support_vectors_ = X[support]
        if self._kernel.name == "linear":
            self.coef_ = np.asarray(self.dual_coef_ @ self.support_vectors_)
        if Z is not None:
            expansions = [self._privileged_expansion(solution.certificate, C, available) for _, solution in solved]
            coefficients = np.vstack([e[0] for e in expansions])[:, available]
            self.privileged_dual_coef_ = coefficients
            self.privileged_intercept_ = np.array([e[1] for e in expansions])
            self._privileged_rows = kept[available]
            if self._privileged_kernel.name == "linear":
                self.privileged_coef_ = np.asarray(coefficients @ Z[available])
            elif getattr(self, "_approximation", None) is not None:
                self._privileged_weights = coefficients @ self._approximation(Z[available])
            elif self._privileged_kernel.name != "precomputed":
                self._privileged_data = Z[available]
        certificates = [solution.certificate for _, solution in solved]
        self.n_iter_ = int(max(solution.n_iter for _, solution in solved))
        self.objective_ = float(sum(c.primal for c in certificates))
        self.dual_gap_ = float(max(c.gap for c in certificates))
        self.kkt_violation_ = float(max(c.violation for c in certificates))

    def decision_function(self, X):
        """Distance-like score of every class; of the second class alone when there are two.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Decision features; with ``kernel="precomputed"`` their kernel values with the training examples.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False)
        if hasattr(self, "coef_"):
            scores = np.asarray(X @ self.coef_.T)
        elif self._kernel.name == "precomputed":
            scores = X[:, self.support_] @ self.dual_coef_.T
        else:
            # Blocks of rows, so that predicting for many examples needs no large kernel matrix.
            step = max(1, int(2**24 / max(1, len(self.support_))))
            blocks = [
                self._kernel(X[i : i + step], self.support_vectors_) @ self.dual_coef_.T
                for i in range(0, X.shape[0], step)
            ]
            scores = np.vstack(blocks)
        scores = scores + self.intercept_
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict(self, X):
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
        return self.classes_[chosen]

    def correcting_function(self, privileged):
        """Values of the correcting function: the slack that privileged features predict, i.e. how hard an example is.

        Parameters
        ----------
        privileged : array-like of shape (n_samples, n_privileged)
            Privileged features; with ``privileged_kernel="precomputed"`` their kernel values with the training examples.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            NaN where a row is entirely NaN.
        """
        check_is_fitted(self)
        if not hasattr(self, "privileged_dual_coef_"):
            raise ValueError(
                f"this {type(self).__name__} was fitted without privileged features, so it has no correcting function; "
                "call fit(X, y, privileged=Z)."
            )
        n = privileged.shape[0] if hasattr(privileged, "shape") else len(privileged)
        known = check_privileged(privileged, n, estimator_name=f"{type(self).__name__}.correction")
        if known is None or known.data.shape[1] != self.n_privileged_features_in_:
            got = 0 if known is None else known.data.shape[1]
            raise ValueError(
                f"`privileged` has {got} features, but {type(self).__name__} was fitted with {self.n_privileged_features_in_}."
            )
        values = self._privileged_field(known.data) + self.privileged_intercept_
        values[~known.available] = np.nan
        return values.ravel() if len(self.classes_) == 2 else values

    def _privileged_field(self, Z):
        if hasattr(self, "privileged_coef_"):
            return np.asarray(Z @ self.privileged_coef_.T)
        if getattr(self, "_approximation", None) is not None:
            return self._approximation(Z) @ self._privileged_weights.T
        if self._privileged_kernel.name == "precomputed":
            return Z[:, self._privileged_rows] @ self.privileged_dual_coef_.T
        if not hasattr(self, "_privileged_data"):
            raise ValueError(
                f"this {type(self).__name__} was loaded from a file, and files hold no privileged rows, which the correcting "
                "function of a non-linear privileged kernel needs; call correction before lupi.save, or use "
                "privileged_kernel='linear'."
            )
        return self._privileged_kernel(Z, self._privileged_data) @ self.privileged_dual_coef_.T
