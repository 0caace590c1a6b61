"""Suprema over boxes and mixtures, to which nearly all conjugates come down."""

from collections.abc import Callable
from math import ceil, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Numbers = float | Array


def in_box(s: Array, lower: Numbers, upper: Numbers, mu: float, lam: float = 0.0) -> Any:
    """sup of <s, x> - lam ||x||_1 - mu/2 ||x||^2 over lower <= x <= upper, entry by entry."""
    if mu > 0:
        x = np.clip(np.sign(s) * np.maximum(np.abs(s) - lam, 0) / mu, lower, upper)
        at_x = np.sum(s * x - lam * np.abs(x) - mu / 2 * x * x)
        if np.isfinite(at_x):
            return at_x
        # Out of range; without the quadratic the sup is a bound, and infinite where x is.
    best: Numbers = -inf
    for corner in (lower, upper, np.clip(0.0, lower, upper)):  # linear but for the kink at 0
        slope = s - lam * np.sign(corner)
        best = np.maximum(best, slope * np.where(slope == 0, 0, corner))
    return np.sum(best)


def in_mixtures(s: Array, cap: float, mu: float, least: float = -inf) -> Any:
    """sup of <s, x> - mu/2 ||x||^2 over 0 <= x <= cap, sum x = 1; with least = 0, over sum x <= 1.

    By duality the least of kappa + sup_{0 <= x <= cap} <s - kappa, x> - mu/2 ||x||^2 over kappa >= least. No kappa
    gives less than the sup, so that an error of kappa cannot hide a gap.
    """
    if mu > 0:
        low = max(float(np.min(s)) - mu * cap, least)
        kappa = root(lambda kappa: np.sum(np.clip((s - kappa) / mu, 0, cap)) - 1, low, float(np.max(s)))
    else:
        kappa = np.sort(s, axis=None)[-min(ceil(1 / cap), s.size)]
    return kappa + in_box(s - kappa, 0.0, cap, mu)


def root(falling: Callable[[Any], Any], low: Numbers, high: Numbers) -> Numbers:
    """Where a falling function crosses 0 between low and high, entry by entry, by bisection."""
    for _ in range(100):
        middle = (low + high) / 2
        above = falling(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return (low + high) / 2


def excess(s: Array, lam: float, groups: Numbers | None = None, weights: Numbers = 1.0) -> Array:
    """(||s_g|| - lam w_g)_+, what a norm as penalty leaves of a slope; without groups, each entry is one."""
    norms = np.abs(s) if groups is None else np.sqrt(np.bincount(np.ravel(groups).astype(int), np.ravel(s) ** 2))
    return np.maximum(norms - lam * weights, 0)


def relative(excess: Any, size: Any) -> Any:
    """The largest part of excess above 0, over size; over 1 where size is 0."""
    return np.max(np.maximum(excess, 0) / np.where(np.asarray(size) > 0, size, 1))
