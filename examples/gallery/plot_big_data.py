"""
Rows in chunks: Dask
====================

With linear kernels, training needs sums over the rows only. They can stay in the chunks of a Dask array, in files or on a
cluster; the weights are those of training in memory.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from lupi import SVM2Plus

N, CHUNK = 40_000, 8_000
rng = da.random.default_rng(0)
X = rng.normal(size=(N, 20), chunks=(CHUNK, 20))
privileged = X[:, :3] + 0.5 * rng.normal(size=(N, 3), chunks=(CHUNK, 3))
y = (privileged.sum(axis=1) + rng.normal(size=N, chunks=CHUNK) > 0).astype(int)

linear = {"kernel": "linear", "privileged_kernel": "linear"}
chunked = SVM2Plus(**linear).fit(X, y, privileged=privileged)
memory = SVM2Plus(**linear).fit(*(each.compute() for each in (X, y)), privileged=privileged.compute())
print(f"{X.numblocks[0]} chunks; largest difference of a weight {np.abs(chunked.coef_ - memory.coef_).max():.1e}")
print(f"gap to the optimum: at most {chunked.dual_gap_:.1e}")

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(memory.coef_.ravel(), "o", markersize=10, fillstyle="none", color="tab:gray", label="rows in memory")
ax.plot(chunked.coef_.ravel(), "x", color="tab:blue", label="rows in chunks")
ax.set(xlabel="feature (the first three matter)", ylabel="weight")
ax.set_xticks(range(0, 20, 2))
ax.legend(frameon=False)
plt.show()
