"""Units of work of an entry: each one stored as soon as it is finished, so that the same command goes on after any interruption."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import Counter
from time import process_time

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from lupi import __version__
from lupi.engine.store import RunStore


def fingerprint(**facts):
    """Identity of a store's results: the protocol and the data as JSON-like facts, and the version of lupi.

    Examples
    --------
    >>> fingerprint(words=3) == fingerprint(words=3) != fingerprint(words=4)
    True
    """
    return hashlib.sha256(json.dumps({**facts, "lupi": __version__}, sort_keys=True).encode()).hexdigest()


def finish(work, path, identity, *, n_jobs=1, on_progress=None):
    """Do the work that the store does not hold yet, in any order, and return all results.

    Parameters
    ----------
    work : dict of str to callable
        Name of each unit, and a function without arguments that returns a dict which fits into JSON. Functions and what they
        hold have to be picklable.
    path : path-like or None
        The store's SQLite file; None keeps results in memory.
    identity : str
        A :func:`fingerprint`: a store of another protocol or of other data is refused.
    n_jobs : int, default=1
        Processes.
    on_progress : callable or None, default=None
        Called with the numbers of finished and of all units.

    Returns
    -------
    dict of str to dict
        In the order of `work`. Each result also has `seconds` (of processor time) and `warnings` (category: how many).
    """
    with RunStore(path, identity) as store:
        known = store.results()
        todo = {name: function for name, function in work.items() if name not in known}
        n_done = len(work) - len(todo)
        if on_progress is not None:
            on_progress(n_done, len(work))
        # One unit a batch: a batch of several would come back, and be stored, together.
        run = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
        for name, result in run(delayed(_measured)(name, function) for name, function in todo.items()):
            store.add(name, result)
            n_done += 1
            if on_progress is not None:
                on_progress(n_done, len(work))
        known = store.results()
    return {name: known[name] for name in work}


def _measured(name, function):
    start = process_time()
    # One thread: with more, sums are taken in another order, and results would depend on the number of workers.
    with threadpool_limits(limits=1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function()
    counts = dict(sorted(Counter(w.category.__name__ for w in caught).items()))
    return name, {**result, "warnings": counts, "seconds": process_time() - start}
