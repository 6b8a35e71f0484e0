"""Linear problems seen from the other side: kernel matrices that all classes share, for few examples."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lupi.kernels import Kernel, Space
from lupi.svm.duals import svm_dual, svm_plus_dual
from lupi.svm.kernel_qp import KernelQP
from lupi.svm.svm2_plus_dual import deformation_features, deformation_matrix, svm2_plus_dual


@dataclass
class SharedMatrices:
    """Kernel matrices of a one-vs-rest fit, formed when they are first asked for.

    Parameters
    ----------
    X, Z : ndarray or csr matrix, Z also None
        Decision and privileged features.
    C : ndarray of shape (n,)
        Price of every example.
    lam, kappa, labeled, available
        As of :func:`~lupi.svm.duals.svm_plus_dual`.
    squared : bool
        Whether the losses are those of SVM2+.
    n_problems : int
        How many problems share them.
    """

    X: Any
    Z: Any
    C: np.ndarray
    lam: float
    kappa: float
    labeled: bool
    available: np.ndarray
    squared: bool
    n_problems: int
    # Problems on which the matrices were of no use: data of one kind, so the next will be like them.
    failures: int = field(default=0, init=False)
    # Violation of the optimality conditions that gave the gap of the last one.
    sufficient: float | None = field(default=None, init=False)

    @cached_property
    def decision(self) -> Space:
        """Kernel matrix of the decision features."""
        return Space(matrix=Kernel("linear")(self.X.astype(np.float64, copy=False)))

    @cached_property
    def privileged(self) -> Space | None:
        """Kernel matrix of the privileged features; of SVM2+ the matrix Q. None where no example has any."""
        if self.Z is None:
            return None
        Z = self.Z.astype(np.float64, copy=False)
        if self.squared:
            if Z.shape[1] >= Z.shape[0]:
                return Space(matrix=deformation_matrix(Kernel("linear")(Z), self.C, self.lam, self.available))
            Z = Z if isinstance(Z, np.ndarray) else Z.toarray()
            return Space(matrix=Kernel("linear")(deformation_features(Z, self.C, self.lam, self.available)))
        return Space(matrix=Kernel("linear")(Z), weight=1.0 / self.lam)

    def dual(self, y: np.ndarray) -> KernelQP:
        """The dual problem of one class against the others."""
        prices = self.kappa, self.labeled, self.available
        if self.squared:
            return svm2_plus_dual(self.decision, self.privileged, y, self.C, self.lam, *prices)
        if self.privileged is None:
            return svm_dual(self.decision, y, self.C)
        return svm_plus_dual(self.decision, self.privileged, y, self.C, *prices)
