"""Warnings about columns that are the target, or are in X already, however they are disguised."""

import numpy as np
import pytest

from lupi.comparison.leakage import leakage

pd = pytest.importorskip("pandas")
N = 400
rng = np.random.default_rng(0)
CLASSES = rng.integers(0, 2, N)
THREE = rng.integers(0, 3, N)
NUMBER = rng.standard_normal(N)
TOWN = rng.choice(["Ulm", "Bonn", "Kiel", "Köln"], N)
AGE = rng.normal(50, 10, N)
NAMES = np.array(["well", "ill"])


def flipped(labels, share):
    out = labels.copy()
    rows = rng.permutation(N)[: int(share * N)]
    out[rows] = 1 - out[rows]
    return out


def with_gaps(values, share=0.2):
    return pd.Series(values).mask(rng.random(N) < share)


def notes_on(column, y=CLASSES, block="Z"):
    tables = {"X": pd.DataFrame({"age": AGE, "town": TOWN}), "Z": pd.DataFrame({"honest": rng.standard_normal(N)})}
    tables[block] = tables[block].assign(odd=column)
    notes = leakage(tables["X"], y, tables["Z"], "y")
    assert all("'odd'" in note for note in notes), notes  # no false alarm about the others
    return " ".join(notes)


TARGETS = {
    "renamed": (CLASSES, CLASSES),
    "words": (NAMES[CLASSES], CLASSES),
    "words for words": (np.array(["b", "a"])[CLASSES], NAMES[CLASSES]),
    "text of numbers": (CLASSES.astype(str), CLASSES),
    "three classes in another order": (np.array([7, 1, 4])[THREE], THREE),
    "scaled": (3 - 0.1 * CLASSES, CLASSES),
}
ALMOST = {
    "1% flipped": (flipped(CLASSES, 0.01), CLASSES),
    "with noise": (CLASSES + 0.3 * rng.random(N), CLASSES),
    "with gaps": (with_gaps(CLASSES), CLASSES),
    "gaps that tell it": (np.where(CLASSES == 1, np.nan, 1.0), CLASSES),
    "several codes for each class": (10 * rng.integers(0, 4, N) + CLASSES, CLASSES),
    "words, several for each class": (np.char.add(rng.choice(["x", "y", "z"], N), NAMES[CLASSES]), CLASSES),
    "three classes, several codes": (10 * rng.integers(0, 4, N) + THREE, THREE),
    "both ends of a scale": (
        np.where(CLASSES == 1, rng.choice([-1, 1], N) * (1 + rng.random(N)), 0.9 * rng.random(N)),
        CLASSES,
    ),
    "a number, scaled": (7 - 2 * NUMBER, NUMBER),
    "a number, rounded": (NUMBER.round(1), NUMBER),
    "a number with noise": (NUMBER + 0.05 * rng.standard_normal(N), NUMBER),
    "a number with gaps": (with_gaps(NUMBER), NUMBER),
    "a number's power": (np.exp(NUMBER), NUMBER),
}
HONEST = {
    "a good predictor": (CLASSES + 0.6 * rng.standard_normal(N), CLASSES),
    "20% flipped": (flipped(CLASSES, 0.2), CLASSES),
    "a correlated number": (NUMBER + 0.5 * rng.standard_normal(N), NUMBER),
    "one class only": (CLASSES, np.ones(N)),
    "one rare class": (rng.standard_normal(N), (np.arange(N) < 3).astype(int)),
    "many words": (rng.choice([f"w{k}" for k in range(25)], N), CLASSES),
}


@pytest.mark.parametrize("block", ["X", "Z"])
@pytest.mark.parametrize("case", TARGETS)
def test_the_target_under_another_name(case, block):
    kind = {"X": "ordinary", "Z": "privileged"}[block]
    assert f"The {kind} column 'odd' is the target 'y' under another name" in notes_on(*TARGETS[case], block)


@pytest.mark.parametrize("block", ["X", "Z"])
@pytest.mark.parametrize("case", ALMOST)
def test_almost_the_target(case, block):
    notes = notes_on(*ALMOST[case], block)
    assert "column 'odd' alone tells the target 'y' almost exactly (" in notes or "under another name" in notes


@pytest.mark.parametrize("case", HONEST)
def test_no_false_alarm(case):
    assert notes_on(*HONEST[case]) == ""


COPIES = {
    "renamed": (AGE, "age", "repeats"),
    "scaled": (5 + 2 * AGE, "age", "repeats"),
    "turned round": (-AGE, "age", "is almost a copy"),
    "near": (AGE + 0.1 * rng.standard_normal(N), "age", "is almost a copy"),
    "rounded": (AGE.round(), "age", "is almost a copy"),
    "with gaps": (with_gaps(AGE), "age", "is almost a copy"),
    "recoded words": (pd.Series(TOWN).map({"Ulm": 4, "Bonn": 1, "Kiel": 3, "Köln": 2}), "town", "repeats"),
    "coarser words": (np.where(np.isin(TOWN, ["Ulm", "Köln"]), "south", "north"), "town", "can be read off"),
}


@pytest.mark.parametrize("case", COPIES)
def test_copies_of_ordinary_columns(case):
    column, name, words = COPIES[case]
    assert f"The privileged column 'odd' {words} " in notes_on(column)
    assert f"the ordinary column {name!r}" in notes_on(column)


def test_gaps_on_the_other_side():
    X, Z = pd.DataFrame({"a": with_gaps(AGE)}), pd.DataFrame({"b": AGE})
    assert leakage(X, CLASSES, Z) == ["The privileged column 'b' is almost a copy of the ordinary column 'a'."]


def test_columns_that_tell_nothing():
    assert notes_on(np.ones(N)) == "The privileged column 'odd' has one value only: it tells nothing."
    assert notes_on(np.full(N, np.nan)) == "The privileged column 'odd' has no value: it tells nothing."


def test_identifiers_are_pointed_out():
    assert "almost as many words as rows" in notes_on([f"p{k}" for k in range(N)])


def test_a_wide_table_is_quick_enough_to_run():
    X, Z = (pd.DataFrame(rng.integers(0, 9, (300, 120)), columns=[f"{n}{k}" for k in range(120)]) for n in "xz")
    Z["z7"] = 5 - X["x3"]
    assert leakage(X, rng.integers(0, 2, 300), Z) == [
        "The privileged column 'z7' repeats the ordinary column 'x3': it tells nothing new."
    ]
