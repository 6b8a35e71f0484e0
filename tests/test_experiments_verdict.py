"""lupi.experiments: statistics and what the verdict makes of them."""

import numpy as np
from numpy.testing import assert_allclose
from scipy import stats

from lupi.experiments import Protocol
from lupi.experiments.statistics import corrected_t_p, holm, paired, wilcoxon_p
from lupi.experiments.summary import summarize, verdict
from lupi.experiments.units import Unit, plan

# ---------------------------------------------------------------- statistics and verdict


def test_tests_against_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(20) + 0.4, rng.standard_normal(20)
    row = paired(a, b, 100, 25)
    assert row["wilcoxon_p"] == stats.wilcoxon(a, b).pvalue
    # Without the correction (an infinite training set) it is the ordinary paired t-test.
    assert_allclose(corrected_t_p(a - b, 1e12, 1), stats.ttest_rel(a, b).pvalue, rtol=1e-6)
    t = (a - b).mean() / np.sqrt((1 / 20 + 0.25) * (a - b).var(ddof=1))
    assert_allclose(row["corrected_t_p"], 2 * stats.t.sf(abs(t), 19))
    assert row["wins"] + row["losses"] + row["ties"] == 20
    assert wilcoxon_p(np.zeros(5)) == 1.0
    assert corrected_t_p([0.0, 0.0], 10, 10) == 1.0


def test_holm_by_hand():
    assert_allclose(holm([0.01, 0.02, 0.03, 0.04]), [0.04, 0.06, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def judged(real, shuffled, plain=0.8, other_plain=None, n=12):
    """Verdict on made-up scores: means plus the same noise, a little of it unpaired."""
    rng = np.random.default_rng(0)
    common = 0.02 * rng.standard_normal(n)
    methods = ["svm", "svm+"] + (["l2svm"] if other_plain else [])
    means = {("svm", ""): plain, ("svm+", ""): real, ("svm+", "shuffled"): shuffled, ("l2svm", ""): other_plain}
    protocol = Protocol(n_splits=n, metric="ap")
    results = {
        unit.key: {
            "score": means[unit.method, unit.control] + common[unit.split] + 0.002 * rng.standard_normal(),
            **{"params": {}, "warnings": {}, "seconds": 1.0, "error": None, "n_train": 100, "n_test": 100},
        }
        for unit in plan(protocol, methods)
    }
    return verdict(summarize(results, protocol, methods)[0], protocol)


def test_verdict_yes():
    found = judged(real=0.82, shuffled=0.8)
    assert found["helps"]
    assert found["method"] == "svm+"
    assert found["text"].startswith("SVM+ beats SVM by 2.")
    assert "points of average precision (p < 0.001)" in found["text"] or "(p = 0.00" in found["text"]
    assert found["text"].endswith("the columns help.")


def test_verdict_no_if_shuffled_rows_do_as_well():
    found = judged(real=0.82, shuffled=0.82)
    assert not found["helps"]
    assert found["text"] == "No method uses these columns; keep the plain SVM."
    assert any("shuffled columns do not do clearly worse" in note for note in found["notes"])


def test_verdict_no_if_better_than_shuffled_by_luck_only():
    """Far above the plain method and on average above the shuffled control, but that could be chance."""
    protocol = Protocol(n_splits=12)
    rest = {"params": {}, "warnings": {}, "seconds": 1.0, "error": None, "n_train": 100, "n_test": 100}
    results = {}
    for k in range(12):
        real = 0.82 + 0.001 * k
        luck = (0.01 + 0.0001 * k) * (-1) ** k + 0.001
        for unit, score in (
            (Unit(100, k, "svm"), 0.8),
            (Unit(100, k, "svm+"), real),
            (Unit(100, k, "svm+", "shuffled"), real - luck),
        ):
            results[unit.key] = {"score": score, **rest}
    size = summarize(results, protocol, ["svm", "svm+"])[0]
    row = size["methods"][1]
    assert row["gain"]["wilcoxon_p"] < 0.01
    assert row["over_shuffled"]["mean"] > 0
    assert row["over_shuffled"]["wilcoxon_p"] > 0.1
    assert row["outcome"] == "gains, but not clearly more than with shuffled rows"
    assert not verdict(size, protocol)["helps"]


def test_verdict_no_if_nothing_changes_or_it_hurts():
    assert judged(real=0.8, shuffled=0.8)["method"] == "svm"
    found = judged(real=0.77, shuffled=0.75)
    assert not found["helps"]
    assert any("Clearly worse with the columns" in note for note in found["notes"])


def test_verdict_no_if_another_plain_method_is_better():
    found = judged(real=0.82, shuffled=0.8, other_plain=0.85)
    assert not found["helps"]
    assert found["method"] == "l2svm"
    assert "SVM+ gains from the columns, but the plain L2-SVM" in found["text"]


def test_verdict_says_when_splits_are_too_few():
    found = judged(real=0.9, shuffled=0.8, n=4)
    assert not found["helps"]
    assert any("use more splits" in note for note in found["notes"])


def test_strict_test_is_mentioned():
    found = judged(real=0.803, shuffled=0.8)
    assert found["helps"]
    assert any("take it as likely, not as certain" in note for note in found["notes"])
