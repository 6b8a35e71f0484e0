"""What is solved: frozen problem objects that know their objective, duality gap and KKT residuals."""

from lupi.kernels import Space
from lupi.problems.kernel.deformation import deformation_features, deformation_matrix
from lupi.problems.kernel.duals import OneSpaceDual, TwoSpaceDual, svm2_plus_dual, svm_2k_dual, svm_dual, svm_plus_dual
from lupi.problems.kernel.kernel_qp import Certificate, KernelQP

__all__ = [
    "Certificate",
    "KernelQP",
    "OneSpaceDual",
    "Space",
    "TwoSpaceDual",
    "deformation_features",
    "deformation_matrix",
    "svm2_plus_dual",
    "svm_2k_dual",
    "svm_dual",
    "svm_plus_dual",
]
