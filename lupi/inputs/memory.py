"""How much memory there is, asked before it is taken: an error that explains, not a process that is killed."""

from __future__ import annotations

from pathlib import Path

GIB = 2**30
# Share of the free memory that one array may take; the rest is for copies and for others.
USABLE = 0.9


def available_memory(root: Path = Path("/")) -> float:
    """Bytes that this process can still take: free memory of the machine, or what its control groups leave.

    Parameters
    ----------
    root : Path
        Where ``proc`` and ``sys`` are found.

    Returns
    -------
    float
        Infinite where the system does not say.

    Examples
    --------
    >>> available_memory() > 0
    True
    """
    return min([_free(root / "proc/meminfo"), *_left_by_groups(root)])


def require_memory(needed: float, what: str, advice: str) -> None:
    """Refuse to take more memory than there is.

    Parameters
    ----------
    needed : float
        Bytes.
    what : str
        What they are for; begins the message.
    advice : str
        What to do instead.

    Raises
    ------
    MemoryError
        That says how much is needed, how much there is, and what to do.

    Examples
    --------
    >>> require_memory(8.0 * 10**15, "a huge matrix", "use a linear kernel")
    Traceback (most recent call last):
        ...
    MemoryError: a huge matrix needs 7450580.6 GiB of memory, but only ... GiB are available; use a linear kernel.
    """
    usable = USABLE * available_memory()
    if needed > usable:
        raise MemoryError(
            f"{what} needs {needed / GIB:.1f} GiB of memory, but only {usable / GIB:.1f} GiB are available; {advice}."
        )


def _free(meminfo: Path) -> float:
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return float("inf")
    values = [float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return values[0] if values else float("inf")


def _left_by_groups(root: Path) -> list[float]:
    """What the limits of the process's control groups and of the groups around them leave, version 2 and 1."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    out = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            mount, limit, usage = root / "sys/fs/cgroup", "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            mount, limit, usage = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        folder = mount / group.lstrip("/")
        while True:
            most, taken = _number(folder / limit), _number(folder / usage)
            if most is not None:
                out.append(max(0.0, most - (taken or 0.0)))
            if folder == mount:
                break
            folder = folder.parent
    return out


def _number(path: Path) -> float | None:
    """The number in a file; None where there is no file or, as in "max", no number."""
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return None
