"""
The yes: young men's wages
==========================

Will a man earn more than the median? What is known at 14 decides; schooling, tests and work of later years are
privileged. A hundred wages are known, and of 900 other men everything but the wage. Each line is one random split:
the plain student, surrogate learning with the later years, and the control, the later years of other men.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from lupi import SurrogateClassifier
from lupi.datasets import load_young_men

N_SPLITS, N_LABELED, N_TRAIN = 10, 100, 1000
X, y, Z = load_young_men(return_X_y_privileged=True)
scores = []
for seed in range(N_SPLITS):
    rng = np.random.default_rng(seed)
    train, test = np.split(rng.permutation(len(y)), [N_TRAIN])
    known = np.where(np.arange(N_TRAIN) < N_LABELED, y[train], np.nan)
    tables = (rng.permutation(Z[train]), None, Z[train])
    models = [SurrogateClassifier("ridge").fit(X[train], known, privileged=table) for table in tables]
    scores.append([100 * roc_auc_score(y[test], model.decision_function(X[test])) for model in models])
scores = np.array(scores)

# %%
# The gains are measured split by split, so that easy and hard splits do not blur them.

for name, values in (("with the columns", scores[:, 2]), ("with those of other men", scores[:, 0])):
    gain = values - scores[:, 1]
    print(f"{name:26}{gain.mean():+.2f} +- {gain.std(ddof=1) / np.sqrt(N_SPLITS):.2f} points of AUC")

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(scores.T, "o-", color="tab:blue", alpha=0.4)
ax.plot(scores.mean(axis=0), "s", color="black", markersize=8, label="mean")
ax.set_xticks(range(3), ["other men's columns", "without", "with the columns"])
ax.set_ylabel("area under the ROC curve x 100")
ax.legend(frameon=False)
plt.show()
