"""From the results of all units to one plain dictionary, which the table, the JSON file and the page are made from."""

from __future__ import annotations

from statistics import mean, median

from lupi.comparison.methods import METHODS, candidates
from lupi.comparison.statistics import holm, mean_and_error, paired
from lupi.comparison.units import Unit

LEVEL = 0.05


def summarize(results, protocol, methods):
    """Statistics of every training size.

    Parameters
    ----------
    results : dict of str to dict
        From the store: unit -> result.
    protocol : Protocol
    methods : sequence of str

    Returns
    -------
    list of dict
        One for each training size: `train_size`, `n_test`, `methods`.
    """
    return [_summarize_size(results, protocol, methods, size) for size in protocol.train_sizes]


def _summarize_size(results, protocol, methods, size):
    rows = {}
    for name in methods:
        real = [results[Unit(size, split, name).key] for split in range(protocol.n_splits)]
        rows[name] = _row(METHODS[name], real, protocol)
        if METHODS[name].privileged:
            shuffled = [results[Unit(size, split, name, "shuffled").key] for split in range(protocol.n_splits)]
            rows[name]["shuffled"] = _scores(shuffled) | _times(shuffled)
    n_test = max(results[Unit(size, split, methods[0]).key]["n_test"] for split in range(protocol.n_splits))
    n_train = max(results[Unit(size, split, methods[0]).key]["n_train"] for split in range(protocol.n_splits))
    tested = []
    for row in rows.values():
        plain = rows.get(row["plain"])
        if plain and not (row["failed"] or plain["failed"] or row["shuffled"]["failed"]):
            row["gain"] = paired(row["scores"], plain["scores"], n_train, n_test)
            row["shuffled_gain"] = paired(row["shuffled"]["scores"], plain["scores"], n_train, n_test)
            row["over_shuffled"] = paired(row["scores"], row["shuffled"]["scores"], n_train, n_test)
            tested.append(row)
    judge(tested)
    return {"train_size": size, "n_train": n_train, "n_test": n_test, "methods": list(rows.values())}


def _scores(units):
    scores = [unit["score"] for unit in units]
    failed = sum(score is None for score in scores)
    average, error = mean_and_error(scores) if not failed else (None, None)
    errors = sorted({unit["error"] for unit in units if unit["error"]})
    return {"scores": scores, "mean": average, "error": error, "failed": failed, "errors": errors}


def _times(units):
    """Processor seconds: the mean, and the median, which the compilation in a process's first units does not move."""
    seconds = [unit["seconds"] for unit in units]
    return {"seconds": mean(seconds), "median_seconds": median(seconds)}


def _row(method, units, protocol):
    warned = {}
    for unit in units:
        for category, count in unit["warnings"].items():
            warned[category] = warned.get(category, 0) + count
    n_candidates = 1
    for values in candidates(method, dict(protocol.grids), protocol.kernel).values():
        n_candidates *= len(values)
    role = "reference" if method.reference else "privileged" if method.privileged else "plain"
    return {
        "name": method.name,
        "title": method.title,
        "role": role,
        "plain": method.plain,
        "n_candidates": n_candidates,
        **_scores(units),
        "params": [unit["params"] for unit in units],
        **_times(units),
        "warnings": warned,
    }


def judge(rows):
    """Add `p`, adjusted for the number of methods, and `outcome`.

    A method has to beat its plain counterpart *and* its shuffled control, so its p-value is the larger of the two
    (an intersection-union test), and Holm's adjustment runs over the methods.
    """
    both = [max(row["gain"]["wilcoxon_p"], row["over_shuffled"]["wilcoxon_p"]) for row in rows]
    plain = holm([row["gain"]["wilcoxon_p"] for row in rows])
    for row, p_both, p_plain in zip(rows, holm(both), plain):
        gain, over = row["gain"]["mean"], row["over_shuffled"]["mean"]
        row["p"] = p_both
        row["p_plain"] = p_plain
        if gain > 0 and over > 0 and p_both < LEVEL:
            row["outcome"] = "helps"
        elif gain > 0 and p_plain < LEVEL:
            row["outcome"] = "gains, but not clearly more than with shuffled rows"
        elif gain < 0 and p_plain < LEVEL:
            row["outcome"] = "hurts"
        else:
            row["outcome"] = "no clear difference"
        strict = max(row["gain"]["corrected_t_p"], row["over_shuffled"]["corrected_t_p"])
        row["confirmed"] = row["outcome"] == "helps" and strict < LEVEL
