"""From the scores of the study of verdicts to its tables: answers, how often, and whether harder judges overturn a yes."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.stats import binomtest

from experiments._verdict_truths import TRUTHS
from lupi.comparison.methods import METHODS
from lupi.comparison.protocol import Protocol
from lupi.comparison.summary import LEVEL, candidate_row, judge, mean_and_error, paired, permutation_p
from lupi.comparison.verdict import verdict

# Tables of each kind in the table of answers.
N_SHOWN = 20
LEAK = {"kind": "privileged", "columns": ["?"], "text": "Leakage?"}


@dataclass(frozen=True)
class Finding:
    """What the scores of a table say.

    Attributes
    ----------
    answer : {"yes", "unclear", "no"}
    method, best_plain : str
        The method with the columns that the answer is about, and the plain method with the best mean.
    row : dict
        The method's comparisons, as of `lupi.comparison.schema.MethodRow`.
    plain_mean : float
        Of the best plain method.
    exact : float or None
        p of the exact test; None where it was not run.
    leaks : int
    """

    answer: str
    method: str
    best_plain: str
    row: dict
    plain_mean: float
    exact: float | None
    leaks: int

    @property
    def helps(self):
        """Whether the method beats every plain method and both controls, before the exact test and leaks are looked at."""
        return self.row["outcome"] == "helps"


def verdict_of(parts, names=None):
    """The verdict of `lupi compare`, from the scores of its methods.

    Parameters
    ----------
    parts : dict of str to dict
        Records of one table, as of :func:`experiments._verdict_units.kept`.
    names : sequence of str, optional
        Parts to look at; by default all but the judges.

    Returns
    -------
    Finding
    """
    chosen = {name: part for name, part in parts.items() if name != "judges" and (names is None or name in names)}
    first = next(iter(chosen.values()))
    rows = {name: _row(name, part) for part in chosen.values() for name in part.get("scores", ())}
    plains = [row for row in rows.values() if row["role"] == "plain"]
    best = max(plains, key=lambda row: row["mean"])
    judge([row for row in rows.values() if row["role"] == "privileged"], list(rows.values()), plains, best)
    size = {
        "train_size": first["n_train"],
        **{name: first[name] for name in ("n_train", "n_unlabeled", "n_test")},
        "best_plain": best["name"],
        "methods": list(rows.values()),
    }
    exact = _exact(chosen, candidate_row(size)["method"])
    protocol = Protocol(metric="auc", n_splits=len(best["scores"]))
    said = verdict([size], protocol, permutation=exact, leaks=[LEAK] * first["leaks"])
    return Finding(
        answer=said["answer"],
        method=said["candidate"],
        best_plain=best["name"],
        row=candidate_row(size),
        plain_mean=best["mean"],
        exact=exact and exact["p"],
        leaks=first["leaks"],
    )


def _row(name, part):
    """A method's row, as the comparison makes it."""
    method = METHODS[name.split("/")[0]]
    mean, error = mean_and_error(part["scores"][name])
    row = {"name": name, "method": method.name, "title": method.title, "role": method.role, "plain": method.plain}
    row |= {"scores": part["scores"][name], "mean": mean, "error": error, "failed": 0, "rows": "labeled"}
    if name in part["shuffled"]:
        row["shuffled"] = {"scores": part["shuffled"][name], "failed": 0}
    if part["n_unlabeled"] and method.unlabeled and "/" not in name:
        row["rows"] = "all"
    return row


def exact_part(parts, n_permutations):
    """Name of the part with the exact test that an ordinary run makes: by the method that did best, if it can be run so often.

    Parameters
    ----------
    parts : dict of str to dict
        Records of one table.
    n_permutations : int

    Returns
    -------
    str
    """
    return f"exact {n_permutations} {_computed_by(verdict_of(parts).row['method'])}"


def _computed_by(method):
    return method if METHODS[method].closed_form or METHODS[method].grid else "surrogate-ridge"


def _exact(parts, method):
    """The exact test of a method, as the comparison makes it; None if it was not run."""
    wanted = METHODS[_computed_by(method)]
    for part in parts.values():
        found = part["exact"]
        if found and found["method"] == wanted.name:
            p = permutation_p(found["score"], found["permuted"])
            return {**found, "title": wanted.title, "n": len(found["permuted"]), "p": p}
    return None


def share(count, total):
    """How often, with an exact 95% interval.

    Examples
    --------
    >>> share(0, 200)
    '0 of 200 = 0.0% (0.0 to 1.8)'
    """
    low, high = binomtest(count, total).proportion_ci()
    return f"{count} of {total} = {100 * count / total:.1f}% ({100 * low:.1f} to {100 * high:.1f})"


# What is counted: kind of table, parts that must have been run, parts that are looked at (None: all that were run), what counts.
# The exact test was run on the first tables of noise whatever their scores, and again where a yes was near: only the first count.
N_NOISE_EXACT = 12
RIDGE = ("surrogate-ridge",)
EXACT_TEST = "exact 19 surrogate-ridge"
WITH_LINEAR = (*RIDGE, "linear")
COUNTED = {
    "noise: `surrogate-ridge` has a better mean than its counterpart": ("noise", RIDGE, RIDGE, "above"),
    "noise: it is clearly worse than its shuffled control": ("noise", RIDGE, RIDGE, "below"),
    "noise: it beats its counterpart and its shuffled control": ("noise", RIDGE, RIDGE, "helps"),
    "noise: yes, so also over logistic regression and confirmed by the exact test": ("noise", RIDGE, None, "yes"),
    "noise: unclear": ("noise", RIDGE, None, "unclear"),
    f"noise, the first {N_NOISE_EXACT} tables: exact test alone, p <= 0.05": (
        "noise",
        (*RIDGE, EXACT_TEST),
        (*RIDGE, EXACT_TEST),
        "exact",
    ),
    "mediators: `surrogate-ridge` beats logistic regression, its counterpart and its shuffled control": (
        "mediators",
        WITH_LINEAR,
        WITH_LINEAR,
        "helps",
    ),
    "mediators: exact test alone, p <= 0.05": ("mediators", (*RIDGE, EXACT_TEST), (*RIDGE, EXACT_TEST), "exact"),
    "mediators: yes": ("mediators", (*WITH_LINEAR, EXACT_TEST), (*WITH_LINEAR, EXACT_TEST), "yes"),
    "label was wrong: yes, over logistic regression, its counterpart, shuffled rows, and by the exact test": (
        "label was wrong",
        (*WITH_LINEAR, EXACT_TEST),
        (*WITH_LINEAR, EXACT_TEST),
        "yes",
    ),
}
COUNTS = {
    "helps": lambda found: found.helps,
    "above": lambda found: found.row["gain"]["mean"] > 0,
    "below": lambda found: found.row["over_shuffled"]["mean"] < 0 and found.row["over_shuffled"]["wilcoxon_p"] < LEVEL,
    "yes": lambda found: found.answer == "yes",
    "unclear": lambda found: found.answer == "unclear",
    "exact": lambda found: found.exact <= LEVEL,
}


def _asker(records):
    """Verdicts by table and parts, each worked out once."""
    known = {}

    def ask(table, names=None):
        parts = tuple(name for name in records[table] if names is None or name in names)
        if (table, parts) not in known:
            known[table, parts] = verdict_of(records[table], parts)
        return known[table, parts]

    return ask


def level_lines(records, ask):
    """How often a method is said to help on noise and on mediators: by its wins, by the exact test, by both."""
    lines = ["| columns, and what is counted | how often (95% interval) |", "|---|---|"]
    for what, (kind, needed, looked_at, counted) in COUNTED.items():
        tables = [name for name, parts in records.items() if name.startswith(f"{kind}/") and set(needed) <= set(parts)]
        if kind == "noise" and EXACT_TEST in needed:
            tables = [name for name in tables if int(name.split("/")[1]) < N_NOISE_EXACT]
        count = sum(COUNTS[counted](ask(table, looked_at)) for table in tables)
        if tables:
            lines.append(f"| {what} | {share(count, len(tables))} |")
    return lines


def answers_lines(records, ask):
    """Answers on tables of every kind, from all that was run on them."""
    lines = [
        "| columns | should be | tables | yes | unclear | no | leak named | gain over the counterpart | over shuffled |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, wanted in TRUTHS.items():
        found = [ask(table) for table in [t for t in records if t.startswith(f"{kind}/")][:N_SHOWN]]
        if not found:
            continue
        counts = [str(sum(v.answer == answer for v in found)) for answer in ("yes", "unclear", "no")]
        gains = [
            f"{sum(100 * v.row[name]['mean'] for v in found) / len(found):+.2f}" for name in ("gain", "over_shuffled")
        ]
        named = sum(v.leaks > 0 for v in found)
        lines.append(f"| {' | '.join([kind, wanted, str(len(found)), *counts, str(named), *gains])} |")
    return lines


def truths_lines(records):
    """Level and power, and answers on every kind of table."""
    ask = _asker(records)
    return ["", *level_lines(records, ask), "", *answers_lines(records, ask)]


def tables_lines(records):
    """Verdicts on real tables, and what harder judges say to them."""
    lines = [
        "| table | rows | best plain | method with the columns | gain over best plain (95%) | p | exact p | verdict | best judge | "
        "gain over it (95%) |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for table, parts in records.items():
        found = verdict_of(parts)
        first = next(iter(parts.values()))
        judged = parts.get("judges")
        if judged:
            name, scores = max(judged["scores"].items(), key=lambda item: sum(item[1]))
            over = paired(found.row["scores"], scores)
            judge_cells = [f"{name.removeprefix('judge-')} {100 * mean_and_error(scores)[0]:.1f}", _interval(over)]
        else:
            judge_cells = ["", ""]
        cells = [
            table,
            f"{first['n_train']} / {first['n_test']}",
            f"{found.best_plain} {100 * found.plain_mean:.1f}",
            f"{found.method} {100 * found.row['mean']:.1f}",
            _interval(found.row["over_best_plain"]),
            f"{found.row['p']:.2g}",
            "" if found.exact is None else f"{found.exact:.2g}",
            found.answer + (", leak named" if found.leaks else ""),
            *judge_cells,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _interval(part):
    return f"{100 * part['mean']:+.2f} ({100 * part['low']:+.2f} to {100 * part['high']:+.2f})"


def overturned(parts):
    """Whether a judge on the ordinary columns alone reaches the mean of the method that the verdict is about.

    Parameters
    ----------
    parts : dict of str to dict
        Records of one table, with the judges'.

    Returns
    -------
    bool
    """
    best = max(mean_and_error(scores)[0] for scores in parts["judges"]["scores"].values())
    return best >= verdict_of(parts).row["mean"]
