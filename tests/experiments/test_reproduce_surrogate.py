"""The study of surrogate learning: how rows are drawn, what is a win, that the page follows from the stored scores."""

import json
import os
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from experiments import _surrogate_units, surrogate
from experiments._surrogate_figures import best_plain, controls_table, difference, gains_table, outcome, tally
from experiments._surrogate_plain import PLAIN
from experiments._surrogate_tasks import TASKS, draw, load_task
from experiments._surrogate_units import LABELED, SETTINGS, UNLABELED, Setting, privileged_columns, score_arm
from lupi.datasets import make_privileged

RESULTS = Path(__file__).parents[2] / "docs" / "results"


# ---------------------------------------------------------------- draws


def test_larger_draws_contain_smaller_ones_and_share_their_test_rows():
    y = np.arange(700) % 3 // 2
    draws = [setting.rows(y, 4) for setting in LABELED.values()]
    assert [len(rows.labeled) for rows in draws] == [50, 100, 200]
    for small, large in pairwise(draws):
        assert set(small.labeled) < set(large.labeled)
        np.testing.assert_array_equal(small.test, large.test)
    assert not set(draws[-1].labeled) & set(draws[-1].test)
    assert len(draws[0].test) == 500


def test_unlabeled_rows_are_neither_labeled_nor_tested():
    rows = UNLABELED["60+1000"].rows(np.arange(700) % 2, 0)
    assert (len(rows.labeled), len(rows.unlabeled), len(rows.test)) == (60, 320, 320)
    assert len({*rows.labeled, *rows.unlabeled, *rows.test}) == 700
    rows = UNLABELED["60+1000"].rows(np.arange(9000) % 2, 0)
    assert (len(rows.unlabeled), len(rows.test)) == (1000, 2000)


def test_every_class_has_enough_labeled_rows():
    y = (np.arange(1000) < 80).astype(int)
    for split in range(20):
        rows = draw(y, split, n_labeled=60, n_unlabeled=0, n_test=500, n_first=50)
        assert np.bincount(y[rows.labeled[:50]], minlength=2).min() >= 5


# ---------------------------------------------------------------- arms


def test_controls_hold_nothing_about_the_row():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(50, 3)), rng.normal(size=(50, 2))
    assert privileged_columns("surrogate", X, Z, 1) is Z
    assert privileged_columns("copy", X, Z, 1) is X
    shuffled = privileged_columns("shuffled", X, Z, 1)
    assert (shuffled != Z).any()
    np.testing.assert_array_equal(np.sort(shuffled, axis=0), np.sort(Z, axis=0))
    assert (privileged_columns("reshuffled", X, Z, 1) != shuffled).any()
    noise = privileged_columns("noise", X, Z, 1)
    assert noise.shape == (50, 40)
    np.testing.assert_array_equal(noise, privileged_columns("noise", X, Z, 1))


@pytest.fixture
def small_task(monkeypatch):
    X, y, Z = make_privileged(400, return_X_y_privileged=True, random_state=0)
    monkeypatch.setattr(_surrogate_units, "load_task", lambda name, root=None: (X, y, Z))
    monkeypatch.setitem(SETTINGS, "small", Setting(40, 60, 40, 40))
    return X, y, Z


@pytest.mark.parametrize(
    "arm", ["logistic", "plain", "surrogate", "shuffled", "noise", "copy", "every label", "ridge-surrogate"]
)
def test_arms_give_scores(small_task, arm):
    found = score_arm("small", "small", arm, 0)
    assert 0.3 < found["score"] <= 1.0
    assert found == score_arm("small", "small", arm, 0)


def test_labels_of_unlabeled_rows_are_not_seen(small_task, monkeypatch):
    X, y, Z = small_task
    rows = SETTINGS["small"].rows(y, 0)
    flipped = y.copy()
    flipped[rows.unlabeled] = 1 - flipped[rows.unlabeled]
    scores = {arm: score_arm("small", "small", arm, 0)["score"] for arm in ("surrogate", "plain", "every label")}
    monkeypatch.setattr(_surrogate_units, "load_task", lambda name, root=None: (X, flipped, Z))
    # Other rows would be drawn if the first 40 had too few of a class; they do not change here.
    changed = {arm: score_arm("small", "small", arm, 0)["score"] for arm in scores}
    assert changed["surrogate"] == scores["surrogate"]
    assert changed["plain"] == scores["plain"]
    assert changed["every label"] < scores["every label"]


def test_an_entry_goes_on_where_it_stopped(small_task, monkeypatch, tmp_path):
    monkeypatch.setattr(surrogate, "data_digest", lambda names, root=None: "data")
    calls = []
    real = _surrogate_units.score_arm
    monkeypatch.setattr(_surrogate_units, "score_arm", lambda *args: calls.append(args) or real(*args))
    arms = [(["small"], ["small"], ("ridge-plain", "ridge-surrogate"))]
    first = surrogate.run_part("tables", arms, None, tmp_path, n_splits=1)
    again = surrogate.run_part("tables", arms, None, tmp_path, n_splits=2)
    assert len(calls) == 4
    assert again["small"]["small"]["ridge-plain"][:1] == first["small"]["small"]["ridge-plain"]
    assert json.loads((tmp_path / "scores.json").read_text()) == again


# ---------------------------------------------------------------- figures


def arms(gain, shuffled, n=10):
    """Scores with a small spread, so that a hundredth is far above two standard errors."""
    plain = 0.7 + 0.01 * np.sin(np.arange(n))
    wobble = 0.001 * np.cos(np.arange(n))
    values = {"plain": plain, "surrogate": plain + gain + wobble, "shuffled": plain + shuffled - wobble}
    learners = {name: plain + 0.001 * k for k, name in enumerate(PLAIN)}
    return {name: list(scores) for name, scores in {**values, **learners}.items()}


def test_a_win_is_above_both_and_a_harm_below_the_plain_one():
    assert outcome(arms(0.01, 0.0)) == "win"
    assert outcome(arms(0.01, 0.01)) == ""
    assert outcome(arms(0.01, 0.02)) == ""
    assert outcome(arms(0.0, -0.01)) == ""
    assert outcome(arms(-0.01, -0.02)) == "harm"


def test_tally_counts_what_the_table_shows():
    scores = {"a": {"n": arms(0.02, 0.0)}, "b": {"n": arms(-0.01, 0.0)}, "c": {"n": arms(0.0, 0.0)}}
    found = tally(scores, "n")
    assert (found["wins"], found["harms"], found["tasks"]) == (1, 1, 3)
    assert found["gain"] == pytest.approx(1 / 3, abs=0.05)
    assert best_plain(scores["a"]["n"]) == PLAIN[-1]
    assert (found["best_wins"], found["best_losses"]) == (
        1,
        2,
    )  # the best plain learner is 0.3 points above the plain student
    table = gains_table(scores, "n")
    assert len(table) == 5
    assert table[2].endswith("| win |")
    assert table[3].endswith("| harm |")


def test_errors_are_those_of_the_mean():
    found = difference([0.5, 0.7, 0.6], [0.5, 0.6, 0.5])
    assert found.mean == pytest.approx(20 / 3)
    assert found.error == pytest.approx(np.std([0, 10, 10], ddof=1) / np.sqrt(3))


def test_controls_name_the_worst_task():
    useless = {name: arms(0.0, 0.0) for name in ("a", "b")}
    for k, part in enumerate(useless.values()):
        part["noise"] = [score - 0.01 * k for score in part["plain"]]
        part["copy"] = part["reshuffled"] = part["plain"]
    table = controls_table({name: {"n=100": part} for name, part in useless.items()})
    (line,) = [line for line in table if line.startswith("| noise")]
    assert "-0.50 | b -1.00" in line


# ---------------------------------------------------------------- the page


PARTS = {
    "tables": surrogate.tables_lines,
    "unlabeled": surrogate.unlabeled_lines,
    "digits": surrogate.digits_lines,
    "controls": surrogate.controls_lines,
}


@pytest.mark.parametrize("part", PARTS)
def test_tables_of_the_page_follow_from_the_stored_scores(part):
    scores = json.loads((RESULTS / f"surrogate-{part}.json").read_text())
    page = (RESULTS / "surrogate.md").read_text()
    missing = [line for line in PARTS[part](scores) if line not in page.splitlines()]
    assert missing == []


def test_every_table_of_the_page_is_recomputed():
    page = (RESULTS / "surrogate.md").read_text()
    known = {
        line
        for part, lines in PARTS.items()
        for line in lines(json.loads((RESULTS / f"surrogate-{part}.json").read_text()))
    }
    measured = [line for line in page.splitlines() if re.match(r"\| [^|]+ \|.* ± ", line)]
    assert measured
    assert [line for line in measured if line not in known] == []


def recomputed(part):
    return PARTS[part](json.loads((RESULTS / f"surrogate-{part}.json").read_text()))


def test_the_summary_of_the_page_says_what_its_tables_say():
    """The tables are those of the stored scores, see above."""
    page, index = (" ".join((RESULTS / f"{name}.md").read_text().split()) for name in ("surrogate", "README"))
    pattern = (
        r"averaged default, (\S+), \d+ splits: (\d+) wins, 0 harms of 11; mean gain (\S+) \(shuffled (\S+)\); over the best "
        r"plain learner (\S+), above on (\d+), below on 0\."
    )
    found = re.findall(pattern, "\n".join([*recomputed("tables"), *recomputed("unlabeled")]))
    of = {rows: figures for rows, *figures in found}
    wins, gain, shuffled, over, above = of["n=100"]
    few, many, more = of["n=50"], of["n=200"], of["60+1000"]
    digits = [line.split("|")[7].strip() for line in recomputed("digits")[-2:]]
    storms = next(line for line in recomputed("tables")[32:] if line.startswith("| storms"))
    mean, error = map(float, storms.split("|")[4].split("±"))
    assert float(shuffled) == 0.0
    said = float(re.search(r"storms is (\S+) standard errors \*below\* plain", page)[1])
    assert said == pytest.approx(-mean / error, abs=0.1)  # both are rounded here
    for said in (
        f"**100 labeled rows**: {wins} wins of 11, no harm, mean gain {gain} points over the same student on the labels (shuffled "
        f"0.00). It is above the best of four tuned plain learners on {above} tables and below it on none (mean {over})",
        f"{few[0]} and {many[0]} wins, no harm, mean gain {few[1]} and {many[1]}",
        f"{more[0]} wins of 11, no harm, mean gain {more[1]} (shuffled {more[2]}), {more[3]} over the best plain learner (above on "
        f"{more[4]}, below on none)",
        f"{digits[0]} (4 x 4 pixels) and {digits[1]} (2 x 2) points of accuracy over the best plain learner",
    ):
        assert said in page
    assert (
        f"{wins} wins of 11 with 100 labels ({gain} points over its plain counterpart, {over} over the best of four tuned plain "
        f"learners), {more[0]} of 11 with 60 labels and unlabeled rows ({more[1]})"
    ) in index
    assert "ten digits {:+.0f} and {:+.0f} points".format(*(float(one.split()[0]) for one in digits)) in index


def test_sentences_about_useless_columns():
    page = " ".join((RESULTS / "surrogate.md").read_text().split())
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in recomputed("controls")[3:]]
    useless = [row for row in rows if row[0] in ("shuffled", "noise")]
    assert {row[-1].split()[0] for row in useless} == {"0"}  # they win nowhere
    means = [float(row[3]) for row in useless]
    worst = min(float(row[4].split()[1]) for row in useless)
    copy = {(row[1], row[2]): row for row in rows if row[0] == "copy"}
    both = copy["ten", "60+1140"]
    small, large = (float(both[k].split()[1]) for k in (4, 5))
    one = copy["two", "n=100"]
    for said in (
        f"the mean change is between {min(means):+.2f} and {max(means):+.2f} and the worst table loses {-worst:.2f}",
        f"it counts as a win on both tasks ({large:+.1f} and {small:+.1f}), with 200 labeled rows it costs "
        f"{-float(copy['ten', 'n=200'][3]):.2f} on average, and with two classes one of eleven tables counts as a win "
        f"({one[5].split()[0]}, {one[5].split()[1]})",
    ):
        assert said in page
    assert both[-1] == "2 of 2"
    assert one[-1] == "1 of 11"


# ---------------------------------------------------------------- with data


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("LUPI_DATA"), reason="LUPI_DATA does not name the folder of research data")
@pytest.mark.parametrize("name", TASKS)
def test_tasks_are_numeric_and_of_two_classes(name):
    X, y, Z = load_task(name)
    assert len(X) == len(y) == len(Z)
    assert np.isfinite(X).all()
    assert np.isfinite(Z).all()
    assert set(y) == {0, 1}
    assert 0.1 < y.mean() < 0.9
