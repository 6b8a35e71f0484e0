"""Learning using privileged information: features that exist at training time only."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> module that defines it. Resolved on first use, so that `lupi --help` does not pay for numba and scikit-learn.
_PUBLIC = {
    "SVMPlus": "lupi.estimators.svm_plus",
    "SVM2Plus": "lupi.estimators.svm2_plus",
    "SVM2K": "lupi.estimators.svm_2k",
    "SVRPlus": "lupi.estimators.svr_plus",
    "learn_space_weights": "lupi.estimators.learned_spaces",
    "RankSVM": "lupi.estimators.rank_svm",
    "RankTransfer": "lupi.estimators.rank_transfer",
    "RankTransferCV": "lupi.estimators.rank_transfer_cv",
    "PrivilegedColumns": "lupi.estimators.privileged_columns",
    "KnowledgeTransfer": "lupi.estimators.knowledge_transfer",
    "Distillation": "lupi.estimators.distillation",
    "compare": "lupi.comparison",
    "SurrogateClassifier": "lupi.estimators.surrogate",
    "SurrogateRegressor": "lupi.estimators.surrogate",
    "save": "lupi.persistence",
    "load": "lupi.persistence",
    "keep_privileged": "lupi.engine.privileged_rows",
    "to_onnx": "lupi.interop",
    "to_sklearn": "lupi.interop",
    "StructuralSVM": "lupi.estimators.structural_svm",
    "StructuralSVMPlus": "lupi.estimators.structural_svm_plus",
    "JKSE": "lupi.estimators.jkse",
    "JKSEPlus": "lupi.estimators.jkse",
    "OneClassSVMPlus": "lupi.estimators.one_class_svm_plus",
}

if TYPE_CHECKING:  # the same names for type checkers, which run nothing; a test compares
    from lupi.comparison import compare as compare
    from lupi.engine.privileged_rows import keep_privileged as keep_privileged
    from lupi.estimators.distillation import Distillation as Distillation
    from lupi.estimators.jkse import JKSE as JKSE
    from lupi.estimators.jkse import JKSEPlus as JKSEPlus
    from lupi.estimators.knowledge_transfer import KnowledgeTransfer as KnowledgeTransfer
    from lupi.estimators.learned_spaces import learn_space_weights as learn_space_weights
    from lupi.estimators.one_class_svm_plus import OneClassSVMPlus as OneClassSVMPlus
    from lupi.estimators.privileged_columns import PrivilegedColumns as PrivilegedColumns
    from lupi.estimators.rank_svm import RankSVM as RankSVM
    from lupi.estimators.rank_transfer import RankTransfer as RankTransfer
    from lupi.estimators.rank_transfer_cv import RankTransferCV as RankTransferCV
    from lupi.estimators.structural_svm import StructuralSVM as StructuralSVM
    from lupi.estimators.structural_svm_plus import StructuralSVMPlus as StructuralSVMPlus
    from lupi.estimators.surrogate import SurrogateClassifier as SurrogateClassifier
    from lupi.estimators.surrogate import SurrogateRegressor as SurrogateRegressor
    from lupi.estimators.svm2_plus import SVM2Plus as SVM2Plus
    from lupi.estimators.svm_2k import SVM2K as SVM2K
    from lupi.estimators.svm_plus import SVMPlus as SVMPlus
    from lupi.estimators.svr_plus import SVRPlus as SVRPlus
    from lupi.interop import to_onnx as to_onnx
    from lupi.interop import to_sklearn as to_sklearn
    from lupi.persistence import load as load
    from lupi.persistence import save as save

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'lupi' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
