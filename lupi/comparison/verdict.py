"""The answer of a comparison, in words that name the figures behind it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from lupi.comparison.problem import METRICS
from lupi.comparison.results import HELPS, HURTS, LEVEL, MATCHED, NOT_THE_COLUMNS

# A gain whose whole interval lies below this is not worth more splits.
NEGLIGIBLE = 0.002
MANY_SPLITS = 500


@dataclass(frozen=True)
class SizeAnswer:
    """The answer for one training size."""

    train_size: int
    answer: str
    method: str | None
    text: str


@dataclass(frozen=True)
class Verdict(SizeAnswer):
    """The answer for the largest training size ("yes", "no", "unclear"), with the answers for all sizes.

    `method` is the method to use; `candidate` is the privileged method with the best mean, whatever the answer; `actions`
    are the next steps.
    """

    candidate: str | None
    notes: list[str]
    actions: list[str]
    sizes: list[SizeAnswer]


def verdict(sizes, plan, *, permutation=None, skipped=None, leaks=(), worth=()):
    """Answer from the statistics of all training sizes.

    ====================================================  =====================================================
    figures                                               answer
    ====================================================  =====================================================
    a method beats every baseline, its counterpart and    yes; "unclear" where the exact test does not confirm
    its shuffled control                                  it, or a privileged column leaks the target
    it beats its counterpart and its control, but a       no: keep that baseline
    baseline is as good
    a gain over all of them, one of which may be chance   unclear, with an interval and the splits or rows that
                                                          would settle it
    no gain over one of them                              no, with an interval
    ====================================================  =====================================================

    `skipped` is the reason why there is no permutation test. Also returns the learning curve, which is `shown` where the
    columns save labeled rows.
    """
    last, leaks = sizes[-1], [leak for leak in leaks if leak["kind"] == "privileged"]
    answers = []
    for size in sizes:
        answer, keep, text = _answer(size, plan, permutation if size is last else None, leaks)
        answers.append(SizeAnswer(size.train_size, answer, keep and keep.name, text))
    notes = _notes(last, plan, permutation, skipped)
    helped = {part.train_size for part in answers if answer == part.answer == "yes"}
    worth = [replace(w, shown=w.train_size in helped and (w.baseline_rows or inf) > w.train_size) for w in worth]
    if len(sizes) > 1:
        by_size = ", ".join(f"{part.train_size} rows: {part.answer}" for part in answers)
        saved = [worth_sentence(part) for part in worth if part.shown]
        notes = [f"By training size: {by_size}.", *saved, *notes]
    candidate, actions = last.candidate and last.candidate.name, _actions(answer, keep, last, plan, leaks)
    return Verdict(**vars(answers[-1]), candidate=candidate, notes=notes, actions=actions, sizes=answers), worth


def _answer(size, plan, permutation, leaks):
    """Answer, the method to keep, and the sentence."""
    if not size.baselines:
        return "unclear", None, "No baseline could be fitted, so there is nothing to compare with."
    best, row = size.find(size.best_baseline), size.candidate
    # The first baseline in the list that is within a standard error of the best one: a classifier before a ranker.
    keep = next(other for other in size.baselines if other.mean >= best.mean - other.error)
    if row is None:
        present = any(other.role == "privileged" for other in size.methods)
        what = "fitted on every split" if present else "among those compared"
        return "no", keep, f"No method that uses the columns was {what}; the best baseline is {keep.title}."
    more = f" and {size.n_unlabeled} unlabeled rows" if row.rows == "all" else ""
    start = f"With {size.train_size} labeled rows{more}: "
    leak = _leak_words(leaks) if leaks else ""
    if row.outcome == HELPS:
        answer, sentence = _helps(row, best, plan, permutation)
        if leak:
            return "unclear", keep, f"{start}{sentence} But {leak}"
        return answer, row if answer == "yes" else keep, f"{start}{sentence}"
    sentence = f"{start}{_not_shown(row, best, keep, plan)}{_settle(row, size, plan)}"
    possible = all(gain.mean > 0 and gain.high > NEGLIGIBLE for gain in row.gains.values())
    return ("unclear" if possible else "no"), keep, f"{sentence} And {leak}" if leak else sentence


def _helps(row, best, plan, permutation):
    figures = [f"{_points(row.over_best_baseline.mean)} over the best baseline ({best.title})"]
    if row.gain and row.counterpart != best.name:
        figures.append(f"{_points(row.gain.mean)} over its counterpart without the columns")
    figures.append(f"{_points(row.over_shuffled.mean)} over its shuffled control")
    text = f"{row.title} gains {_list(figures)}, in {METRICS[plan.metric].title} ({_p(row.p)}"
    if permutation is None:
        return "yes", f"{text}): the columns help."
    if permutation.p <= LEVEL:
        return "yes", f"{text}; exact test {_p(permutation.p)}): the columns help."
    return "unclear", (
        f"{text}), but the exact test does not confirm that the columns are the cause ({_p(permutation.p)}): the gain may "
        "be due to the choice of splits."
    )


def _leak_words(leaks):
    found = leaks[0]["text"].removeprefix("Leakage? ")
    more = f" (and {len(leaks) - 1} more)" if len(leaks) > 1 else ""
    return f"{found[0].lower()}{found[1:]}{more} Check this before you rely on any figure."


def _not_shown(row, best, keep, plan):
    over, own = row.over_best_baseline, row.gain or row.over_best_baseline
    if row.outcome == MATCHED:
        return (
            f"the columns help {row.title} ({_points(own.mean)} over its counterpart, {_p(row.p)}), but {best.title} reaches "
            f"{percent(best.mean)} without them, and {row.title} {percent(row.mean)} with them (difference "
            f"{_interval(over)}): keep {keep.title}."
        )
    if row.outcome == NOT_THE_COLUMNS:
        return (
            f"{row.title} beats its counterpart by {_points(own.mean)} ({_p(row.p)}), but the columns are not shown to be the "
            f"cause: its gain over shuffled columns is {_interval(row.over_shuffled)}. Keep {keep.title}."
        )
    if over.mean <= 0:
        return (
            f"no method gains from these columns; keep {keep.title}. The best of them, {row.title}, differs by "
            f"{_interval(over)} from the best baseline ({best.title})."
        )
    return (
        f"no method is shown to gain from these columns; keep {keep.title}. The largest gain, of {row.title} over the best "
        f"baseline ({best.title}), is {_interval(over)} of {METRICS[plan.metric].title} and may be chance ({_p(row.p)})."
    )


def _settle(row, size, plan):
    """How many splits, or labeled rows, would settle a gain of this size."""
    # The spread of a split falls with the root of the rows, that of a mean with the root of the splits.
    behind = {name: gain for name, gain in row.gains.items() if gain.mean <= 0}
    if behind:
        name, gain = min(behind.items(), key=lambda item: item[1].high)
        size_of_gain = "" if gain.high <= NEGLIGIBLE else f" of more than {_points(gain.high)}"
        return f" A gain{size_of_gain} over {name} is ruled out."
    splits = max(gain.splits_needed for gain in row.gains.values())
    if splits <= plan.n_splits:
        return ""
    rows, enough = size.n_train + size.n_test, splits <= MANY_SPLITS
    start = f" {'About' if enough else 'Not even'} {min(splits, MANY_SPLITS)} splits would settle a gain of this size"
    if size.n_test >= plan.max_test:  # further rows would not be tested on
        return f"{start}{'' if enough else '; a larger training size may show more'}."
    kept = plan.n_splits if enough else MANY_SPLITS
    wanted = f"about {float(f'{rows * splits / kept:.2g}'):.0f} labeled rows (here {rows}) with {kept} splits"
    return f"{start}, or {wanted}." if enough else f"{start}, but {wanted} would."


def _notes(size, plan, permutation, skipped):
    """Remarks beside the verdict."""
    notes, n_tested = [], max(1, len(size.tested))
    smallest = 2 * 0.5**plan.n_splits * n_tested
    if smallest >= LEVEL:
        notes.append(
            f"With {plan.n_splits} splits and {n_tested} method{'s' if n_tested > 1 else ''} no difference can be significant "
            f"(the smallest possible p is {min(1.0, smallest):.2g}): use more splits."
        )
    if permutation:
        worse = permutation.score - sum(permutation.permuted) / len(permutation.permuted)
        by = f"{'worse' if worse > 0 else 'better'} by {_points(abs(worse))} on average than"
        notes.append(
            f"Exact test: we permuted the privileged rows of the whole table {permutation.n} times. {permutation.title} "
            f"(fixed parameters) does {by if abs(worse) > 5e-4 else 'as well as'} with the real rows ({_p(permutation.p)})."
        )
    elif skipped:
        notes.append(f"The exact permutation test was not run: {skipped}")
    references = [row for row in size.methods if row.role == "reference" and not row.failed]
    if references and size.best_baseline:
        scores = _list([f"{row.title} {percent(row.mean)}" for row in references])
        notes.append(
            f"If the columns were known at prediction: {scores}; the best baseline has "
            f"{percent(size.find(size.best_baseline).mean)} without them. This is an upper bound."
        )
    if hurt := [row.title for row in size.tested if row.outcome == HURTS]:
        notes.append(f"Clearly worse with the columns than without: {_list(hurt)}.")
    if failed := [row.title for row in size.methods if row.failed or (row.shuffled and row.shuffled.failed)]:
        notes.append(f"Left out, because some fits failed: {_list(failed)}.")
    return notes


def _actions(answer, keep, size, plan, leaks):
    """Next steps."""
    if leaks:
        names = _list([repr(name) for name in leaks[0]["columns"]])
        return [
            f"Check whether {names} can be known before the target is; if not, leave it out (--drop) and run again."
        ]
    if keep is None:
        return ["Look at the errors of the baselines first."]
    if answer == "yes":
        found = [f"Use {keep.title} (model.lupi): it requires the columns in training only."]
        if keep.rows == "labeled" and size.n_unlabeled == 0:
            found.append("Add unlabeled rows that have these columns, with an empty target: they often help more.")
        return found
    found = [f"Use {keep.title} (model.lupi); the columns need not be collected for it."]
    if answer == "unclear" and size.candidate:
        needed = [gain.splits_needed for gain in size.candidate.gains.values()]
        if None not in needed and plan.n_splits < max(needed) <= MANY_SPLITS:
            found.append(f"Run again with --splits {max(needed)}: finished results are kept.")
        else:
            found.append("Collect more labeled rows, then run again.")
    return found


def worth_sentence(part):
    """One point of the learning curve, in labeled rows."""
    rows = f"about {part.baseline_rows:.0f}" if part.baseline_rows else f"more than {part.at_least}"
    return f"{part.train_size} labeled rows with the columns are worth {rows} without them."


def _points(value):
    return f"{100 * value:.1f} points" if abs(100 * value) >= 0.05 else f"{100 * value:.2f} points"


def _interval(gain):
    return f"{100 * gain.mean:+.1f} points (95% interval {100 * gain.low:+.1f} to {100 * gain.high:+.1f})"


def _p(value):
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def _list(words):
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def percent(share, digits=1):
    """A score in points."""
    return f"{100 * share:.{digits}f}"


def signed(share, digits=1):
    """A gain in points, with its sign; never "-0.0"."""
    return f"{round(100 * share, digits) + 0.0:+.{digits}f}"


def p_value(p):
    """A short p-value."""
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")
