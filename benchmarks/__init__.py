"""Cases of `python -m benchmarks`, the runner that measures them and the tables that show the figures."""

from importlib import import_module

# Resolved on first use: a list of the cases should not wait for numpy.
_PUBLIC = {
    "PEERS": "_peers",
    "cpu_time": "_registry",
    "facts": "_render",
    "load_cases": "_registry",
    "run_cases": "_runner",
    "tables": "_render",
}

__all__ = [*_PUBLIC]


def __getattr__(name):
    if name in _PUBLIC:
        return getattr(import_module(f"benchmarks.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'benchmarks' has no attribute {name!r}")
