"""Stores: nothing is lost, nothing is taken for something else, and errors tell a damaged file from a full disk."""

import sqlite3

import numpy as np
import pytest

from lupi.engine import store as engine_store
from lupi.engine.store import FolderStore, RunStore, StoreMismatchError, code_digest, digest_of, fingerprint


def test_a_store_keeps_every_bit_and_the_first_result(tmp_path):
    value = float(np.nextafter(0.1, 1))
    with RunStore(tmp_path / "s", "f") as opened:
        opened.add("a", {"score": value})
        opened.add("a", {"score": 0.5})
    with RunStore(tmp_path / "s", "f") as opened:
        assert opened.get("a") == {"score": value}
        assert opened.get("b") is None


def test_other_code_is_another_store(tmp_path, monkeypatch):
    """The version's number stays the same; one file of a solver changes."""
    for name in ("__init__.py", "solvers/smo.py", "bench/case.py"):
        (tmp_path / "lupi" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lupi" / name).write_text("x = 1\n")
    monkeypatch.setattr(engine_store.lupi, "__file__", str(tmp_path / "lupi" / "__init__.py"))

    def seen():
        code_digest.cache_clear()
        return fingerprint(seed=0)

    try:
        first = seen()
        (tmp_path / "benchmarks/case.py").write_text("x = 2\n")  # measures, but makes no results
        assert seen() == first
        RunStore(tmp_path / "s", first).close()
        (tmp_path / "lupi/solvers/smo.py").write_text("x = 2\n")
        with pytest.raises(StoreMismatchError, match="another protocol, other data or another version"):
            RunStore(tmp_path / "s", seen())
        images = code_digest("images")
        (tmp_path / "lupi/solvers/more.py").write_text("")
        code_digest.cache_clear()
        assert code_digest("images") == images
        (tmp_path / "lupi/solvers/smo.py").write_text("x = 1\n")
        (tmp_path / "lupi/solvers/more.py").unlink()
        assert seen() == first
    finally:
        code_digest.cache_clear()


def test_a_full_disk_is_not_a_damaged_file(tmp_path):
    with RunStore(tmp_path / "s", "f") as opened:
        opened.add("a", {"value": 1})
        pages = opened._connection.execute("PRAGMA page_count").fetchone()[0]
        opened._connection.execute(f"PRAGMA max_page_count = {pages}")  # SQLITE_FULL, as on a full disk
        with pytest.raises(OSError, match=r"full.*What it holds is kept") as caught:
            opened.add("b", {"value": "x" * 100_000})
    assert "delete" not in str(caught.value)
    with RunStore(tmp_path / "s", "f") as opened:
        assert opened.get("a") == {"value": 1}
        assert opened.get("b") is None


@pytest.mark.parametrize("case", ["folder", "read-only", "locked"])
def test_a_file_that_cannot_be_used_now_is_not_called_damaged(case, tmp_path, monkeypatch):
    path = tmp_path / "s"
    connect = sqlite3.connect
    if case == "folder":
        path.mkdir()
    else:
        RunStore(path, "f").close()
    if case == "read-only":  # as by missing rights, which a test run by root would not notice
        monkeypatch.setattr(
            sqlite3, "connect", lambda p, **k: connect(f"file:{p}?mode=ro", uri=True, isolation_level=None)
        )
    if case == "locked":
        other = connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(sqlite3, "connect", lambda p, **k: connect(p, **{**k, "timeout": 0}))
    words = {"folder": "unable to open", "read-only": "readonly", "locked": "locked"}[case]
    with pytest.raises(OSError, match=words) as caught:
        RunStore(path, "f").add("a", {})
    assert "delete" not in str(caught.value)
    if case == "locked":
        other.close()


def test_what_is_no_store_says_so(tmp_path):
    path = tmp_path / "s"
    path.write_bytes(b"not a database, but long enough to be read as one" * 10)
    with pytest.raises(ValueError, match="not a run store, or is damaged"):
        RunStore(path, "f")
    path.unlink()
    with sqlite3.connect(path) as foreign:
        foreign.execute("CREATE TABLE facts (color TEXT)")
    foreign.close()
    with pytest.raises(ValueError, match="not a run store"):
        RunStore(path, "f")
    path.unlink()
    with RunStore(path, "f") as opened:
        opened.add("a", {})
        opened._connection.execute("UPDATE units SET result = '{'")
        with pytest.raises(ValueError, match="the result of 'a' is damaged"):
            opened.get("a")


def test_a_damaged_file_of_a_folder_counts_as_absent(tmp_path):
    kept = FolderStore(tmp_path)
    kept.add("abcd", {"x": np.arange(3)})
    (file,) = tmp_path.glob("ab/*.npz")
    assert kept.get("abcd")["x"].tolist() == [0, 1, 2]
    file.write_bytes(file.read_bytes()[:40])
    assert kept.get("abcd") is None
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["cd.npz"]


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        FolderStore(tmp_path).add("abcd", {"x": np.arange(3)})
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_digests_see_values_names_types_and_order():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    digests = {digest_of(f) for f in (frame, frame.rename(columns={"a": "c"}), frame.iloc[::-1], frame[["b", "a"]])}
    assert len(digests) == 4
    assert digest_of(frame, None) != digest_of(None, frame)
    zeros = [np.zeros(4), np.zeros((2, 2)), np.zeros(4, dtype=np.int64), np.zeros(4, np.float32), [0.0] * 4, "0000"]
    assert len({digest_of(value) for value in zeros}) == len(zeros)
    assert digest_of({"a": 1, "b": [np.inf]}) == digest_of({"b": [np.float64("inf")], "a": np.int64(1)})
    assert digest_of(np.array(["a", None], dtype=object)) != digest_of(np.array(["a", "b"], dtype=object))


@pytest.mark.parametrize("change", [("1.5", "2.5"), ("value", "walue"), ("{", ""), ("\n", "")])
def test_a_changed_result_is_not_taken_for_what_was_written(change, tmp_path):
    with RunStore(tmp_path / "s", "f") as opened:
        opened.add("a", {"value": 1.5})
        opened._connection.execute("UPDATE units SET result = replace(result, ?, ?)", change)
        with pytest.raises(ValueError, match=r"s: the result of 'a' is damaged.*Delete the file to start anew"):
            opened.get("a")
