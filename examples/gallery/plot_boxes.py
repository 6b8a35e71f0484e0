"""
Boxes in pictures
=================

Generated pictures are points with visual words; in the privileged ones the object is painted over with words of its own. A
structural SVM learns to find the box, with and without them, by an exact search over all boxes.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

from lupi import StructuralSVM, StructuralSVMPlus
from lupi.datasets import make_planted_boxes
from lupi.structured import BoxLocalization

N_WORDS, N_PRIVILEGED = 50, 10
X, Y, Z = make_planted_boxes(
    140, shape=(18, 24), n_words=N_WORDS, n_points=300, object_rate=0.5, n_privileged_words=N_PRIVILEGED, random_state=0
)
train, test = slice(40), slice(40, None)
order = np.random.default_rng(0).permutation(40)
plain = StructuralSVM(BoxLocalization(N_WORDS), C=10, tol=0.01, random_state=0).fit(X[train], Y[train])


def fit_plus(privileged):
    tasks = BoxLocalization(N_WORDS), BoxLocalization(N_WORDS + N_PRIVILEGED)
    return StructuralSVMPlus(*tasks, C=10, tol=0.01, random_state=0).fit(X[train], Y[train], privileged=privileged)


plus, shuffled = fit_plus(Z[train]), fit_plus([Z[i] for i in order])

# %%
# The control decides: a gain that other pictures' masks give as well does not come from the masks.

task = BoxLocalization(N_WORDS)
overlaps = {
    name: np.array([100 * (1 - task.loss(true, box)) for true, box in zip(Y[test], model.predict(X[test]))])
    for name, model in (("SSVM", plain), ("SSVM+", plus), ("SSVM+ shuffled", shuffled))
}
for name, values in overlaps.items():
    gain = values - overlaps["SSVM"]
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    print(
        f"{name:16}mean overlap on 100 test pictures {values.mean():.1f}%, over SSVM {gain.mean():+.1f} +- {error:.1f}"
    )

figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
size = np.abs(plus.coef_).max()
for ax, picture, true in zip(axes, X[test], Y[test]):
    weights = plus.coef_[picture.words]
    ax.scatter(picture.cols + 0.5, picture.rows + 0.5, c=weights, cmap="coolwarm", s=14, vmin=-size, vmax=size)
    found = {"true": (true, "black"), "SSVM": (plain.predict([picture])[0], "tab:orange")}
    found["SSVM+"] = (plus.predict([picture])[0], "tab:green")
    for (label, (box, color)), style in zip(found.items(), ("-", "-", "--")):
        corner, height, width = (box.left, box.top), box.bottom - box.top, box.right - box.left
        ax.add_patch(Rectangle(corner, width, height, fill=False, lw=2, ls=style, color=color, label=label))
    ax.set(xlim=(0, 24), ylim=(18, 0), xticks=[], yticks=[], aspect="equal")
axes[1].legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=3, frameon=False)
axes[0].set_title("points by the weight of their word", loc="left")
plt.show()
