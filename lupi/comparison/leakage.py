"""Columns that say too much, or nothing new: under any name, scale, order or spelling, alone or two together."""

from __future__ import annotations

import re

import numpy as np
from scipy.stats import rankdata

from lupi.ranking.ranking_metrics import area_of_ranking
from lupi.tabular.encoder import GAP, RawTable

# A column that tells the target this well, or repeats another column this closely, deserves a question.
TELLS, REPEATS = 0.98, 0.995
SAMPLE = 5000
# Values that are rarer than this share of the rows say nothing about the rows that share them.
FEW_LEVELS = 0.1
# With more pairs of columns than this, those with gaps are compared as they are.
MAX_PAIRS = 20_000
# Two columns together: at most so many columns are paired, on so many rows; fewer rows of a class say nothing.
PAIRED_COLUMNS, PAIRED_ROWS, PAIRED_CLASS = 80, 1500, 10
TOGETHER = {
    "difference": np.subtract,
    "distance": lambda a, b: np.abs(a - b),
    "sum": np.add,
    "product": np.multiply,
    "ratio": lambda a, b: np.divide(a, b, out=np.full(len(a), np.nan), where=b != 0),
}
SUBJECT = re.compile(r"(^|[_. ])(id|subject|patient|person|player|name|case|respondent)s?([_. #]|$)", re.IGNORECASE)
# Rows of one subject: at least two on average, and at most so many.
MOST_VISITS = 30


def examine(X, y, Z, target="the target", *, grouped=False, others=None):
    """Look for columns that say too much, or nothing new, and for rows that belong together.

    Parameters
    ----------
    X, Z : data frame, array or RawTable
        Decision and privileged columns.
    y : array
        Target; NaN or -1 where there is none.
    target : str
        Its name.
    grouped : bool
        Whether rows that belong together are kept together; otherwise they are looked for.
    others : data frame or RawTable, optional
        Columns that serve as neither, such as names that were dropped.

    Returns
    -------
    list of lupi.comparison.schema.Leak, list of str
        Leaks, and notes in words, those of the leaks first.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"a": [1, 2, 3, 4, 5, 7]})
    >>> Z = pd.DataFrame({"b": [0, 0, 1, 1, 0, 1], "c": [1, 2, 3, 4, 5, 7]})
    >>> for note in examine(X, Z["b"].to_numpy(), Z, "y")[1]:
    ...     print(note)
    Leakage? The privileged column 'b' is the target 'y' under another name. Methods will look better than they are useful.
    The privileged column 'c' repeats the ordinary column 'a': it tells nothing new.
    """
    X, Z = RawTable.of(X), RawTable.of(Z)
    repeated = [] if grouped else _repeated_subjects(X, None if others is None else RawTable.of(others))
    truth, sample = codes(y), np.arange(len(y))
    sample = sample[truth != GAP]
    if len(sample) > SAMPLE:
        sample = np.sort(np.random.default_rng(0).permutation(sample)[:SAMPLE])
    X, Z, truth = X.take(sample), Z.take(sample), codes(truth[sample])
    ordinary, hidden = _columns(X), _columns(Z)
    found, notes = [], []
    for kind, table, columns in (("ordinary", X, ordinary), ("privileged", Z, hidden)):
        for name, column in columns.items():
            words = name in table.words
            leak, note = _tells(kind, name, column, truth, target, words)
            found += [{"kind": kind, "columns": [name], "text": text} for text in leak]
            notes += note
            if words and len(np.unique(column)) > max(30, 0.5 * len(column)):
                notes.append(
                    f"The {kind} column {name!r} has almost as many words as rows; if it is an identifier, --drop it."
                )
    found += _two_together(X, Z, truth, target, {(leak["kind"], leak["columns"][0]) for leak in found})
    return found, [leak["text"] for leak in found] + notes + _copies(ordinary, hidden) + repeated


def _columns(table):
    """Every column as whole numbers in sorted order, gaps as -1."""
    numbers = {name: codes(table.numbers[:, k]) for k, name in enumerate(table.numeric)}
    return {name: numbers[name] if name in numbers else table.words[name] for name in table.columns}


def codes(values):
    """Values as whole numbers in sorted order, gaps (NaN, None) as -1.

    Examples
    --------
    >>> codes(np.array([3.0, np.nan, 1.0])), codes(np.array(["b", "a"]))
    (array([ 1, -1,  0]), array([1, 0]))
    """
    values = np.asarray(values)
    if values.dtype.kind == "O":
        missing = np.array([value is None or value != value for value in values])
        values = values.astype(str)
    else:
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    found = np.full(len(values), GAP)
    found[~missing] = np.unique(values[~missing], return_inverse=True)[1]
    return found


CONSEQUENCE = {
    "privileged": "Methods will look better than they are useful.",
    "ordinary": "Then prediction is trivial: drop it.",
}


def _tells(kind, name, column, truth, target, words):
    """Whether one column gives the target away: leaks, and other notes."""
    if len(np.unique(truth)) < 2:
        return [], []
    if kind == "privileged" and len(np.unique(column)) < 2:
        what = "no value" if column[0] == GAP else "one value only"
        return [], [f"The privileged column {name!r} has {what}: it tells nothing."]
    if _same(column, truth):
        return [
            f"Leakage? The {kind} column {name!r} is the target {target!r} under another name. {CONSEQUENCE[kind]}"
        ], []
    tried = [_strength(column, truth, words), _strength(*_known(column, truth), words)]
    strength, how = max(tried, key=lambda found: found[0])
    if strength <= TELLS:
        return [], []
    return [f"Leakage? The {kind} column {name!r} alone tells the target {target!r} almost exactly ({how})."], []


def _two_together(X, Z, truth, target, told):
    """Two columns of numbers whose difference, sum, product or ratio gives the target away, though neither does alone."""
    marked = [f"{name} (privileged)" if name in X.columns else name for name in Z.numeric]
    names, block = [*X.numeric, *marked], np.hstack([X.numbers, Z.numbers])
    kinds = ["ordinary"] * len(X.numeric) + ["privileged"] * len(marked)
    plain = [*X.numeric, *Z.numeric]
    kept = [k for k in range(len(names)) if (kinds[k], plain[k]) not in told and len(np.unique(block[:, k])) > 1]
    numeric = len(np.unique(truth)) > max(20, FEW_LEVELS * len(truth))
    if not (numeric or len(np.unique(truth)) == 2) or len(kept) < 2:
        return []
    rows = np.random.default_rng(0).permutation(len(truth))[:PAIRED_ROWS]
    block, truth = block[rows], truth[rows]
    if len(rows) < 40 or (not numeric and np.bincount(codes(truth)).min() < PAIRED_CLASS):
        return []
    if len(kept) > PAIRED_COLUMNS:
        filled = np.nan_to_num(block[:, kept])
        kept = [kept[k] for k in np.argsort(-np.abs(_ranks(list(filled.T)).T @ _ranks([truth]))[:, 0])[:PAIRED_COLUMNS]]
    found = []
    for i, a in enumerate(kept):
        for b in kept[i + 1 :]:
            how = _joint_strength(block[:, a], block[:, b], truth, numeric)
            if how:
                kind = "privileged" if "privileged" in (kinds[a], kinds[b]) else "ordinary"
                text = (
                    f"Leakage? The {how[0]} of the columns {names[a]!r} and {names[b]!r} tells the target {target!r} almost "
                    f"exactly ({how[1]}), though neither does alone. {CONSEQUENCE[kind].replace('drop it', 'drop one')}"
                )
                found.append({"kind": kind, "columns": [names[a], names[b]], "text": text})
    return found


def _joint_strength(a, b, truth, numeric):
    """Name and strength of the first combination of two columns that tells the target; None if there is none."""
    known = np.isfinite(a) & np.isfinite(b)
    if known.mean() < 0.5:
        return None
    a, b, truth = a[known], b[known], truth[known]
    if not numeric and (len(np.unique(truth)) < 2 or np.bincount(codes(truth)).min() < PAIRED_CLASS):
        return None
    single = max(_agreement(column, truth, numeric) for column in (a, b))
    for name, combine in TOGETHER.items():
        values = combine(a, b)
        if np.isnan(values).any():
            continue
        strength = _agreement(values, truth, numeric)
        # Clearly closer than either column, not a good column in other clothes.
        if strength > TELLS and (1 - strength) < 0.5 * (1 - single):
            return name, f"{'rank correlation' if numeric else 'AUC'} {strength:.3f}"
    return None


def _agreement(values, truth, numeric):
    if len(np.unique(values)) < 2:
        return 0.0
    return _correlation(values, truth) if numeric else _area(values, truth == truth.max())


def _repeated_subjects(X, others):
    """A note where rows seem to belong to the same subjects: equal names, or rows that are all but equal."""
    for table in (X, *([] if others is None else [others])):
        for name in table.columns:
            names = _subjects(table, name)
            if names is not None:
                return [
                    f"The column {name!r} looks like repeated subjects (about {len(names) / len(set(names)):.0f} rows each). "
                    "Rows of one subject in training and test make every method look better: keep them together with "
                    f"groups={name!r} (--groups)."
                ]
    if X.numbers.shape[1] >= 3 and len(X) >= 20:
        numbers = X.numbers[:, np.isfinite(X.numbers).all(axis=0)]
        moving = numbers[:, np.ptp(numbers, axis=0) > 0]
        if moving.shape[1] >= 3 and not _few_values(moving):
            _, counts = np.unique((moving / moving.std(axis=0)).round(2), axis=0, return_counts=True)
            twins = counts[counts > 1].sum() / len(X)
            if twins > 0.05:
                return [
                    f"{100 * twins:.0f}% of the rows are all but equal to another row. If they belong to one subject, keep "
                    "them together with groups (--groups): otherwise every method looks better than it is."
                ]
    return []


def _few_values(numbers):
    """Whether so few combinations of values are possible that equal rows are no surprise."""
    levels = [len(np.unique(column)) for column in numbers.T]
    return np.log(np.array(levels, dtype=float)).sum() < 3 * np.log(len(numbers))


def _subjects(table, name):
    """The subject of each row, if the column names subjects with several rows each; None if not."""
    if name in table.words:
        texts = table.levels[name][np.maximum(table.words[name], 0)] if len(table.levels[name]) else None
        if texts is None or (table.words[name] == GAP).any():
            return None
        distinct = len(table.levels[name])
        # Names such as S01_3: the subject, and a number of the visit.
        if distinct > 0.9 * len(texts):
            texts = [re.sub(r"[-_. /]?\d+$", "", str(text)) for text in texts]
            return texts if 1.5 <= len(texts) / len(set(texts)) <= MOST_VISITS and len(set(texts)) >= 8 else None
        return list(texts) if SUBJECT.search(name) and _visits(len(texts), distinct) else None
    values = table.numbers[:, table.numeric.index(name)] if name in table.numeric else None
    if values is None or not SUBJECT.search(name) or not np.isfinite(values).all() or (values % 1 != 0).any():
        return None
    return values.tolist() if _visits(len(values), len(np.unique(values))) else None


def _visits(rows, distinct):
    return distinct >= 8 and 1.5 <= rows / distinct <= MOST_VISITS


def _copies(ordinary, hidden):
    """Privileged columns that repeat an ordinary one; rank correlations of all pairs at once, as tables may be wide."""
    closeness = np.abs(_ranks(list(hidden.values())).T @ _ranks(list(ordinary.values())))
    levels = {id(column): len(np.unique(column)) for columns in (ordinary, hidden) for column in columns.values()}
    few = len(hidden) * len(ordinary) <= MAX_PAIRS
    notes = []
    for i, (name, a) in enumerate(hidden.items()):
        for j, (other, b) in enumerate(ordinary.items()):
            ours, theirs = levels[id(a)], levels[id(b)]
            if ours < 2 or theirs < 2:
                continue
            close = closeness[i, j]
            if few and close <= REPEATS and ((a == GAP).any() or (b == GAP).any()):
                close = _correlation(*_known(*_known(a, b)[::-1]))
            if np.array_equal(a, b) or (ours == theirs < len(a) and _same(a, b)):
                notes.append(
                    f"The privileged column {name!r} repeats the ordinary column {other!r}: it tells nothing new."
                )
            elif ours > 2 and close > REPEATS:
                notes.append(f"The privileged column {name!r} is almost a copy of the ordinary column {other!r}.")
            elif 2 < theirs <= FEW_LEVELS * len(b) and _pairs(a, b) == theirs:
                notes.append(
                    f"The privileged column {name!r} can be read off the ordinary column {other!r}: it tells nothing new."
                )
    return notes


def _ranks(columns):
    """Ranks of each column, centered, of length 1 (0 for a constant column)."""
    ranks = np.column_stack([rankdata(column) for column in columns])
    ranks -= ranks.mean(axis=0)
    length = np.linalg.norm(ranks, axis=0)
    return ranks / np.where(length > 0, length, 1.0)


def _correlation(a, b):
    """Rank correlation without its sign; 0 with too few rows to speak of."""
    return float(abs((_ranks([a]) * _ranks([b])).sum())) if len(a) >= 20 else 0.0


def _known(column, other):
    """Both columns where the first has a value."""
    known = column != GAP
    return column[known], other[known]


def _pairs(a, b):
    """Number of different pairs of values."""
    return len(np.unique((a - GAP).astype(np.int64) * (int(b.max()) + 2) + (b - GAP)))


def _same(a, b):
    """Whether two columns are one column up to the names of the values."""
    pairs = _pairs(a, b)
    return (pairs == len(np.unique(a)) == len(np.unique(b)) and 1 < pairs < len(a)) or np.array_equal(a, b)


def _strength(column, truth, words=False):
    """How well one column tells the target, from 0 to 1, and by which measure."""
    if len(truth) < 20 or len(np.unique(column)) < 2 or len(np.unique(truth)) < 2:
        return 0.0, ""
    classes = np.unique(truth, return_counts=True)[1]
    if len(classes) == 2 and classes.min() < 5:
        return 0.0, ""  # so few rows are told apart by chance
    if words:
        column = _predictions_of_words(column, truth)
    if len(classes) > max(20, FEW_LEVELS * len(truth)):
        found = _correlation(column, truth)
        return found, f"rank correlation {found:.3f}"
    order = _area(column, truth == truth.max()) if len(classes) == 2 else _correlation(column, truth)
    kind = "AUC" if len(classes) == 2 else "rank correlation"
    share = _purity(column, truth)
    # A target that is nearly always the same is told "well" by any column.
    if share > order and (1 - share) < 0.1 * (1 - classes.max() / len(truth)):
        return share, f"{100 * share:.1f}% of the rows by its values alone"
    return order, f"{kind} {order:.3f}"


def _predictions_of_words(column, truth):
    """For every word the mean target of the rows in the other half that have it: what it predicts, not its spelling."""
    half = np.random.default_rng(0).permutation(len(column)) % 2 == 0
    found = np.full(len(column), truth.mean())
    for ours in (half, ~half):
        for word in np.unique(column[ours]):
            same = ~ours & (column == word)
            if same.any():
                found[ours & (column == word)] = truth[same].mean()
    return found


def _area(column, positive):
    area = area_of_ranking(positive, column.astype(np.float64))
    return max(area, 1 - area)


def _purity(column, truth):
    """Share of the rows that are right if each value stands for its most frequent target; numbers go by intervals."""
    n = len(column)
    if len(np.unique(column)) > FEW_LEVELS * n:
        bins = max(2, min(50, n // 20))
        column = (rankdata(column, method="min") - 1).astype(np.int64) * bins // n
    _, value = np.unique(column, return_inverse=True)
    _, label = np.unique(truth, return_inverse=True)
    counts = np.zeros((value.max() + 1, label.max() + 1))
    np.add.at(counts, (value, label), 1)
    return float(counts.max(axis=1).sum() / n)
