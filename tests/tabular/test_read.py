"""Tables from files: every format, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from lupi.tabular.table import Table, read_file


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.standard_normal(12), "town": ["Ulm", "Bonn", "Köln"] * 4, "ill": ["yes", "no"] * 6})


WRITERS = {
    "a.csv": lambda frame, path: frame.to_csv(path, index=False),
    "a.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "semicolon.csv": lambda frame, path: frame.to_csv(path, sep=";", index=False),
    "decimal.csv": lambda frame, path: frame.to_csv(path, sep=";", decimal=",", index=False),
    "a.tsv": lambda frame, path: frame.to_csv(path, sep="\t", index=False),
    "a.tsv.gz": lambda frame, path: frame.to_csv(path, sep="\t", index=False),
    "a.parquet": lambda frame, path: frame.to_parquet(path),
    "a.feather": lambda frame, path: frame.to_feather(path),
    "a.jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True, double_precision=15),
    "a.jsonl.gz": lambda frame, path: frame.to_json(path, orient="records", lines=True, double_precision=15),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_table(name, frame, tmp_path):
    WRITERS[name](frame, tmp_path / name)
    table = Table.of(read_file(tmp_path / name))
    assert table.columns == ["x", "town", "ill"]
    np.testing.assert_allclose(table.frame["x"], frame["x"], rtol=1e-14 if "json" in name else 0)
    assert table.frame["town"].tolist() == frame["town"].tolist()


def test_excel(frame, tmp_path):
    pytest.importorskip("openpyxl")
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    assert list(read_file(tmp_path / "a.xlsx").columns) == ["x", "town", "ill"]


def test_cells_of_text_files_stay_as_written(tmp_path):
    (tmp_path / "a.csv").write_text('id,zip,price\n007,01234,"1,234"\n008,,"5,678"\n')
    read = read_file(tmp_path / "a.csv")
    assert read["id"].tolist() == ["007", "008"]
    assert read["zip"].isna().tolist() == [False, True]
    assert read["price"].tolist() == ["1,234", "5,678"]
    (tmp_path / "b.csv").write_text("id;price\n1,2a;1,5\n2;-,25\n")
    read = read_file(tmp_path / "b.csv")
    assert read["id"].tolist() == ["1,2a", "2"]
    assert read["price"].tolist() == ["1,5", "-,25"]
    assert Table.of(read).frame["price"].tolist() == [1.5, -0.25]  # a decimal comma where the separator is another one


@pytest.mark.parametrize("name", ["a.json", "a.sav", "a.zip", "a.xls", "a.parquet.gz"])
def test_other_formats_are_refused_by_name(name, tmp_path):
    (tmp_path / name).write_bytes(b"a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"are not supported; save the table as CSV|a gzipped table must be"):
        read_file(tmp_path / name)


@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.jsonl", "a.csv.gz", "a.xlsx"])
def test_damaged_files_are_one_sentence(name, tmp_path):
    (tmp_path / name).write_bytes(b"PK\3\4 not what the name says")
    with pytest.raises((ValueError, ImportError), match=name):
        read_file(tmp_path / name)


def test_one_column_is_not_a_table(tmp_path):
    (tmp_path / "b.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match="has only one column"):
        read_file(tmp_path / "b.csv")
