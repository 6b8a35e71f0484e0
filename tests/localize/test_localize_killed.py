"""`kill -9` in the middle of `lupi localize fit`, then the same command: as if nothing had happened."""

import signal
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from PIL import Image
from processes import descendants, is_alive, start, wait_until
from vision_data import pictures

import lupi

N_IMAGES, N_CELLS = 24, 8


@pytest.fixture
def table(tmp_path):
    rows = ["image,top,left,bottom,right"]
    for k, (image, box, _) in enumerate(zip(*pictures(N_IMAGES, shape=(192, 256)))):
        Image.fromarray(image).save(tmp_path / f"{k:02}.png")
        rows.append(",".join(map(str, [f"{k:02}.png", *box])))
    path = tmp_path / "boxes.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def words(table, model, cache, jobs):
    options = ["--method", "ssvm", "--detector", "surf+dense", "--words", "40", "--grid-step", "8", "--tol", "1e-4"]
    options += ["--seed", "3", "--search", N_CELLS, "--jobs", jobs, "-o", model, "--cache", cache]
    return ["localize", "fit", *map(str, [table, *options])]


def kill_when_some_exist(process, found):
    """Kill -9 as soon as the first result is stored; how many there are then, when nobody is left behind."""
    wait_until(lambda: found() or process.poll() is not None, "the command stored nothing")
    assert process.poll() is None, "the command ended before it stored anything"
    workers = descendants(process.pid)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    wait_until(lambda: not any(map(is_alive, workers)), f"orphaned workers: {workers}", 30)
    return len(found())


def files(cache):
    """Complete files with arrays; those that are still written have names that begin with a dot."""
    return {path.relative_to(cache): path.read_bytes() for path in cache.rglob("[!.]*.npz")}


def cells(cache):
    """Stored results of the search."""
    found = {}
    for path in (cache / "search").glob("*.sqlite"):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as connection:
            if connection.execute("SELECT name FROM sqlite_master WHERE name = 'unit'").fetchone():
                found |= dict(connection.execute("SELECT key, result FROM unit WHERE key <> ''"))
    return found


def test_killed_in_extraction_and_in_search(table, tmp_path, command):
    cache, fresh, model = tmp_path / "cache", tmp_path / "fresh", tmp_path / "model.lupi"
    interrupted = words(table, model, cache, jobs=2)
    assert 1 <= kill_when_some_exist(start(*interrupted), lambda: files(cache)) < N_IMAGES
    assert not cells(cache)
    assert 1 <= kill_when_some_exist(start(*interrupted), lambda: cells(cache)) < N_CELLS
    assert not model.exists()
    # One worker, where the interrupted runs had two: that makes no difference either.
    assert command(*words(table, model, cache, jobs=1)).exit_code == 0
    assert command(*words(table, tmp_path / "whole.lupi", fresh, jobs=1)).exit_code == 0
    resumed, whole = lupi.load(model), lupi.load(tmp_path / "whole.lupi")
    assert len(whole.search_) == N_CELLS
    assert resumed.search_ == whole.search_
    assert resumed.get_params() == whole.get_params()
    np.testing.assert_array_equal(resumed.bag_.vocabulary_, whole.bag_.vocabulary_)
    np.testing.assert_array_equal(resumed.model_.coef_, whole.model_.coef_)
    # What the interrupted runs left behind is what the whole run computed, byte for byte.
    assert files(cache) == files(fresh)
    assert cells(cache) == cells(fresh)
