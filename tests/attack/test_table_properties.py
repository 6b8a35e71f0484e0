"""Properties of tables and of what leaves the process, for whatever hypothesis comes up with; the same examples in every run."""

import csv
import io
import pickle
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from attack.tables import GAPS

pytest.importorskip("hypothesis")
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.base import BaseEstimator

from lupi.privacy import WithoutPrivilegedRows, keep_privileged
from lupi.tabular.table import Table, read_file

repeatable = settings(derandomize=True, deadline=None, max_examples=40, database=None)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
# Letters that start a word which is neither a number, a date nor a gap.
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8).map(lambda text: f"w{text}w")


@repeatable
@given(st.lists(st.tuples(NUMBERS, WORDS), min_size=1, max_size=6), st.sampled_from(",;\t"))
def test_a_table_comes_back_as_it_was_written(rows, separator):
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows([("number", "word"), *rows])
    with TemporaryDirectory() as folder:
        path = f"{folder}/t.csv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text.getvalue())
        found = read_file(path)
    assert list(found.columns) == ["number", "word"]
    np.testing.assert_array_equal(Table.of(found[["number"]]).frame["number"], [row[0] for row in rows])
    assert [word for _, word in rows] == ["" if value in GAPS else value for value in found["word"]]


class Holder(WithoutPrivilegedRows, BaseEstimator):
    _needed = ("rest",)

    def fit(self, rows, rest):
        self.rows, self.rest = rows, rest
        return self


@repeatable
@given(arrays.arrays(np.float64, (4, 2), elements=st.floats(1e3, 1e6)), st.integers(0, 5))
def test_what_prediction_does_not_need_stays_unless_it_is_asked_for(rows, protocol):
    model = Holder().fit(rows, "rest")
    left = pickle.loads(pickle.dumps([model], protocol=protocol))[0]
    assert "rows" not in vars(left)
    assert left.rest == "rest"
    with keep_privileged():
        whole = pickle.loads(pickle.dumps([model], protocol=protocol))[0]
    np.testing.assert_array_equal(whole.rows, rows)
