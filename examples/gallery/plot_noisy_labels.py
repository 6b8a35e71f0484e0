"""
Noisy labels
============

A share of the training labels is wrong, and the later years of the men know nothing of the slip of the pen. A teacher who
sees them gives each man a score with less noise than his label. Test labels are right.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from lupi import SurrogateClassifier
from lupi.datasets import load_young_men

N_SPLITS, N_TRAIN, SHARES = 10, 300, (0.0, 0.1, 0.2, 0.3)
X, y, Z = load_young_men(return_X_y_privileged=True)
scores = np.empty((N_SPLITS, len(SHARES), 3))
for seed in range(N_SPLITS):
    rng = np.random.default_rng(seed)
    train, test = np.split(rng.permutation(len(y)), [N_TRAIN])
    others = rng.permutation(Z[train])
    luck = rng.random(N_TRAIN)
    for k, share in enumerate(SHARES):
        written = np.where(luck < share, 1 - y[train], y[train])
        for j, table in enumerate((None, Z[train], others)):
            model = SurrogateClassifier("ridge").fit(X[train], written, privileged=table)
            scores[seed, k, j] = 100 * roc_auc_score(y[test], model.decision_function(X[test]))

mean, error = scores.mean(axis=0), scores.std(axis=0, ddof=1) / np.sqrt(N_SPLITS)
for share, row in zip(SHARES, mean):
    print(f"{share:4.0%} wrong: plain {row[0]:.2f}, with the columns {row[1]:.2f}, shuffled {row[2]:.2f}")

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
styles = (("plain", "tab:orange"), ("with the later years", "tab:blue"), ("with those of other men", "tab:gray"))
for j, (label, color) in enumerate(styles):
    ax.errorbar(
        100 * np.array(SHARES) + 0.3 * j, mean[:, j], error[:, j], fmt="o-", color=color, capsize=3, label=label
    )
ax.set(xlabel="wrong training labels (%)", ylabel="area under the ROC curve x 100")
ax.legend(frameon=False)
plt.show()
