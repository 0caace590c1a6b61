"""Where columns of one client differ from those of all others by more than clients do: names of columns, no numbers.

A client compares what it summarized with what the others add up to, which is the merged summary without its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Reals, Values
from ..summaries import Known, Summary
from .columns import Table, column_of_kind
from .encoder import COUNTS, Coding, known_levels, known_numbers
from .moments import sums

FEWEST = 10
"""Values of a column on both sides from which on they are compared."""
RATIO = 8.0
"""Of two deviations, from which on units are doubted: those of honest sites differ by 2 or 3, units by 10 or more."""
APART = 4.0
"""Deviations, the larger of both, by which two means may differ."""
FAR = 50.0
"""Deviations of the others by which a single value may be away from their mean: -999 among ages is 70."""
SHARE = 0.5
"""Of rows: more that miss a value than elsewhere, or whose category nobody else has."""
ALIKE, SMALL = 10.0, 0.3
"""A change of units keeps mean / deviation: these ratios must be so alike, or both so small."""
TINY = 1e-3
"""Of a mean here, a mean elsewhere where the deviation is lost in rounding: other units, and not one value for all."""
LOST = 1e-12
"""Of a sum of squares, what rounding may have left of it when most of it is subtracted."""

MOMENTS = ("count", "total")

DOUBTS = ("wider", "narrower", "higher", "lower", "words")
"""What a change of units or another spelling looks like."""
NOTES = ("missing", "constant", "far")
"""What may well be so, and is only said."""

Vector = Reals


@dataclass(frozen=True)
class _Moments:
    """Of each column: how many values, their mean, and their deviation; lost: it is known only to be at most that."""

    count: Vector
    mean: Vector
    deviation: Vector
    lost: NDArray[np.bool_]

    @property
    def location(self) -> Vector:
        """mean / deviation, which no unit changes."""
        return np.abs(self.mean) / np.where(self.deviation > 0, self.deviation, np.inf)


def find_differences(
    table: Table, own: Sequence[Summary], known: Sequence[Known], coding: Coding, weight: Vector | None
) -> dict[str, list[str]]:
    """The columns of this client's table that differ, by the kind of difference: those of `DOUBTS` and of `NOTES`.

    own, known: its summaries and the merged ones of the encoder's exchanges. weight: of rows, or None.
    """
    differing = _compare_numbers(table, own, known, weight) | {"words": _compare_words(own[2], known, coding)}
    if weight is None:
        differing["missing"] = _compare_holes(table, own[0], known[0])
    return {kind: sorted(differing[kind]) for kind in (*DOUBTS, *NOTES) if differing.get(kind)}


def _compare_numbers(
    table: Table, own: Sequence[Summary], known: Sequence[Known], weight: Vector | None
) -> dict[str, list[str]]:
    numbers = np.array(known_numbers(known))
    if not numbers.size:
        return {}
    matrix = np.stack([column_of_kind(name, table[name], text=False) for name in numbers.tolist()], axis=1)
    here, others = _own_moments(matrix, weight), _other_moments(numbers, own, known)
    enough = (here.count >= FEWEST) & (others.count >= FEWEST)
    varies = enough & (here.deviation > 0)
    filled = np.mean(np.nan_to_num(matrix) != 0, axis=0) >= 0.5  # columns that are mostly 0 say nothing of units
    tiny = np.abs(others.mean) <= TINY * np.maximum(np.abs(here.mean), here.deviation)
    alike = np.where(others.lost, tiny, _alike(here.location, others.location))
    expected = here.count * np.minimum(others.location, 1.0) ** 2 > FEWEST  # what is rare elsewhere may be nowhere here
    size = np.maximum(here.deviation, others.deviation)
    with np.errstate(invalid="ignore"):
        farthest = np.nanmax(np.abs(np.where(np.isnan(matrix), others.mean, matrix) - others.mean), axis=0)
    flags = {
        "wider": varies & filled & alike & (here.deviation >= RATIO * others.deviation),
        "narrower": varies & filled & alike & (here.deviation * RATIO <= others.deviation),
        "higher": enough & (here.mean - others.mean > APART * size) & (size > 0),
        "lower": enough & (others.mean - here.mean > APART * size) & (size > 0),
        "constant": enough & (here.deviation == 0) & (others.deviation > 0) & (filled | expected),
        "far": enough & filled & (farthest > FAR * np.maximum(others.deviation, here.deviation / RATIO)),
    }
    for kind in ("higher", "lower"):  # which other units are as well
        flags[kind] &= ~(flags["wider"] | flags["narrower"])
    flags["far"] &= ~(flags["wider"] | flags["higher"] | flags["lower"]) & (others.deviation > 0)
    return {kind: numbers[flag].tolist() for kind, flag in flags.items()}


def _own_moments(matrix: Vector, weight: Vector | None) -> _Moments:
    first = sums(matrix, weight=weight)
    count = np.asarray(first.count, float)
    mean = np.where(count > 0, first.total / np.where(count > 0, count, 1.0), 0.0)
    squares = sums(matrix, mean, weight).total
    deviation = np.sqrt(squares / np.where(count > 0, count, 1.0))
    rows = np.sum(~np.isnan(matrix), axis=0).astype(float)
    return _Moments(rows, mean, np.where(deviation > LOST * np.abs(mean), deviation, 0.0), np.zeros(rows.shape, bool))


def _other_moments(numbers: Values, own: Sequence[Summary], known: Sequence[Known]) -> _Moments:
    """Of all others together, from what all add up to and this client's part of it."""
    place = np.searchsorted(known[0]["columns"], numbers)
    counts, totals = ([np.asarray(one[name], float)[place] for one in (own[0].sums, known[0])] for name in MOMENTS)
    count = counts[1] - counts[0]
    some = np.where(count > 0, count, 1.0)
    mean = (totals[1] - totals[0]) / some
    middle = totals[1] / np.where(counts[1] > 0, counts[1], 1.0)
    whole = np.asarray(known[1]["squares"], float)
    left = (whole - np.asarray(own[1].sums["squares"], float)) / some
    variance = np.maximum(left - (mean - middle) ** 2, 0.0)
    lost = LOST * (whole / some + (mean - middle) ** 2)
    return _Moments(count, mean, np.sqrt(np.maximum(variance, lost)), variance <= lost)


def _alike(one: Vector, other: Vector) -> NDArray[np.bool_]:
    small, large = np.minimum(one, other), np.maximum(one, other)
    return (large < SMALL) | (large <= ALIKE * small)


def _compare_words(own: Summary, known: Sequence[Known], coding: Coding) -> list[str]:
    """The columns of categories in which most rows hold one that nobody else has."""
    differing = []
    for name in known_levels(known, coding):
        mine = np.asarray(own.sums[COUNTS + name], float)
        others = np.asarray(known[2][COUNTS + name], float) - mine
        alone = mine[others <= 1e-9 * max(others.sum(), 1.0)].sum()
        if mine.sum() >= FEWEST and others.sum() >= FEWEST and alone > SHARE * mine.sum():
            differing.append(name)
    return differing


def _compare_holes(table: Table, own: Summary, known: Known) -> list[str]:
    """The columns that miss far more values here than elsewhere, or far fewer."""
    rows = round(float(known["rows"])) if "rows" in known else 0
    if rows - table.rows < FEWEST or table.rows < FEWEST:
        return []
    mine, every = np.asarray(own.sums["empty"], float), np.asarray(known["empty"], float)
    apart = np.abs(mine / table.rows - (every - mine) / (rows - table.rows))
    return known["columns"][apart > SHARE].tolist()
