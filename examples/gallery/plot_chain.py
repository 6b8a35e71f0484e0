"""
A chain of labels
=================

Each position of a sequence has a label, and neighbors tend to agree. The structural SVM weighs the noisy measurement at a
position against its neighbors; a classifier of single positions cannot.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import LinearSVC

from lupi import StructuralSVM
from lupi.structured import Chain

LENGTH, STATES = 30, 3
rng = np.random.default_rng(0)


def make_sequence():
    """States that stay with probability 0.85, and measurements of them with much noise and a constant."""
    states = [rng.integers(STATES)]
    while len(states) < LENGTH:
        states.append(states[-1] if rng.random() < 0.85 else rng.integers(STATES))
    seen = np.eye(STATES)[states] + rng.normal(scale=0.9, size=(LENGTH, STATES))
    return np.column_stack([seen, np.ones(LENGTH)]), np.array(states)


X, Y = zip(*(make_sequence() for _ in range(80)))
chain = StructuralSVM(Chain(STATES, STATES + 1), C=100, tol=0.01, random_state=0).fit(X[:40], Y[:40])
single = LinearSVC().fit(np.concatenate(X[:40]), np.concatenate(Y[:40]))

found = {
    "truth": Y[40:],
    "single positions": [single.predict(x) for x in X[40:]],
    "chain": chain.predict(list(X[40:])),
}
for name in ("single positions", "chain"):
    print(f"{name:18}{100 * np.mean(np.concatenate(found[name]) == np.concatenate(Y[40:])):.1f}% of positions right")
print(f"gap to the optimum: at most {chain.dual_gap_:.1%}")

figure, axes = plt.subplots(3, 1, figsize=(8, 4.5), sharex=True, layout="constrained")
for ax, (name, rows) in zip(axes, found.items()):
    ax.imshow(np.array(rows[:6]), cmap="viridis", aspect="auto", interpolation="nearest")
    ax.set_title(name, loc="left", fontsize=10)
    ax.set_yticks([])
axes[2].set_xlabel("position; one line a test sequence, one color a label")
plt.show()
