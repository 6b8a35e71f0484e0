"""The answer in words. It names the figures it rests on, and it can be "no"."""

from __future__ import annotations

from lupi.comparison.protocol import METRICS
from lupi.comparison.summary import LEVEL, candidate_row
from lupi.plot.series import savings

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
    a lead over every plain method, its counterpart    unclear: an interval, and the splits or rows that would
    and its control, one of which may be luck          settle it
    no lead over one of them                           no, with an interval
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
    notes = _notes(last, protocol, permutation, skipped)
    by_size = [_for_size(size, protocol, leaks) for size in sizes[:-1]]
    by_size.append({"train_size": last["train_size"], "answer": answer, "method": keep and keep["name"], "text": text})
    if len(sizes) > 1:
        said = [f"{part['train_size']} rows: {part['answer']}" for part in by_size]
        notes.insert(0, f"By training size: {', '.join(said)}.")
        notes[1:1] = [worth_sentence(part) for part in savings(worth, by_size)]
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
    more = f" and {size['n_unlabeled']} without a label" if row["rows"] == "all" else ""
    start = f"With {size['train_size']} labeled rows{more}: "
    if row["outcome"] == "helps":
        sentence, answer = _helps(row, best_plain, size, protocol, permutation)
        if privileged_leaks:
            return "unclear", row, keep, f"{start}{sentence} But {_leak_words(privileged_leaks)}"
        return answer, row, row if answer == "yes" else keep, f"{start}{sentence}"
    sentence = f"{_not_shown(row, best_plain, keep, protocol)}{_settle(row, size, protocol)}"
    if privileged_leaks:
        sentence = f"{sentence} And {_leak_words(privileged_leaks)}"
    room = all(part["mean"] > 0 and part["high"] > NEGLIGIBLE for part in _leads(row).values())
    return ("unclear" if room else "no"), row, keep, f"{start}{sentence}"


def _leads(row):
    """What a method has to beat, and its lead over it."""
    found = {"the best plain method": row["over_best_plain"], "its shuffled control": row["over_shuffled"]}
    return found | ({"its plain counterpart": row["gain"]} if row["gain"] else {})


def _helps(row, best_plain, size, protocol, permutation):
    plain = next((r for r in size["methods"] if r["name"] == row["plain"]), None)
    figures = [f"{_points(row['over_best_plain']['mean'])} over the best plain method ({best_plain['title']})"]
    if plain and plain["name"] != best_plain["name"]:
        figures.append(f"{_points(row['gain']['mean'])} over its plain counterpart")
    figures.append(f"{_points(row['over_shuffled']['mean'])} over its shuffled control")
    text = f"{row['title']} gains {_list(figures)}, in {METRICS[protocol.metric].title} ({_p(row['p'])}"
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


def _not_shown(row, best_plain, keep, protocol):
    over = row["over_best_plain"]
    if row["outcome"].startswith("helps, but"):
        return (
            f"the columns help {row['title']} ({_points(row['gain']['mean'] if row['gain'] else over['mean'])} over its plain "
            f"counterpart, {_p(row['p'])}), but the plain {best_plain['title']} reaches {percent(best_plain['mean'])} without "
            f"them, and {row['title']} {percent(row['mean'])} with them (difference {_interval(over)}): keep the plain "
            f"{keep['title']}."
        )
    if row["outcome"].startswith("gains"):
        return (
            f"{row['title']} beats its plain counterpart by {_points((row['gain'] or over)['mean'])} ({_p(row['p'])}), but that "
            f"is not shown to be the columns: its lead over shuffled columns is {_interval(row['over_shuffled'])}. Keep the "
            f"plain {keep['title']}."
        )
    if over["mean"] <= 0:
        return (
            f"no method gains from these columns; keep the plain {keep['title']}. The best of them, {row['title']}, lies at "
            f"{_interval(over)} from the best plain method ({best_plain['title']})."
        )
    return (
        f"no method is shown to gain from these columns; keep the plain {keep['title']}. The largest gain, of {row['title']} "
        f"over the best plain method ({best_plain['title']}), is {_interval(over)} of {METRICS[protocol.metric].title} and may "
        f"be luck ({_p(row['p'])})."
    )


def _settle(row, size, protocol):
    """How many splits, or labeled rows, would settle a gain of this size.

    A split's spread falls with the root of the rows, that of a mean with the root of the splits: twice the rows do for the
    interval what twice the splits do, as long as the gain stays what it is.
    """
    behind = {name: part for name, part in _leads(row).items() if part["mean"] <= 0}
    if behind:
        return _ruled_out(*min(behind.items(), key=lambda item: item[1]["high"]), protocol.n_splits)
    splits = max(part["splits_needed"] for part in _leads(row).values())
    if splits <= protocol.n_splits:
        return ""
    rows, most = size["n_train"] + size["n_test"], min(splits, MANY_SPLITS)
    start = f" {'About' if splits == most else 'Not even'} {most} splits would settle a gain of this size"
    if size["n_test"] >= protocol.max_test:  # further rows would not be tested on
        return f"{start}{'' if splits == most else '; a larger training size may show more'}."
    kept = protocol.n_splits if splits == most else most
    wanted = f"about {_rounded(rows * splits / kept)} labeled rows (here {rows}) with {kept} splits"
    return f"{start}{', or' if splits == most else ', but'} {wanted}{'' if splits == most else ' would'}."


def _ruled_out(name, lead, n_splits):
    """The largest lead that the interval leaves, and how many splits would leave none worth the name."""
    if lead["high"] <= NEGLIGIBLE:
        return f" A lead over {name} is ruled out."
    spread = lead["error"] * n_splits**0.5
    needed = int((1.96 * spread / (NEGLIGIBLE - lead["mean"])) ** 2) + 1
    more = f"; about {needed} splits would rule out any" if n_splits < needed <= MANY_SPLITS else ""
    return f" A lead of more than {_points(lead['high'])} over {name} is ruled out{more}."


def _rounded(count):
    """A number with two digits that count."""
    step = 10 ** max(0, len(str(round(count))) - 2)
    return round(count / step) * step


def _notes(size, protocol, permutation, skipped):
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
        how = "as well as"
        if abs(worse) > 5e-4:
            how = f"{'worse' if worse > 0 else 'better'} by {_points(abs(worse))} on average than"
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
        scores = _list([f"{row['title']} {percent(row['mean'])}" for row in shown])
        notes.append(
            f"If the columns were known at prediction: {scores}; the best plain method has {percent(best['mean'])} without "
            "them. That is what they know, not what can be carried over."
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
        if keep["rows"] == "labeled" and size["n_unlabeled"] == 0:
            found.append(
                "Rows with these columns but without a label can be added, with an empty target: they often help more."
            )
        return found
    found = [f"Use the plain {keep['title']} (model.lupi); the columns need not be collected for it."]
    if answer == "unclear" and row and "over_best_plain" in row:
        needed = [part["splits_needed"] for part in _leads(row).values()]
        if None not in needed and protocol.n_splits < max(needed) <= MANY_SPLITS:
            found.append(f"Run again with --splits {max(needed)}: what is finished is kept.")
        else:
            found.append("Collect more labeled rows, then run again.")
    return found


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
    more = f" and {size['n_unlabeled']} unlabeled" if size["n_unlabeled"] else ""
    return (
        f"With {size['train_size']} labeled{more} training rows, tested on {size['n_test']}: {protocol['metric_title']} x 100, "
        f"mean ± standard error over {protocol['n_splits']} splits"
    )


def worth_sentence(found):
    """One point of the learning curve, in labeled rows.

    Examples
    --------
    >>> worth_sentence({"train_size": 50, "plain_rows": 81.3, "at_least": 200})
    '50 labeled rows with the columns are worth about 81 without them.'
    """
    rows = f"about {found['plain_rows']:.0f}" if found["plain_rows"] else f"more than {found['at_least']}"
    return f"{found['train_size']} labeled rows with the columns are worth {rows} without them."
