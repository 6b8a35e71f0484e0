"""Features whose squares a computer cannot hold."""

import numpy as np
from scipy import sparse

# Products of four values stay finite in double precision, squares of sums in single precision.
LARGEST = {np.dtype(np.float64): 1e60, np.dtype(np.float32): 1e15}


def check_magnitude(data, argument, *, estimator_name="fit"):
    """Refuse features that are too large to compute with.

    Parameters
    ----------
    data : ndarray or sparse matrix
        Numbers, and NaN for missing ones.
    argument : str
        What the message calls them: "X" or "privileged".
    estimator_name : str
        Who asks; begins the error message.

    Raises
    ------
    ValueError
        With the largest value, and what to do.

    Examples
    --------
    >>> import numpy as np
    >>> check_magnitude(np.array([[1e160]]), "X", estimator_name="SVMPlus")
    Traceback (most recent call last):
        ...
    ValueError: SVMPlus: `X` has values as large as 1e+160, too large to compute with; scale the features, e.g. with StandardScaler.
    """
    values = (data.data if sparse.issparse(data) else data).ravel()
    if not values.size:
        return
    largest = max(float(np.fmax.reduce(values)), -float(np.fmin.reduce(values)))
    if largest > LARGEST[values.dtype]:
        raise ValueError(
            f"{estimator_name}: `{argument}` has values as large as {largest:.3g}, too large to compute with; scale the "
            "features, e.g. with StandardScaler."
        )
