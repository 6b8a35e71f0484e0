r"""A teacher in which the privileged features multiply X: :math:`E[t \mid x, z] = b + v^\top z + h(z) w^\top x`.

A column "this label was wrong" predicts nothing by itself and adds nothing to X: it flips the sign of what X predicts. The same
holds for the precision of a measurement or the time at risk. One direction u of [1, z] serves all columns of X, so that n rows
estimate one factor and not one per column of Z.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lupi.inputs.types import Array
from lupi.surrogate.ridge import TINY, RidgeFit, RidgePath, fit_ridge, groups_of_equal_size, squared_error

# A column counts if its moments are this many standard deviations longer (squared) than those of noise.
DEVIATIONS = 2.0
# A product needs this much log-evidence from left-out rows, and as much again for every hundred rows, which is an eighth of the
# squared error. 40 columns of noise beside real tables reach 5.9 at most with 50 to 100 rows, a column of wrong labels 18 and
# more. With many rows, sums for yes-or-no targets are curved enough for clear but useless products: 4 per hundred rows.
CLEAR_EVIDENCE, ROWS_PER_EVIDENCE = 7.0, 100.0


def is_clear(gain: float, n: float) -> bool:
    """Whether this gain of log-evidence, from n rows, is enough for a product."""
    return gain >= CLEAR_EVIDENCE * max(1.0, n / ROWS_PER_EVIDENCE)


def factor(
    X: Array, Z: Array, targets: Array, weight: Array, groups: Array | None = None
) -> tuple[Array, Array] | None:
    r"""The factor :math:`h_i = u^\top [1, z_i]` of each row, by a direction estimated without that row.

    If :math:`E[t \mid x, z] = b + (\theta^\top [1, z]) (w^\top x)` and Z does not depend on X, the moments
    :math:`C = \sum_i w_i [1, z_i] (t_i - \bar t) x_i^\top` have rank one in expectation, and their left singular vector is
    :math:`\theta`. Noise contributes :math:`V_j = \sum_i w_i (t_i - \bar t)^2 z_{ij}^2 |x_i|^2` to the squared length of row j,
    give or take :math:`d V_j` with :math:`d^2 = 2 \sum_l e_l^2 / (\sum_l e_l)^2`, where :math:`e_l` are the sums of squares of
    the columns of X. A column counts, :math:`k_j = 1`, if :math:`|C_j|^2 > (1 + 2 d) V_j`, otherwise :math:`k_j = 0`. With K the
    diagonal matrix of these (1 for the constant) and :math:`u_0` the left singular vector of K C, row i gets

    .. math::

        h_i = [1, z_i]^\top K C_{-i} C_{-i}^\top K u_0, \qquad C_{-i} = C - \min(w_i, 1) [1, z_i] (t_i - \bar t) x_i^\top,

    or the same without the row's group. The cost is linear in the rows. X is centered and has uncorrelated columns (rows in an
    eigenbasis), Z is standardized, and several columns of targets share the factor. Returns h, with mean square 1, and the
    direction u from all rows on the same scale; None if no column of Z counts.
    """
    total = weight.sum()
    centered = targets - weight @ targets / total
    lengths = np.square(X).sum(axis=1) * np.square(centered).sum(axis=1)
    columns = np.column_stack([np.ones(len(Z)), Z])
    moments = _moments(columns, X, centered, weight)
    by_noise = (weight * lengths) @ np.square(columns)
    sizes = weight @ np.square(X)
    clear = 1.0 + DEVIATIONS * np.sqrt(2.0 * (sizes @ sizes)) / max(sizes.sum(), TINY)
    counts = (np.square(moments).sum(axis=(1, 2)) > clear * by_noise).astype(float)
    counts[0] = 1.0
    if not counts[1:].any():
        return None
    flat = moments.reshape(len(counts), -1)
    counted = counts[:, None] * flat
    start = counts * np.linalg.eigh(counted @ counted.T)[1][:, -1]
    u = counts * (flat @ (flat.T @ start))
    if groups is None:
        # The formula for all rows at once, expanded.
        out, towards = np.minimum(weight, 1.0), np.tensordot(start, moments, axes=1)  # C' K u0, of shape (k, p)
        along, counted_columns = columns @ start, columns * counts
        pairs = zip(centered.T, moments.swapaxes(0, 1))
        through = sum(t * (counted_columns @ part * X).sum(axis=1) for t, part in pairs)
        own = (centered * (X @ towards.T)).sum(axis=1) - out * along * lengths
        h = counted_columns @ np.tensordot(moments, towards, axes=2)
        h = h - out * along * through - out * (np.square(columns) @ counts) * own
    else:
        h = np.empty(len(Z))
        for members in (row for same_size in groups_of_equal_size(groups) for row in same_size):
            own = _moments(columns[members], X[members], centered[members], weight[members])
            rest = flat - own.reshape(flat.shape)
            h[members] = columns[members] @ (counts * (rest @ (rest.T @ start)))
    scale = np.sqrt(max(weight @ np.square(h) / total, TINY))
    return h / scale, u / scale


def _moments(columns: Array, X: Array, centered: Array, weight: Array) -> Array:
    """Sums of w [1, z] t x', of shape (s + 1, k, p)."""
    return np.stack([columns.T @ ((weight * t)[:, None] * X) for t in centered.T], axis=1)


@dataclass(frozen=True)
class ProductFit:
    """A ridge of the targets on [z, h(z) x], and its expectation where the factor is not known."""

    path: RidgePath
    ridge: RidgeFit  # its left-out predictions use the row's factor: they are the evidence for this teacher
    expected: RidgeFit  # the factor given X: its mean, or a ridge on X where the evidence is clear
    x_path: RidgePath  # regressions on X, whose eigenbasis the others use
    Z: Array
    h: Array  # the factors

    def left_out(self, targets: Array, groups: Array | None = None) -> Array:
        """Left-out values with the expected factor: with the row's own, the student's target would be as noisy as the label."""
        at = np.hstack([self.Z, self.expected.left_out * self.x_path.rows.values])
        return self.path.left_out_at(at, targets, self.ridge.alpha, groups)

    def predict(self, A: Any, Z: Array, targets: Array) -> Array:
        """The same for other rows."""
        coef, intercept = self.path.solve(targets, self.ridge.alpha)
        s = self.Z.shape[1]
        inner = self.x_path.coefficients(coef[s:])
        along_x = np.asarray(A @ inner) - self.x_path.mean @ inner
        return np.asarray(intercept + Z @ coef[:s] + self.expected.predict(A) * along_x)


def fit_product(x_path: RidgePath, Z: Array, h: Array, targets: Array, groups: Array | None = None) -> ProductFit:
    """Ridge on Z and on X times the factors `h`; rows of X in an eigenbasis give the same ridge with at most n columns."""
    path = RidgePath(np.hstack([Z, h[:, None] * x_path.rows.values]), x_path.weight)
    path.size = max(path.size, x_path.size)
    return ProductFit(path, fit_ridge(path, targets, groups), _expected(x_path, h[:, None], groups), x_path, Z, h)


def _expected(x_path: RidgePath, h: Array, groups: Array | None) -> RidgeFit:
    fit = fit_ridge(x_path, h, groups)
    mean = x_path.weight @ h / x_path.total
    constant = np.broadcast_to(mean, h.shape)
    errors = [max(squared_error(guess, h, x_path.weight), TINY) for guess in (constant, fit.left_out)]
    if is_clear(x_path.total / 2 * np.log(errors[0] / errors[1]), x_path.total):
        return fit
    return replace(fit, coef=np.zeros_like(fit.coef), intercept=mean, left_out=constant)
