"""The answer in words. It names the figures it rests on, and it can be "no"."""

from __future__ import annotations

from lupi.comparison.protocol import METRICS
from lupi.comparison.summary import LEVEL, candidate_row

# A gain over the best plain method whose whole interval lies below this is none worth more splits.
NEGLIGIBLE = 0.002
MANY_SPLITS = 500


def verdict(sizes, protocol, *, permutation=None, skipped=None, leaks=(), worth=()):
    """Answer from the statistics of all training sizes.

    =================================================  ========================================================
    what the figures say                               answer
    =================================================  ========================================================
    a method beats every plain method, its own plain   yes; "unclear" where the exact test does not confirm it,
    counterpart and its shuffled control               or a privileged column gives the target away
    it beats its counterpart and its control, but a    no: keep that plain method
    plain method is as good
    it beats its counterpart, but not clearly its      no, or unclear where the interval leaves room for a gain
    shuffled control
    a gain that may be luck                            unclear: an interval, and what would settle it
    no gain                                            no
    =================================================  ========================================================

    Parameters
    ----------
    sizes : list of lupi.comparison.schema.Size
    protocol : Protocol
    permutation : lupi.comparison.schema.Permutation, optional
    skipped : str, optional
        Why there is no permutation test.
    leaks : list of lupi.comparison.schema.Leak
    worth : list of lupi.comparison.schema.Worth

    Returns
    -------
    lupi.comparison.schema.Verdict
    """
    last = sizes[-1]
    answer, row, keep, text = _answer(last, protocol, permutation, leaks)
    notes = _notes(last, protocol, permutation, skipped, answer)
    by_size = [_for_size(size, protocol, leaks) for size in sizes[:-1]]
    by_size.append({"train_size": last["train_size"], "answer": answer, "method": keep and keep["name"], "text": text})
    if len(sizes) > 1:
        said = [f"{part['train_size']} rows: {part['answer']}" for part in by_size]
        notes.insert(0, f"By training size: {', '.join(said)}.")
        notes[1:1] = _worth_words(worth, last, answer)
    return {
        "answer": answer,
        "helps": answer == "yes",
        "method": keep["name"] if keep else None,
        "title": keep["title"] if keep else None,
        "candidate": row["name"] if row else None,
        "train_size": last["train_size"],
        "text": text,
        "notes": notes,
        "actions": _actions(answer, row, keep, last, protocol, leaks),
        "sizes": by_size,
    }


def _for_size(size, protocol, leaks):
    answer, _, keep, text = _answer(size, protocol, None, leaks)
    return {"train_size": size["train_size"], "answer": answer, "method": keep["name"] if keep else None, "text": text}


def _answer(size, protocol, permutation, leaks):
    """Answer, the privileged row it is about, the row to keep, and the sentence."""
    rows = [row for row in size["methods"] if not row["failed"]]
    plains = [row for row in rows if row["role"] == "plain"]
    start = _start(size)
    if not plains:
        return "unclear", None, None, "No plain method could be fitted: nothing to compare with."
    best_plain = next(row for row in plains if row["name"] == size["best_plain"])
    # Of plain methods that are as good within a standard error, the first in the list: a classifier before a ranker.
    keep = next(row for row in plains if row["mean"] >= best_plain["mean"] - row["error"])
    row = candidate_row(size)
    if row is None:
        what = (
            "fitted on every split"
            if any(r["role"] == "privileged" for r in size["methods"])
            else "among those compared"
        )
        return (
            "no",
            None,
            keep,
            f"No method that uses the columns was {what}; the best plain method is {keep['title']}.",
        )
    privileged_leaks = [leak for leak in leaks if leak["kind"] == "privileged"]
    if row["outcome"] == "helps":
        sentence, answer = _helps(row, best_plain, size, protocol, permutation)
        if privileged_leaks:
            return "unclear", row, keep, f"{start}{sentence} But {_leak_words(privileged_leaks)}"
        return answer, row, row if answer == "yes" else keep, f"{start}{sentence}"
    sentence = _not_shown(row, best_plain, keep, rows, protocol)
    if privileged_leaks:
        sentence = f"{sentence} And {_leak_words(privileged_leaks)}"
    room = row["over_best_plain"]["high"] > NEGLIGIBLE and row["over_best_plain"]["mean"] > 0
    return ("unclear" if room else "no"), row, keep, f"{start}{sentence}"


def _start(size):
    labelled = f"With {size['train_size']} labelled rows"
    return f"{labelled}: "


def _helps(row, best_plain, size, protocol, permutation):
    plain = next((r for r in size["methods"] if r["name"] == row["plain"]), None)
    more = f" and {size['n_unlabelled']} unlabelled ones" if row["rows"] == "all" else ""
    figures = [f"{_points(row['over_best_plain']['mean'])} over the best plain method ({best_plain['title']})"]
    if plain and plain["name"] != best_plain["name"]:
        figures.append(f"{_points(row['gain']['mean'])} over its plain counterpart")
    figures.append(f"{_points(row['over_shuffled']['mean'])} over its shuffled control")
    text = f"{row['title']}{more} gains {_list(figures)}, in {METRICS[protocol.metric].title} ({_p(row['p'])}"
    if permutation is None:
        return f"{text}): the columns help.", "yes"
    if permutation["p"] <= LEVEL:
        return f"{text}; exact test {_p(permutation['p'])}): the columns help.", "yes"
    return (
        f"{text}), but the exact test does not confirm that it is the columns ({_p(permutation['p'])}): it may be the "
        "choice of splits."
    ), "unclear"


def _leak_words(leaks):
    found = leaks[0]["text"].removeprefix("Leakage? ")
    more = f" (and {len(leaks) - 1} more)" if len(leaks) > 1 else ""
    return f"{found[0].lower()}{found[1:]}{more} Check this before you believe any figure."


def _not_shown(row, best_plain, keep, rows, protocol):
    over = row["over_best_plain"]
    if row["outcome"].startswith("helps, but"):
        return (
            f"the columns help {row['title']} ({_points(row['gain']['mean'] if row['gain'] else over['mean'])} over its plain "
            f"counterpart, {_p(row['p'])}), but the plain {best_plain['title']} reaches {_score(best_plain)} without them, and "
            f"{row['title']} {_score(row)} with them (difference {_interval(over)}): keep the plain {keep['title']}."
        )
    if row["outcome"].startswith("gains"):
        return (
            f"{row['title']} beats its plain counterpart by {_points((row['gain'] or over)['mean'])} ({_p(row['p'])}), but that "
            f"is not shown to be the columns: its lead over shuffled columns is {_interval(row['over_shuffled'])}. Keep the "
            f"plain {keep['title']}."
        )
    if all(r["over_best_plain"]["mean"] <= 0 for r in rows if "outcome" in r):
        return (
            f"no method gains from these columns; keep the plain {keep['title']}. The best of them, {row['title']}, is at "
            f"{_interval(over)} of the best plain method ({best_plain['title']})."
        )
    return (
        f"no method is shown to gain from these columns; keep the plain {keep['title']}. The largest gain, of {row['title']} "
        f"over the best plain method ({best_plain['title']}), is {_interval(over)} of {METRICS[protocol.metric].title} and may "
        f"be luck ({_p(row['p'])}).{_settle(row)}"
    )


def _settle(row):
    """How many splits would settle a gain of this size."""
    parts = [row["over_best_plain"], row["over_shuffled"], *([row["gain"]] if row["gain"] else [])]
    needed = [part["splits_needed"] for part in parts]
    if None in needed:
        return " More splits would not settle it; more labelled rows may."
    if max(needed) > MANY_SPLITS:
        return f" Not even {MANY_SPLITS} splits would settle a gain of this size; more labelled rows may."
    return f" About {max(needed)} splits would settle a gain of this size."


def _worth_words(worth, last, answer):
    """The learning curve in labelled rows."""
    found = next((part for part in worth if part["train_size"] == last["train_size"]), None)
    words = []
    if answer == "yes":
        for part in worth:
            rows = f"about {part['plain_rows']:.0f}" if part["plain_rows"] else f"more than {part['at_least']}"
            if part is not found and (part["plain_rows"] or part["at_least"]) <= part["train_size"]:
                continue
            words.append(f"{part['train_size']} labelled rows with the columns are worth {rows} without them.")
    return words


def _notes(size, protocol, permutation, skipped, answer):
    """What a reader should know beside the verdict."""
    notes = []
    tested = [row for row in size["methods"] if "outcome" in row]
    smallest = 2 * 0.5**protocol.n_splits * max(1, len(tested))
    if smallest >= LEVEL:
        named = "1 method" if len(tested) < 2 else f"{len(tested)} methods"
        notes.append(
            f"With {protocol.n_splits} splits and {named} no difference can be significant (the smallest possible p is "
            f"{min(1.0, smallest):.2g}): use more splits."
        )
    if permutation:
        worse = permutation["score"] - sum(permutation["permuted"]) / len(permutation["permuted"])
        how = f"{_points(worse)} worse on average than" if worse > 5e-4 else "as well as"
        notes.append(
            f"Exact test: with the privileged rows of the whole table permuted {permutation['n']} times, {permutation['title']} "
            f"(fixed parameters) does {how} with the real ones ({_p(permutation['p'])})."
        )
    elif skipped:
        notes.append(f"The exact permutation test was not run: {skipped}")
    plains = [row for row in size["methods"] if row["role"] == "plain" and not row["failed"]]
    best = max(plains, key=lambda row: row["mean"], default=None)
    shown = [row for row in size["methods"] if row["role"] == "reference" and not row["failed"]]
    if shown and best:
        scores = _list([f"{row['title']} {_score(row)}" for row in shown])
        notes.append(
            f"If the columns were known at prediction: {scores}; the best plain method has {_score(best)} without them. That is "
            "what they know, not what can be carried over."
        )
    worse = [row["title"] for row in tested if row["outcome"] == "hurts"]
    if worse:
        notes.append(f"Clearly worse with the columns than without: {_list(worse)}.")
    failed = [row["title"] for row in size["methods"] if row["failed"] or row.get("shuffled", {}).get("failed")]
    if failed:
        notes.append(f"Left out, because some fits failed: {_list(failed)}.")
    return notes


def _actions(answer, row, keep, size, protocol, leaks):
    """What to do now."""
    told = [leak for leak in leaks if leak["kind"] == "privileged"]
    if told:
        names = _list([repr(name) for name in told[0]["columns"]])
        return [
            f"Ask whether {names} could be known before the target is; if not, leave it out (--drop) and run again."
        ]
    if keep is None:
        return ["Look at the errors of the plain methods first."]
    if answer == "yes":
        found = [f"Use {keep['title']} (model.lupi): it needs the columns in training only."]
        if keep["rows"] == "labelled" and size["n_unlabelled"] == 0:
            found.append(
                "Rows with these columns but without a label can be added, with an empty target: they often help more."
            )
        return found
    found = [f"Use the plain {keep['title']} (model.lupi); the columns need not be collected for it."]
    if answer == "unclear" and row and "over_best_plain" in row:
        needed = [part["splits_needed"] for part in (row["over_best_plain"], row["over_shuffled"])]
        if None not in needed and protocol.n_splits < max(needed) <= MANY_SPLITS:
            found.append(f"Run again with --splits {max(needed)}: what is finished is kept.")
        else:
            found.append("Collect more labelled rows, then run again.")
    return found


def _score(row):
    return f"{100 * row['mean']:.1f}"


def _points(value):
    number = f"{100 * value:.1f}" if abs(100 * value) >= 0.05 else f"{100 * value:.2f}"
    return f"{number} points"


def _interval(found):
    """A gain with its 95% interval."""
    return f"{100 * found['mean']:+.1f} points (95% interval {100 * found['low']:+.1f} to {100 * found['high']:+.1f})"


def _p(value):
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def _list(words):
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def percent(share, digits=1):
    """A score in points.

    Examples
    --------
    >>> percent(0.8923)
    '89.2'
    """
    return f"{100 * share:.{digits}f}"


def signed(share, digits=1):
    """A gain in points, with its sign; no "-0.0".

    Examples
    --------
    >>> signed(0.0123), signed(-0.0001)
    ('+1.2', '+0.0')
    """
    return f"{round(100 * share, digits) + 0.0:+.{digits}f}"


def p_value(p):
    """A p-value, short.

    Examples
    --------
    >>> p_value(0.0004), p_value(0.04)
    ('<.001', '.040')
    """
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def heading(summary, size):
    """What a table of one training size shows."""
    protocol = summary["protocol"]
    more = f" and {size['n_unlabelled']} unlabelled" if size["n_unlabelled"] else ""
    return (
        f"With {size['train_size']} labelled{more} training rows, tested on {size['n_test']}: {protocol['metric_title']} x 100, "
        f"mean ± standard error over {protocol['n_splits']} splits"
    )


def worth_sentence(found):
    """One point of the learning curve, in labelled rows.

    Examples
    --------
    >>> worth_sentence({"train_size": 50, "plain_rows": 81.3, "at_least": 200})
    '50 labelled rows with the columns are worth about 81 without them.'
    """
    rows = f"about {found['plain_rows']:.0f}" if found["plain_rows"] else f"more than {found['at_least']}"
    return f"{found['train_size']} labelled rows with the columns are worth {rows} without them."
