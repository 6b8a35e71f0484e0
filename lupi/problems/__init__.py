"""What is solved: frozen problem objects that know their objective, duality gap and KKT residuals."""

from lupi.problems.deformation import deformation_features, deformation_matrix
from lupi.problems.duals import OneSpaceDual, TwoSpaceDual, svm2_plus_dual, svm_2k_dual, svm_dual, svm_plus_dual
from lupi.problems.kernel_qp import Certificate, KernelQP
from lupi.problems.spaces import Space

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
