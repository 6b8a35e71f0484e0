"""
C, lam and kappa
================

The three prices of SVM2+, one at a time, on two classes that overlap. Colors show the decision function of two ordinary
features, the black line its zero. One privileged feature says for each example how far it strayed from its class.

- ``C`` is the price of loss: a larger one bends the line around single examples.
- ``lam`` holds the correcting function down: a smaller one lets the privileged feature explain more of the loss.
- ``kappa`` is the price of the loss that it does not explain: with a large one it has to explain nearly all.
"""

import matplotlib.pyplot as plt
import numpy as np

from lupi import SVM2Plus

rng = np.random.default_rng(0)
y = np.repeat([0, 1], 60)
strayed = rng.normal(size=(120, 2))
X = np.column_stack([2 * y - 1, np.zeros(120)]) + 1.1 * strayed
away = np.where(y == 1, -1, 1) * strayed[:, 0]  # towards the other class
Z = (away + 0.2 * rng.normal(size=120))[:, None]

sides = np.linspace(-4, 4, 80)
grid = np.array([(a, b) for b in sides for a in sides])
prices = {"C": (0.1, 1, 100), "lam": (0.1, 100, 10_000), "kappa": (1, 3, 1000)}

figure, axes = plt.subplots(3, 3, figsize=(9, 8.5), sharex=True, sharey=True, layout="constrained")
for row, (name, values) in zip(axes, prices.items()):
    for ax, value in zip(row, values):
        model = SVM2Plus(**{name: value}, privileged_kernel="linear").fit(X, y, privileged=Z)
        decision = model.decision_function(grid).reshape(80, 80)
        ax.contourf(sides, sides, decision, levels=np.linspace(-2, 2, 17), cmap="coolwarm", alpha=0.6, extend="both")
        ax.contour(sides, sides, decision, levels=[0], colors="black")
        ax.scatter(*X.T, c=y, cmap="coolwarm", s=10, edgecolors="black", linewidths=0.4)
        needed = np.maximum(0, 1 - (2 * y - 1) * model.decision_function(X))
        explained = np.minimum(needed, np.maximum(0, model.correcting_function(Z))).sum() / needed.sum()
        ax.set_title(f"{name} = {value}: explained {explained:.0%}", loc="left", fontsize=10)
        ax.set(xticks=[], yticks=[])
        print(
            f"{name:6}{value:>7}: {explained:4.0%} of the slack is explained, {np.mean(needed > 1):.0%} are on the wrong side"
        )
plt.show()
