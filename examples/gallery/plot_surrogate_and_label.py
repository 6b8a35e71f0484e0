"""
The surrogate and the label
===========================

What the student learns in place of the labels. Men far from their label are those whose later years look like the other
class; rows without a label get a surrogate too.
"""

import matplotlib.pyplot as plt
import numpy as np

from lupi import SurrogateClassifier
from lupi.datasets import load_young_men
from lupi.plot import SurrogateDisplay

X, y, Z = load_young_men(return_X_y_privileged=True)
rows = np.random.default_rng(0).permutation(len(y))[:600]
known = np.where(np.arange(600) < 300, y[rows], np.nan)
model = SurrogateClassifier("ridge").fit(X[rows], known, privileged=Z[rows])

figure, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
SurrogateDisplay.from_estimator(model, known, ax=ax)
plt.show()
