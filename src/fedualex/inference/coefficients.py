"""What is proved of the coefficients of a penalized model, from one survey of the point and its certified gap.

The problem is min_w f(w) + sum_j l1_j |w_j| + l2_j w_j^2 / 2, f a mean of losses of linear scores. Lemmas 2 and 3 of
docs/inference.md bound how far the slope of f at a solution may be from the slope here: by the gap, as slopes of losses
are Lipschitz, and by the residual and the curvature here, as losses are self-concordant. Coefficients whose slope stays
below l1 are zero in every solution.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Reals
from .newton import bound_distance

PASSES = 10
"""Zeros that are proved leave fewer directions, in which more may be proved; two passes are usual."""


class Point(NamedTuple):
    """A survey of f at w, with what is known of the rows.

    slope, second: of f at w, on vectors. rounding: how far each entry of slope may be off. gap: an upper bound of the
    objective less its minimum; inf if none is known. squares: the mean of each column's squares, weighted as f is.
    smooth: a bound of the second derivative of the loss of a score; inf if there is none. constant: R of Lemma 1 (a
    bound of the norms of rows), 0 for squares, inf for losses that are not self-concordant.
    """

    weights: Reals
    slope: Reals
    second: Reals
    rounding: Reals
    gap: float
    squares: Reals
    smooth: float
    constant: float


class Proved(NamedTuple):
    """What holds for every solution w*.

    bounds: of |w_j - w*_j|, inf where nothing is proved. zero: whether w*_j is 0. sign: that of w*_j, 0 where it is not
    known, or w*_j is 0.
    """

    bounds: Reals
    zero: NDArray[np.bool_]
    sign: Reals

    def word(self, j: int) -> str:
        """What is known of the sign of one of them: "zero", "sign" or ""."""
        return "zero" if self.zero[j] else "sign" if self.sign[j] else ""

    def of_sums(self, units: Reals, values: Reals) -> "Proved":
        """The same of sums of coefficients, one for each row of units, which have these values here."""
        used = units != 0
        with np.errstate(invalid="ignore"):
            bounds = np.where(used, np.abs(units) * self.bounds, 0.0).sum(axis=1)
        zero = np.all(self.zero | ~used, axis=1)
        return Proved(bounds, zero, np.where(~zero & (np.abs(values) > bounds), np.sign(values), 0.0))


def bound_coefficients(point: Point, l1: Reals, l2: Reals) -> Proved:
    """Bounds, zeros and signs of the coefficients of every solution, from one point.

    l1, l2: the penalties of each coefficient, 0 for an intercept. Of one intercept for each of several classes the
    first is left out everywhere: its value is a matter of convention.
    """
    w, l1, l2 = point.weights, np.broadcast_to(l1, point.weights.shape), np.broadcast_to(l2, point.weights.shape)
    ball = np.sqrt(point.squares) * np.sqrt(2 * point.smooth * point.gap) if point.gap > 0 else np.zeros(w.shape)
    ball = np.where(np.isnan(ball), np.inf, ball)
    bounds, zero = np.full(w.shape, np.inf), np.zeros(w.shape, bool)
    for _ in range(PASSES):
        free = ~(zero & (w == 0))
        radius, ratio = _local_radius(point, l1, l2, free)
        bounds[free] = np.minimum(bounds[free], _own_bounds(point, l2, free, radius))
        stretch = _stretch(radius, ratio)
        local = np.sqrt(np.diag(point.second)) * stretch if np.isfinite(stretch) else np.inf
        moved = np.minimum(ball, local) + point.rounding
        bounds = np.minimum(bounds, _by_slope(point, l1, l2, moved))
        before, zero = zero, zero | (np.abs(point.slope) + moved < l1)
        if np.array_equal(before, zero):
            break
    bounds = np.where(zero, np.abs(w), bounds)
    sign = np.where(~zero & (np.abs(w) > bounds), np.sign(w), 0.0)
    return Proved(bounds, zero, sign)


def _local_radius(point: Point, l1: Reals, l2: Reals, free: NDArray[np.bool_]) -> tuple[float, float]:
    """A bound of |w - w*| in the norm of H + diag(l2), if the others are zero in both; and the ratio of Lemma 1."""
    w = point.weights[free]
    smooth_slope = point.slope[free] + l2[free] * w
    pull = np.where(w != 0, l1[free] * np.sign(w), np.clip(-smooth_slope, -l1[free], l1[free]))
    if not free.any():
        return 0.0, 0.0
    values, vectors = np.linalg.eigh(_curvature(point, l2, free))
    if not values[0] > 1e-12 * values[-1] or np.isinf(point.constant):
        return np.inf, np.inf
    signed = (smooth_slope + pull) @ vectors
    noise = point.rounding[free] @ np.abs(vectors)
    decrement = float(np.sqrt(np.sum((np.abs(signed) + noise) ** 2 / values)))
    ratio = point.constant / np.sqrt(values[0])
    return bound_distance(decrement, ratio), ratio


def _curvature(point: Point, l2: Reals, free: NDArray[np.bool_]) -> Reals:
    return point.second[np.ix_(free, free)] + np.diag(l2[free])


def _own_bounds(point: Point, l2: Reals, free: NDArray[np.bool_], radius: float) -> Reals:
    if np.isinf(radius) or not free.any():
        return np.full(int(free.sum()), np.inf)
    return radius * np.sqrt(np.diag(np.linalg.inv(_curvature(point, l2, free))))


def _stretch(radius: float, ratio: float) -> float:
    """radius (e^S - 1)/S, S = ratio radius: how far slopes move at most, in units of the root of the curvature."""
    if np.isinf(radius):
        return np.inf
    reach = ratio * radius
    return float(radius * np.expm1(reach) / reach) if reach > 0 else radius


def _by_slope(point: Point, l1: Reals, l2: Reals, moved: Reals) -> Reals:
    """With l2 > 0 a coefficient follows from the slope at the solution: w*_j = -soft(g*_j, l1) / l2."""
    ends = []
    for slope in (point.slope - moved, point.slope + moved):
        with np.errstate(divide="ignore", invalid="ignore"):
            ends.append(-np.sign(slope) * np.maximum(np.abs(slope) - l1, 0.0) / l2)
    apart = np.maximum(*(np.abs(end - point.weights) for end in ends))
    return np.where((l2 > 0) & np.isfinite(moved), apart, np.inf)
