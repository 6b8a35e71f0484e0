"""lupi.comparison: statistics and what the verdict makes of them."""

import numpy as np
from numpy.testing import assert_allclose
from scipy import stats

from lupi.comparison import Protocol
from lupi.comparison.statistics import corrected_t_p, holm, paired, wilcoxon_p
from lupi.comparison.summary import summarize
from lupi.comparison.units import Unit, plan
from lupi.comparison.verdict import verdict

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


REST = {"params": {}, "warnings": {}, "seconds": 1.0, "error": None, "n_train": 100, "n_test": 100}
NOTHING = 0.0


def judged(real=NOTHING, shuffled=NOTHING, *, n=12, failed=(), **others):
    """Verdict on made-up scores. `real` and `shuffled` are SVM+'s gains over SVM, a number or one for each split.

    A plain SVM scores 0.8 with some noise that all methods share; a number gets a little noise of its own.
    `others` are gains of further methods, `failed` names methods without scores.
    """
    rng = np.random.default_rng(0)
    base = 0.8 + 0.02 * rng.standard_normal(n)
    gains = {("svm", ""): np.zeros(n)}
    given = {("svm+", ""): real, ("svm+", "shuffled"): shuffled} | {(name, ""): gain for name, gain in others.items()}
    for key, gain in given.items():
        noise = 0.002 * rng.standard_normal(n)
        gains[key] = np.asarray(gain) if np.ndim(gain) else gain + noise - noise.mean()
    protocol = Protocol(n_splits=n, metric="ap")
    methods = ["svm", *others, "svm+"]
    results = {
        unit.key: REST | {"score": float(base[unit.split] + gains[unit.method, unit.control][unit.split])}
        for unit in plan(protocol, methods)
    }
    for key in results:
        if key.split("/")[2] in failed:
            results[key] |= {"score": None, "error": "ValueError: no solution"}
    return verdict(summarize(results, protocol, methods)[0], protocol)


def alternating(mean, swing, n=12):
    """Differences of both signs: their mean is right, but it may be luck."""
    return mean + swing * (-1.0) ** np.arange(n) * (1 + 0.01 * np.arange(n))


def test_yes():
    found = judged(0.02, 0.0)
    assert found["helps"]
    assert found["method"] == "svm+"
    assert found["text"] == (
        "SVM+ beats SVM by 2.0 points of average precision (p < 0.001), and the shuffled control does not: the columns help."
    )
    assert found["notes"] == []


def test_yes_names_what_the_shuffled_control_gains():
    assert "and the shuffled control gains only 1.0 points: the columns help." in judged(0.02, 0.01)["text"]


def test_yes_with_a_caution_from_the_strict_test():
    found = judged(0.003, 0.0)
    assert found["helps"]
    assert len(found["notes"]) == 1
    assert "take it as likely, not as certain" in found["notes"][0]


def test_yes_compares_with_the_best_plain_method():
    close = judged(0.02, 0.0, l2svm=0.02 - alternating(0.0005, 0.01))
    assert close["helps"]
    assert "Over the best plain method, L2-SVM, it gains" in close["notes"][-1]
    assert close["notes"][-1].endswith("which may be luck.")
    far = judged(0.02, 0.0, l2svm=0.01)
    assert far["notes"] == ["Over the best plain method, L2-SVM, it gains 1.0 points (p < 0.001)."]


def test_no_if_another_plain_method_is_better():
    found = judged(0.02, 0.0, l2svm=0.05)
    assert not found["helps"]
    assert found["method"] == "l2svm"
    assert found["text"].startswith(
        "SVM+ gains 2.0 points of average precision from the columns (p < 0.001), but the plain L2-SVM"
    )
    assert found["text"].endswith("with them: keep the plain L2-SVM.")


def test_no_if_shuffled_columns_gain_as_much():
    found = judged(0.02, 0.021)
    assert not found["helps"]
    assert found["method"] == "svm"
    assert "SVM+ beats SVM by 2.0 points of average precision (p < 0.001)" in found["text"]
    assert "with shuffled columns it gains as much (2.1 points)" in found["text"]
    assert "not shown to be the columns. Keep the plain SVM." in found["text"]


def test_no_if_the_lead_over_shuffled_columns_may_be_luck():
    real = 0.02 + 0.001 * np.arange(12)
    found = judged(real, real - alternating(0.001, 0.01))
    assert not found["helps"]
    assert "with shuffled columns it gains 2.5 points as well, and the rest may be luck (p = 0." in found["text"]
    real = alternating(0.008, 0.006)
    assert (
        "its lead of 0.9 points over shuffled columns may be luck"
        in judged(real, real - alternating(0.009, 0.03))["text"]
    )


def test_no_if_the_gain_may_be_luck():
    found = judged(alternating(0.003, 0.02), 0.001)
    assert not found["helps"]
    assert found["text"].startswith(
        "No method is shown to use these columns; keep the plain SVM. The largest gain, of SVM+ over SVM, "
    )
    assert "is 0.3 points of average precision and may be luck (p = 0." in found["text"]
    assert found["text"].endswith("with shuffled columns it is 0.1 points.")


def test_no_if_there_is_no_gain():
    found = judged(-np.full(12, 0.001), 0.0)
    assert found["text"] == "No method uses these columns; keep the plain SVM."
    assert judged(np.zeros(12), np.zeros(12))["text"] == found["text"]
    worse = judged(-0.03, -0.05)
    assert worse["text"] == found["text"]
    assert worse["notes"] == ["Clearly worse with the columns than without: SVM+."]


def test_failed_methods_are_left_out_and_named():
    found = judged(0.02, failed=["svm+"])
    assert found["text"] == "No method that uses the columns was fitted on every split; the best plain method is SVM."
    assert found["notes"] == ["Left out, because some fits failed: SVM+."]
    nothing = judged(0.02, failed=["svm", "svm+"])
    assert (nothing["helps"], nothing["method"]) == (False, None)
    assert nothing["text"] == "No plain method could be fitted: nothing to compare with."
    protocol = Protocol(n_splits=2)
    alone = {Unit(100, split, "svm").key: REST | {"score": 0.5} for split in range(2)}
    assert "was among those compared" in verdict(summarize(alone, protocol, ["svm"])[0], protocol)["text"]


def test_too_few_splits_are_mentioned():
    found = judged(0.1, 0.0, n=4)
    assert not found["helps"]
    assert any("use more splits" in note for note in found["notes"])


def test_reference_is_put_into_words():
    above, below = judged(0.02, reference=0.1), judged(0.02, reference=-0.1)
    assert "10.0 points above SVM. That is what they know" in above["notes"][-1]
    assert "predict no better than the ordinary ones" in below["notes"][-1]
