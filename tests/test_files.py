"""Atomic files, digests, and folders of arrays."""

import numpy as np
import pytest

from lupi.files import ArrayFolder, digest_of, write_atomically


def test_a_damaged_file_counts_as_absent(tmp_path):
    store = ArrayFolder(tmp_path)
    store.add("abcd", {"x": np.arange(3)})
    (file,) = tmp_path.glob("ab/*.npz")
    assert store.get("abcd")["x"].tolist() == [0, 1, 2]
    file.write_bytes(file.read_bytes()[:40])
    assert store.get("abcd") is None
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["cd.npz"]


def test_a_failed_write_leaves_the_old_file_and_names_path_and_cause(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    path = tmp_path / "model"
    write_atomically(path, b"old")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"No space left.*model"):
        write_atomically(path, b"new")
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"]


def test_digests_depend_on_values_names_types_and_order():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    digests = {digest_of(f) for f in (frame, frame.rename(columns={"a": "c"}), frame.iloc[::-1], frame[["b", "a"]])}
    assert len(digests) == 4
    assert digest_of(frame, None) != digest_of(None, frame)
    zeros = [np.zeros(4), np.zeros((2, 2)), np.zeros(4, dtype=np.int64), np.zeros(4, np.float32), [0.0] * 4, "0000"]
    assert len({digest_of(value) for value in zeros}) == len(zeros)
    assert digest_of({"a": 1, "b": [np.inf]}) == digest_of({"b": [np.float64("inf")], "a": np.int64(1)})
    assert digest_of(np.array(["a", None], dtype=object)) != digest_of(np.array(["a", "b"], dtype=object))
