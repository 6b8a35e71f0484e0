"""
Rows without a label
====================

Follow-ups are often known for many more rows than the label is. Sixty wages are known here; the curve adds men without
a known wage, with their own later years and with those of other men.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from lupi import SurrogateClassifier
from lupi.datasets import load_young_men

N_SPLITS, N_LABELED, UNLABELED = 10, 60, (0, 100, 300, 1000)
X, y, Z = load_young_men(return_X_y_privileged=True)


def gains(seed):
    """AUC over that of the plain student: a row for each number of men without a wage; with own and with shuffled columns."""
    rng = np.random.default_rng(seed)
    train, test = np.split(rng.permutation(len(y)), [N_LABELED + UNLABELED[-1]])
    others = rng.permutation(train)

    def score(model):
        return 100 * roc_auc_score(y[test], model.decision_function(X[test]))

    labeled = train[:N_LABELED]
    plain = score(SurrogateClassifier("ridge").fit(X[labeled], y[labeled]))
    found = []
    for more in UNLABELED:
        rows = train[: N_LABELED + more]
        known = np.where(np.arange(len(rows)) < N_LABELED, y[rows], np.nan)
        tables = (Z[rows], Z[others[: len(rows)]])
        models = [SurrogateClassifier("ridge").fit(X[rows], known, privileged=table) for table in tables]
        found.append([score(model) - plain for model in models])
    return found


found = np.array([gains(seed) for seed in range(N_SPLITS)])
mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(N_SPLITS)
for more, row, spread in zip(UNLABELED, mean, error):
    print(f"{more:5} more men: {row[0]:+.2f} +- {spread[0]:.2f}, shuffled {row[1]:+.2f} +- {spread[1]:.2f}")

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for k, (label, color) in enumerate((("own later years", "tab:blue"), ("those of other men", "tab:gray"))):
    ax.errorbar(range(len(UNLABELED)), mean[:, k], error[:, k], fmt="o-", color=color, capsize=3, label=label)
ax.axhline(0, color="black", lw=0.8)
ax.set_xticks(range(len(UNLABELED)), UNLABELED)
ax.set(xlabel="men without a known wage, beside 60 with one", ylabel="gain over the plain student (AUC x 100)")
ax.legend(frameon=False)
plt.show()
