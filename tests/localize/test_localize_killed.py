"""`kill -9` in the middle of `lupi localize fit`, then the same command: as if nothing had happened."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
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


def start(table, model, cache, jobs=2):
    """The command itself."""
    options = ["--method", "ssvm", "--detector", "surf+dense", "--words", "40", "--grid-step", "8", "--tol", "1e-4"]
    options += ["--search", str(N_CELLS), "--seed", "3", "--jobs", str(jobs), "-o", model, "--cache", cache]
    command = [sys.executable, "-m", "lupi.cli", "localize", "fit", table, *options]
    env = {**os.environ, "PYTHONPATH": str(Path(lupi.__file__).parents[1])}
    # Workers outlive a killed command for a second; they must not hold a pipe that somebody waits for.
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([str(part) for part in command], env=env, **quiet)


def kill_when_one_exists(process, folder, pattern):
    """Kill -9 as soon as the first result is stored; how many there are then."""
    deadline = time.monotonic() + 240
    while not any(folder.rglob(pattern)):
        assert process.poll() is None, "the command ended before it stored anything"
        assert time.monotonic() < deadline, "the command stored nothing"
        time.sleep(0.002)
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    found = len(list(folder.rglob(pattern)))
    # Nobody is left behind to wait for work that never comes.
    while any(map(is_alive, workers)):
        assert time.monotonic() < deadline, f"orphaned workers: {workers}"
        time.sleep(0.1)
    return found


def children(pid):
    """Processes that a process has started; empty where the system does not tell."""
    lists = Path("/proc", str(pid), "task").glob("*/children")
    return [int(child) for path in lists for child in path.read_text().split()]


def is_alive(pid):
    try:
        # A process that has ended but that nobody asked about yet is a zombie, Z.
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_killed_in_extraction_and_in_search(table, tmp_path):
    cache, model = tmp_path / "cache", tmp_path / "model.lupi"
    # Files that are still written have names that begin with a dot.
    points = kill_when_one_exists(start(table, model, cache), cache, "[!.]*.npz")
    assert 1 <= points < N_IMAGES
    assert not list((cache / "search").rglob("*.json"))
    cells = kill_when_one_exists(start(table, model, cache), cache / "search", "[!.]*.json")
    assert 1 <= cells < N_CELLS
    assert not model.exists()
    assert start(table, model, cache).wait() == 0
    # One worker, where the interrupted runs had two: that makes no difference either.
    assert start(table, tmp_path / "whole.lupi", tmp_path / "fresh", jobs=1).wait() == 0
    resumed, whole = lupi.load(model), lupi.load(tmp_path / "whole.lupi")
    assert len(whole.search_) == N_CELLS
    assert resumed.search_ == whole.search_
    assert resumed.get_params() == {**whole.get_params(), "n_jobs": 2}
    np.testing.assert_array_equal(resumed.bag_.vocabulary_, whole.bag_.vocabulary_)
    np.testing.assert_array_equal(resumed.model_.coef_, whole.model_.coef_)
    # What the interrupted runs left behind is what the whole run computed, byte for byte.
    left, fresh = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("[!.]*.*")}
        for root in (cache, tmp_path / "fresh")
    )
    assert left.keys() == fresh.keys()
    assert all(left[name] == fresh[name] for name in left)
