"""Learning using privileged information: features that exist at training time only."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> module that defines it. Resolved on first use, so that `lupi --help` does not pay for numba and scikit-learn.
_PUBLIC = {
    "SVMPlus": "lupi.svm.svm_plus",
    "SVM2Plus": "lupi.svm.svm_plus",
    "SVM2K": "lupi.svm.svm_2k",
    "SVRPlus": "lupi.svm.svr_plus",
    "RankSVM": "lupi.ranking.ranker",
    "RankTransfer": "lupi.ranking.rank_transfer",
    "RankTransferCV": "lupi.ranking.rank_transfer",
    "PrivilegedColumns": "lupi.meta.privileged_columns",
    "KnowledgeTransfer": "lupi.meta.baselines",
    "Distillation": "lupi.meta.baselines",
    "compare": "lupi.comparison",
    "tabular_model": "lupi.tabular.model",
    "SurrogateClassifier": "lupi.surrogate.surrogate",
    "SurrogateRegressor": "lupi.surrogate.surrogate",
    "save": "lupi.persistence",
    "load": "lupi.persistence",
    "keep_privileged": "lupi.privacy",
    "to_onnx": "lupi.interop",
    "StructuralSVM": "lupi.structured.structural_svm",
    "StructuralSVMPlus": "lupi.structured.structural_svm",
    "JKSE": "lupi.structured.jkse",
    "JKSEPlus": "lupi.structured.jkse",
    "OneClassSVMPlus": "lupi.svm.one_class_svm_plus",
}

if TYPE_CHECKING:  # the same names for type checkers, which run nothing; a test compares
    from lupi.comparison import compare as compare
    from lupi.interop import to_onnx as to_onnx
    from lupi.meta.baselines import Distillation as Distillation
    from lupi.meta.baselines import KnowledgeTransfer as KnowledgeTransfer
    from lupi.meta.privileged_columns import PrivilegedColumns as PrivilegedColumns
    from lupi.persistence import load as load
    from lupi.persistence import save as save
    from lupi.privacy import keep_privileged as keep_privileged
    from lupi.ranking.rank_transfer import RankTransfer as RankTransfer
    from lupi.ranking.rank_transfer import RankTransferCV as RankTransferCV
    from lupi.ranking.ranker import RankSVM as RankSVM
    from lupi.structured.jkse import JKSE as JKSE
    from lupi.structured.jkse import JKSEPlus as JKSEPlus
    from lupi.structured.structural_svm import StructuralSVM as StructuralSVM
    from lupi.structured.structural_svm import StructuralSVMPlus as StructuralSVMPlus
    from lupi.surrogate.surrogate import SurrogateClassifier as SurrogateClassifier
    from lupi.surrogate.surrogate import SurrogateRegressor as SurrogateRegressor
    from lupi.svm.one_class_svm_plus import OneClassSVMPlus as OneClassSVMPlus
    from lupi.svm.svm_2k import SVM2K as SVM2K
    from lupi.svm.svm_plus import SVM2Plus as SVM2Plus
    from lupi.svm.svm_plus import SVMPlus as SVMPlus
    from lupi.svm.svr_plus import SVRPlus as SVRPlus
    from lupi.tabular.model import tabular_model as tabular_model

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'lupi' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
