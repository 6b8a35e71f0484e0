"""Units of work: run what a store does not hold yet, anywhere, in any order, and keep each result as it arrives."""

from __future__ import annotations

import warnings
from collections import Counter
from time import process_time

from threadpoolctl import threadpool_limits

from lupi.engine.workers import run_anywhere


def run_units(work, store, *, n_jobs=1, on_progress=None, catch=(), share=True):
    """Do the work that the store does not hold yet, and return all results.

    Every unit runs with one thread, so that results do not depend on the number of workers. The order of the units is the
    order in which they are begun; results are stored as they arrive.

    Parameters
    ----------
    work : iterable of tuple
        A unit is a key, a function and its arguments. Functions and arguments have to be picklable; a key names all that its result
        depends on, as far as the store's identity does not.
    store : RunStore, FolderStore or MemoryStore
    n_jobs : int, default=1
        Processes, as in joblib. Inside :func:`~lupi.engine.workers.cluster` units run there.
    on_progress : callable or None, default=None
        Called with the numbers of finished and of all units.
    catch : tuple of exception types, default=()
        These errors are results, too, but are not stored; the other units still run.
    share : bool, default=True
        Whether large arrays among the arguments go to processes as memory maps: right for data that units share.

    Returns
    -------
    dict of str to result
        In the order of `work`, as the store gives them back.

    Examples
    --------
    >>> from lupi.engine.store import RunStore
    >>> with RunStore(None, "squares") as store:
    ...     run_units([("two", dict, [("square", 4)])], store)
    {'two': {'square': 4}}
    """
    work = {key: call for key, *call in work}
    results = {key: store.get(key) for key in work}
    where = store if store.in_workers else None
    todo = [(key, catch, where, *call) for key, call in work.items() if results[key] is None]
    n_done = len(work) - len(todo)
    report = on_progress or (lambda done, total: None)
    report(n_done, len(work))
    for key, result, error in run_anywhere(_run, todo, n_jobs=n_jobs, share=share):
        if error is None and not store.in_workers:
            store.add(key, result)
        results[key] = store.get(key) if error is None else error
        n_done += 1
        report(n_done, len(work))
    return results


def _run(key, catch, store, function, *arguments):
    """Key, result (unless it is stored here) and error of one unit."""
    # One thread: with more, sums are taken in another order, and results would depend on the number of workers.
    with threadpool_limits(limits=1):
        try:
            result = function(*arguments)
        except catch as error:
            return key, None, error
    if store is None:
        return key, result, None
    store.add(key, result)
    return key, None, None


def measured(function, *arguments):
    """Result of a function, with `seconds` (of processor time) and `warnings` (category: how many).

    Parameters
    ----------
    function : callable
        Returns a dict.
    *arguments : object

    Returns
    -------
    dict

    Examples
    --------
    >>> sorted(measured(dict, [("square", 4)]))
    ['seconds', 'square', 'warnings']
    """
    start = process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*arguments)
    counts = dict(sorted(Counter(w.category.__name__ for w in caught).items()))
    return {**result, "warnings": counts, "seconds": process_time() - start}
