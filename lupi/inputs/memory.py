"""Free memory: large arrays are checked before they are allocated, so that an error replaces a killed process."""

from __future__ import annotations

from pathlib import Path

GIB = 2**30
# Share of the free memory that one array may take; the rest is for copies and other processes.
USABLE = 0.9
# Limit and usage of a control group, by controller.
FILES = {"": ("memory.max", "memory.current"), "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes")}


def available_memory(root: Path = Path("/")) -> float:
    """Bytes that this process can still allocate, by ``proc`` and ``sys`` in `root`; infinite where these do not exist."""
    return min([_free(root / "proc/meminfo"), *_left_by_groups(root)])


def require_memory(needed: float, what: str, advice: str) -> None:
    """Raise MemoryError if more bytes are needed than are free.

    Examples
    --------
    >>> require_memory(8.0 * 10**15, "a huge matrix", "use a linear kernel")
    Traceback (most recent call last):
        ...
    MemoryError: a huge matrix needs 7450580.6 GiB of memory, but only ... GiB are available; use a linear kernel.
    """
    usable = USABLE * available_memory()
    if needed > usable:
        amounts = f"{needed / GIB:.1f} GiB of memory, but only {usable / GIB:.1f} GiB are available"
        raise MemoryError(f"{what} needs {amounts}; {advice}.")


def _free(meminfo: Path) -> float:
    lines = meminfo.read_text().splitlines() if meminfo.exists() else []
    found = [float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return min(found, default=float("inf"))


def _left_by_groups(root: Path) -> list[float]:
    """Bytes left by the limits of the process's control groups and the groups that contain them, version 2 and 1."""
    groups, out = root / "proc/self/cgroup", []
    for line in groups.read_text().splitlines() if groups.exists() else []:
        _, controllers, group = line.split(":", 2)
        for controller in {"", "memory"} & set(controllers.split(",")):  # version 2 has no controllers
            mount, (limit, usage) = root / "sys/fs/cgroup" / controller, FILES[controller]
            folder = mount / group.lstrip("/")
            places = (place for place in (folder, *folder.parents) if place.is_relative_to(mount))
            out += [max(0.0, _number(p / limit, float("inf")) - _number(p / usage, 0.0)) for p in places]
    return out


def _number(path: Path, default: float) -> float:
    """The number in a file; the default if there is no file or, as in "max", no number."""
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return default
