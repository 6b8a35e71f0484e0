"""Atomic files, digests, and folders of arrays."""

import os
import stat

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


@pytest.mark.parametrize("umask", [0o077, 0o022, 0o002])
def test_a_new_file_follows_the_umask_and_an_existing_one_keeps_its_mode(umask, tmp_path):
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "new", b"")
        modes = [0o600, 0o640, 0o666, 0o444]
        for mode in modes:
            path = tmp_path / f"{mode:o}"
            path.touch()
            path.chmod(mode)
            write_atomically(path, b"content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o666 & ~umask
    assert [stat.S_IMODE((tmp_path / f"{mode:o}").stat().st_mode) for mode in modes] == modes


def test_a_file_is_never_more_open_than_the_one_that_it_replaces(tmp_path, monkeypatch):
    path, seen, right = tmp_path / "model", [], os.open
    path.touch()
    path.chmod(0o600)

    def watched(*arguments, **options):
        handle = right(*arguments, **options)
        seen.append(stat.S_IMODE(os.fstat(handle).st_mode))
        return handle

    monkeypatch.setattr("os.open", watched)
    write_atomically(path, b"content")
    assert seen == [0o600]


@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_keeps_its_target_which_is_written(exists, tmp_path):
    folder = tmp_path / "models"
    target, link = folder / "v2", tmp_path / "current"
    if exists:
        folder.mkdir()
        target.write_bytes(b"old")
    link.symlink_to("models/v2")
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["current", "models", "v2"]


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
