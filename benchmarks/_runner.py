"""Run benchmark cases and collect the result in one dictionary, which JSON and the table are made from."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import process_time

from benchmarks._registry import NOT_INSTALLED, load_cases
from lupi import __version__

MEASURED_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "cvxopt", "piqp", "highspy")


def run_cases(names=(), *, quick=False, on_start=lambda case: None):
    """Run cases with single-threaded BLAS and describe the machine.

    Parameters
    ----------
    names : sequence of str
        Cases to run; empty means all.
    quick : bool, default=False
        Whether the cases are to use small sizes; their figures then prove nothing but that they run.
    on_start : callable
        Called with each case before it runs.

    Returns
    -------
    dict
        `system`, `quick`, and `cases`: name, title, cpu_seconds, rows and error of each.

    Raises
    ------
    KeyError
        For a name that is no case.
    """
    from threadpoolctl import threadpool_limits

    cases = load_cases()
    chosen = [cases[name] for name in names or cases]
    results = []
    with threadpool_limits(limits=1):
        for case in chosen:
            on_start(case)
            start = process_time()
            rows, error = [], None
            try:
                rows = [row.to_dict() for row in case.function(quick)]
            except Exception as problem:  # the other cases can still be measured
                error = f"{type(problem).__name__}: {problem}"
            results.append(
                {
                    "name": case.name,
                    "title": case.title,
                    "cpu_seconds": process_time() - start,
                    "rows": rows,
                    "error": error,
                }
            )
    return {"system": system_facts(), "quick": quick, "cases": results}


def system_facts():
    """What a reader needs to know to judge the times.

    Returns
    -------
    dict of str to str or int

    Examples
    --------
    >>> from benchmarks._runner import system_facts
    >>> sorted(system_facts())
    ['blas_threads', 'cores', 'cpu', 'date', 'packages', 'platform', 'python']
    """
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "blas_threads": 1,
        "packages": {"lupi": __version__} | {package: _version(package) for package in MEASURED_PACKAGES},
    }


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return NOT_INSTALLED


def _cpu_model():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"
