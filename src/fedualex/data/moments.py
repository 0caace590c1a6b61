"""Means and deviations of features that nobody pools: each client sends sums, and the sums are added."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..accepted import Numbers
from ..arrays import Reals
from ..summaries import Known, Summary, merge_summaries
from ..validation import (
    encode_labels,
    issparse,
    of_type,
    real_array,
    real_csr,
    refuse_masked,
    refuse_sparse,
    row_weights,
    rows_of,
    short,
)

LEAST_SPREAD = 1e-12
"""A deviation of less than this of the mean counts as 0: rounding leaves a constant column one of some 1e-16."""


@dataclass(frozen=True, eq=False)
class Sums:
    """What one client sends, or what all have sent: for each column how many values are there, and their sum.

    count, total: one number each for every column.
    """

    count: Reals
    total: Reals

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(self.count + other.count, self.total + other.total)

    @property
    def mean(self) -> Reals:
        """The mean of each column; 0 where no value is there."""
        return np.where(self.count > 0, self.total / np.where(self.count > 0, self.count, 1), 0.0)


def sums(X: Numbers, center: Numbers | None = None, weight: Numbers | None = None) -> Sums:
    """A client's counts and sums of its values, or of (value - center)^2; nan is a missing value and counts nowhere.

    X may be sparse, and then misses no values. weight: None, or an array with a number >= 0 for each row, as many times
    as which the row counts.
    """
    if issparse(X):
        return _sparse_sums(real_csr("X", X), center, weight)
    rows = _moment_matrix(X)
    there = ~np.isnan(rows)
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large is refused where it is known which column
        values = np.where(there, rows if center is None else np.square(rows - _center(center, rows.shape[1])), 0.0)
        if weight is None:
            return Sums(there.sum(axis=0), values.sum(axis=0))
        own: Reals = np.asarray(weight)
        return Sums(own @ there, own @ values)


@dataclass(frozen=True, eq=False)
class Standardizer:
    """(x - mean) / deviation, column by column. A missing value becomes 0, the mean; a constant column becomes 0."""

    mean: Reals
    deviation: Reals
    """0 for a column that is constant, or that varies by less than LEAST_SPREAD of its size or than the root of the
    smallest number of float64, and for one in which every value is missing."""

    exchanges: ClassVar[int] = 2

    @classmethod
    def fit(cls, X: object, clients: object = None, sample_weight: object = None) -> "Standardizer":
        """The moments of all rows from the sums of each client, in two exchanges: means, then deviations from them.

        sample_weight: None, or a number >= 0 for each row, in proportion to which it counts.
        """
        rows = real_csr("X", X) if issparse(X) else _moment_matrix(X)
        count = rows.shape[0]
        weight = None if sample_weight is None else row_weights(sample_weight, count)
        own = [slice(None)] if clients is None else rows_of(encode_labels("clients", clients, count)[1])
        known: list[Known] = []
        for _ in range(cls.exchanges):
            sent = (cls.summarize(rows[i], known, None if weight is None else weight[i]) for i in own)
            known.append(merge_summaries(sent))
        return cls.from_known(known)

    @classmethod
    def summarize(cls, X: Any, known: Sequence[Known], weight: Any = None) -> Summary:
        """At one client: counts and sums of its values, then sums of their squared deviations from the mean of all."""
        if not known:
            own = sums(X, weight=weight)
            return Summary(sums={"count": own.count, "total": own.total})
        return Summary(sums={"squares": sums(X, _sums(known).mean, weight).total})

    @classmethod
    def from_known(cls, known: Sequence[Known]) -> "Standardizer":
        """From the merged summaries of both exchanges."""
        mean = _sums(known).mean
        deviation = np.sqrt(Sums(known[0]["count"], known[1]["squares"]).mean)
        return cls(mean, np.where(deviation > LEAST_SPREAD * np.abs(mean), deviation, 0.0))

    def transform(self, X: object) -> Reals:
        """Standardized rows, without nan."""
        refuse_sparse("X", X, "a matrix that may be filled, as no mean is left 0")
        rows = _moment_matrix(X)
        if rows.shape[1:] != self.mean.shape:
            raise ValueError(f"X must have {self.mean.size} columns, as when it was fitted, got {rows.shape[1]}")
        varies = self.deviation > 0
        scaled = (rows - self.mean) / np.where(varies, self.deviation, 1.0)
        return np.where(varies & ~np.isnan(rows), scaled, 0.0)


def added(parts: Iterable[Sums]) -> Sums:
    """The sum of what the clients sent.

    parts: the `Sums` of each client.
    Returns: the `Sums` of all.
    """
    try:
        every: list[Any] = list(parts)
    except TypeError:  # an array of no dimensions calls itself iterable
        every = []
    for part in every or [None]:
        of_type("parts", part, Sums, "what `sums` returned, of each client")
    return sum(every[1:], start=every[0])


def _sparse_sums(rows: Any, center: Any, weight: Any) -> Sums:
    """(0 - center)^2 of the entries that are not stored is added once for all of a column."""
    columns = rows.shape[1]
    weight = np.ones(rows.shape[0]) if weight is None else weight
    every = np.full(columns, weight.sum())
    if center is None:
        return Sums(every, np.asarray(weight @ rows))
    middle = np.broadcast_to(_center(center, columns), (columns,))
    own = np.repeat(weight, np.diff(rows.indptr))
    squares = np.bincount(rows.indices, own * (rows.data - middle[rows.indices]) ** 2, columns)
    return Sums(every, squares + (every - np.bincount(rows.indices, own, columns)) * middle**2)


def _sums(known: Sequence[Known]) -> Sums:
    return Sums(known[0]["count"], known[0]["total"])


def _center(center: object, columns: int) -> Reals:
    values: Reals = real_array("center", center)
    if values.shape not in ((), (columns,)):
        raise ValueError(f"center must be a number, or one for each of {columns} columns, got {short(center)}")
    return values


def _moment_matrix(X: object) -> Reals:
    refuse_masked("X", X)
    try:
        rows = np.asarray(X, float)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"X must be a real matrix, nan where a value is missing, got {short(X)}") from None
    if rows.ndim != 2 or rows.size == 0 or np.any(np.isinf(rows)):
        raise ValueError(f"X must be a nonempty matrix of finite numbers or nan, got {short(X)}")
    return rows
