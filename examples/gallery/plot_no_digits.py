"""
The no: digits whose labels are all right
=========================================

Coarse pictures of digits decide, sharp ones are privileged, and every label is known and right. SVM2+ with the sharp
pictures stands beside the same machine without them and with the sharp pictures of other digits. The three differ by a
fraction of a point: whatever the sharp pictures know, right labels have said it already.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from lupi import SVM2Plus
from lupi.datasets import load_digits_lowres

N_SPLITS, N_TRAIN = 6, 200
X, y, Z = load_digits_lowres(return_X_y_privileged=True)
scores = []
for seed in range(N_SPLITS):
    rng = np.random.default_rng(seed)
    train, test = np.split(rng.permutation(len(y)), [N_TRAIN])
    scale, scale_privileged = StandardScaler().fit(X[train]), StandardScaler().fit(Z[train])
    sharp = scale_privileged.transform(Z[train])
    models = [
        SVM2Plus(C=10).fit(scale.transform(X[train]), y[train], privileged=table)
        for table in (None, sharp, rng.permutation(sharp))
    ]
    scores.append([100 * model.score(scale.transform(X[test]), y[test]) for model in models])
scores = np.array(scores)

# %%
# What matters is the last line.

names = ("without", "sharp pictures", "those of other digits")
for name, values in zip(names, scores.T):
    print(f"{name:24}{values.mean():.2f}% right")
gain = scores[:, 1] - scores[:, 2]
print(f"sharp over shuffled: {gain.mean():+.2f} +- {gain.std(ddof=1) / np.sqrt(N_SPLITS):.2f} points")

figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for k, values in enumerate(scores.T):
    ax.plot(np.full(N_SPLITS, k), values, "o", color="tab:gray", alpha=0.6)
    ax.plot([k - 0.2, k + 0.2], [values.mean()] * 2, color="tab:red", lw=2)
ax.set_xticks(range(3), names)
ax.set_ylabel("test digits right (%)")
ax.set_title("one dot a split, red: mean", loc="left")
plt.show()
