"""
SVM+: slack against margin
==========================

A correcting function of the privileged features says how much slack each example gets. Left the features know which examples
are hard, right each example has the features of another one. On the line they explain all the slack that a margin
needs; below it the rest is paid at the price ``kappa``. Some agreement is there on the right as well, because the function was
fitted to these very rows: what counts is the difference. Kernel and ``lam`` were chosen so that the difference shows; with an rbf
kernel and a small ``lam`` the two pictures look much alike.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from lupi import SVM2Plus
from lupi.datasets import load_breast_cancer_followup
from lupi.plot import CorrectionDisplay

X, y, Z = load_breast_cancer_followup(return_X_y_privileged=True)
rng = np.random.default_rng(0)
rows = rng.permutation(len(y))[:250]
X, y, Z = StandardScaler().fit_transform(X[rows]), y[rows], StandardScaler().fit_transform(Z[rows])

figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharex=True, sharey=True, layout="constrained")
for ax, (name, table) in zip(axes, (("own follow-up", Z), ("another patient's", rng.permutation(Z)))):
    model = SVM2Plus(C=1, lam=1, privileged_kernel="linear").fit(X, y, privileged=table)
    shown = CorrectionDisplay.from_estimator(model, X, y, table, ax=ax, alpha=0.6)
    ax.set_title(name, loc="left")
    needed = np.maximum(0, 1 - shown.margins)
    agreement = np.corrcoef(needed, shown.correction)[0, 1]
    print(f"{name:20} correlation of the correction with the slack that is needed: {agreement:.2f}")
plt.show()
