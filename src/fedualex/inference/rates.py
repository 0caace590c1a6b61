"""A threshold whose rate of errors on one class is bounded with confidence, from rows held out of training."""

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Reals
from ..validation import short


class Threshold(NamedTuple):
    """A score above which at most a share `rate` of a class's rows is, but with a probability of at most `risk`."""

    score: float
    risk: float
    rows: int


def threshold(scores: Reals, rate: float, confidence: float, slack: float = 0.0) -> Threshold:
    """Above the k-th smallest of n scores by `slack`, how far two computations of a score may be apart, and a last bit.

    k is the least with sum_{j >= k} C(n, j) (1 - rate)^j rate^(n - j) <= 1 - confidence. That sum bounds the
    probability, over n independent rows of one distribution, that more than a share `rate` of its further rows has a
    larger score, whatever the distribution (Tong, Feng, Li, Neyman-Pearson classification algorithms and NP receiver
    operating characteristics, Science Advances 2018, Proposition 1).
    """
    k, risk = order_statistic(len(scores), rate, confidence)
    return Threshold(float(np.nextafter(np.sort(scores)[k - 1] + slack, np.inf)), risk, len(scores))


def order_statistic(rows: int, rate: float, confidence: float, share: str = "calibration") -> tuple[int, float]:
    """k and the sum of `threshold`, or a refusal if there is no such k. share: the argument that says how many rows."""
    from scipy.stats import binom  # a site of a deployment starts without it

    tails = binom.sf(np.arange(rows), rows, 1 - rate)  # entry k - 1 is P(at least k)
    enough = np.flatnonzero(tails <= 1 - confidence)
    if not enough.size:
        least = int(np.ceil(np.log(1 - confidence) / np.log(1 - rate)))
        raise ValueError(
            f"rate={rate} with confidence={confidence} must have {least} rows of the limited class for calibration, "
            f"got {rows}: give more rows, or a larger {share} or rate, or a smaller confidence"
        )
    return int(enough[0]) + 1, float(tails[enough[0]])


def a_share(name: str, value: Any) -> float:
    """A number strictly between 0 and 1."""
    number = isinstance(value, float | np.floating) and 0 < value < 1
    if not number:
        raise ValueError(f"{name} must be a number > 0 and < 1, got {short(value)}")
    return float(value)
