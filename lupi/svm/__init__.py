"""What is solved: frozen problem objects that know their objective, duality gap, KKT residuals and functions."""

from lupi.kernels import Space
from lupi.svm.duals import check_nu, one_class_dual, one_class_plus_dual, svm_2k_dual, svm_dual, svm_plus_dual
from lupi.svm.kernel_qp import Certificate, Expansion, KernelQP
from lupi.svm.linear import LinearPrimal, linear_problems, linear_svm2_plus, linear_svm_plus, over_weights

__all__ = [
    "Certificate",
    "Expansion",
    "KernelQP",
    "LinearPrimal",
    "Space",
    "check_nu",
    "linear_problems",
    "linear_svm2_plus",
    "linear_svm_plus",
    "one_class_dual",
    "one_class_plus_dual",
    "over_weights",
    "svm_2k_dual",
    "svm_dual",
    "svm_plus_dual",
]
