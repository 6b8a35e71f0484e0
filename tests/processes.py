"""Commands in processes of their own, and who is left when they are ended."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lupi

ROOT = Path(lupi.__file__).parents[1]
# Warnings are errors in scripts, too; those that the oldest dependencies give about each other are none of ours.
STRICT = ("-W", "error", *(("-W", "ignore::DeprecationWarning") if "LUPI_OLD_DEPENDENCIES" in os.environ else ()))


def start(*words, code=None, **options):
    """The command `lupi`, or Python code with arguments, in a process of its own; silent unless told otherwise."""
    what = ["-m", "lupi.cli"] if code is None else ["-c", code]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]), **options.pop("env", {})}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, *what, *map(str, words)], env=env, **{**quiet, **options})


def wait_until(condition, message, seconds=240):
    """Look again and again; the last chance is `seconds` from now."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, message
        time.sleep(0.01)


def descendants(pid):
    """Processes that a process has started, and those that these have started; only Linux tells."""
    if not Path("/proc/self/task").is_dir():
        pytest.skip("the system does not tell who started whom")
    own = [int(c) for path in Path(f"/proc/{pid}/task").glob("*/children") for c in path.read_text().split()]
    return own + [grandchild for child in own for grandchild in descendants(child)]


def is_alive(pid):
    """Whether a process runs; one that has ended but that nobody asked about yet (a zombie, Z) does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
