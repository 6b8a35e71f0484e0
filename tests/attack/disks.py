"""Targets: disks that are full, files that may not grow, folders that may not be written, while models and results are kept."""

import errno
import os
import resource
import signal
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from attack.harness import Target
from attack.mutations import pick

import lupi
from lupi.datasets import make_privileged
from lupi.files import ArrayFolder
from lupi.run import Store

X, Y, Z = make_privileged(24, 3, 2, random_state=0, return_X_y_privileged=True)
CAUSES = (
    "no space left",
    "too large",
    "full",
    "read-only",
    "permission",
    "not a directory",
    "i/o error",
    "input/output error",
    "is a directory",
)


@contextmanager
def small_files(most):
    """The system refuses to make any file larger than this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@contextmanager
def failing(name, number, moment):
    """A function of the system that fails from its call of this number on."""
    right, calls = getattr(os, name), []

    def fails(*arguments, **options):
        calls.append(name)
        if len(calls) > moment:
            raise OSError(number, os.strerror(number))
        return right(*arguments, **options)

    setattr(os, name, fails)
    try:
        yield
    finally:
        setattr(os, name, right)


class Prepared:
    """A folder, and two models that answer differently."""

    def __init__(self, folder):
        self.folder = folder
        self.models = [lupi.RankSVM().fit(X, Y), lupi.RankSVM().fit(-X, Y)]
        self.answers = [model.decision_function(X) for model in self.models]


def make(rng, _):
    """What is written, and how the disk fails."""
    if rng is None:
        return "model", None, 0, 0
    what = pick(rng, ("model", "results", "results", "arrays"))
    how = pick(rng, ("small", "small", "fsync", "replace", "open", None))
    number = pick(rng, (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO))
    return what, how, number, int(rng.integers(0, 40_000)) if how == "small" else int(rng.integers(0, 4))


@contextmanager
def bad_disk(how, number, amount):
    if how == "small":
        with small_files(amount):
            yield
    elif how is None:
        yield
    else:
        with failing(how, number, amount):
            yield


def attack(case, prepared):
    """What was there before is there after, in whole; what was said to be kept is kept; the error names its cause."""
    what, *disk = case
    {"model": attack_model, "results": attack_results, "arrays": attack_arrays}[what](disk, prepared)


@contextmanager
def told(path):
    """An error of the system has to name file and cause; and no part of a file may be left."""
    before = {p.name for p in path.iterdir()}
    try:
        yield
    except OSError as problem:
        check_message(str(problem).lower(), path)
        check_no_parts({p.name for p in path.iterdir()} - before)
        raise


def check_message(message, path):
    assert any(cause in message for cause in CAUSES), f"no cause: {message}"
    assert str(path).lower() in message, f"no file: {message}"


def check_no_parts(names):
    assert not {name for name in names if name.startswith(".")}, f"left behind: {names}"


def attack_model(disk, prepared):
    path, now = prepared.folder / "m.lupi", 0
    lupi.save(prepared.models[0], path)
    try:
        with told(prepared.folder), bad_disk(*disk):
            lupi.save(prepared.models[1], path)
        now = 1
    finally:
        np.testing.assert_array_equal(lupi.load(path).decision_function(X), prepared.answers[now])


def attack_results(disk, prepared):
    path = prepared.folder / "run.sqlite"
    for old in prepared.folder.glob("run.sqlite*"):
        old.unlink()
    kept = {}
    try:
        with told(prepared.folder), bad_disk(*disk), Store(path, "abc") as store:
            for k in range(12):
                store.add(f"unit {k}", {"score": k, "text": "x" * 3000})
                kept[f"unit {k}"] = k
    finally:
        # When there is room again, everything that was added is there, and the rest can be.
        with Store(path, "abc") as store:
            for name, score in kept.items():
                assert store.get(name)["score"] == score, name
            store.add("one more", {"score": -1})
            assert store.get("one more")["score"] == -1


def attack_arrays(disk, prepared):
    store, kept = ArrayFolder(prepared.folder / "arrays"), {}
    Path(prepared.folder / "arrays").mkdir(exist_ok=True)
    try:
        with told(prepared.folder / "arrays"), bad_disk(*disk):
            for k in range(4):
                store.add(f"ab{k}", {"values": np.full(400, k)})
                kept[f"ab{k}"] = k
    finally:
        for name, k in kept.items():
            assert (store.get(name)["values"] == k).all(), name


TARGETS = [Target("disks", Prepared, make, attack, (OSError,), lambda case: 10**6)]
