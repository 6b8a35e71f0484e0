"""Generated classes whose privileged features describe the slack of each example."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from lupi.datasets.tables import description, privileged_bunch
from lupi.inputs.types import RandomState


def make_privileged(
    n_samples: int = 200,
    n_features: int = 10,
    n_privileged: int = 3,
    *,
    informativeness: float = 0.9,
    noise: float = 0.5,
    flip_y: float = 0.05,
    missing: float = 0.0,
    as_frame: bool = False,
    return_X_y_privileged: bool = False,
    random_state: RandomState = None,
) -> Any:
    r"""Make two overlapping classes and privileged features that describe each example's slack.

    With :math:`x \sim N(0, I)`, a hidden direction :math:`u` of length 1 and hidden :math:`e \sim N(0, 1)`,

    .. math::

        y = \operatorname{sign}(u^\top x + \text{noise} \cdot e), \qquad \xi = [1 - 2 y\, u^\top x]_+, \qquad
        z_j = \pm\sqrt{q}\, \tilde\xi + \sqrt{1 - q}\, \varepsilon_j,

    where :math:`\tilde\xi` is the standardized slack after a share `flip_y` of the labels was flipped and q is
    `informativeness`. This is the assumption of SVM+'s correcting function: gains on these data show that the code works,
    not that privileged features help in general.

    Parameters
    ----------
    n_samples, n_features, n_privileged : int
        Number of examples, of decision features and of privileged features.
    informativeness : float in [0, 1], default=0.9
        Share of the variance of each privileged feature that comes from the slack; 0 makes them pure noise.
    noise : float >= 0, default=0.5
        Weight of the hidden variable, which makes the classes overlap.
    flip_y : float in [0, 1], default=0.05
        Share of flipped labels.
    missing : float in [0, 1], default=0.0
        Share of examples whose privileged row is NaN.
    as_frame : bool, default=False
        Whether to return pandas objects and the joint table `frame`.
    return_X_y_privileged : bool, default=False
        Whether to return `(data, target, privileged)` instead of a Bunch.
    random_state : int, RandomState or None, default=None
        Seed. `data` do not depend on `missing`, `flip_y`, `informativeness` and `noise`.

    Returns
    -------
    Bunch or tuple
        `target` is 0 or 1; the Bunch also has the hidden `slack` and `direction`.

    Examples
    --------
    >>> from lupi.datasets import make_privileged
    >>> made = make_privileged(100, 5, 2, missing=0.1, random_state=0)
    >>> made.data.shape, made.privileged.shape
    ((100, 5), (100, 2))
    >>> import numpy as np
    >>> int(np.isnan(made.privileged).all(axis=1).sum())
    10
    """
    for name, count in (("n_samples", n_samples), ("n_features", n_features), ("n_privileged", n_privileged)):
        if count < 1:
            raise ValueError(f"`{name}` must be at least 1, got {count}.")
    for name, share in (("informativeness", informativeness), ("flip_y", flip_y), ("missing", missing)):
        if not 0 <= share <= 1:
            raise ValueError(f"`{name}` must be between 0 and 1, got {share}.")
    if noise < 0:
        raise ValueError(f"`noise` must be at least 0, got {noise}.")

    rng = check_random_state(random_state)
    X = rng.standard_normal((n_samples, n_features))
    direction = rng.standard_normal(n_features)
    direction /= np.linalg.norm(direction)
    hidden = rng.standard_normal(n_samples)
    order = rng.permutation(n_samples)
    signs = rng.choice([-1.0, 1.0], size=n_privileged)
    epsilon = rng.standard_normal((n_samples, n_privileged))
    missing_order = rng.permutation(n_samples)

    score = X @ direction
    y = np.where(score + noise * hidden > 0, 1.0, -1.0)
    y[order[: round(flip_y * n_samples)]] *= -1
    slack = np.maximum(0.0, 1.0 - 2.0 * y * score)
    spread = slack.std()
    standardized = (slack - slack.mean()) / spread if spread > 0 else np.zeros(n_samples)
    privileged = np.sqrt(informativeness) * np.outer(standardized, signs) + np.sqrt(1 - informativeness) * epsilon
    privileged[missing_order[: round(missing * n_samples)]] = np.nan
    return privileged_bunch(
        X,
        privileged,
        (y > 0).astype(np.int64),
        feature_names=[f"x{j}" for j in range(n_features)],
        privileged_names=[f"z{j}" for j in range(n_privileged)],
        target_names=["negative", "positive"],
        descr=description("make_privileged").format(
            n=n_samples,
            d=n_features,
            s=n_privileged,
            noise=noise,
            flip=flip_y,
            informativeness=informativeness,
            missing=missing,
        ),
        as_frame=as_frame,
        return_X_y_privileged=return_X_y_privileged,
        slack=slack,
        direction=direction,
    )
