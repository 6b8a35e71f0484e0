"""Commands in processes of their own, and who is left when they are ended."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import lupi

ROOT = Path(lupi.__file__).parents[1]


def start(*words, code=None, **options):
    """The command `lupi`, or Python code with arguments, in a process of its own; silent unless told otherwise."""
    what = ["-m", "lupi.cli"] if code is None else ["-c", code]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)]),
        **options.pop("env", {}),
    }
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As of a script in the background, and what is ignored here is ignored there.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return subprocess.Popen([sys.executable, *what, *map(str, words)], env=env, **{**quiet, **options})


@contextmanager
def dask_cluster(folder):
    """A scheduler and one worker in processes of their own: the scheduler's address, and both processes."""
    file, module = Path(folder) / "scheduler.json", "from distributed.cli.dask_{} import main; main()"
    file.unlink(missing_ok=True)
    quiet = ["--scheduler-file", file, "--no-dashboard", "--host", "127.0.0.1"]
    processes = [start(*quiet, "--port", 0, code=module.format("scheduler"))]
    try:
        wait_until(file.exists, "there is no scheduler")
        processes.append(start(*quiet, "--nthreads", 1, "--no-nanny", code=module.format("worker")))
        yield json.loads(file.read_text())["address"], *processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


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
