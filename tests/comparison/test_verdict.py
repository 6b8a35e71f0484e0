"""lupi.comparison: statistics and what the verdict makes of them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from lupi.comparison import METHODS
from lupi.comparison.problem import Problem
from lupi.comparison.results import (
    HELPS,
    HURTS,
    MATCHED,
    NO_DIFFERENCE,
    NOT_THE_COLUMNS,
    Permutation,
    holm,
    paired,
    permutation_p,
    splits_needed,
    summarize,
    summarize_permutations,
    wilcoxon_p,
    worth,
)
from lupi.comparison.units import Plan, Result, Unit, plan_units
from lupi.comparison.verdict import verdict

# ---------------------------------------------------------------- statistics


def test_tests_against_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(20) + 0.4, rng.standard_normal(20)
    row = paired(a, b)
    assert row.wilcoxon_p == stats.wilcoxon(a, b).pvalue
    expected = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert_allclose([row.low, row.high], [expected.low, expected.high])
    assert row.wins + row.losses + row.ties == 20
    assert wilcoxon_p(np.zeros(5)) == 1.0
    alone = paired([0.5], [0.0])
    assert (alone.low, alone.high) == (-np.inf, np.inf)


def test_splits_needed_by_simulation():
    """So many splits find a gain of this size in about 80% of the cases."""
    rng = np.random.default_rng(0)
    sample = rng.standard_normal(40)
    sample = 0.01 + 0.02 * (sample - sample.mean()) / sample.std(ddof=1)
    n = splits_needed(sample)
    assert 30 <= n <= 34  # (1.96 + 0.84)^2 * 4 = 31.4
    found = [stats.ttest_1samp(0.01 + 0.02 * rng.standard_normal(n), 0).pvalue < 0.05 for _ in range(2000)]
    assert 0.72 < np.mean(found) < 0.86
    assert splits_needed([0.0, -1.0]) is None


def test_permutation_p_by_hand():
    assert permutation_p(1.0, [0.0] * 99) == 0.01
    assert permutation_p(1.0, [1.0, 2.0, 0.0]) == 0.75


def test_holm_by_hand():
    assert_allclose(holm([0.01, 0.02, 0.03, 0.04]), [0.04, 0.06, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


# ---------------------------------------------------------------- verdicts on made-up scores

REST = Result(n_train=100, n_unlabeled=0, n_test=100, params={}, warnings={}, seconds=1.0)
NOTHING = 0.0


def sizes_of(real=NOTHING, shuffled=NOTHING, *, n=12, failed=(), unlabeled=None, **others):
    """Statistics of made-up scores. `real` and `shuffled` are the gains of SVM+ over SVM, a number or one per split.

    SVM scores 0.8 with some noise that all methods share; a number gets a little further noise.
    `others` are gains of further methods (a pair: also with shuffled rows), `failed` names methods without scores.
    """
    rng = np.random.default_rng(0)
    base = 0.8 + 0.02 * rng.standard_normal(n)
    gains = {("svm", False): np.zeros(n)}
    given = {("svm+", False): real, ("svm+", True): shuffled}
    for name, gain in others.items():
        gain, control = gain if isinstance(gain, tuple) else (gain, NOTHING)
        given |= {(name, False): gain, (name, True): control}
    for key, gain in given.items():
        noise = 0.002 * rng.standard_normal(n)
        gains[key] = np.asarray(gain) if np.ndim(gain) else gain + noise - noise.mean()
    y = np.zeros(4) if unlabeled is None else np.array([0, 0, np.nan, np.nan])
    problem = Problem.of(np.zeros((4, 1)), y, np.zeros((4, 1)))
    plan = Plan(n_splits=n, metric="ap", methods={name: METHODS[name] for name in ("svm", *others, "svm+")})
    results = {}
    for unit in plan_units(problem, plan):
        score = float(base[unit.split] + gains[unit.method, unit.shuffled][unit.split])
        if unlabeled is not None and unit.unlabeled and not unit.shuffled:
            score += unlabeled
        results[unit] = replace(REST, score=score, n_unlabeled=50 if unit.unlabeled else 0)
        if unit.method in failed:
            results[unit] = replace(REST, error="ValueError: no solution")
    return summarize(results, problem, plan), plan


def judged(*args, permutation=None, skipped=None, leaks=(), **options):
    sizes, plan = sizes_of(*args, **options)
    return verdict(sizes, plan, permutation=permutation, skipped=skipped, leaks=leaks)[0]


def rows_of(*args, **options):
    return {row.name: row for row in sizes_of(*args, **options)[0][0].methods}


def alternating(mean, swing, n=12):
    """Differences of both signs: their mean is right, but it may be luck."""
    return mean + swing * (-1.0) ** np.arange(n) * (1 + 0.01 * np.arange(n))


EXACT = Permutation("svm+", "SVM+", 100, 99, 0.8, [0.79] * 99, p=0.01)


def test_yes():
    found = judged(0.02, 0.0)
    assert (found.answer, found.method) == ("yes", "svm+")
    assert found.text == (
        "With 100 labeled rows: SVM+ gains 2.0 points over the best baseline (SVM) and 2.0 points over its shuffled "
        "control, in average precision (p < 0.001): the columns help."
    )
    assert found.notes == []
    assert "Use SVM+" in found.actions[0]


def test_the_exact_test_confirms_or_does_not():
    sure = judged(0.02, permutation=replace(EXACT, p=0.01))
    assert sure.answer == "yes"
    assert "; exact test p = 0.01): the columns help." in sure.text
    assert "99 times. SVM+ (fixed parameters) does worse by 1.0 points on average" in sure.notes[0]
    doubtful = judged(0.02, permutation=replace(EXACT, p=0.3))
    assert (doubtful.answer, doubtful.method) == ("unclear", "svm")
    assert "the exact test does not confirm that the columns are the cause (p = 0.3)" in doubtful.text
    assert "does as well as with the real rows" in judged(0.02, permutation=replace(EXACT, p=0.3, score=0.79)).notes[0]
    assert "was not run: no time." in judged(0.02, skipped="no time.").notes[0]


def test_every_plain_method_must_be_beaten():
    close = judged(0.02, 0.0, linear=0.02 - alternating(0.0005, 0.01))
    assert close.answer == "unclear"
    assert "the columns help SVM+ (2.0 points over its counterpart, p < 0.001), but logistic" in close.text
    assert "keep logistic regression" in close.text
    assert close.text.endswith("labeled rows (here 200) with 500 splits would.")
    far = judged(0.02, 0.0, linear=0.01)
    assert far.answer == "yes"
    assert (
        "1.0 points over the best baseline (logistic regression), 2.0 points over its counterpart without the columns and"
        in far.text
    )
    better = judged(0.02, 0.0, linear=0.05)
    assert (better.answer, better.method) == ("no", "linear")


def test_a_plain_method_that_is_not_the_best_counts_as_well():
    """The best mean is not enough: a lead over another plain method that may be luck is none."""
    real = np.full(12, 0.02)
    close = real - 0.001 - 0.0001 * np.arange(12)
    row = rows_of(real, 0.0, linear=real - alternating(0.002, 0.02), forest=close)["svm+"]
    assert row.over_best_baseline.wilcoxon_p < 0.05  # over the forest
    assert row.outcome == MATCHED


def test_no_if_shuffled_columns_gain_as_much():
    found = judged(0.02, 0.021)
    assert (found.answer, found.method) == ("no", "svm")
    assert (
        "SVM+ beats its counterpart by 2.0 points (p < 0.001), but the columns are not shown to be the cause"
        in found.text
    )
    assert "its gain over shuffled columns is -0.1 points (95% interval" in found.text


def test_not_shown_comes_with_an_interval_and_what_would_settle_it():
    found = judged(alternating(0.006, 0.01), 0.001)
    assert found.answer == "unclear"
    assert found.text.startswith("With 100 labeled rows: no method is shown to gain from these columns; keep SVM.")
    assert "The largest gain, of SVM+ over the best baseline (SVM), is +0.6 points (95% interval " in found.text
    assert "and may be chance (p = " in found.text
    row = rows_of(alternating(0.006, 0.01), 0.001)["svm+"]
    lead = np.array(row.scores) - np.array(row.shuffled.scores)  # the least clear of its leads
    splits = int(np.ceil((2.8016 * lead.std(ddof=1) / lead.mean()) ** 2))
    rows = round(200 * splits / 12, -1)
    said = (
        f"About {splits} splits would settle a gain of this size, or about {rows:.0f} labeled rows (here 200) with 12"
    )
    assert said in found.text
    assert found.actions[-1] == f"Run again with --splits {splits}: finished results are kept."
    tiny = judged(alternating(0.002, 0.02), -0.01)
    lead = alternating(0.002, 0.02)
    rows = round(200 * (2.8016 * lead.std(ddof=1) / lead.mean()) ** 2 / 500, -1)
    assert f"Not even 500 splits would settle a gain of this size, but about {rows:.0f} labeled rows" in tiny.text
    assert "Collect more labeled rows" in tiny.actions[-1]


def test_without_a_lead_the_interval_says_what_is_ruled_out():
    found = judged(alternating(-0.001, 0.01), -0.05)
    lead = alternating(-0.001, 0.01)
    high = stats.t.interval(0.95, 11, lead.mean(), stats.sem(lead))[1]
    assert found.answer == "no"
    said = f"more than {100 * high:.1f} points over the best baseline is ruled out."
    assert said in found.text


def test_the_exact_test_is_told_in_plain_words():
    def told(permuted):
        found = replace(EXACT, n=19, permuted=[permuted] * 19, p=0.05)
        return judged(0.02, permutation=found).notes[0]

    assert "does worse by 1.0 points on average than with the real rows" in told(0.79)
    assert "does better by 1.0 points on average than with the real rows" in told(0.81)
    assert "does as well as with the real rows" in told(0.8001)


def test_no_if_there_is_no_gain():
    found = judged(-np.full(12, 0.001), 0.0)
    assert found.answer == "no"
    assert "no method gains from these columns; keep SVM. The best of them, SVM+, differs by -0.1 points" in found.text
    worse = judged(-0.03, -0.05)
    assert worse.answer == "no"
    assert worse.notes == ["Clearly worse with the columns than without: SVM+."]


def test_failed_methods_are_left_out_and_named():
    found = judged(0.02, failed=["svm+"])
    assert found.text == "No method that uses the columns was fitted on every split; the best baseline is SVM."
    assert found.notes == ["Left out, because some fits failed: SVM+."]
    nothing = judged(0.02, failed=["svm", "svm+"])
    assert (nothing.answer, nothing.method) == ("unclear", None)
    assert nothing.text == "No baseline could be fitted, so there is nothing to compare with."
    plan = Plan(n_splits=2, methods={"svm": METHODS["svm"]})
    alone = {Unit(100, split, "svm"): replace(REST, score=0.5) for split in range(2)}
    problem = Problem.of(np.zeros((4, 1)), np.zeros(4), np.zeros((4, 1)))
    assert "was among those compared" in verdict(summarize(alone, problem, plan), plan)[0].text


def test_too_few_splits_are_mentioned():
    found = judged(0.1, 0.0, n=4)
    assert found.answer != "yes"
    assert any("use more splits" in note for note in found.notes)


def test_references_are_put_into_words_without_a_conclusion():
    (note,) = judged(0.02, reference=-0.3, joint=0.1).notes
    assert note.startswith("If the columns were known at prediction: privileged only 50.")
    assert "and X with privileged 90." in note
    assert "little" not in note


def test_a_leak_is_in_the_sentence():
    leak = {"kind": "privileged", "columns": ["cost"], "text": "Leakage? The privileged column 'cost' is the target."}
    found = judged(0.1, leaks=[leak])
    assert found.answer == "unclear"
    assert "the columns help. But the privileged column 'cost' is the target. Check this before" in found.text
    assert "'cost'" in found.actions[0]
    assert judged(0.1, leaks=[leak | {"kind": "ordinary"}]).answer == "yes"


# ---------------------------------------------------------------- several methods: Holm


def test_p_is_multiplied_by_the_number_of_methods():
    """With ten splits the smallest p is 0.002: times one it is printed as such, times two methods it doubles."""
    n, up = 10, np.linspace(0.01, 0.02, 10)
    smallest = 2 * 0.5**n
    alone = rows_of(up, -up, n=n)["svm+"]
    assert alone.p == alone.p_helps == pytest.approx(smallest)
    two = rows_of(up, -up, n=n, transfer=(-up, -2 * up))
    assert two["svm+"].p_helps == pytest.approx(2 * smallest)
    assert two["transfer"].p_helps == 1.0
    four = rows_of(up, -up, n=n, transfer=(up, -up), distillation=(-up, -up), svm2k=(-up, -up))
    assert four["svm+"].p_helps == four["transfer"].p_helps == pytest.approx(4 * smallest)


def test_holm_decides_between_yes_and_no():
    """A gain with p = 0.03 alone is a yes; beside a second method that finds nothing it is none."""
    n = 10
    gain = np.linspace(0.01, 0.02, n)
    gain[[1, 4]] *= -1  # ranks 2 and 5, of 55 in all
    p = stats.wilcoxon(gain).pvalue
    assert 0.025 < p < 0.05
    assert rows_of(gain, -gain - 0.1, n=n)["svm+"].outcome == HELPS
    beside = rows_of(gain, -gain - 0.1, n=n, transfer=(-np.abs(gain), -np.abs(gain)))["svm+"]
    assert beside.p_helps == pytest.approx(2 * p)
    assert beside.outcome == NO_DIFFERENCE


def test_the_p_beside_a_mark_is_the_p_behind_it():
    up = np.linspace(0.01, 0.02, 12)
    rows = {
        HELPS: rows_of(up, -up)["svm+"],
        HURTS: rows_of(-up, 0.0)["svm+"],
        NOT_THE_COLUMNS: rows_of(up, up + alternating(0.0, 0.01))["svm+"],
        MATCHED: rows_of(up, -up, linear=2 * up)["svm+"],
    }
    for outcome, row in rows.items():
        assert row.outcome == outcome
        assert row.p < 0.05
    assert rows[HURTS].p == rows[HURTS].p_counterpart
    assert rows[MATCHED].p_helps == 1.0
    nothing = rows_of(alternating(0.001, 0.02), 0.0)["svm+"]
    assert nothing.p >= 0.05


# ---------------------------------------------------------------- unlabeled rows, sizes, the exact test


def test_rows_without_a_label_give_rows_of_their_own():
    found, plan = sizes_of(0.0, surrogate=(0.01, -0.01), unlabeled=0.03, **{"surrogate-plain": 0.0})
    rows = {row.name: row for row in found[0].methods}
    assert rows["surrogate"].rows == "all"
    assert rows["surrogate/labeled"].rows == "labeled"
    assert rows["surrogate/labeled"].title == "surrogate, labeled rows only"
    assert rows["surrogate"].mean - rows["surrogate/labeled"].mean == pytest.approx(0.03)
    assert found[0].n_unlabeled == 50
    told = verdict(found, plan)[0]
    assert told.method == "surrogate"
    assert "With 100 labeled rows and 50 unlabeled rows: surrogate gains 4.0 points over the best baseline" in told.text


def sizes_with(*pairs):
    found = []
    for n, gain in pairs:
        (size,), plan = sizes_of(gain, -0.01)
        found.append(replace(size, train_size=n))
    return found, plan


def test_every_size_gets_an_answer():
    sizes, plan = sizes_with((50, 0.02), (100, alternating(0.001, 0.02)))
    found = verdict(sizes, plan)[0]
    assert [part.answer for part in found.sizes] == ["yes", "unclear"]
    assert found.notes[0] == "By training size: 50 rows: yes, 100 rows: unclear."
    assert found.sizes[0].text.startswith("With 50 labeled rows: SVM+ gains")


def test_the_learning_curve_is_translated():
    sizes, plan = sizes_with((50, 0.02), (200, 0.02))
    sizes = [
        replace(size, methods=[replace(row, mean=level + 0.05 * (row.role == "privileged")) for row in size.methods])
        for size, level in zip(sizes, (0.7, 0.8))
    ]
    first, last = worth(sizes)
    assert first.baseline_rows == 100.0  # half of the way, on a logarithmic scale
    assert last.baseline_rows is None
    notes = verdict(sizes, plan, worth=[first, last])[0].notes
    assert "50 labeled rows with the columns are worth about 100 without them." in notes
    assert "200 labeled rows with the columns are worth more than 200 without them." in notes
    assert worth(sizes[:1]) == []
    sizes, plan = sizes_with((50, alternating(0.001, 0.02)), (200, 0.02))
    said = verdict(sizes, plan, worth=[first, last])[0].notes
    assert "By training size: 50 rows: unclear, 200 rows: yes." in said
    assert not any(note.startswith("50 labeled rows") for note in said)  # what is not shown is not counted in rows


def test_permutations_are_averaged_over_the_splits():
    units = [Unit(100, split, "surrogate-ridge", permutations=2) for split in range(2)]
    results = {units[0]: replace(REST, score=[0.9, 0.8, 0.95]), units[1]: replace(REST, score=[0.7, 0.6, 0.7])}
    found = summarize_permutations(units, results, "ridge")
    assert found.score == pytest.approx(0.8)
    assert found.permuted == pytest.approx([0.7, 0.825])
    assert found.p == pytest.approx(2 / 3)
    results[units[1]] = replace(REST, error="ValueError: no")
    assert summarize_permutations(units, results, "ridge") is None


# ---------------------------------------------------------------- the baseline to keep


def test_the_first_baseline_within_a_standard_error_of_the_best_is_kept():
    """SVM comes first: it is kept where the forest's better mean may be chance, and not where it is clearly better."""
    for lead, kept in ((0.001, "svm"), (0.05, "forest")):
        found, plan = sizes_of(-0.01, 0.0, forest=lead)
        size = found[0]
        rows = {row.name: row for row in size.methods}
        assert size.best_baseline == "forest"
        assert (rows["svm"].mean >= rows["forest"].mean - rows["svm"].error) == (kept == "svm")
        answer = verdict(found, plan)[0]
        assert (answer.answer, answer.method) == ("no", kept)
        assert f"keep {rows[kept].title}." in answer.text
