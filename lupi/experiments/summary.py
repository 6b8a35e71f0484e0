"""From the results of all units to one plain dictionary, which the table, the JSON file and the page are made from."""

from __future__ import annotations

from lupi.experiments.methods import METHODS, candidates
from lupi.experiments.metrics import METRICS
from lupi.experiments.statistics import holm, mean_and_error, paired
from lupi.experiments.units import Unit

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
            rows[name]["shuffled"] = _scores(shuffled)
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
    _judge(tested)
    return {"train_size": size, "n_train": n_train, "n_test": n_test, "methods": list(rows.values())}


def _scores(units):
    scores = [unit["score"] for unit in units]
    failed = sum(score is None for score in scores)
    mean, error = mean_and_error(scores) if not failed else (None, None)
    errors = sorted({unit["error"] for unit in units if unit["error"]})
    return {"scores": scores, "mean": mean, "error": error, "failed": failed, "errors": errors}


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
        "seconds": sum(unit["seconds"] for unit in units) / len(units),
        "warnings": warned,
    }


def _judge(rows):
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


def verdict(size, protocol):
    """Answer in words, from the statistics of one training size.

    Parameters
    ----------
    size : dict
        An element of :func:`summarize`.
    protocol : Protocol

    Returns
    -------
    dict
        `helps` (bool), `method` (the one to use), `text` (one or two sentences), `notes` (list of str).
    """
    rows = [row for row in size["methods"] if not row["failed"]]
    plains = [row for row in rows if row["role"] == "plain"]
    if not plains:
        return {
            "helps": False,
            "method": None,
            "text": "No plain method could be fitted: nothing to compare with.",
            "notes": [],
        }
    best_plain = max(plains, key=lambda row: row["mean"])
    helpers = [row for row in rows if row.get("outcome") == "helps"]
    winners = [row for row in helpers if row["mean"] > best_plain["mean"]]
    # Of plain methods that are as good within a standard error, the first in the list: a classifier before a ranker.
    keep = next(row for row in plains if row["mean"] >= best_plain["mean"] - row["error"])
    metric = METRICS[protocol.metric].title
    notes = []
    if winners:
        best = max(winners, key=lambda row: row["mean"])
        text = (
            f"{best['title']} beats {METHODS[best['plain']].title} by {_points(best['gain']['mean'])} of {metric} "
            f"({_p(best['p'])}), and {_shuffled_words(best)}: the columns help."
        )
        if not best["confirmed"]:
            notes.append(
                "The corrected resampled t-test, which allows for the overlap of the random splits and is very strict when "
                f"the test set is large, does not confirm it ({_p(best['gain']['corrected_t_p'])}): take it as likely, "
                "not as certain."
            )
        if best["plain"] != best_plain["name"]:
            extra = best["mean"] - best_plain["mean"]
            notes.append(f"Over the best plain method, {best_plain['title']}, it gains {_points(extra)}.")
        return {"helps": True, "method": best["name"], "text": text, "notes": notes + _notes(size, protocol)}
    text = f"No method uses these columns; keep the plain {keep['title']}."
    if helpers:
        names = _list([row["title"] for row in helpers])
        text = (
            f"{names} gain{'s' if len(helpers) == 1 else ''} from the columns, but the plain {keep['title']} without "
            "them is as good or better: keep it."
        )
    lucky = [row for row in rows if row.get("outcome", "").startswith("gains")]
    if lucky:
        notes.append(
            f"{_list([row['title'] for row in lucky])}: better than without the columns, but shuffled columns do not do "
            "clearly worse. That is the method or its grid, not the columns."
        )
    worse = [row for row in rows if row.get("outcome") == "hurts"]
    if worse:
        notes.append(f"Clearly worse with the columns than without: {_list([row['title'] for row in worse])}.")
    return {"helps": False, "method": keep["name"], "text": text, "notes": notes + _notes(size, protocol)}


def _notes(size, protocol):
    """What a reader should know beside the verdict."""
    notes = []
    n_tests = max(1, sum("gain" in row for row in size["methods"]))
    smallest = 2 * 0.5**protocol.n_splits * n_tests
    if smallest >= LEVEL:
        notes.append(
            f"With {protocol.n_splits} splits and {n_tests} methods no difference can be significant (the smallest possible "
            f"p is {min(1.0, smallest):.2g}): use more splits."
        )
    reference = next((row for row in size["methods"] if row["role"] == "reference" and not row["failed"]), None)
    plains = [row for row in size["methods"] if row["role"] == "plain" and not row["failed"]]
    if reference and plains:
        best = max(plains, key=lambda row: row["mean"])
        distance = reference["mean"] - best["mean"]
        if distance > 0:
            notes.append(
                f"With the privileged columns in place of the others one would reach {100 * reference['mean']:.1f}: "
                f"{_points(distance)} above {best['title']}. That is what they know, not what can be carried over."
            )
        else:
            notes.append(
                f"The privileged columns alone predict worse than the ordinary ones ({100 * reference['mean']:.1f} against "
                f"{100 * best['mean']:.1f}), so there is little to carry over."
            )
    failed = [row["title"] for row in size["methods"] if row["failed"] or row.get("shuffled", {}).get("failed")]
    if failed:
        notes.append(f"Left out, because some fits failed: {_list(failed)}.")
    return notes


def _shuffled_words(row):
    gained = row["shuffled_gain"]["mean"]
    if gained <= 0:
        return "the shuffled control does not"
    return f"the shuffled control gains only {_points(gained)}"


def _points(value):
    return f"{100 * value:.1f} points" if abs(100 * value) >= 0.05 else f"{100 * value:.2f} points"


def _p(value):
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}" if value < 0.1 else f"p = {value:.1f}"


def _list(words):
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
