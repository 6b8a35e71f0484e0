"""Warnings about columns that are the target, or are in X already, however they are disguised."""

import numpy as np
import pytest

from lupi.comparison.leakage import examine

pd = pytest.importorskip("pandas")


def leakage(*args, **options):
    return examine(*args, **options)[1]


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
    assert "column 'odd' alone predicts the target 'y' almost exactly (" in notes or "under another name" in notes


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
    "coarser words": (np.where(np.isin(TOWN, ["Ulm", "Köln"]), "south", "north"), "town", "follows from"),
}


@pytest.mark.parametrize("case", COPIES)
def test_copies_of_ordinary_columns(case):
    column, name, words = COPIES[case]
    assert f"The privileged column 'odd' {words} " in notes_on(column)
    assert f" the ordinary column {name!r}, which is available at prediction time: " in notes_on(column)
    assert notes_on(column).endswith(f"a gain may only mean that {name!r} is a strong feature.")


def test_gaps_on_the_other_side():
    X, Z = pd.DataFrame({"a": with_gaps(AGE)}), pd.DataFrame({"b": AGE})
    (note,) = leakage(X, CLASSES, Z)
    assert note.startswith("The privileged column 'b' is almost a copy of the ordinary column 'a'")


def test_columns_that_tell_nothing():
    assert notes_on(np.ones(N)) == "The privileged column 'odd' has one value only: it adds nothing."
    assert notes_on(np.full(N, np.nan)) == "The privileged column 'odd' has no value: it adds nothing."


def test_identifiers_are_pointed_out():
    notes = notes_on([f"p{k}" for k in range(N)])
    assert "almost as many words as rows" in notes
    assert "identifier" not in notes_on([f"came in with case {k}" for k in range(N)])  # free text is none
    assert "alone predicts" not in notes  # a word is scored by the rows of the other half, not by its own row


@pytest.mark.parametrize("seed", range(20))
def test_repeated_rows_of_continuous_columns_make_no_copies(seed):
    """Also where the repeated rows differ in a number of the specimen, and where the target is a number."""
    generator = np.random.default_rng(seed)
    n, width = (60, 150, 400)[seed % 3], 5 + 55 * seed // 19
    rows = np.append(np.arange(n), generator.choice(n, (1, n // 50)[seed % 2]))
    table = pd.DataFrame(generator.standard_normal((n, width))).iloc[rows].add_prefix("c").reset_index(drop=True)
    table["specimen"] = generator.integers(0, 9, len(table)) if seed % 4 > 1 else 0.0
    y = (generator.standard_normal(n) if seed % 5 > 2 else generator.integers(0, 2, n))[rows]
    assert leakage(table.iloc[:, width // 2 :], y, table.iloc[:, : width // 2]) == []
    copy = table.iloc[:, [0]].rename(columns={"c0": "copy"}) * 3  # found beside the repeated rows
    (note,) = leakage(table, y, copy)
    assert note.startswith("The privileged column 'copy' repeats the ordinary column 'c0'")


def test_a_wide_table_is_quick_enough_to_run():
    X, Z = (pd.DataFrame(rng.integers(0, 9, (300, 120)), columns=[f"{n}{k}" for k in range(120)]) for n in "xz")
    Z["z7"] = 5 - X["x3"]
    (note,) = leakage(X, rng.integers(0, 2, 300), Z)
    assert note.startswith("The privileged column 'z7' repeats the ordinary column 'x3'")


# ---------------------------------------------------------------- words, two columns together, repeated subjects


def test_words_are_scored_by_what_they_predict():
    """Thirty words whose spelling says nothing; each stands for one class."""
    words = np.array([f"w{k:02}" for k in np.random.default_rng(3).permutation(60)])
    column = words[2 * rng.integers(0, 30, N) + CLASSES]
    assert "alone predicts the target 'y' almost exactly (" in notes_on(column)
    number = pd.Series(NUMBER).rank().to_numpy() // 8
    assert "alone predicts" in notes_on(
        np.array([f"v{k}" for k in np.random.default_rng(4).permutation(60)])[number.astype(int)], NUMBER
    )


FIRST, SECOND = rng.normal(10, 3, N), rng.normal(5, 2, N)
DEAD = rng.integers(0, 2, N)
JOINT = {
    "difference": (FIRST, FIRST - NUMBER, NUMBER, "difference"),
    "sum": (SECOND, NUMBER - SECOND, NUMBER, "sum"),
    "ratio": (np.exp(NUMBER) * (5 + FIRST**2), 5 + FIRST**2, NUMBER, "ratio"),
    "two dates that are the same day": (
        FIRST,
        np.where(CLASSES == 1, FIRST, FIRST + 1 + SECOND**2),
        CLASSES,
        "difference",
    ),
    "both are true": (DEAD, np.where(CLASSES == 1, 1, 0), DEAD * CLASSES, "sum"),
}


@pytest.mark.parametrize("case", JOINT)
@pytest.mark.parametrize("where", ["X", "Z", "both"])
def test_two_columns_together(case, where):
    a, b, y, how = JOINT[case]
    X, Z = pd.DataFrame({"age": AGE, "town": TOWN}), pd.DataFrame({"honest": rng.standard_normal(N)})
    for name, column, table in (("a", a, "X" if where != "Z" else "Z"), ("b", b, "X" if where == "X" else "Z")):
        (X if table == "X" else Z)[name] = column
    leaks, notes = examine(X, y, Z, "y")
    (leak,) = [leak for leak in leaks if len(leak["columns"]) == 2]
    assert sorted(leak["columns"]) == ["a", "b"]
    assert leak["kind"] == ("ordinary" if where == "X" else "privileged")
    assert leak["text"].startswith((f"Leakage? The {how} (", "Leakage? The product ("))
    assert leak["text"] in notes


def test_two_honest_columns_give_no_alarm():
    X = pd.DataFrame({f"x{k}": rng.standard_normal(N) for k in range(8)})
    Z = pd.DataFrame({f"z{k}": rng.standard_normal(N) for k in range(8)})
    assert examine(X, CLASSES, Z)[0] == []
    assert examine(X, (X["x0"] + 0.5 * rng.standard_normal(N) > 0).astype(int).to_numpy(), Z)[0] == []
    rare = (np.arange(N) < 9).astype(int)  # nine rows are told apart by some pair out of many
    assert examine(X, rare, Z)[0] == []
    assert examine(X, THREE, Z)[0] == []


@pytest.mark.parametrize(("noise", "single", "leaks"), [(0.1, 1.0, 1), (0.35, 1.0, 0), (0.1, 0.02, 0), (0.16, 0.14, 0)])
def test_a_joint_leak_is_nearly_exact_and_clearly_better_than_either_column(noise, single, leaks):
    """Noise moves the rank correlation of the difference across 0.98; `single` that of column b alone.

    In the last case b is no leak (0.977), but the difference (0.987) leaves more than half of its error.
    """
    generator = np.random.default_rng(5)
    a = generator.standard_normal(N) * single
    b = a - NUMBER - noise * generator.standard_normal(N)
    correlation = abs(pd.Series(a - b).corr(pd.Series(NUMBER), method="spearman"))
    assert (correlation > 0.98) == (noise < 0.2)
    assert correlation > 0.9
    found = examine(pd.DataFrame({"a": a, "age": AGE}), NUMBER, pd.DataFrame({"b": b}))[0]
    assert len([leak for leak in found if len(leak["columns"]) == 2]) == leaks


def test_rows_without_a_label_say_nothing():
    y = np.where(rng.random(N) < 0.5, np.nan, CLASSES)
    hidden = np.where(np.isnan(y), rng.integers(0, 2, N), CLASSES)
    assert "is the target 'y' under another name" in notes_on(hidden, y)


def test_arrays_are_examined_too():
    leaks, _ = examine(np.column_stack([AGE, NUMBER]), CLASSES, np.column_stack([NUMBER, CLASSES]), "y")
    assert [leak["columns"] for leak in leaks] == [["column 1"]]


SUBJECTS = {
    "a name": ("subject", np.array([f"S{k:02}" for k in np.arange(N) // 5])),
    "a name and a visit": ("name", np.array([f"phon_S{k // 6:02}_{k % 6}" for k in range(N)])),
    "a number": ("patient_id", np.arange(N) // 4),
}


@pytest.mark.parametrize("where", ["X", "dropped"])
@pytest.mark.parametrize("case", SUBJECTS)
def test_repeated_subjects_are_pointed_out(case, where):
    name, column = SUBJECTS[case]
    X, Z = pd.DataFrame({"age": AGE}), pd.DataFrame({"z": rng.standard_normal(N)})
    others = pd.DataFrame({name: column})
    if where == "X":
        X, others = X.assign(**{name: column}), None
    notes = leakage(X, CLASSES, Z, "y", others=others)
    assert any(f"The column {name!r} looks like repeated subjects" in note for note in notes)
    assert not any("repeated subjects" in note for note in leakage(X, CLASSES, Z, "y", others=others, grouped=True))


def test_rows_that_are_all_but_equal_are_pointed_out():
    base = rng.standard_normal((N // 2, 4))
    X = np.vstack([base, base + 1e-5 * rng.standard_normal(base.shape)])
    notes = leakage(X, CLASSES, rng.standard_normal((N, 1)), "y")
    assert any("% of the rows are nearly equal to another row" in note for note in notes)
    few = rng.integers(0, 3, (N, 4))  # equal rows are no surprise here
    assert not any("nearly equal" in note for note in leakage(few, CLASSES, rng.standard_normal((N, 1)), "y"))


def test_one_rare_class_is_no_leak():
    """Without the guard for a class of three rows nearly any column would be a leak in some table."""
    for seed in range(20):
        column = np.random.default_rng(seed).standard_normal(N)
        for size in (1, 2, 3, 4):
            y = np.zeros(N, dtype=int)
            y[np.argsort(column)[:size]] = 1  # told apart exactly
            assert examine(pd.DataFrame({"a": AGE}), y, pd.DataFrame({"odd": column}))[0] == []
    y[np.argsort(column)[:8]] = 1
    assert examine(pd.DataFrame({"a": AGE}), y, pd.DataFrame({"odd": column}))[0]
