"""Sharmanska et al. (2013), Tables 2 to 4: their data are not at hand; Tables 2 and 4 are run on data of the same kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from lupi.datasets import load_movie_rationales
from lupi.experiments.comparison import compare
from lupi.reproduce._entry import Entry, paper_table, write_result
from lupi.reproduce.sharmanska import PAPER_METHODS, PRIVILEGED_RANGE

SIZES = (50, 100)
N_VOCABULARY = 600
N_WORDS = 2000


def l2_grids():
    """Candidates of section 4 where both spaces have rows of length 1: 7 for a plain method, 7 x 7 with privileged features.

    Returns
    -------
    dict
    """
    # kappa = inf is the paper's problem: all slack has to come from the privileged features.
    grids = {name: {"C": PRIVILEGED_RANGE} for name in PAPER_METHODS}
    grids["svm+"] = {"C": PRIVILEGED_RANGE, "lam": PRIVILEGED_RANGE, "kappa": [np.inf]}
    grids["ranktransfer"] = {"C": PRIVILEGED_RANGE, "C_privileged": PRIVILEGED_RANGE}
    return grids


def as_in_the_paper(X, y, privileged, **options):
    """`compare` with the paper's methods and choice of parameters, for rows of length 1 in both spaces.

    Returns
    -------
    Comparison
    """
    return compare(
        X,
        y,
        privileged,
        methods=PAPER_METHODS,
        metric="ap",
        grids=l2_grids(),
        kernel="linear",
        standardize=False,
        hard_examples=False,
        **options,
    )


def table_lines(title, size):
    """Lines for one task: score, gain over the plain counterpart, and the same with shuffled privileged rows.

    Parameters
    ----------
    title : str
    size : dict
        An element of ``summary["sizes"]``.

    Returns
    -------
    list of str
    """

    def value(part, sign=""):
        return f"{100 * part['mean']:{sign}.2f} ± {100 * part['error']:.2f}"

    lines = []
    for row in size["methods"]:
        if row["failed"]:
            lines.append(f"{title:26} {row['title']:28} {row['failed']} fits failed: {'; '.join(row['errors'])}")
            continue
        line = f"{title:26} {row['title']:28} {value(row):>14}"
        if "gain" in row:
            line += f" {value(row['gain'], '+'):>14} {value(row['shuffled_gain'], '+'):>14} {row['p']:7.3f}  {row['outcome']}"
        lines.append(line)
    return lines


HEAD = f"{'task':26} {'method':28} {'AP x 100':>14} {'gain':>14} {'shuffled gain':>14} {'p':>7}"
LEGEND = (
    "Mean ± standard error. gain: over the plain counterpart (SVM+ over SVM, Rank Transfer over rank SVM); shuffled gain: the same "
    "with another example's privileged row. p: Wilcoxon, the larger of the tests against both, Holm-adjusted in each task."
)


def review_features(reviews, seed=0, n_vocabulary=N_VOCABULARY):
    """TF-IDF rows of reviews and of their rationales, both of length 1.

    Words and their weights come from reviews that are in no training or test set: all of ERASER's test part, whose rationales
    are of another kind, those without a rationale, and others drawn up to `n_vocabulary`.

    Parameters
    ----------
    reviews : Bunch
        Of :func:`~lupi.datasets.load_movie_rationales`.
    seed : int
    n_vocabulary : int

    Returns
    -------
    X, y, privileged : ndarray
        Of the other reviews.
    """
    usable = np.array([p == "train" and bool(r.strip()) for p, r in zip(reviews.part, reviews.privileged)])
    pool = np.random.default_rng(seed).permutation(np.flatnonzero(usable))
    n_drawn = max(0, n_vocabulary - int((~usable).sum()))
    words = TfidfVectorizer(min_df=3, max_features=N_WORDS, sublinear_tf=True, token_pattern=r"(?u)\b[a-z']{2,}\b")
    words.fit([reviews.data[i] for i in [*np.flatnonzero(~usable), *pool[:n_drawn]]])
    rows = np.sort(pool[n_drawn:])
    tables = {name: words.transform([reviews[name][i] for i in rows]).toarray() for name in ("data", "privileged")}
    # A rationale of words that are all unknown says nothing.
    kept = np.linalg.norm(tables["privileged"], axis=1) > 0
    return tables["data"][kept], reviews.target[rows][kept], tables["privileged"][kept]


def rationales(reviews, *, sizes=SIZES, n_splits=100, **options):
    """Learning from film reviews with rationales as privileged texts.

    Returns
    -------
    Comparison
    """
    X, y, Z = review_features(reviews)
    return as_in_the_paper(X, y, Z, n_splits=n_splits, train_size=list(sizes), **options)


def _sharmanska_table4(data, out, *, n_splits=100, tasks=None, n_jobs=1, on_progress=None):
    reviews = load_movie_rationales(None if data is None else Path(data) / "movie_rationales")
    result = rationales(
        reviews,
        sizes=SIZES[: tasks or len(SIZES)],
        n_splits=n_splits,
        store=out / "rationales.sqlite",
        n_jobs=n_jobs,
        on_progress=on_progress,
    )
    facts = result.summary["data"]
    lines = [
        "SUBSTITUTE: film reviews with an annotator's rationales, not the paper's HotOrNot pictures, whose data were not found.",
        f"X: TF-IDF of the review, privileged: TF-IDF of its rationales ({facts['features']} words); {facts['rows']} reviews, "
        f"{n_splits} splits (paper: 100), test on the others.",
        LEGEND,
        HEAD,
    ]
    for size in result.summary["sizes"]:
        lines += table_lines(f"reviews, N = {size['train_size']}", size)
    lines.append("The paper's own table (other data, so only the kind of outcome can be compared), N = 100:")
    for row in paper_table("sharmanska_2013_table4"):
        lines.append(_paper_gains(row["task"], row))
    lines.append(result.verdict)
    write_result(out, "sharmanska-table4", substitute=True, comparison=result.summary)
    return lines


def _paper_gains(title, row):
    gains = {a: float(row[a]) - float(row[b]) for a, b in (("svm+", "svm"), ("ranktransfer", "ranksvm"))}
    return (
        f"  {title:20} SVM {row['svm']}, SVM+ {gains['svm+']:+.2f}; rank SVM {row['ranksvm']}, Rank Transfer "
        f"{gains['ranktransfer']:+.2f}; reference {row['reference']}"
    )


ENTRIES = (
    Entry(
        "sharmanska-table4",
        "Sharmanska et al. 2013, Table 4 (HotOrNot, rationales), on a substitute",
        "movie_rationales (a substitute)",
        _sharmanska_table4,
    ),
)
