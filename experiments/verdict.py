"""Answers of `lupi compare` on generated tables whose truth is known, and on eleven real tables beside harder judges."""

from __future__ import annotations

import numpy as np
from scipy.stats import binomtest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from experiments.common import entry, markdown_table, run_stored, write_result
from experiments.data import FOLLOWUP
from experiments.surrogate import load_table
from lupi import compare
from lupi.files import digest_of

ROWS, FEATURES, TRAIN_SIZE = 600, 15, 100
# Kind -> the right answer, number of tables.
TRUTHS = {
    "noise": ("no", 200),
    "copy of X": ("no", 20),
    "function of X": ("no", 20),
    "mediators": ("yes", 40),
    "label was wrong": ("yes", 20),
    "unlabeled follow-ups": ("yes", 20),
    "leak": ("flagged", 20),
    "joint leak": ("flagged", 20),
}


def truth(kind, seed):
    r"""X, y and Z of a known kind.

    Fifteen standard normal columns :math:`x`; three later measurements :math:`z = W^T x / \sqrt{15} + \epsilon`; the target is
    whether their sum, with noise of standard deviation 1.5, is positive. The privileged columns are

    ======================  ===================================================================================
    noise                   three columns of noise
    copy of X               three columns of X on other scales
    function of X           a product, a square and a sine of columns of X
    mediators               the later measurements
    label was wrong         whether this label was flipped (30% are; the truth is linear in X), and a column of noise
    unlabeled follow-ups    the later measurements, with 1400 more rows that have no label
    leak                    the later measurements, and the target with a little noise
    joint leak              two days: the same one for one class, the second later for the other
    ======================  ===================================================================================
    """
    if kind not in TRUTHS:
        raise ValueError(f"`kind` must be one of {', '.join(TRUTHS)}; got {kind!r}.")
    rng = np.random.default_rng([seed, len(kind)])
    n = 2000 if kind == "unlabeled follow-ups" else ROWS
    X = rng.standard_normal((n, FEATURES))
    weights = rng.standard_normal((FEATURES, 3))
    later = X @ weights / np.sqrt(FEATURES) + rng.standard_normal((n, 3))
    y = (later.sum(axis=1) + 1.5 * rng.standard_normal(n) > 0).astype(float)
    if kind == "noise":
        return X, y, rng.standard_normal((n, 3))
    if kind == "copy of X":
        return X, y, X[:, :3] * [1.0, -2.0, 0.5]
    if kind == "function of X":
        return X, y, np.column_stack([X[:, 0] * X[:, 1], X[:, 2] ** 2, np.sin(X[:, 3])])
    if kind == "mediators":
        return X, y, later
    if kind == "label was wrong":
        right = (X @ weights[:, 0] > 0).astype(float)
        wrong = rng.random(n) < 0.3
        return X, np.where(wrong, 1 - right, right), np.column_stack([wrong, rng.standard_normal(n)]).astype(float)
    if kind == "unlabeled follow-ups":
        y[rng.permutation(n)[ROWS:]] = np.nan
        return X, y, later
    if kind == "leak":
        return X, y, np.column_stack([later, 3.0 + 2.0 * y + 0.01 * rng.standard_normal(n)])
    day = rng.integers(1, 400, n).astype(float)
    return X, y, np.column_stack([day, np.where(y == 1, day, day + rng.integers(1, 400, n))])


def answer_of(X, y, Z, groups=None, **options):
    """Answer, scores, intervals and leaks of a comparison at 100 labeled rows."""
    result = compare(X, y, Z, groups=groups, train_size=TRAIN_SIZE, columns=False, **options)
    said, (size,) = result.summary["verdict"], result.summary["sizes"]
    rows = {row["name"]: row for row in size["methods"]}
    method = rows[said["candidate"]]
    return {
        "answer": said["answer"],
        "method": said["candidate"],
        "best_plain": size["best_baseline"],
        "score": method["mean"],
        "plain_score": rows[size["best_baseline"]]["mean"],
        **{name: method[name] for name in ("gain", "over_shuffled", "p")},
        "over_best_plain": method["over_best_baseline"],
        "exact_p": (result.summary["permutation"] or {}).get("p"),
        "leaks": sum(leak["kind"] == "privileged" for leak in result.summary["leaks"]),
        "plain_scores": {name: row["mean"] for name, row in rows.items() if row["role"] == "baseline"},
    }


def measure_truth(kind, seed, n_splits):
    """Closed-form surrogate learning beside logistic regression, confirmed by 19 permutations (p <= 0.05: better than all)."""
    options = {"methods": ["surrogate-ridge"], "baselines": ["linear"], "permutations": 19, "n_splits": n_splits}
    return answer_of(*truth(kind, seed), **options)


def share(count, total):
    """Frequency with an exact 95% interval.

    Examples
    --------
    >>> share(0, 200)
    '0 of 200 = 0.0% (0.0 to 1.8)'
    """
    low, high = binomtest(count, total).proportion_ci()
    return f"{count} of {total} = {100 * count / total:.1f}% ({100 * low:.1f} to {100 * high:.1f})"


def truth_lines(found):
    """Answers per kind of table."""
    head, rows = ["columns", "should be", "yes (95% interval)", "unclear", "no", "leak named"], []
    for kind, (wanted, _) in TRUTHS.items():
        tables = [row for key, row in found.items() if key.startswith(f"{kind}/")]
        if tables:
            yes, unclear, no = (sum(row["answer"] == a for row in tables) for a in ("yes", "unclear", "no"))
            gain, over = (100 * np.mean([row[name]["mean"] for row in tables]) for name in ("gain", "over_shuffled"))
            named = sum(row["leaks"] > 0 for row in tables)
            rows.append([kind, wanted, share(yes, len(tables)), unclear, no, named, f"{gain:+.2f}", f"{over:+.2f}"])
    return markdown_table([*head, "gain over the counterpart", "over shuffled"], rows)


@entry("compare-truths", "Answers of `lupi compare` on tables whose truth is known", "nothing")
def truths(data, out, *, n_splits=20, tasks=None, n_jobs=1, on_progress=None):
    keys = [(kind, seed) for kind, (_, n) in TRUTHS.items() for seed in range(min(tasks or n, n))]
    work = {f"{kind}/{seed}": (measure_truth, kind, seed, n_splits) for kind, seed in keys}
    facts = {"entry": "compare-truths", "n_splits": n_splits}
    found = run_stored(work, out / "truths.sqlite", facts, n_jobs=n_jobs, on_progress=on_progress)
    write_result(out, "compare-truths", n_splits=n_splits, tables=found)
    return truth_lines(found)


REAL_TABLES = ("support2", "bank_marketing", "student_performance", "parkinsons", *FOLLOWUP)


def judges():
    """Common learners with larger grids than the built-in baselines."""
    boosting = HistGradientBoostingClassifier(max_iter=100, max_bins=64, early_stopping=False, random_state=0)
    leaves = {"max_leaf_nodes": (3, 8), "min_samples_leaf": (5, 15), "learning_rate": (0.02, 0.05, 0.1)}
    forest = RandomForestClassifier(300, random_state=0)
    return [
        ("judge-logistic", LogisticRegression(max_iter=5000), {"C": tuple(10.0 ** (k / 2) for k in range(-7, 5))}),
        ("judge-forest", forest, {"min_samples_leaf": (1, 2, 3, 5, 10, 20)}),
        ("judge-boosting", boosting, leaves),
    ]


def measure_table(name, part, n_splits, root):
    """A default comparison, or the judges alone."""
    X, y, Z, groups = load_table(name, root)
    if part == "judges":
        found = compare(
            X, y, Z, groups=groups, methods=[], baselines=judges(), permutations=0, columns=False, n_splits=n_splits,
            train_size=TRAIN_SIZE,
        )  # fmt: skip
        return {"scores": {row["name"]: row["mean"] for row in found.summary["sizes"][0]["methods"]}}
    return answer_of(X, y, Z, groups, n_splits=n_splits, permutations=39)


def table_lines(found):
    """Answers on real tables, and the best of the judges."""
    head, rows = ["table", "best plain", "method with the columns", "gain over best plain (95%)", "p", "exact p"], []
    for name in dict.fromkeys(key.split("/")[0] for key in found):
        row, judged = found[f"{name}/default"], found[f"{name}/judges"]["scores"]
        low, mean, high = (f"{100 * row['over_best_plain'][key]:+.2f}" for key in ("low", "mean", "high"))
        scores = [f"{row[a]} {100 * row[b]:.1f}" for a, b in (("best_plain", "plain_score"), ("method", "score"))]
        exact = "" if row["exact_p"] is None else f"{row['exact_p']:.2g}"
        answer, best = row["answer"] + (", leak named" if row["leaks"] else ""), max(judged, key=judged.get)
        judge = f"{best.removeprefix('judge-')} {100 * judged[best]:.1f}"
        rows.append([name, *scores, f"{mean} ({low} to {high})", f"{row['p']:.2g}", exact, answer, judge])
    return markdown_table([*head, "answer", "best judge"], rows)


@entry(
    "compare-tables",
    "Answers of `lupi compare` on eleven tables, beside tuned common learners as judges",
    "followup, support2, student_performance, bank_marketing, parkinsons",
)
def tables(data, out, *, n_splits=10, tasks=None, n_jobs=1, on_progress=None):
    root = None if data is None else str(data)
    names = REAL_TABLES[:tasks]
    digests = {name: digest_of(*(part for part in load_table(name, root) if part is not None)) for name in names}
    work = {f"{n}/{part}": (measure_table, n, part, n_splits, root) for n in names for part in ("default", "judges")}
    facts = {"entry": "compare-tables", "n_splits": n_splits, "data": digests}
    found = run_stored(work, out / "tables.sqlite", facts, n_jobs=n_jobs, on_progress=on_progress)
    write_result(out, "compare-tables", n_splits=n_splits, tables=found)
    return table_lines(found)
