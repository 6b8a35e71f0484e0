"""Targets: tables in files and frames, for the commands. What is read is compared with what Python's own csv module reads."""

import csv
import gzip
import io
import math
import warnings

import numpy as np
import pandas as pd
from attack.harness import Target
from attack.mutations import damaged_bytes, pick
from sklearn.linear_model import LogisticRegression

from lupi.comparison.leakage import examine
from lupi.comparison.problem import make_problem
from lupi.tabular.model import TabularModel
from lupi.tabular.table import OddCells, Schema, parse_column, read_file

WORDS = (
    "Ulm", "Bonn", "Köln", "a b", 'say "x"', "two\nlines", "semi;colon", "comma,", "tab\tbed", "=1+1", "[red]", "x" * 200,
    "ja/nein", "nein ", "-", "+", "1a", "0x1f", "日本", "1.2.3", "e5", "--", "#", "'", "1:30", "\u2028", "%", "\\", "~",
)  # fmt: skip
NAMES = ("age", "x 1", "größe", "a,b", 'q"q', "1", "[/x]", "=b", "target.1", "z", "Unnamed", "x;y", "index", "id", "y2")
# What pandas reads as "no value".
GAPS = set(pd._libs.parsers.STR_NA_VALUES)
LABELS = (("no", "yes"), ("0", "1"), ("a", "b", "c"), ("1.5", "2.5"), ("ill", "well"))


def column(rng, n):
    """Texts of a column: numbers in some form, words, or nothing; with gaps."""
    kind = int(rng.integers(7))
    if kind == 0:
        texts = [repr(float(v)) for v in rng.normal(size=n) * pick(rng, (1.0, 1e-9, 1e12, 1e200))]
    elif kind == 1:
        texts = [str(int(v)) for v in rng.integers(-5, pick(rng, (3, 1000, 2**62)), n)]
    elif kind == 2:
        texts = [f"{v:.3e}" for v in rng.normal(size=n)]
    elif kind == 3:
        texts = [""] * n
    elif kind == 4:
        texts = [pick(rng, ("True", "False")) for _ in range(n)]
    else:
        texts = [pick(rng, WORDS) for _ in range(n)]
    return [pick(rng, ("", "NA", "nan")) if rng.random() < 0.1 else text for text in texts] if kind else texts


def make_text(rng, _):
    """A table as a person or a program writes it: separator, quotes, ends of lines, a mark in front, packed or not."""
    rng = np.random.default_rng(0) if rng is None else rng
    n, k = int(rng.integers(1, 12)), int(rng.integers(2, 6))
    names = [str(name) for name in rng.choice(NAMES, k, replace=False)]
    rows = list(zip(*[column(rng, n) for _ in names]))
    style = {
        "delimiter": pick(rng, ",,;\t"),
        "quoting": pick(rng, (csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL)),
        "lineterminator": pick(rng, ("\n", "\n", "\r\n")),
    }
    file = io.StringIO()
    csv.writer(file, **style).writerows([names, *rows])
    content = file.getvalue().encode()
    if rng.random() < 0.2:
        content = b"\xef\xbb\xbf" + content
    return content, pick(
        rng, ("t.csv", "t.csv", "t.csv", "t.csv.gz", "t.tsv" if style["delimiter"] == "\t" else "t.txt")
    )


def make_damaged(rng, _):
    content, name = make_text(rng, _)
    return (content if rng is None else damaged_bytes(rng, content)), name


def attack_text(case, folder):
    """Every cell is the one that the csv module finds at its place, or the table is refused."""
    content, name = case
    path = folder / name
    path.write_bytes(gzip.compress(content, 1) if name.endswith(".gz") else content)
    found = read_file(path)
    text = content.decode("utf-8-sig")
    header = text.split("\n", 1)[0]
    separator = "\t" if name == "t.tsv" else max(",;\t", key=header.count)
    names, *rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    rows = [row for row in rows if row]
    assert len(found.columns) == len(names), "another number of columns"
    assert all(a == b or b == "" or a.startswith(b) for a, b in zip(found.columns, names)), "other names"
    # Lines with nothing but blanks are no rows.
    blank = [row for row in rows if not "".join(row).strip()]
    assert len(rows) - len(blank) <= len(found) <= len(rows), "another number of rows"
    if len(found) == len(rows):
        for j, title in enumerate(found.columns):
            check_cells(found[title], [row[j] for row in rows], "." if separator == "," else ",")


def check_cells(cells, texts, decimal):
    """Cells are text as written, or gaps; what the schema takes for a number, boolean or date is one."""
    kind, form = Schema.learn(cells.to_frame("c")).columns["c"]
    values = parse_column(cells.rename("c"), kind, form, OddCells())
    for cell, value, text in zip(cells.tolist(), list(values), texts):
        plain = text.strip()
        if not isinstance(cell, str):
            assert plain in GAPS or plain == "", f"{text!r} became a gap"
            continue
        assert cell == text, (cell, text)
        if plain in GAPS:
            assert pd.isna(value), (value, text)
        elif kind == "number":
            number = float(plain.replace(decimal, ".") if decimal == "," else plain)
            assert value == number or not math.isfinite(number), (value, text)
        elif kind == "word":
            assert value in (plain, plain.partition(".0")[0]), (value, text)
        else:
            assert any(ch.isdigit() for ch in plain) or plain.lower() in ("true", "false"), (value, text)


def frame_of(rng):
    """A frame with a target, decision and privileged columns of all types."""
    n = int(pick(rng, (6, 12, 30)))
    made = {}
    for kind, count in (("x", int(rng.integers(1, 4))), ("z", int(rng.integers(1, 3)))):
        for k in range(count):
            made[f"{kind}{k}"] = series(rng, n)
    frame = pd.DataFrame(made)
    words = pick(rng, LABELS)
    target = [words[k % len(words)] for k in rng.permutation(n)]
    frame["t"] = [None if rng.random() < 0.1 else word for word in target]
    return frame[[str(name) for name in rng.permutation(frame.columns)]]


def series(rng, n):
    kind = int(rng.integers(10))
    numbers = rng.normal(size=n) * pick(rng, (1.0, 1e-9, 1e9, 1e200))
    if kind == 0:
        return rng.integers(0, 3, n)
    if kind == 1:
        return pd.Series([pick(rng, WORDS) for _ in range(n)], dtype=pick(rng, ("object", "string", "category")))
    if kind == 2:
        return pd.Series(pd.date_range("2020-01-01", periods=n)).sample(frac=1, random_state=0).to_numpy()
    if kind == 3:
        return rng.random(n) < 0.5
    if kind == 4:
        return pd.array(rng.integers(0, 9, n), dtype="Int64")
    if kind == 5:
        return np.full(n, pick(rng, (0.0, 1.0, np.nan, 1e300)))
    if kind == 6:
        return pd.Series([pick(rng, (None, "a", 1, 2.5, "b")) for _ in range(n)], dtype=object)
    numbers[rng.random(n) < 0.2] = pick(rng, (np.nan, np.nan, np.inf, 0.0))
    return (
        numbers.astype(np.float32)
        if kind == 7 and np.abs(numbers[np.isfinite(numbers)]).max(initial=0) < 1e30
        else numbers
    )


def make_frame(rng, _):
    rng = np.random.default_rng(1) if rng is None else rng
    return frame_of(rng), int(rng.integers(2**31))


def attack_frame(case, _):
    """Split, checked, searched for leaks, fitted; columns count by their names, wherever they stand."""
    frame, seed = case
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem, _ = make_problem(frame, target="t", privileged="z*")
        told = examine(problem.X, problem.y, problem.privileged, "t")
        X, rows = frame.rename(columns=str)[problem.X.columns], problem.labeled
        model = TabularModel(LogisticRegression(max_iter=20))
        model.fit(X.iloc[rows], problem.y[rows])
        first = model.decision_function(X)
        moved = frame.drop(columns=["t"])[[str(c) for c in rng.permutation(frame.columns.drop("t"))]]
        second = model.decision_function(moved.assign(surplus=1.0))
        labels = model.predict(X)
    assert all(isinstance(text, str) for text in told[1])
    np.testing.assert_array_equal(first, second)
    assert np.isfinite(first).all()
    assert set(labels.tolist()) <= set(model.classes_.tolist())


TARGETS = [
    Target("written", lambda folder: folder, make_text, attack_text, (ValueError,), lambda case: 20_000 + len(case[0])),
    Target(
        "damaged", lambda folder: folder, make_damaged, attack_text, (ValueError,), lambda case: 20_000 + len(case[0])
    ),
    Target("frames", lambda folder: None, make_frame, attack_frame, (ValueError, TypeError), lambda case: 10**6),
]
