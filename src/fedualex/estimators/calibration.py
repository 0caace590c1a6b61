"""A threshold whose rate of errors on one class is bounded with confidence, from rows held out of training."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from ..validation import encode_labels, short

ROUNDING = 1e-12
"""Scores that are equal may differ by rounding, relative to their size; the threshold is above all of them."""


class Threshold(NamedTuple):
    """A score above which at most a share `rate` of a class's rows is, but with a probability of at most `risk`."""

    score: float
    risk: float
    rows: int


def threshold(scores: NDArray[Any], rate: float, confidence: float) -> Threshold:
    """The k-th smallest of n scores, k the least with sum_{j >= k} C(n, j) (1 - rate)^j rate^(n - j) <= 1 - confidence.

    That sum bounds the probability, over n independent rows of one distribution, that more than a share `rate` of its
    further rows has a larger score, whatever the distribution (Tong, Feng, Li, Neyman-Pearson classification algorithms
    and NP receiver operating characteristics, Science Advances 2018, Proposition 1).
    """
    k, risk = order_statistic(len(scores), rate, confidence)
    ordered = np.sort(scores)
    return Threshold(float(ordered[k - 1] + ROUNDING * np.max(np.abs(ordered))), risk, len(scores))


def order_statistic(rows: int, rate: float, confidence: float) -> tuple[int, float]:
    """k and the sum of `threshold`, or a refusal if there is no such k."""
    tails = binom.sf(np.arange(rows), rows, 1 - rate)  # entry k - 1 is P(at least k)
    enough = np.flatnonzero(tails <= 1 - confidence)
    if not enough.size:
        least = int(np.ceil(np.log(1 - confidence) / np.log(1 - rate)))
        raise ValueError(
            f"rate={rate} with confidence={confidence} must have {least} rows of the limited class for calibration, "
            f"got {rows}: give more rows, or a larger calibration or rate, or a smaller confidence"
        )
    return int(enough[0]) + 1, float(tails[enough[0]])


def held_out(limited: NDArray[np.bool_], clients: Any, share: float) -> NDArray[np.bool_]:
    """A share of the limited rows, of each client up to one row; which ones depends on the order of the rows alone."""
    number = np.zeros(len(limited), int) if clients is None else encode_labels("clients", clients, len(limited))[1]
    rows = np.random.default_rng(0).permutation(np.flatnonzero(limited))
    rows = rows[np.argsort(number[rows], kind="stable")]
    count = np.floor(share * np.arange(len(rows) + 1) + 1e-9)
    held = np.zeros(len(limited), bool)
    held[rows[np.diff(count) > 0]] = True
    return held


def a_share(name: str, value: Any) -> float:
    """A number strictly between 0 and 1."""
    number = isinstance(value, float | np.floating) and 0 < value < 1
    if not number:
        raise ValueError(f"{name} must be a number > 0 and < 1, got {short(value)}")
    return float(value)
