"""Entries of `python -m experiments` on small stand-ins; what needs the data themselves is skipped without LUPI_DATA."""

import json
from functools import partial

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from experiments import celik, sharmanska_birds, xu
from experiments import sharmanska_substitutes as substitutes
from experiments._entry import paper_table
from experiments.data import load_movie_rationales, load_tiny_imagenet_boxes
from lupi.cli import app
from lupi.vision import Box


def invoke(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})


# ---------------------------------------------------------------- the papers' numbers, against the papers' words


def above(rows, name, other):
    return sum(float(row[name]) > float(row[other]) for row in rows)


def test_sharmanska_table2_is_what_its_text_says():
    rows = paper_table("sharmanska_2013_table2")
    assert len(rows) == 17
    assert above(rows, "ranktransfer", "ranksvm") == 10
    assert above(rows, "svm+", "svm") == 12
    assert above(rows, "svm+", "ranktransfer") == 13


def test_sharmanska_tables_3_and_4_are_what_their_text_says():
    rows = paper_table("sharmanska_2013_table3")
    assert len(rows) == 3
    for row in rows:  # "near equal performance", "high performance of the reference"
        values = [float(row[name]) for name in ("ranksvm", "ranktransfer", "svm", "svm+")]
        assert max(values) - min(values) < 0.5
        assert float(row["reference"]) > max(values) + 5
    female, male = paper_table("sharmanska_2013_table4")
    assert above([female, male], "ranktransfer", "ranksvm") == 1
    assert min(float(row["svm_se"]) for row in (female, male)) > 1  # "the standard deviation is high", 100 runs


def test_xu_tables_are_what_its_text_says():
    for row in paper_table("xu_2016_table1"):
        assert int(row["n"]) == 10 * int(row["classes"])  # "10 images per class"
    accuracy, seconds = ({row["method"]: row for row in paper_table(f"xu_2016_table{k}")} for k in (2, 3))
    for row in paper_table("xu_2016_table4"):
        name = row["data"]
        ratio = float(seconds["SVM1+"][name]) / float(seconds["SVM2+"][name])
        assert round(ratio, 1) == pytest.approx(float(row["speedup"]))
        ordered = sorted(accuracy, key=lambda method, name=name: float(accuracy[method][name]))
        assert ordered == ["SVM2K", "SVM", "SVM1+", "SVM2+"]  # "SVM2K is worse than SVM", "slightly better than SVM1+"


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
    assert not problem["lb"].any()


@pytest.mark.parametrize("setting", celik.SETTINGS[:5], ids=str)
def test_svm_plus_solves_the_papers_program(setting):
    result = celik.compare_with_quadprog(celik.generated(7, setting.weighted, n=60), setting)
    assert result["same"]
    assert result["objective"] < 0  # of a minimum; 0 would be the trivial point
    assert result["objective_difference"] < 1e-8


def test_bias_of_equation_10_is_the_sum_of_both():
    """The plain problem min 1/2 w^2 + ... is solved by hand for b: on KKT of free variables, with delta free as well."""
    sample = celik.generated(0, False, n=60)
    setting = celik.SETTINGS[2]
    K = celik.rbf_kernel(sample.X, sample.X, gamma=0.1)
    K_star = celik.rbf_kernel(sample.Z, sample.Z, gamma=0.1)
    problem = celik.quadprog_form(K, K_star, sample.y, sample.weights, setting.kappa, setting.gamma)
    z = celik.quadprog(problem)
    alpha, delta = z[:60], z[60:]
    B, least, most = celik.biases(K, K_star, problem, sample.y, setting.gamma, z)
    assert least == most
    f = K @ (sample.y * alpha) + least
    g = setting.gamma * K_star @ (sample.y * (alpha - delta)) + B - least
    free = (alpha > 1e-4) & (alpha < setting.kappa - 1e-4)
    np.testing.assert_allclose((sample.y * (f + g))[free], 1, atol=1e-5)
    free = (delta > 1e-4) & (delta < 1 - 1e-4)
    assert free.any()
    np.testing.assert_allclose(g[free], 0, atol=1e-5)
    primal = (alpha * sample.y) @ K @ (alpha * sample.y) / 2
    eta = sample.y * (alpha - delta)
    primal += setting.gamma * eta @ K_star @ eta / 2 + np.maximum(0, sample.y * g).sum()
    primal += setting.kappa * np.maximum(0, 1 - sample.y * (f + g)).sum()
    assert primal == pytest.approx(-(z @ problem["H"] @ z / 2 + problem["f"] @ z), rel=1e-6)  # strong duality


def test_interval_of_biases_without_free_variables():
    threshold, y, share = np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 1.0, -1.0, -1.0]), np.array([0.0, 0, 0, 0])
    assert celik._interval(threshold, y, share) == (1.0, 2.0)
    assert celik._interval(threshold, y, 1 - share) == (3.0, 0.0)  # empty: no bias is optimal
    assert celik._interval(threshold, y, np.array([0.0, 0.5, 0.0, 0.0])) == (1.0, 1.0)


def test_celik_entry(tmp_path):
    result = invoke("reproduce", "celik-qp", "--out", tmp_path, "--data", tmp_path / "none", "--splits", 1)
    assert result.exit_code == 0, result.output
    assert "Agreement in 5 of 5 problems" in result.output
    assert result.output.count("not run: MNIST+") == 2
    assert "no folder" in result.output  # where it looked
    facts = json.loads((tmp_path / "celik-qp" / "result.json").read_text())
    assert [problem["same"] for problem in facts["problems"]] == [True] * 5
    assert facts["environment"]["packages"]["lupi"]


# ---------------------------------------------------------------- Xu


SMALL = xu.Shape("Caltech101", 6, 8, 40, 30, 0.0)


def test_shapes_are_those_of_the_paper():
    caltech, web = xu.shapes()
    assert caltech == ("Caltech101", 102, 10, 4096, 29535, 0.0)
    assert web[:5] == ("WebQueries", 76, 10, 4096, 2000)


def test_deformed_kernel_is_the_well_conditioned_form():
    Z = np.random.default_rng(0).standard_normal((8, 3))
    tilde = Z @ Z.T + 1
    expected = tilde @ np.linalg.inv(xu.LAM / xu.C * np.eye(8) + tilde) / xu.C
    np.testing.assert_allclose(xu.deformed_kernel(Z @ Z.T), expected, atol=1e-12)


def test_the_compared_ways_solve_the_same_problems():
    apart = xu.differences(SMALL, 3)
    assert apart["objective"] < 1e-5
    assert apart["decision"] < 1e-2  # LIBSVM stops at 1e-3


def test_slow_ways_are_scaled_up_to_all_classes(monkeypatch):
    monkeypatch.setattr(xu, "cpu_time", lambda run, **options: xu_timing(run))
    found = xu.solution_times(SMALL, list(xu.WAYS), n_slow=2)
    assert set(found) == set(xu.WAYS)
    assert {name: row["measured"] for name, row in found.items() if not xu.WAYS[name].quick} == {
        "svm2k": 2,
        "svm1+": 2,
        "svm1+ lupi": 2,
    }
    assert found["svm1+"]["seconds"] == 3.0 * 6 / 2
    assert found["svm"]["seconds"] == 3.0
    assert found["svm"]["measured"] == 6


def xu_timing(run):
    from benchmarks.measure import Timing

    return Timing(3.0, run())


@pytest.mark.parametrize("name", ["xu-table3", "xu-table4"])
def test_xu_entries(name, tmp_path, monkeypatch):
    monkeypatch.setattr(xu, "shapes", lambda: [SMALL])
    result = invoke("reproduce", name, "--out", tmp_path, "--splits", 1)
    assert result.exit_code == 0, result.output
    assert "GENERATED features" in result.output
    assert "No accuracy is claimed" in result.output
    assert ("867.6" if name == "xu-table3" else "110.6") in result.output
    facts = json.loads((tmp_path / name / "result.json").read_text())
    assert facts["generated"] is True
    assert facts["times"]["Caltech101"]["svm2+"]["classes"] == 6


# ---------------------------------------------------------------- Sharmanska, substitutes


@pytest.fixture
def reviews(tmp_path):
    """Forty reviews of the layout, negative and positive by turns; the eighth has no rationale."""
    folder = tmp_path / "movie_rationales"
    (folder / "docs").mkdir(parents=True)
    rng = np.random.default_rng(0)
    common = ["film", "actor", "scene", "plot", "music", "camera"]
    for part, numbers in (("train", range(36)), ("test", range(36, 40))):
        lines = []
        for k in numbers:
            word = ["awful", "dull", "superb", "moving"][2 * (k % 2) + k // 2 % 2]
            name = f"r{k}.txt"
            (folder / "docs" / name).write_text(" ".join([*rng.choice(common, 12), word if k % 3 else "plot"]))
            spans = [] if k == 7 else [[{"docid": name, "text": f"{word} film"}]]
            label = "POS" if k % 2 else "NEG"
            lines.append(json.dumps({"annotation_id": name, "classification": label, "evidences": spans}))
        (folder / f"{part}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_review_layout(reviews):
    bunch = load_movie_rationales(reviews, verify=False)
    assert len(bunch.data) == len(bunch.privileged) == 40
    assert bunch.target.tolist()[:4] == [0, 1, 0, 1]
    assert (bunch.part == "test").sum() == 4
    assert bunch.privileged[7] == ""
    assert bunch.privileged[0] == "awful film"
    with pytest.raises(ValueError, match="damaged or another version"):
        load_movie_rationales(reviews)
    (reviews / "docs" / "r3.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"r3\.txt \(1 of 40 are missing\)"):
        load_movie_rationales(reviews, verify=False)
    (reviews / "train.jsonl").write_text('{"annotation_id": "r0.txt", "classification": "SO-SO", "evidences": []}\n')
    with pytest.raises(ValueError, match=r"train\.jsonl, line 1: expected a JSON object"):
        load_movie_rationales(reviews, verify=False)


def test_words_come_from_reviews_that_are_in_no_split(reviews):
    bunch = load_movie_rationales(reviews, verify=False)
    X, y, Z = substitutes.review_features(bunch, n_vocabulary=15)
    assert X.shape == Z.shape
    assert len(y) == 40 - 15
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1)
    # Whatever happens to a review that is used changes its own row alone: nothing is learned from it.
    usable = [k for k in range(36) if k != 7]
    pool = np.random.default_rng(0).permutation(usable)
    changed = sorted(pool[11:])  # 15 less the five that are never used: ten are drawn
    assert len(changed) == 24
    bunch.data[changed[3]] = "superb superb superb"
    again, _, _ = substitutes.review_features(bunch, n_vocabulary=15)
    differ = np.flatnonzero((again != X).any(axis=1))
    assert len(differ) == 1


def small_grids(loss=None):
    grids = {name: {"C": [0.1, 10.0]} for name in substitutes.PAPER_METHODS}
    grids["svm+"] = {"C": [1.0], "lam": [1.0], "kappa": [np.inf]}
    grids["ranktransfer"] = {"C": [0.1], "C_privileged": [0.1]}
    return grids


def test_grids_are_those_of_section_4():
    grids = substitutes.l2_grids()
    assert grids["svm"]["C"] == pytest.approx([1e-3, 1e-2, 1e-1, 1, 10, 100, 1000])
    assert len(grids["ranktransfer"]["C"]) * len(grids["ranktransfer"]["C_privileged"]) == 49
    assert grids["svm+"]["kappa"] == [np.inf]
    assert set(grids) == set(substitutes.PAPER_METHODS)


def test_table4_entry(reviews, tmp_path, monkeypatch):
    monkeypatch.setattr(substitutes, "load_movie_rationales", partial(load_movie_rationales, verify=False))
    monkeypatch.setattr(substitutes, "SIZES", (8, 12))
    monkeypatch.setattr(substitutes, "N_VOCABULARY", 15)
    monkeypatch.setattr(substitutes, "l2_grids", small_grids)
    options = ["--data", tmp_path, "--out", tmp_path / "out", "--splits", 2, "--jobs", 1]
    result = invoke("reproduce", "sharmanska-table4", *options)
    assert result.exit_code == 0, result.output
    assert "SUBSTITUTE" in result.output
    assert "other data" in result.output
    assert result.output.count("Rank Transfer   ") == 2  # one row for each size
    facts = json.loads((tmp_path / "out" / "sharmanska-table4" / "result.json").read_text())
    assert facts["substitute"] is True
    sizes = facts["comparison"]["sizes"]
    assert [size["train_size"] for size in sizes] == [8, 12]
    assert all("shuffled" in row for row in sizes[0]["methods"] if row["role"] == "privileged")


CLASSES = [name for members in substitutes.GROUPS.values() for name in members]


@pytest.fixture
def pictures(tmp_path):
    """Twelve pictures of each class; inside the box stripes whose distance tells the class; one box is too small."""
    folder = tmp_path / "tiny_imagenet_boxes"
    rng = np.random.default_rng(0)
    folder.mkdir()
    (folder / "words_subset.txt").write_text("".join(f"n{k}\t{name}, other name\n" for k, name in enumerate(CLASSES)))
    for label in range(len(CLASSES)):
        images = folder / "train" / f"n{label}" / "images"
        images.mkdir(parents=True)
        lines = []
        for k in range(12):
            pixels = rng.integers(0, 60, (64, 64, 3), dtype=np.uint8)
            top, left = rng.integers(0, 24, 2)
            pixels[top : top + 40 : label + 2, left : left + 40] = 250
            Image.fromarray(pixels).save(images / f"n{label}_{k}.JPEG", "JPEG")
            size = 4 if (label, k) == (0, 0) else 39
            lines.append(f"n{label}_{k}.JPEG\t{left}\t{top}\t{left + size}\t{top + size}\n")
        (images.parent / f"n{label}_boxes.txt").write_text("".join(lines))
    return folder


def test_tiny_imagenet_layout(pictures):
    bunch = load_tiny_imagenet_boxes(pictures, verify=False)
    assert len(bunch.images) == 96
    assert bunch.label_names == CLASSES
    box = bunch.boxes[1]
    assert (box.bottom - box.top, box.right - box.left) == (40, 40)  # both corners belong to it
    with pytest.raises(ValueError, match="damaged or another version"):
        load_tiny_imagenet_boxes(pictures)
    table = pictures / "train" / "n2" / "n2_boxes.txt"
    table.write_text(table.read_text().replace("\t", " ", 1) + "n2_1.JPEG 5 5 3 9\n")
    with pytest.raises(ValueError, match=r"n2_boxes\.txt, line 13: expected image and two corners"):
        load_tiny_imagenet_boxes(pictures, verify=False)
    table.unlink()
    with pytest.raises(FileNotFoundError, match=r"1 of 8 are missing"):
        load_tiny_imagenet_boxes(pictures, verify=False)


def test_inside_of_a_box(tmp_path):
    pixels = np.zeros((64, 64), dtype=np.uint8)
    pixels[10:20, 30:50] = 200
    Image.fromarray(pixels).save(tmp_path / "a.png")
    inside = substitutes.Inside(str(tmp_path / "a.png"), Box(10, 30, 20, 50))
    assert inside.read().shape == (64, 64)
    assert (inside.read() == 200).all()
    wider = substitutes.Inside(str(tmp_path / "a.png"), Box(10, 20, 20, 50))
    assert wider.digest() != inside.digest()
    assert (wider.read() == 0).any()


FEW = {"n_words": 3, "n_components": 4, "detector": "dense", "spacing": 16, "random_state": 0}


def test_box_features_are_kept(pictures, tmp_path, monkeypatch):
    pytest.importorskip("mahotas")
    bunch = load_tiny_imagenet_boxes(pictures, verify=False)
    X, labels, Z = substitutes.box_features(bunch, tmp_path / "kept", n_mixture=2, fisher=FEW)
    assert len(X) == len(Z) == 96 - 1 - 16  # without the small box and the pictures of the mixture
    assert np.bincount(labels).tolist() == [9, *[10] * 7]
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1, rtol=1e-6)  # single precision
    monkeypatch.setattr(substitutes, "FisherVectors", None)  # not needed a second time
    again, _, _ = substitutes.box_features(bunch, tmp_path / "kept", n_mixture=2, fisher=FEW)
    np.testing.assert_array_equal(again, X)


def test_table2_entry(pictures, tmp_path, monkeypatch):
    pytest.importorskip("mahotas")
    monkeypatch.setattr(substitutes, "load_tiny_imagenet_boxes", partial(load_tiny_imagenet_boxes, verify=False))
    for name, value in (("PER_CLASS", 5), ("N_MIXTURE", 2), ("FISHER", FEW), ("l2_grids", small_grids)):
        monkeypatch.setattr(substitutes, name, value)
    options = ["--data", tmp_path, "--out", tmp_path / "out", "--splits", 2, "--tasks", 4, "--jobs", 1]
    result = invoke("reproduce", "sharmanska-table2", *options)
    assert result.exit_code == 0, result.output
    assert "SUBSTITUTE" in result.output
    assert "SVM+ above SVM in 12 of 17" in result.output
    assert "balls: SVM+ above its plain counterpart in" in result.output
    facts = json.loads((tmp_path / "out" / "sharmanska-table2" / "result.json").read_text())
    assert list(facts["comparisons"]) == CLASSES[:4]
    boa = facts["comparisons"]["boa constrictor"]
    assert boa["data"]["class_counts"] == [40, 10]
    assert boa["sizes"][0]["n_test"] == 10  # as many of the others as of the class: 5 + 5
    assert boa["sizes"][0]["train_size"] == 10


def test_a_class_is_compared_with_its_own_group(monkeypatch):
    labels = np.repeat(np.arange(4), 10)
    X = np.eye(4)[labels]
    seen = {}
    monkeypatch.setattr(substitutes, "as_in_the_paper", lambda *tables, **options: seen.update(options, tables=tables))
    substitutes.one_against_the_rest(X, labels, -X, 1, [0, 1, 2], per_class=3)
    X, y, Z = seen["tables"]
    assert y.sum() == 10
    assert len(y) == 30
    assert (X[y == 1] == np.eye(4)[1]).all()
    assert not X[:, 3].any()
    np.testing.assert_array_equal(Z, -X)
    assert seen["balanced"]
    assert seen["train_size"] == 6


def test_table2_of_birds(pictures, tmp_path, monkeypatch):
    """Species of two families among others, whose pictures are left alone."""
    pytest.importorskip("mahotas")
    birds = load_tiny_imagenet_boxes(pictures, verify=False)
    birds.label_names = ["a_Gull", "b_Vireo", "c_Woodpecker", "d_Vireo", "e_Woodpecker", "f_Vireo", "g_Tern", "h_Crow"]
    monkeypatch.setattr(sharmanska_birds, "load_cub", lambda root: birds)
    (tmp_path / "cub_300px").mkdir()
    for name, value in (("PER_CLASS", 5), ("N_MIXTURE", 2), ("FISHER", FEW)):
        monkeypatch.setattr(sharmanska_birds, name, value)
    monkeypatch.setattr(substitutes, "l2_grids", small_grids)
    options = ["--data", tmp_path, "--out", tmp_path / "out", "--splits", 2, "--tasks", 2, "--jobs", 1]
    result = invoke("reproduce", "sharmanska-table2-birds", *options)
    assert result.exit_code == 0, result.output
    assert "5 species of two families" in result.output
    assert "vireos: SVM+ above its plain counterpart in" in result.output
    facts = json.loads((tmp_path / "out" / "sharmanska-table2-birds" / "result.json").read_text())
    assert list(facts["comparisons"]) == ["b_Vireo", "d_Vireo"]
    assert facts["comparisons"]["b_Vireo"]["data"]["class_counts"] == [
        20,
        10,
    ]  # ten of each vireo are not of the mixture


@pytest.mark.parametrize("name", ["sharmanska-table2", "sharmanska-table3", "sharmanska-table4", "xu-table2"])
def test_missing_data_are_named(name, tmp_path):
    result = invoke("reproduce", name, "--out", tmp_path, "--data", tmp_path / "none")
    assert result.exit_code == 1
    assert "there is no folder" in result.output
    assert "none" in result.output


# ---------------------------------------------------------------- with data


@pytest.mark.data
class TestData:
    def test_reviews(self):
        bunch = load_movie_rationales()
        assert len(bunch.data) == 1999
        X, _, Z = substitutes.review_features(bunch)
        assert X.shape[1] == Z.shape[1] == 2000
        assert len(X) > 1390

    def test_pictures(self):
        bunch = load_tiny_imagenet_boxes()
        assert set(CLASSES) == set(bunch.label_names)
        assert np.bincount(bunch.labels).tolist() == [500] * 8

    def test_celik_on_mnist_plus(self):
        setting = celik.SETTINGS[5]
        assert celik.compare_with_quadprog(celik._mnist_plus(None, 0, False), setting)["same"]
