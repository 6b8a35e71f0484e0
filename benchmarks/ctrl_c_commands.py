"""Ctrl-C at random moments of commands: how long do they go on?"""

from __future__ import annotations

import sys

from benchmarks._registry import Row, case

REPEATS = 5
# Loading takes the first seconds; no command ends before the last moment.
FIRST, LAST = 3.0, 12.0


def _table(folder, n):
    from lupi.datasets import make_privileged

    make_privileged(n, 20, 5, random_state=0, as_frame=True).frame.to_csv(folder / "table.csv", index=False)
    return [folder / "table.csv", "--target", "target", "--privileged", "z*"]


def _pictures(folder, n):
    from benchmarks.vision import photographs

    rows = [f"{path},40,60,200,300" for path in photographs(folder, n)]
    (folder / "boxes.csv").write_text("\n".join(["image,top,left,bottom,right", *rows]) + "\n")
    return [folder / "boxes.csv", "-o", folder / "m.lupi", "--cache", folder / "cache"]


def _commands(folder):
    table, out = _table(folder, 3000), ["--out", folder / "report"]
    several = ["--methods", "svm+,svm2+,surrogate,ranktransfer", "--train-size", 1000]
    return {
        "lupi fit, SVM+ of 3000 rows": ["fit", *table, "--method", "svm+", "-o", folder / "m.lupi"],
        "lupi compare, one process": ["compare", *table, *several, *out, "--jobs", 1],
        "lupi compare, two workers": ["compare", *table, *several, *out, "--jobs", 2],
        "lupi localize fit, two workers": ["localize", "fit", *_pictures(folder, 60), "--search", 8, "--jobs", 2],
        "python -m experiments, two workers": ["reproduce", "surrogate-digits", *out, "--jobs", 2],
    }


def waiting_time(words, moment):
    """Interrupt a command.

    Parameters
    ----------
    words : list
        Of the command line, without `lupi`.
    moment : float
        Seconds from its start.

    Returns
    -------
    tuple of float
        Seconds from the signal to its end, by the clock and of the processor (of the command itself; NaN where the system does
        not tell).
    """
    import os
    import signal
    import subprocess
    from time import monotonic, sleep

    from benchmarks.ctrl_c import hear_ctrl_c, processor_seconds

    hear_ctrl_c()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, "-m", "lupi.cli", *map(str, words)], **quiet)
    try:
        sleep(moment)
        if process.poll() is not None:
            raise RuntimeError(f"`lupi {words[0]}` ended before it was interrupted, with code {process.returncode}")
        sent, used = monotonic(), processor_seconds(process.pid)
        process.send_signal(signal.SIGINT)
        if hasattr(os, "waitid"):  # it has ended, but the system still knows what it has used
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        caught, then = monotonic(), processor_seconds(process.pid)
        process.wait()
        return caught - sent, then - used
    finally:
        process.kill()
        process.wait()


@case("ctrl-c-commands", "Ctrl-C at five random moments of commands: seconds until they have ended")
def ctrl_c_commands(quick):
    """<= 1 s of the processor."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    import numpy as np

    rng = np.random.default_rng(0)
    rows = []
    with TemporaryDirectory() as folder:
        commands = _commands(Path(folder))
        for name in list(commands)[:1] if quick else commands:
            waits = [waiting_time(commands[name], m) for m in rng.uniform(FIRST, LAST, 1 if quick else REPEATS)]
            clock, processor = (max(column) for column in zip(*waits))
            rows.append(Row(name, processor, target="<= 1 s", note=f"at most {clock:.2f} s by the clock"))
    return rows
