"""Learning using privileged information: features that exist at training time only."""

from importlib import import_module

__version__ = "0.1.0"

# Public name -> module that defines it. Resolved on first use, so that `lupi --help` does not pay for numba and scikit-learn.
_PUBLIC = {
    "SVMPlus": "lupi.estimators.svm_plus",
    "SVM2Plus": "lupi.estimators.svm2_plus",
    "SVM2K": "lupi.estimators.svm_2k",
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

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name):
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'lupi' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_PUBLIC])
