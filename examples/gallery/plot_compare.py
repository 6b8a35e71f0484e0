"""
A comparison, and how many rows the columns are worth
=====================================================

``lupi.compare`` on a generated table whose privileged columns lie between X and the label: the lead over the best plain
method and over both controls, and the learning curves. With so few splits and opponents it shows the pictures, not a verdict.
"""

import matplotlib.pyplot as plt
import numpy as np

import lupi
from lupi.plot import GainsDisplay, LearningCurveDisplay

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 15))
privileged = X[:, :8].reshape(600, 2, 4).sum(axis=2) + rng.normal(size=(600, 2))
y = (privileged.sum(axis=1) + 2 * rng.normal(size=600) > 0).astype(int)
result = lupi.compare(
    X,
    y,
    privileged,
    methods=["surrogate-ridge"],
    baselines=["linear"],
    n_splits=8,
    train_size=[40, 80, 160],
    permutations=0,
)
print(result)

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
GainsDisplay.from_comparison(result, ax=left)
LearningCurveDisplay.from_comparison(result, ax=right)
plt.show()
