"""The answer in words. It names the figures it rests on, and it can be "no"."""

from __future__ import annotations

from lupi.comparison.methods import METHODS
from lupi.comparison.metrics import METRICS
from lupi.comparison.statistics import paired
from lupi.comparison.summary import LEVEL


def verdict(size, protocol):
    """Answer from the statistics of one training size.

    =================================================  ========================================================
    what the figures say                               answer
    =================================================  ========================================================
    a method beats its plain counterpart and its       the columns help (with a caution where the strict test,
    shuffled control, and every plain method           or the lead over the best plain method, does not confirm)
    the same, but another plain method is better       keep that plain method
    a method beats its plain counterpart, but not      it is the method, not the columns
    clearly its shuffled control
    a gain that may be luck                            not shown
    no gain                                            no method uses these columns
    =================================================  ========================================================

    Parameters
    ----------
    size : dict
        An element of :func:`lupi.comparison.summary.summarize`.
    protocol : Protocol

    Returns
    -------
    dict
        `helps` (bool), `method` (the one to use; None if there is none), `text` (one or two sentences), `notes` (list
        of str).
    """
    rows = [row for row in size["methods"] if not row["failed"]]
    plains = [row for row in rows if row["role"] == "plain"]
    notes = _notes(size, protocol)
    if not plains:
        text = "No plain method could be fitted: nothing to compare with."
        return {"helps": False, "method": None, "text": text, "notes": notes}
    best_plain = max(plains, key=lambda row: row["mean"])
    helpers = [row for row in rows if row.get("outcome") == "helps"]
    winners = [row for row in helpers if row["mean"] > best_plain["mean"]]
    if winners:
        best = max(winners, key=lambda row: row["mean"])
        text = (
            f"{best['title']} beats {_plain(best)} by {_gain(best, protocol)} ({_p(best['p'])}), and "
            f"{_shuffled_words(best)}: the columns help."
        )
        cautions = _cautions(best, best_plain, size)
        return {"helps": True, "method": best["name"], "text": text, "notes": cautions + notes}
    # Of plain methods that are as good within a standard error, the first in the list: a classifier before a ranker.
    keep = next(row for row in plains if row["mean"] >= best_plain["mean"] - row["error"])
    tested = [row for row in rows if "gain" in row]
    lucky = [row for row in tested if row["outcome"].startswith("gains")]
    if helpers:
        text = _outdone(max(helpers, key=lambda row: row["mean"]), best_plain, keep, protocol)
    elif lucky:
        text = _not_the_columns(max(lucky, key=lambda row: row["gain"]["mean"]), keep, protocol)
    elif not tested:
        what = "fitted on every split" if any(row["plain"] for row in size["methods"]) else "among those compared"
        text = f"No method that uses the columns was {what}; the best plain method is {keep['title']}."
    else:
        text = _no_gain(max(tested, key=lambda row: row["gain"]["mean"]), keep, protocol)
    others = []
    if len(lucky) > 1:
        others.append(
            f"{_list([row['title'] for row in lucky])}: better than without the columns, but shuffled columns do not do "
            "clearly worse."
        )
    worse = [row["title"] for row in tested if row["outcome"] == "hurts"]
    if worse:
        others.append(f"Clearly worse with the columns than without: {_list(worse)}.")
    return {"helps": False, "method": keep["name"], "text": text, "notes": others + notes}


def _outdone(best, best_plain, keep, protocol):
    return (
        f"{best['title']} gains {_gain(best, protocol)} from the columns ({_p(best['p'])}), but the plain "
        f"{best_plain['title']} reaches {_score(best_plain)} without them, and {best['title']} {_score(best)} with them: "
        f"keep the plain {keep['title']}."
    )


def _not_the_columns(best, keep, protocol):
    shuffled, over = best["shuffled_gain"]["mean"], best["over_shuffled"]
    if over["mean"] <= 0:
        control = f"with shuffled columns it gains as much ({_points(shuffled)})"
    elif shuffled > 0:
        control = (
            f"with shuffled columns it gains {_points(shuffled)} as well, and the rest may be luck ({_p(best['p'])})"
        )
    else:
        control = f"its lead of {_points(over['mean'])} over shuffled columns may be luck ({_p(best['p'])})"
    return (
        f"{best['title']} beats {_plain(best)} by {_gain(best, protocol)} ({_p(best['p_plain'])}), but {control}: that may "
        f"be the method or its grid, and is not shown to be the columns. Keep the plain {keep['title']}."
    )


def _no_gain(best, keep, protocol):
    if best["gain"]["mean"] <= 0:
        return f"No method uses these columns; keep the plain {keep['title']}."
    return (
        f"No method is shown to use these columns; keep the plain {keep['title']}. The largest gain, of {best['title']} over "
        f"{_plain(best)}, is {_gain(best, protocol)} and may be luck ({_p(best['p'])}); with shuffled columns it is "
        f"{_points(best['shuffled_gain']['mean'])}."
    )


def _cautions(best, best_plain, size):
    """What speaks against taking a yes for certain."""
    notes = []
    if not best["confirmed"]:
        strict = max(best["gain"]["corrected_t_p"], best["over_shuffled"]["corrected_t_p"])
        notes.append(
            "The corrected resampled t-test, which allows for the overlap of the random splits and is very strict when "
            f"the test set is large, does not confirm it ({_p(strict)}): take it as likely, not as certain."
        )
    if best["plain"] != best_plain["name"]:
        lead = paired(best["scores"], best_plain["scores"], size["n_train"], size["n_test"])
        luck = "" if lead["wilcoxon_p"] < LEVEL else ", which may be luck"
        notes.append(
            f"Over the best plain method, {best_plain['title']}, it gains {_points(lead['mean'])} ({_p(lead['wilcoxon_p'])})"
            f"{luck}."
        )
    return notes


def _notes(size, protocol):
    """What a reader should know beside the verdict."""
    notes = []
    n_tests = max(1, sum("gain" in row for row in size["methods"]))
    smallest = 2 * 0.5**protocol.n_splits * n_tests
    if smallest >= LEVEL:
        tested = "1 method" if n_tests == 1 else f"{n_tests} methods"
        notes.append(
            f"With {protocol.n_splits} splits and {tested} no difference can be significant (the smallest possible p is "
            f"{min(1.0, smallest):.2g}): use more splits."
        )
    reference = next((row for row in size["methods"] if row["role"] == "reference" and not row["failed"]), None)
    plains = [row for row in size["methods"] if row["role"] == "plain" and not row["failed"]]
    if reference and plains:
        best = max(plains, key=lambda row: row["mean"])
        distance = reference["mean"] - best["mean"]
        if distance > 0:
            notes.append(
                f"With the privileged columns in place of the others one would reach {_score(reference)}: "
                f"{_points(distance)} above {best['title']}. That is what they know, not what can be carried over."
            )
        else:
            notes.append(
                f"The privileged columns alone predict no better than the ordinary ones ({_score(reference)} against "
                f"{_score(best)}), so there is little to carry over."
            )
    failed = [row["title"] for row in size["methods"] if row["failed"] or row.get("shuffled", {}).get("failed")]
    if failed:
        notes.append(f"Left out, because some fits failed: {_list(failed)}.")
    return notes


def _plain(row):
    return METHODS[row["plain"]].title


def _gain(row, protocol):
    return f"{_points(row['gain']['mean'])} of {METRICS[protocol.metric].title}"


def _score(row):
    return f"{100 * row['mean']:.1f}"


def _shuffled_words(row):
    gained = row["shuffled_gain"]["mean"]
    if gained < 5e-5:  # would print as 0.00 points
        return "the shuffled control does not"
    return f"the shuffled control gains only {_points(gained)}"


def _points(value):
    return f"{100 * value:.1f} points" if abs(100 * value) >= 0.05 else f"{100 * value:.2f} points"


def _p(value):
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def _list(words):
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
