"""Numbers as whole numbers modulo 2^64, so that sums of them are exact and masks hide them perfectly.

A number p is n_1 u_1 + ... + n_W u_W + r with the units u below: n_1 = round(p / u_1), then n_2 is the same of the
rest p - n_1 u_1, and so on. The rests are exact in float64, so |r| <= 2^-61. As |n_w| <= 2^52, up to 2^10 sites cannot
overflow 2^63, and the sum over M sites differs from the exact one by at most

    M 2^-61  +  2^-51 |sum|,

the second term for turning whole numbers into float64 at the end.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine import TOO_LARGE

UNITS = (2.0**44, 2.0**-8, 2.0**-60)
"""What the words of a number count; two words are the last two of these."""
STEP = 52
"""Each unit is 2^52 times the next."""
MOST = 2.0**52
"""The largest first word of one site."""
MOST_SITES = 1024


class RangeError(ValueError):
    """A number that does not fit. Says which array, and nothing of the number."""


def quantization(sites: int) -> float:
    """M 2^-61: how far a sum over so many sites may be from the exact one, beyond float64's own rounding."""
    return sites * UNITS[-1] / 2


def encoded(name: str, values: NDArray[Any], words: int) -> NDArray[np.uint64]:
    """The words of each number along a new first axis; a refusal by name where one does not fit."""
    units, rest = UNITS[-words:], np.asarray(values, np.float64)
    found = np.empty((words, *rest.shape), np.int64)
    if not np.all(np.abs(rest) <= MOST * units[0]):
        raise RangeError(f"{name} has entries beyond 2^{int(np.log2(MOST * units[0]))}, {TOO_LARGE}")
    for word, unit in enumerate(units):
        whole = np.rint(rest / unit)
        rest = rest - whole * unit
        found[word] = whole
    return found.view(np.uint64)


def decoded(total: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The numbers that words, added up over sites modulo 2^64, stand for."""
    words = total.view(np.int64).copy()
    for word in range(len(words) - 1, 0, -1):  # what is too much for a word belongs to the one above
        above = (words[word] + 2 ** (STEP - 1)) >> STEP
        words[word] -= above << STEP
        words[word - 1] += above
    value = np.zeros(words.shape[1:])
    for count, unit in zip(reversed(words), reversed(UNITS[-len(words) :]), strict=True):
        value = value + count.astype(np.float64) * unit
    return np.asarray(value)
