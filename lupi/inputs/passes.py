"""Passes over rows that are not in memory: one block after the other, here or on a Dask cluster, a few at a time.

Nothing stays on a worker: a block is made, looked at and forgotten in one task. So a lost worker costs the blocks that it was
working on, which are made again elsewhere, and memory is bounded by the blocks in flight.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any

from joblib import cpu_count
from threadpoolctl import threadpool_limits

from lupi.run import as_they_arrive, cluster_errors, count_threads

if TYPE_CHECKING:
    from lupi.inputs.chunks import RowBlock

# A worker gets its next block while it works on one.
BLOCKS_FOR_EACH_THREAD = 2
TRAINING_IS_LOST = (
    "The training has to be started again when the cluster is back; nothing runs on this machine instead."
)


def over_blocks(
    function: Callable[..., Any], blocks: Sequence[RowBlock], arguments: Iterable[tuple[Any, ...]]
) -> Iterator[Any]:
    """``function(block, *arguments)`` for every block.

    Inside :func:`~lupi.run.cluster`, or where the user has made a Dask client, on its workers; otherwise in threads
    of this process.

    Parameters
    ----------
    function : callable
        Gets the block, and makes its values with ``block.make``.
    blocks : sequence of RowBlock
    arguments : iterable of tuple
        One for each block.

    Yields
    ------
    object
        In the order of the blocks, so that sums do not depend on who was first.
    """
    client = _client()
    if client is None:
        yield from _in_threads(function, blocks, arguments)
        return
    waiting, place = {}, 0
    for number, result in _on_cluster(client, function, blocks, arguments):
        waiting[number] = result
        while place in waiting:
            yield waiting.pop(place)
            place += 1


def threads() -> int:
    """Blocks that are in memory at a time, in a pass without a cluster: by Dask's settings, or one for each core.

    Examples
    --------
    >>> threads() >= 1
    True
    """
    import dask

    if dask.config.get("scheduler", None) in ("synchronous", "sync", "single-threaded"):
        return 1
    return int(dask.config.get("num_workers", None) or cpu_count())


def _in_threads(
    function: Callable[..., Any], blocks: Sequence[RowBlock], arguments: Iterable[tuple[Any, ...]]
) -> Iterator[Any]:
    # One thread for each product: several would be taken from the other blocks.
    with threadpool_limits(limits=1), ThreadPoolExecutor(threads()) as pool:
        calls = zip(blocks, arguments)
        waiting = deque(pool.submit(function, block, *rest) for block, rest in islice(calls, threads()))
        try:
            while waiting:
                yield waiting.popleft().result()
                waiting.extend(pool.submit(function, block, *rest) for block, rest in islice(calls, 1))
        finally:
            pool.shutdown(cancel_futures=True)


def _client() -> Any:
    """The client of the cluster that we are in, or that the user has made; None for this process."""
    if "distributed" not in sys.modules:
        return None
    import dask
    from distributed import default_client

    if dask.config.get("scheduler", None) not in (None, "dask.distributed", "distributed"):
        return None
    try:
        return default_client()
    except ValueError:
        return None


def _on_cluster(
    client: Any, function: Callable[..., Any], blocks: Sequence[RowBlock], arguments: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[int, Any]]:
    """Numbers and results of the blocks, in any order."""
    with cluster_errors(TRAINING_IS_LOST):
        n_threads = count_threads(client)
    jobs = (
        (lambda block=block, rest=rest, place=place: _start(client, function, place, block, rest))
        for place, (block, rest) in enumerate(zip(blocks, arguments))
    )
    yield from as_they_arrive(client, jobs, BLOCKS_FOR_EACH_THREAD * n_threads, TRAINING_IS_LOST)


def _start(client: Any, function: Callable[..., Any], place: int, block: RowBlock, rest: tuple[Any, ...]) -> Any:
    """Submit one block; where the collection is on the cluster already, the scheduler brings its values."""
    import dask

    # A slice of the vectors goes with every block, and is meant to.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
        if not block.persisted:
            return client.submit(_visit, function, place, block, *rest, pure=False)
        names = list(block.keys)
        values = client.get(block.graph, [block.keys[name] for name in names], sync=False)
        return client.submit(_visit_made, function, place, block.number, names, values, *rest, pure=False)


def _visit(function: Callable[..., Any], place: int, block: RowBlock, *rest: Any) -> tuple[int, Any]:
    with threadpool_limits(limits=1):
        return place, function(block, *rest)


def _visit_made(
    function: Callable[..., Any], place: int, number: int, names: list[str], values: list[Any], *rest: Any
) -> tuple[int, Any]:
    with threadpool_limits(limits=1):
        return place, function(MadeBlock(number, dict(zip(names, values))), *rest)


class MadeBlock:
    """A block whose values are at hand."""

    def __init__(self, number: int, values: dict[str, Any]) -> None:
        self.number, self.values = number, values

    def make(self, names: Iterable[str]) -> list[Any]:
        """Values of some of the collections."""
        return [self.values[name] for name in names]
