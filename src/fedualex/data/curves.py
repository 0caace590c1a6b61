"""Effects that bend: natural cubic splines of columns of numbers, whose knots are quantiles from added histograms."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Reals

EDGES = 0.1 * np.sinh(0.2 * np.arange(-24, 25))
"""Between the bins of a histogram, in deviations from the mean: narrow near it, where long tails leave most rows, and a
fifth of a deviation wide at one deviation. The first and the last bin are open."""
FEWEST_IN_BIN = 5
"""Rows of a bin at each client; bins of fewer are told together."""
FEWEST_VALUES = 5
"""Different values of a column for which a curve is more than its points."""
FULL = 1e-6
"""The share of all rows above which a bin holds some: under masks, sums are rounded."""
QUANTILES = {3: (0.1, 0.5, 0.9), 4: (0.05, 0.35, 0.65, 0.95), 5: (0.05, 0.275, 0.5, 0.725, 0.95)}
"""Where knots are, as Harrell has them: as many as there are bins with rows, up to five."""


def histogram(deviations: Reals, weight: Any = None, fewest: int = FEWEST_IN_BIN) -> NDArray[np.float64]:
    """How many rows a client has in each bin, by their weights if they have some; nan is in none.

    deviations: the values, in deviations from the mean of all clients. fewest: rows of neighboring bins that are told
    together, in that of the middle row, until they are so many; those that are left at the end go with the last ones.
    """
    there = ~np.isnan(deviations)
    place = np.searchsorted(EDGES, deviations[there], side="right")
    rows = np.bincount(place, minlength=EDGES.size + 1)
    mass = np.bincount(place, None if weight is None else np.asarray(weight, float)[there], rows.size)
    ends, together = list[int](), 0
    for b, count in enumerate(rows.tolist()):
        together += count
        if together >= fewest:
            ends.append(b)
            together = 0
    masses, begin = np.zeros(rows.size), 0
    for number, end in enumerate(ends):
        end = rows.size - 1 if number == len(ends) - 1 else end
        own = np.cumsum(rows[begin : end + 1])
        masses[begin + int(np.searchsorted(own, own[-1] / 2))] += mass[begin : end + 1].sum()
        begin = end + 1
    return masses


@dataclass(frozen=True)
class Curve:
    """The curved part of a column's effect; with the column itself it is a natural cubic spline.

    knots: rising, in deviations from the mean; beyond the outer ones the curve is straight. mix: from 1, the value and
    the truncated cubes of the knots but the last two to the columns of the curve, of which all are 0 on average, have
    the mean square 1, and are uncorrelated with each other and with the value, as far as the histogram tells. So no
    straight line is in them, and that they are all 0 means that the effect is straight.
    """

    knots: tuple[float, ...]
    mix: tuple[tuple[float, ...], ...]

    @property
    def size(self) -> int:
        """How many columns it has."""
        return len(self.knots) - 2

    def values(self, deviations: Reals) -> NDArray[np.float64]:
        """One column for each of `size`."""
        return np.asarray(_line_and_cubes(deviations, np.array(self.knots)) @ np.array(self.mix))


def curve_of(counts: Reals, values: float | int, name: str) -> Curve:
    """The curve of a column from the histograms of all clients, added up.

    values: how many different ones some client has, counted up to FEWEST_VALUES.
    """
    share = np.where(counts > FULL * counts.sum(), counts, 0.0) / max(float(counts.sum()), np.finfo(float).tiny)
    number = min(int(np.sum(share > 0)), max(QUANTILES))
    if values < FEWEST_VALUES or number < min(QUANTILES):
        raise ValueError(
            f"smooth: the column {name!r} must have {FEWEST_VALUES} different values at some client and rows enough "
            f"for {min(QUANTILES)} bins of {FEWEST_IN_BIN}, got {values:g} values and {number} bins with rows"
        )
    knots = _quantiles(_limit_shares(share, 1 / number), QUANTILES[number])
    ends = np.concatenate([EDGES[:1], EDGES, EDGES[-1:]])
    middles = (ends[1:] + ends[:-1]) / 2
    columns, root = _line_and_cubes(middles, knots), np.sqrt(share)[:, None]
    line, cubes = columns[:, :2], columns[:, 2:]
    along = np.linalg.lstsq(root * line, root * cubes, rcond=None)[0]
    rest = root * (cubes - line @ along)
    scale = np.linalg.inv(np.linalg.cholesky(rest.T @ rest)).T  # no knots are in one bin, so that this has full rank
    mix = np.concatenate([-along @ scale, scale])
    return Curve(tuple(knots.tolist()), tuple(map(tuple, mix.tolist())))


def _limit_shares(share: Reals, most: float) -> Reals:
    """The shares with none above `most`: two knots within one value would make a curve of nothing."""
    limited = share
    while limited.max() > most * (1 + 1e-12):
        high = limited >= most
        limited = np.where(
            high, most, limited * (1 - most * high.sum()) / max(limited[~high].sum(), np.finfo(float).tiny)
        )
    return limited


def _quantiles(share: Reals, wanted: tuple[float, ...]) -> NDArray[np.float64]:
    """Rows are spread evenly within a bin; an open one is as wide as its neighbor."""
    ends = np.concatenate([[2 * EDGES[0] - EDGES[1]], EDGES, [2 * EDGES[-1] - EDGES[-2]]])
    below = np.concatenate([[0.0], np.cumsum(share)])
    place = np.searchsorted(below, np.array(wanted), side="right") - 1
    return np.asarray(ends[place] + (np.array(wanted) - below[place]) / share[place] * (ends[place + 1] - ends[place]))


def _line_and_cubes(deviations: Reals, knots: Reals) -> NDArray[np.float64]:
    """1, the value, and for each knot but the last two its cube, less what is not straight beyond the last knot.

    Beyond the outer knots it is continued by its slope there: cubes of far values would cancel.
    """
    inside = np.clip(deviations, knots[0], knots[-1])
    last, before, span = knots[-1], knots[-2], knots[-1] - knots[0]
    steps = (inside[:, None] - knots) / span
    cubes = np.maximum(steps, 0) ** 3
    left = (last - knots[:-2]) / (last - before)
    bent = cubes[:, :-2] - cubes[:, [-2]] * left
    slope = 3 * ((last - knots[:-2]) ** 2 - left * (last - before) ** 2) / span**3
    beyond = np.maximum(deviations - last, 0)[:, None] * slope
    return np.concatenate([np.ones((len(inside), 1)), deviations[:, None], bent + beyond], axis=1)
