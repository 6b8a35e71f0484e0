"""
Which column matters
====================

After one fit, without any test rows: how the weight fell on the teachers, and how much evidence the teacher would lose without
each privileged column. Below zero it would be better off without it. Two columns that say the same share their evidence.
"""

import matplotlib.pyplot as plt
import numpy as np

from lupi import SurrogateClassifier
from lupi.datasets import load_young_men
from lupi.plot import ColumnEvidenceDisplay, TeacherWeightsDisplay

men = load_young_men(as_frame=True)
rows = np.random.default_rng(0).permutation(len(men.target))[:1000]
model = SurrogateClassifier("ridge").fit(
    men.data.iloc[rows], men.target.iloc[rows].to_numpy(), privileged=men.privileged.iloc[rows]
)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
TeacherWeightsDisplay.from_estimator(model, ax=left)
ColumnEvidenceDisplay.from_estimator(model, ax=right)
plt.show()

# %%
# The same in words:

print(model.explain())
