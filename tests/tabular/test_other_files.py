"""The same rows in another file: a schema reads the same values, or reports the cells that it cannot read."""

import datetime as dt
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from lupi.tabular.table import Schema, read_file

DAY_FIRST = ["25/12/2020", "03/04/2021", "03/05/2021"]
DAYS = pd.to_datetime(["2020-12-25", "2021-04-03", "2021-05-03"])
AWARE = ["2020-12-25T10:00:00Z", "2021-04-03T10:00:00Z"]
CODES = ["1", "2", "3", "X"]

# Training column, the same rows in another form.
SAME = {
    "dates whose days are all below 13": (DAY_FIRST, [None, "03/04/2021", "03/05/2021"]),
    "text dates as real dates": (DAY_FIRST, DAYS),
    "text dates as days without a time": (DAY_FIRST, pd.Series(DAYS.date, dtype=object)),
    "text dates as ISO text": (DAY_FIRST, DAYS.strftime("%Y-%m-%d")),
    "real dates as ISO text": (DAYS, DAYS.strftime("%Y-%m-%d %H:%M:%S")),
    "real dates as text with points": (DAYS, DAYS.strftime("%d.%m.%Y")),
    "dates in Z with an offset": (AWARE, ["2020-12-25 12:00:00+02:00", "2021-04-03T05:30:00-0430"]),
    "dates in Z as real dates of a time zone": (AWARE, pd.to_datetime(AWARE).tz_convert("Asia/Tokyo")),
    "real dates of a time zone as text": (pd.to_datetime(AWARE).tz_convert("Asia/Tokyo"), AWARE),
    "codes with zeros": (["001", "002", "A01"], ["001", "002", None]),
    "codes as numbers": (CODES, pd.Series([1, 2, 3, "X"], dtype=object)),
    "codes with a gap as floats": (CODES, [1.0, 2.0, np.nan, None]),
    "codes with a gap as text of floats": (CODES, ["1.0", "2.0", None, "X"]),
    "codes of floats as text": (pd.Series([1.0, 2.0, "X"], dtype=object), ["1", "2", "X"]),
    "codes as categories": (CODES, pd.Categorical(CODES)),
    "categories of numbers as text": (pd.Categorical([1.0, 2.0, None]), ["1", "2", None]),
    "categories of numbers as numbers": (pd.Categorical(["1", "2", None]), [1.0, 2.0, np.nan]),
    "numbers with a gap": ([1, 2, 3], [1.0, np.nan, 3.0]),
    "numbers as text": ([1, 2, 3], ["1", "2.0", " 3e0 "]),
    "numbers as decimals": (["1.5", "2"], [Decimal("1.50"), Decimal(2)]),
    "decimals as numbers": ([Decimal("1.50"), Decimal(2)], [1.5, 2.0]),
    "numbers as categories": (["1.5", "2"], pd.Categorical([1.5, 2.0])),
    "percentages": (["12%", "7.5 %", "-1%"], ["12.0%", "7.5%", " -1 %"]),
    "booleans as text": ([True, False], ["True", "FALSE"]),
    "booleans as numbers": (["true", "false"], [1, 0]),
    "booleans with a gap": ([True, False], pd.Series([True, None], dtype=object)),
    "text of booleans as booleans": (["True", "False", None], pd.array([True, False, None], dtype="boolean")),
    "booleans among words": (["True", "False", "unknown"], pd.Series([True, False, "unknown"], dtype=object)),
    "spaces": (["Ulm", "Bonn"], [" Ulm", "Bonn  "]),
    "empty text and other gaps": (["Ulm", None, "3", None], ["Ulm", "", "3", " NA "]),
    "gaps among numbers": (["1", None, None], ["1", "", "nan"]),
    "pandas strings": (["Ulm", None], pd.array(["Ulm", None], dtype="string")),
    "nullable numbers": (["1", None], pd.array([1, None], dtype="Int64")),
}


def parsed(schema, values):
    return schema.parse(pd.DataFrame({"a": values})).frame["a"]


def assert_equal_where_known(found, expected):
    known = found.notna().to_numpy()
    assert found[known].tolist() == expected[: len(found)][known].tolist()


@pytest.mark.parametrize("case", SAME)
def test_the_same_values_in_another_form(case):
    training, later = SAME[case]
    schema = Schema.learn(pd.DataFrame({"a": training}))
    expected, found = parsed(schema, training), parsed(schema, later)
    gaps = pd.DataFrame({"a": later})["a"].astype("string").str.strip().isin(["", "NA", "nan"]) | pd.isna(later)
    assert found.isna().tolist() == gaps.tolist()
    assert_equal_where_known(found, expected)
    assert found.notna().any()
    assert (found.dtype == "category") == (expected.dtype == "category")


def arrow(values, kind):
    pa = pytest.importorskip("pyarrow")
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.array(values, type=kind(pa))))


@pytest.mark.parametrize(
    ("training", "values", "kind"),
    [
        (["1.5", "2", None], [Decimal("1.50"), Decimal("2.00"), None], lambda pa: pa.decimal128(9, 2)),
        (DAY_FIRST, list(DAYS.date), lambda pa: pa.date32()),
        (DAY_FIRST, list(DAYS), lambda pa: pa.timestamp("us")),
        (AWARE, list(pd.to_datetime(AWARE)), lambda pa: pa.timestamp("us", "UTC")),
        (CODES, CODES, lambda pa: pa.string()),
        (CODES, CODES, lambda pa: pa.dictionary(pa.int8(), pa.string())),
        (CODES, [1, 2, None], lambda pa: pa.int64()),
        (["True", "False", None], [True, False, None], lambda pa: pa.bool_()),
    ],
)
def test_arrow_columns_hold_the_same_values(training, values, kind):
    column, schema = arrow(values, kind), Schema.learn(pd.DataFrame({"a": training}))
    assert_equal_where_known(parsed(schema, column), parsed(schema, training))
    assert parsed(schema, column).isna().tolist() == [value is None for value in values]
    learned = Schema.learn(pd.DataFrame({"a": column}))
    assert learned.columns["a"][0] == schema.columns["a"][0] or values[0] in (1, True)


UNREADABLE = {
    "infinite text": (["1", "2"], "1e999"),
    "infinite numbers": ([1.0, 2.0], np.inf),
    "infinity": (["1", "2"], "-inf"),
    "other words for nothing": (["1", "2"], "?"),
    "thousands separators": (["1", "2"], "1,234"),
    "a percent sign": (["1", "2"], "12%"),
    "no percent sign": (["1%", "2%"], "12"),
    "a number among percentages": (["1%", "2%"], 0.12),
    "the month first": (["25/12/2020", "24/12/2020"], "12/25/2020"),
    "a slash among real dates": (DAYS, "03/04/2021"),
    "a century": (["25.12.70", "24.12.70"], "26.12.1970"),
    "a real date where there was no century": (["25.12.70", "24.12.70"], pd.Timestamp("1970-12-26")),
    "a year without its century": (["25.12.1970", "24.12.1970"], "26.12.70"),
    "a time without its zone": (AWARE, "2020-12-25T10:00:00"),
    "a time zone": (["2020-12-25 10:00", "2020-12-26 10:00"], "2020-12-25T10:00Z"),
    "a real time zone": (DAYS, pd.Timestamp("2020-12-25", tz="UTC")),
    "a number among dates": (DAYS, 5),
    "a date among numbers": ([1, 2], pd.Timestamp("2020-12-25")),
    "a third boolean": (["True", "False"], 2),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_few_unreadable_cells_are_gaps_with_a_warning_and_more_are_an_error(case):
    training, cell = UNREADABLE[case]
    schema = Schema.learn(pd.DataFrame({"a": training}))
    many = [*training] * 10
    with pytest.warns(
        UserWarning, match=r"column 'a' should hold .* but 1 of 21 cells do not, such as .* count as gaps"
    ):
        found = parsed(schema, pd.Series([*many[:20], cell], dtype=object))
    assert found.isna().tolist() == [False] * 20 + [True]
    for later in ([*many[:9], cell, cell], [cell]):
        with pytest.raises(ValueError, match=r"column 'a' must hold .* but \d of \d+ cells .* such as"):
            parsed(schema, pd.Series(later, dtype=object))
    if case.startswith("a real"):
        with pytest.raises(ValueError, match="column 'a' must hold dates"):
            parsed(schema, pd.Series([cell]))


def test_infinite_cells_of_training_and_of_arrays_are_not_silent():
    column = [*range(40), np.inf]
    for table in (pd.DataFrame({"a": column}), np.array(column)[:, None]):
        schema = Schema.learn(table)
        with pytest.warns(UserWarning, match="1 of 41 cells .*inf"):
            assert np.isnan(schema.parse(table).frame.to_numpy()[40]).all()
        with pytest.raises(ValueError, match="must hold finite numbers, but 1 of 1 cells"):
            schema.parse(table[40:])


def test_dates_that_can_be_read_in_two_ways_are_named():
    with pytest.warns(UserWarning, match="'day'.* month first"):
        schema = Schema.learn(pd.DataFrame({"day": ["01/02/2020", "03/04/2020"]}))
    assert schema.columns["day"] == ("date", "%m/%d/%Y")


def test_numbers_that_can_be_read_in_two_ways_are_named():
    with pytest.warns(UserWarning, match="'price'.*'1,234'.* as words"):
        assert Schema.learn(pd.DataFrame({"price": ["1,234", "12,345"]})).columns["price"][0] == "word"


@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas_are_those_of_the_file(separator, tmp_path):
    schema = Schema.learn(pd.DataFrame({"a": ["1.5", "1234"], "b": ["1.234", "2"], "code": ["1,5", "x"]}))

    def read(*rows):
        (tmp_path / "t.csv").write_text("\n".join(separator.join(row) for row in [("a", "b", "code"), *rows]))
        return schema.parse(read_file(tmp_path / "t.csv")).frame

    found = read(["1,5", "1,234", "1,5"], ["1234", "2,0", "x"])
    assert found["a"].tolist() == [1.5, 1234]
    assert found["b"].tolist() == [1.234, 2]
    assert found["code"].tolist() == ["1,5", "x"]
    # No comma of this file is certain to be a decimal one.
    with pytest.raises(ValueError, match=r"column 'a' must hold .* such as '1,234'"):
        read(["1,234", "1.234", "x"], ["1,234", "1.234", "x"])
    # Nor is a point where commas are decimal.
    with pytest.raises(ValueError, match=r"column 'a' must hold .* such as '1\.234'"):
        read(["1.234", "1,5", "x"], ["1.234", "1,5", "x"])


def test_a_warning_is_no_habit():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=9), "b": list("xyzxyzxyz"), "c": [dt.date(2020, 1, 20)] * 9})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Schema.learn(frame).parse(frame[:3])
