"""Kinds of columns, learned from one table and used for later ones."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

from lupi.tabular.table import Schema, Table, text_notes

TEXT_NOTE = "Columns of free text (TF-IDF, at most 100 features each): 'a'."

KINDS = {
    "numbers": ([1, 2, None], "number"),
    "numbers as text": (["1", " -2.5e3 ", None, "+.5", "inf"], "number"),
    "numbers among objects": (pd.Series([1, 2.5, None, True], dtype=object), "number"),
    "no value": ([None, None], "number"),
    "booleans": ([True, False], "number"),
    "booleans as text": (["True", None, "FALSE"], "boolean"),
    "underscores": (["1_0", "2_0"], "word"),
    "words": (["a", None, "1"], "word"),
    "categories": (pd.Categorical(["1", "2"]), "word"),
    "a version": (["1.2.1.4", "1.2.2.4"], "word"),
    "sentences": ([None, *(f"a bird with {k} wings" for k in range(31))], "text"),
    "few sentences": ([None, *(f"a bird with {k} wings" for k in range(30))], "word"),
    "short titles": ([f"bird {k} 2020-31" for k in range(31)], "word"),
    "categories of sentences": (pd.Categorical([f"a bird with {k} wings" for k in range(31)]), "word"),
    "no such day": (["2020-02-31", "2020-02-30"], "word"),
}


@pytest.mark.parametrize("case", KINDS)
def test_kinds(case):
    values, kind = KINDS[case]
    frame = pd.DataFrame({"a": values})
    assert Schema.learn(frame).columns == {"a": (kind, "")}
    infinite = (
        pytest.warns(UserWarning, match="1 of 4 cells do not, such as 'inf'") if "inf" in values else nullcontext()
    )
    with infinite:
        table = Table.of(frame)
    assert {"word": table.words, "text": table.texts}.get(kind, table.numbers) == ["a"]
    assert len(table.words + table.texts + table.numbers) == 1
    assert text_notes(table) == [TEXT_NOTE] * (kind == "text")


DAYS = {
    "2021-03-0{}": "%Y-%m-%d",
    "2021-03-0{} 14:05": "%Y-%m-%d",
    "2021-03-0{}T14:05:59": "%Y-%m-%d",
    "2021-3-{}": "%Y-%m-%d",
    "2021/03/0{}": "%Y/%m/%d",
    "0{}.03.2021": "%d.%m.%Y",
    "0{}.03.21": "%d.%m.%y",
    "03/2{}/21 08:30": "%m/%d/%y",
    "2{}/03/2021": "%d/%m/%Y",
}


@pytest.mark.parametrize("written", DAYS)
def test_dates_count_as_days(written):
    frame = pd.DataFrame({"day": [written.format(1), None, written.format(2), written.format(5)]})
    table = Table.of(frame)
    assert table.schema.columns == {"day": ("date", DAYS[written])}
    days = table.frame["day"].to_numpy()
    np.testing.assert_allclose(np.diff(days[[0, 2, 3]]), [1, 3])
    assert np.isnan(days[1])
    assert 18687 <= days[0] < 18687 + 25  # March 2021


def test_dates_that_are_no_text_count_alike():
    frame = pd.DataFrame({"day": pd.to_datetime(["2021-03-01 12:00", None])})
    table = Table.of(frame)
    assert table.schema.columns == {"day": ("date", "")}
    assert table.frame["day"][0] == 18687.5
    text = pd.DataFrame({"day": ["1.3.2021 12:00"]})  # a model trained on Parquet, a later table from a text file
    assert table.schema.parse(text).frame["day"][0] == 18687.5
    assert Table.of(text).schema.parse(frame).frame["day"][0] == 18687.5


def test_later_tables_are_read_by_the_schema_of_training():
    """A single later row would be read in another way by itself: month first, a number, a boolean."""
    schema = Schema.learn(pd.DataFrame({"day": ["25/12/2020", "1/2/2021"], "code": ["007", "x"], "fee": ["1", "2.5"]}))
    later = pd.DataFrame({"extra": [1], "fee": [3], "code": ["007"], "day": ["03/04/2021"]})
    found = schema.parse(later).frame
    assert found["day"].tolist() == [(pd.Timestamp("2021-04-03") - pd.Timestamp(0)).days]
    assert found["code"].tolist() == ["007"]
    assert found["fee"].tolist() == [3.0]
    for wrong, message in (
        ({"fee": ["dear"]}, "column 'fee' must hold finite numbers, but 1 of 1 cells do not, such as 'dear'"),
        (
            {"day": ["3. April"]},
            "column 'day' must hold dates such as %d/%m/%Y without a time zone, but .* such as '3. April'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            schema.parse(later.assign(**wrong))
    with pytest.raises(ValueError, match=r"lacks the column\(s\) that the model needs: day, fee"):
        schema.parse(later[["code"]])
    with pytest.raises(TypeError, match="trained on a data frame"):
        schema.parse(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="X has 2 features, but 3 are needed"):
        Schema.learn(np.zeros((1, 3))).parse(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="two columns are called '1'"):
        Schema.learn(pd.DataFrame([[1, 2]], columns=[1, "1"]))


def test_rows_and_columns():
    table = Table.of(pd.DataFrame({"a": [1.0, None, 3.0], "b": ["u", None, "v"]}))
    assert table.empty_rows().tolist() == [False, True, False]
    part = table.take(np.array([2, 0]))
    assert part.frame["b"].tolist() == ["v", "u"]
    assert part.drop(["a"]).columns == ["b"]
    joined = table.join(part.take([0, 1, 1]))
    assert joined.columns == list(joined.schema.columns) == ["a", "b", "a (privileged)", "b (privileged)"]
