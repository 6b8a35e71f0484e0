"""Names of types in the public interface.

What users may pass is more than types can say (arrays, lists, sparse matrices, frames of several libraries), and scikit-learn and
:mod:`lupi.inputs` check it when it arrives. So these are names for readers; what comes back has real types.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.random import RandomState as Generator
from scipy import sparse

# Of any shape and type of numbers.
Array: TypeAlias = np.ndarray
# Shape (n_samples, n_features): array-like, sparse matrix or data frame.
MatrixLike: TypeAlias = Any
# Shape (n_samples,): array-like.
VectorLike: TypeAlias = Any
# Like a matrix, or a list or dict of these: several privileged spaces.
PrivilegedLike: TypeAlias = Any
# What a check leaves of a matrix: dense in C order, or canonical CSR. (scipy has no types: the last two are Any to type checkers.)
Matrix: TypeAlias = np.ndarray | sparse.csr_array | sparse.csr_matrix
KernelName: TypeAlias = str | Callable[..., Any]
RandomState: TypeAlias = int | Generator | None
