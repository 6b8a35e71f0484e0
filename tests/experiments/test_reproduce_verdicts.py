"""The study of verdicts: truths are what they say, parts make the verdict of one run, pages follow from the stored scores."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from experiments import verdicts
from experiments._surrogate_tasks import load_table
from experiments._verdict_figures import exact_part, overturned, tables_lines, truths_lines, verdict_of
from experiments._verdict_truths import TRUTHS, truth
from experiments._verdict_units import ON_REAL_TABLES, measure_truth
from lupi.comparison import compare

RESULTS = Path(__file__).parents[2] / "docs" / "results"


# ---------------------------------------------------------------- truths


@pytest.mark.parametrize("kind", TRUTHS)
def test_truths_repeat_and_differ_by_seed(kind):
    X, y, Z = truth(kind, 3)
    again = truth(kind, 3)
    for ours, theirs in zip((X, y, Z), again):
        np.testing.assert_array_equal(ours, theirs)
    assert (truth(kind, 4)[0] != X).any()
    assert np.isnan(y).sum() == (1400 if kind == "unlabeled follow-ups" else 0)
    assert set(y[~np.isnan(y)]) == {0.0, 1.0}


def test_leaks_tell_the_target_together_or_alone():
    _, y, Z = truth("leak", 0)
    assert roc_auc_score(y, Z[:, -1]) == 1.0
    _, y, Z = truth("joint leak", 0)
    assert max(roc_auc_score(1 - y, column) for column in Z.T) < 0.9
    assert roc_auc_score(1 - y, Z[:, 1] - Z[:, 0]) == 1.0


def test_a_flipped_label_is_all_that_the_column_tells():
    X, y, Z = truth("label was wrong", 0)
    assert abs(roc_auc_score(y, Z[:, 0]) - 0.5) < 0.06
    mended = np.where(Z[:, 0] == 1, 1 - y, y)
    weights = np.linalg.lstsq(X, 2 * mended - 1, rcond=None)[0]
    assert roc_auc_score(mended, X @ weights) > 0.98
    assert roc_auc_score(y, X @ weights) < 0.75


def test_an_unknown_truth_is_named():
    with pytest.raises(ValueError, match="no truth is called 'luck'"):
        truth("luck", 0)


# ---------------------------------------------------------------- parts


def test_parts_make_the_verdict_of_one_run():
    n_splits = 4
    methods = ("linear", "surrogate-ridge", "ridge-plain")
    parts = {part: measure_truth("mediators", 1, part, n_splits) for part in methods}
    exact = exact_part(parts, 9)
    assert exact == "exact 9 surrogate-ridge"
    parts[exact] = measure_truth("mediators", 1, exact, n_splits)
    found = verdict_of(parts)
    given = {"train_size": 100, "n_splits": n_splits, "permutations": 9, "columns": False, "hard_examples": False}
    summary = compare(
        *truth("mediators", 1), methods=["surrogate-ridge"], baselines=["linear", "ridge-plain"], **given
    ).summary
    rows = {row["name"]: row for row in summary["sizes"][0]["methods"]}
    assert set(rows) == set(methods)
    for name in methods:
        np.testing.assert_allclose(parts[name]["scores"][name], rows[name]["scores"], atol=1e-6)
    assert found.answer == summary["verdict"]["answer"]
    assert found.method == summary["verdict"]["candidate"]
    assert found.best_plain == summary["sizes"][0]["best_plain"]
    assert found.row["p"] == pytest.approx(rows[found.method]["p"])
    assert found.exact == summary["permutation"]["p"]


def part(scores, shuffled=None, exact=None, leaks=0):
    record = {"scores": scores, "shuffled": shuffled or {}, "exact": exact, "leaks": leaks}
    return record | {"n_train": 100, "n_unlabeled": 0, "n_test": 500}


def table(gain, *, linear=0.0, permuted=None, leaks=0):
    wave = 0.7 + 0.01 * np.sin(np.arange(20))
    ridge = {"ridge-plain": list(wave), "surrogate-ridge": list(wave + gain + 0.001 * np.cos(np.arange(20)))}
    parts = {"surrogate-ridge": part(ridge, {"surrogate-ridge": list(wave)}, leaks=leaks)}
    parts["linear"] = part({"linear": list(wave + linear)}, leaks=leaks)
    if permuted is not None:
        exact = {"method": "surrogate-ridge", "score": 0.7 + gain, "permuted": permuted}
        parts[f"exact {len(permuted)} surrogate-ridge"] = part({}, exact=exact, leaks=leaks)
    return parts


def test_yes_needs_every_opponent_the_exact_test_and_no_leak():
    assert verdict_of(table(0.02)).answer == "yes"
    assert verdict_of(table(0.02, linear=0.03)).answer == "no"
    assert verdict_of(table(0.02, linear=0.03), ("surrogate-ridge",)).answer == "yes"
    assert verdict_of(table(-0.02)).answer == "no"
    assert verdict_of(table(0.02, permuted=[0.6] * 19)).answer == "yes"
    assert verdict_of(table(0.02, permuted=[0.6] * 18 + [0.9])).answer == "unclear"
    found = verdict_of(table(0.02, permuted=[0.6] * 19, leaks=1))
    assert (found.answer, found.leaks, found.helps) == ("unclear", 1, True)


def test_a_judge_overturns_a_yes_by_reaching_its_mean():
    parts = table(0.02)
    parts["judges"] = part({"judge-forest": [0.715] * 20, "judge-logistic": [0.6] * 20})
    assert not overturned(parts)
    assert "| forest 71.5 | " in tables_lines({"a": parts})[-1]
    parts["judges"]["scores"]["judge-logistic"] = [0.73] * 20
    assert overturned(parts)


def test_an_entry_goes_on_where_it_stopped(monkeypatch, tmp_path):
    monkeypatch.setattr(verdicts, "STEPS", (({"noise": 5}, ("surrogate-ridge",)),))
    lines = verdicts._truths(None, tmp_path, n_splits=2, tasks=1)
    monkeypatch.setattr("experiments._verdict_units.compare", None)
    assert verdicts._truths(None, tmp_path, n_splits=2, tasks=1) == lines
    assert set(json.loads((tmp_path / "scores.json").read_text())) == {"noise/0"}


# ---------------------------------------------------------------- the pages


def stored(name):
    return json.loads((RESULTS / f"compare-{name}.json").read_text())


PAGES = {"verdict": ("truths", truths_lines), "compare": ("tables", tables_lines)}


@pytest.fixture(scope="module", params=PAGES)
def page_and_lines(request):
    name, lines = PAGES[request.param]
    return (RESULTS / f"{request.param}.md").read_text(), lines(stored(name))


def test_tables_of_the_pages_follow_from_the_stored_scores(page_and_lines):
    page, lines = page_and_lines
    assert [line for line in lines if line not in page.splitlines()] == []


def test_every_table_and_count_of_the_pages_is_recomputed(page_and_lines):
    page, lines = page_and_lines
    measured = [line for line in page.splitlines() if line.startswith("| ") and re.search(r" [+-]\d+\.\d\d|= \d", line)]
    assert measured
    assert [line for line in measured if line not in lines] == []
    text = "\n".join(lines)
    counts = set(re.findall(r"\b\d+ of \d+ = [\d.]+%", page))
    assert [count for count in counts if count not in text] == []


def test_no_yes_on_a_real_table_is_overturned():
    records = stored("tables")
    assert set(records) == set(verdicts.REAL_TABLES)
    for parts in records.values():
        assert set(ON_REAL_TABLES) <= set(parts)
        if verdict_of(parts).answer == "yes":
            assert not overturned(parts)
    page, index = (" ".join((RESULTS / f"{name}.md").read_text().split()) for name in ("compare", "README"))
    answers = {name: verdict_of(parts).answer for name, parts in records.items()}
    by_answer = {answer: {name for name in answers if answers[name] == answer} for answer in ("yes", "no", "unclear")}
    assert by_answer["yes"] == {"support2", "wagepan", "card", "star"}
    assert by_answer["unclear"] == {"econmath", "parkinsons", "student_performance"}
    assert "**Four yes, none overturned.** On support2, wagepan, card and star a method with the columns" in page
    assert "yes on four (SUPPORT2, wagepan, card, star)" in index
    assert (
        "**econmath** is unclear: " + f"{verdict_of(records['econmath']).row['gain']['mean'] * 100:+.1f} points" in page
    )


# ---------------------------------------------------------------- with data


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("LUPI_DATA"), reason="LUPI_DATA does not name the folder of research data")
@pytest.mark.parametrize("name", verdicts.REAL_TABLES)
def test_real_tables_have_two_classes_and_their_groups(name):
    X, y, Z, groups = load_table(name)
    assert len(X) == len(y) == len(Z)
    assert set(y) == {0, 1}
    assert not set(X.columns) & set(Z.columns)
    assert (groups is not None) == (name == "parkinsons")
