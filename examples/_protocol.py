"""The protocol that both example scripts share: repeated splits, inner grid search, shuffled control."""

from dataclasses import dataclass, field

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import t as student_t
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler


@dataclass
class Method:
    """A row of the table: an estimator, its grid, and what it gets as privileged features."""

    name: str
    estimator: object
    grid: dict
    privileged: str = "off"  # "off", "real", "shuffled" or "in place of X"
    counterpart: str = ""  # the row that its gain is measured against
    scores: np.ndarray = field(default=None, repr=False)


def run_split(X, y, Z, methods, train_size, scoring, seed):
    """Score every method on the same split; all choose their parameters on the same five folds."""
    train, test = train_test_split(np.arange(len(y)), train_size=train_size, stratify=y, random_state=seed)
    X, Z = (StandardScaler().fit(block[train]).transform(block) for block in (X, Z))
    # The control: the same numbers, handed to the wrong examples.
    privileged = {"real": Z[train], "shuffled": np.random.default_rng(seed).permutation(Z[train])}
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    scores = []
    for method in methods:
        search = GridSearchCV(clone(method.estimator), method.grid, scoring=scoring, cv=folds)
        seen = Z if method.privileged == "in place of X" else X
        extra = {"privileged": privileged[method.privileged]} if method.privileged in privileged else {}
        scores.append(search.fit(seen[train], y[train], **extra).score(seen[test], y[test]))
    return scores


def run(X, y, Z, methods, *, train_size, splits, scoring, seed=0, jobs=1):
    """Fill in the scores of the methods, one for each random split."""
    tasks = (delayed(run_split)(X, y, Z, methods, train_size, scoring, seed + k) for k in range(splits))
    for method, scores in zip(methods, np.transpose(Parallel(n_jobs=jobs)(tasks))):
        method.scores = 100 * scores


def gain(method, methods):
    """Gains over the plain counterpart, split by split."""
    reference = next(other for other in methods if other.name == method.counterpart)
    return method.scores - reference.scores


def mean_and_error(values):
    """Mean and its standard error."""
    return np.mean(values), np.std(values, ddof=1) / np.sqrt(len(values))


def print_table(methods, measure):
    """Print scores and paired gains, mean +- standard error."""
    print(f"\n{'method':24} {measure:>16} {'gain':>16}   over")
    for method in methods:
        line = "{:24} {:9.2f} +- {:4.2f}".format(method.name, *mean_and_error(method.scores))
        if method.counterpart:
            line += " {:+9.2f} +- {:4.2f}   {}".format(*mean_and_error(gain(method, methods)), method.counterpart)
        print(line)


def verdict(real, shuffled, methods):
    """Say what the control allows to conclude: do the right rows beat the same rows in the wrong order?

    The test sets of random splits overlap, so that the standard errors are somewhat too small: a lenient test.
    """
    difference, error = mean_and_error(real.scores - shuffled.scores)
    gained, gained_error = mean_and_error(gain(real, methods))
    critical = student_t.ppf(0.975, len(real.scores) - 1)
    if abs(difference) <= critical * error:
        words = "these splits show no effect of the privileged features themselves"
    elif difference < 0:
        words = "the privileged features mislead"
    elif gained > critical * gained_error:
        words = f"the privileged features themselves help (gain {gained:+.2f} over {real.counterpart})"
    else:
        words = f"the right rows do better than shuffled ones, but not clearly better than {real.counterpart}"
    return f"{real.name} against its shuffled control: {difference:+.2f} +- {error:.2f} points; {words}."


def plot_gains(axes, methods, measure):
    """Draw the gain of every split, and mean and two standard errors of each method."""
    shown = [method for method in methods if method.counterpart]
    colors = {"real": "#1b6ca8", "shuffled": "#9a9a9a", "off": "#d08b2c"}
    rng = np.random.default_rng(0)
    for height, method in enumerate(reversed(shown)):
        values = gain(method, methods)
        mean, error = mean_and_error(values)
        color = colors[method.privileged]
        axes.scatter(values, height + rng.uniform(-0.16, 0.16, len(values)), s=14, color=color, alpha=0.35, lw=0)
        axes.errorbar(mean, height, xerr=2 * error, fmt="o", ms=8, color=color, capsize=4, lw=2)
        label = f"{mean:+.2f} ± {error:.2f}"
        axes.annotate(label, (1.01, height), xycoords=("axes fraction", "data"), va="center", color=color)
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(shown)), [f"{m.name}\nover {m.counterpart}" for m in reversed(shown)])
    axes.set_ylim(-0.5, len(shown) - 0.5)
    axes.set_xlabel(f"gain in {measure}, points (one dot for each split; mean and two standard errors)")
    axes.spines[["top", "right"]].set_visible(False)
