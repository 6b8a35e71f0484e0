"""Writes the files of `models/format_N/`, once when the format gets a new number; they are never written again.

From the root of the repository::

    PYTHONPATH=tests python tests/persistence/make_models.py
"""

import json
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_old_models import frame
from vision_data import pictures

import lupi
from lupi.comparison.forest import TunedForest
from lupi.comparison.model import TabularModel
from lupi.datasets import make_privileged
from lupi.localize import Localizer
from lupi.persistence import MODEL_FORMAT
from lupi.tasks import Multiclass

FOLDER = Path(__file__).parent / "models" / f"format_{MODEL_FORMAT}"
X, Y, Z = make_privileged(20, 4, 2, random_state=0, return_X_y_privileged=True)
WORDS = np.array(["no", "yes"])[Y]
TASK, STAR = Multiclass(2, 4), Multiclass(2, 2)
LINEAR = {"kernel": "linear", "privileged_kernel": "linear"}
SCORES, PREDICT = "decision_function", "predict"


def models():
    """Name, unfitted model, and the method whose answers are kept; all fitted on X, Y and privileged=Z."""
    yield "svm_plus", lupi.SVMPlus(), SCORES
    yield "svm_plus_linear", lupi.SVMPlus(**LINEAR), SCORES
    yield "svm_plus_labelled", lupi.SVMPlus(correction="labelled", **LINEAR), SCORES
    yield "svm2_plus", lupi.SVM2Plus(kernel="laplacian", privileged_kernel="poly"), SCORES
    yield "svm_2k", lupi.SVM2K(), SCORES
    yield "svr_plus", lupi.SVRPlus(), PREDICT
    yield "rank_transfer", lupi.RankTransfer(), SCORES
    yield "rank_transfer_rbf", lupi.RankTransfer(kernel="rbf", privileged_kernel="rbf"), SCORES
    yield "rank_transfer_cv", lupi.RankTransferCV(Cs=[0.01], Cs_privileged=[0.1], cv=2), SCORES
    yield "knowledge_transfer", lupi.KnowledgeTransfer(LogisticRegression(), random_state=0), SCORES
    yield "distillation", lupi.Distillation(LogisticRegression()), SCORES
    yield (
        "distillation_neighbours",
        lupi.Distillation(LogisticRegression(), KNeighborsClassifier(), teacher_features="privileged"),
        SCORES,
    )
    yield "surrogate", lupi.SurrogateClassifier(random_state=0), SCORES
    yield "surrogate_ridge", lupi.SurrogateClassifier("ridge"), "predict_proba"
    yield "surrogate_wrapped", lupi.SurrogateClassifier(Ridge(), random_state=0), SCORES
    yield "surrogate_regressor", lupi.SurrogateRegressor("ridge"), PREDICT
    yield "structural_svm_plus", lupi.StructuralSVMPlus(TASK, STAR, random_state=0, tol=0.05), PREDICT
    yield "jkse_plus", lupi.JKSEPlus(TASK, kernel="rbf", privileged_kernel="rbf"), PREDICT
    yield "tabular_model", TabularModel(lupi.SurrogateClassifier("ridge")), SCORES
    yield "tabular_regression", TabularModel(lupi.SurrogateRegressor("ridge"), regression=True), PREDICT


def others():
    """Models that are fitted in their own way."""
    yield "rank_svm", lupi.RankSVM().fit(X, Y), SCORES
    yield "rank_svm_nystroem", lupi.RankSVM(kernel="rbf", n_components=5, random_state=0).fit(X, Y), SCORES
    yield "structural_svm", lupi.StructuralSVM(TASK, random_state=0, tol=0.05).fit(X, Y), PREDICT
    yield "jkse", lupi.JKSE(TASK, kernel="rbf").fit(X, Y), PREDICT
    yield "one_class", lupi.OneClassSVMPlus().fit(X, privileged=Z), "score_samples"
    spaces = {"first": Z[:, :1], "second": Z[:, 1:]}
    yield "svm_plus_spaces", lupi.SVMPlus(lam=[0.1, 1.0]).fit(X, Y, privileged=spaces), SCORES
    yield "svm2_plus_spaces", lupi.SVM2Plus(**LINEAR).fit(X, Y, privileged=spaces), SCORES
    yield "sparse", lupi.SVMPlus().fit(sparse.csr_matrix(X), Y, privileged=Z), SCORES
    yield "pipeline", make_pipeline(StandardScaler(), lupi.SVM2Plus()).fit(X, Y, svm2plus__privileged=Z), SCORES
    both = np.hstack([X, Z])
    yield "privileged_columns", lupi.PrivilegedColumns(lupi.SVM2Plus(**LINEAR), columns=[4, 5]).fit(both, Y), SCORES
    yield "tabular_model_frame", TabularModel(lupi.SVM2Plus(**LINEAR)).fit(frame(X), WORDS, privileged=Z), SCORES
    yield "forest", RandomForestClassifier(2, max_depth=3, random_state=0).fit(X, Y), "predict_proba"
    yield "boosting", HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=2).fit(X, Y), SCORES
    yield "tuned_forest", TunedForest(n_trees=3, random_state=0).fit(X, Y), "predict_proba"


def localizers():
    images, boxes, masks = pictures(8)
    for method, step in (("ssvm+", 8), ("jkse+", 12)):
        options = {"n_words": 12, "detector": "dense", "spacing": 8, "C": 1.0, "random_state": 0, "tol": 0.05}
        model = Localizer(method, grid_step=step, **options).fit(images[:4], boxes[:4], privileged={"masks": masks[:4]})
        yield f"localizer_{method.replace('+', '_plus')}", model, [list(map(int, b)) for b in model.predict(images[5:])]


def main():
    FOLDER.mkdir(parents=True)
    expected = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # twenty rows make weak teachers
        fitted = [(name, model.fit(X, Y, privileged=Z), call) for name, model, call in models()]
    for name, model, call in [*fitted, *others()]:
        lupi.save(model, FOLDER / f"{name}.lupi")
        data = frame(X) if name == "tabular_model_frame" else X
        expected[name] = {"call": call, "values": np.asarray(getattr(model, call)(data)).tolist()}
    for name, model, values in localizers():
        lupi.save(model, FOLDER / f"{name}.lupi")
        expected[name] = {"call": "boxes", "values": values}
    np.savez(FOLDER / "input.npz", X=X)
    (FOLDER / "expected.json").write_text(json.dumps({"lupi": lupi.__version__, "models": expected}) + "\n")


if __name__ == "__main__":
    main()
