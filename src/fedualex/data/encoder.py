"""From a table with numbers, categories and holes to a matrix."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..accepted import Columns, Numbers
from ..summaries import Known, Summary, merged
from ..validation import (
    encode_labels,
    issparse,
    missing,
    of_type,
    plain_array,
    real_array,
    real_csr,
    refuse_masked,
    refuse_sparse,
    row_weights,
    rows_of,
    short,
)
from .tables import Table, from_values

# Means and deviations of features that nobody pools: each client sends sums, and the sums are added.

LEAST_SPREAD = 1e-12
"""A deviation of less than this of the mean counts as 0: rounding leaves a constant column one of some 1e-16."""


@dataclass(frozen=True, eq=False)
class Sums:
    """What one client sends, or what all have sent: for each column how many values are there, and their sum.

    count, total: one number each for every column.
    """

    count: NDArray[Any]
    total: NDArray[Any]

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(self.count + other.count, self.total + other.total)

    @property
    def mean(self) -> NDArray[Any]:
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
        values = np.where(there, rows if center is None else (rows - _center(center, rows.shape[1])) ** 2, 0.0)
        if weight is None:
            return Sums(there.sum(axis=0), values.sum(axis=0))
        return Sums(weight @ there, weight @ values)


@dataclass(frozen=True, eq=False)
class Standardizer:
    """(x - mean) / deviation, column by column. A missing value becomes 0, the mean; a constant column becomes 0."""

    mean: NDArray[Any]
    deviation: NDArray[Any]
    """0 for a column that is constant, or that varies by less than LEAST_SPREAD of its size or than the root of the
    smallest number of float64, and for one in which every value is missing."""

    exchanges: ClassVar[int] = 2

    @classmethod
    def fit(cls, X: Any, clients: Any = None, sample_weight: Any = None) -> "Standardizer":
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
            known.append(merged(sent))
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

    def transform(self, X: Any) -> NDArray[Any]:
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
    columns, weight = rows.shape[1], np.ones(rows.shape[0]) if weight is None else weight
    every = np.full(columns, weight.sum())
    if center is None:
        return Sums(every, np.asarray(weight @ rows))
    middle = np.broadcast_to(_center(center, columns), (columns,))
    own = np.repeat(weight, np.diff(rows.indptr))
    squares = np.bincount(rows.indices, own * (rows.data - middle[rows.indices]) ** 2, columns)
    return Sums(every, squares + (every - np.bincount(rows.indices, own, columns)) * middle**2)


def _sums(known: Sequence[Known]) -> Sums:
    return Sums(known[0]["count"], known[0]["total"])


def _center(center: Any, columns: int) -> NDArray[Any]:
    found: NDArray[Any] = real_array("center", center)
    if found.shape not in ((), (columns,)):
        raise ValueError(f"center must be a number, or one for each of {columns} columns, got {short(center)}")
    return found


def _moment_matrix(X: Any) -> NDArray[Any]:
    refuse_masked("X", X)
    try:
        rows = np.asarray(X, float)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"X must be a real matrix, nan where a value is missing, got {short(X)}") from None
    if rows.ndim != 2 or rows.size == 0 or np.any(np.isinf(rows)):
        raise ValueError(f"X must be a nonempty matrix of finite numbers or nan, got {short(X)}")
    return rows


# What the columns of a table hold: numbers or text, at one client and at all of them.


CATEGORIES = "categories of "
"""Before the name of a column, the name of its categories in a summary."""
ENOUGH = 20
"""Texts of a client from which on it can be seen whether they are categories."""
MOST_DISTINCT = 0.5
"""The share of different texts above which a column holds no categories: less than two rows have the same."""
MOST_DATES = 0.5
"""The share of dates above which a column is one of dates."""
DATE = re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}([T ].*)?")
"""2026-11-17, 17.11.2026, 11/17/26, each with or without a time."""


def plain_table(table: Mapping[str, Any]) -> Table:
    """The table with columns of numbers, nan where one is missing, and of text, "" where one is."""
    return Table({name: plain_column(name, column) for name, column in table.items()}, "the table")


def plain_column(name: str, values: object) -> NDArray[Any]:
    """A column as numbers with nan or as text with "" where a value is missing."""
    column = plain_array(f"the column {name!r}", values)
    if column.dtype.kind == "O":
        return from_values(column.tolist())
    return column if column.dtype.kind in "fiubU" else np.where(missing(column), "", column.astype(str))


def is_text(column: NDArray[Any]) -> bool:
    """Whether a plain column is one of text."""
    return column.dtype.kind == "U"


def column_of_kind(name: str, column: NDArray[Any], text: bool) -> NDArray[Any]:
    """A plain column as text or as numbers, as it was when it was fitted.

    Numbers can be text, as where all codes of a table happen to be numbers: whole ones are written without a point.
    Text is no number; where all is missing a column can be either.
    """
    if missing(column).all():
        return np.full(len(column), "" if text else np.nan)
    if is_text(column) and not text:
        there = np.flatnonzero(column != "").tolist()
        row = next((i for i in there if not _is_number(column[i])), there[0])
        found = f"text, {short(str(column[row]))} in row {row + 1} of {len(column)}"
        raise ValueError(f"the column {name!r} must hold numbers, as when it was fitted, got {found}")
    return column if is_text(column) == text else np.array([_text_of(value) for value in column.tolist()], str)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text_of(value: Any) -> str:
    """As a file has it; "" of nan."""
    if value != value:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def summarize_columns(table: Table, weight: Any = None) -> Summary:
    """What a client says of its columns, in the sorted order of their names, and where they stand in its table.

    text: 2 if there is some, 1 for an empty column of text, else 0. number: 1 if there are some, else 0. count, total:
    how many numbers there are, and their sum, in which rows count by their weights if they have some. empty: how many
    rows of a column of text hold none. texts, distinct, dates: how many texts there are, how many different ones, and
    how many dates, where that says something. No text leaves before it is known which columns are categories.
    """
    names = sorted(table)
    columns = [table[name] for name in names]
    there = [not missing(column).all() for column in columns]
    text = [is_text(column) for column in columns]
    numbers = [np.full(table.rows, np.nan) if is_text(column) else column for column in columns]
    own = sums(np.stack(numbers, axis=1), weight=weight)
    kinds = {
        "text": np.array([is_one * (1 + some) for is_one, some in zip(text, there, strict=True)]),
        "number": np.array([int(some and not is_one) for is_one, some in zip(text, there, strict=True)]),
    }
    texts = [
        column[column != ""] if is_one else np.array([], str) for column, is_one in zip(columns, text, strict=True)
    ]
    told = [values if len(values) >= ENOUGH else values[:0] for values in texts]
    return Summary(
        sums={
            "count": own.count,
            "total": own.total,
            "empty": np.array([is_one * (table.rows - len(t)) for is_one, t in zip(text, texts, strict=True)]),
            "texts": np.array([len(values) for values in told]),
            "distinct": np.array([len(np.unique(values)) for values in told]),
            "dates": np.array([sum(DATE.fullmatch(value) is not None for value in values) for values in told]),
        },
        largest=kinds,
        labels={"columns": np.array(names)},
        each={"place": np.array([list(table).index(name) for name in names])},
    )


def summarize_categories(table: Table, known: Known) -> dict[str, NDArray[Any]]:
    """The texts of a client's columns that hold categories, but not how often they occur."""
    columns = {name: column_of_kind(name, table[name], text=True) for name in known_categories(known)}
    return {CATEGORIES + name: np.unique(column[column != ""]) for name, column in columns.items()}


def known_categories(known: Known) -> list[str]:
    """The columns of text that hold categories."""
    apart = known_no_categories(known)
    return [name for name, text in known_kinds(known).items() if text and name not in apart]


def known_no_categories(known: Known) -> dict[str, str]:
    """The columns of text that hold no categories, each with what it holds instead."""
    found = {}
    for name in (name for name, text in known_kinds(known).items() if text):
        i = known["columns"].tolist().index(name)
        if known["dates"][i] > MOST_DATES * known["texts"][i]:
            found[name] = "dates"
        elif known["distinct"][i] > MOST_DISTINCT * known["texts"][i]:
            found[name] = "texts of which most are different"
    return found


def known_constants(known: Known, categories: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The columns of text with the same text in every row, each with what it holds."""
    full = known["empty"] == 0
    single = [name for name, found in categories.items() if len(found) == 1]
    return {name: "the same text in every row" for name in single if full[known["columns"].tolist().index(name)]}


def known_kinds(known: Known) -> dict[str, bool]:
    """The columns in the order of the first client, each with whether it holds text."""
    names = known["columns"].tolist()
    if len(names) != known["text"].size:
        raise ValueError(f"all clients must have the same {known['text'].size} columns, got {short(names)}")
    both = (known["text"] == 2) & (known["number"] == 1)
    if both.any():
        name = names[np.argmax(both)]
        raise ValueError(f"the column {name!r} must hold text at all clients or numbers at all, got both")
    text = (known["text"] > 0) & (known["number"] == 0)
    return {names[i]: bool(text[i]) for i in np.argsort(known["place"][0])}


def known_moments(known: Known, numbers: tuple[str, ...]) -> Known:
    """Counts and sums of these columns alone."""
    kept = np.searchsorted(known["columns"], numbers)
    return {"count": known["count"][kept], "total": known["total"][kept]}


@dataclass(frozen=True, eq=False)
class Encoder:
    """Numbers are standardized by federated moments; a text column becomes one 0/1 column for each category.

    Missing numbers become 0, the mean, and constant columns 0 (`Standardizer`). The categories are the union of what
    the clients name; a missing or unseen category is a row of zeros. 0/1 columns are not rescaled.

    standardizer: the moments of the columns of numbers. Make an encoder with `Encoder.fit`.
    """

    numbers: tuple[str, ...]
    categories: dict[str, tuple[str, ...]]
    standardizer: Standardizer | None
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The columns of text that take no part, each with what it holds instead of categories."""

    exchanges: ClassVar[int] = 2

    @classmethod
    def fit(cls, table: Mapping[str, NDArray[Any]], clients: Any = None, sample_weight: Any = None) -> "Encoder":
        """What the columns hold, from the summaries of each client; clients None is one client.

        sample_weight: None, or a number >= 0 for each row, in proportion to which it counts in means and deviations.
        """
        whole = plain_table(table)
        number = np.zeros(whole.rows, int) if clients is None else encode_labels("clients", clients, whole.rows)[1]
        weight = None if sample_weight is None else row_weights(sample_weight, whole.rows)
        parts = [(whole.take(rows), None if weight is None else weight[rows]) for rows in rows_of(number)]
        known: list[Known] = []
        for _ in range(cls.exchanges):
            known.append(merged(cls.summarize(part, known, own) for part, own in parts))
        return cls.from_known(known)

    @classmethod
    def summarize(cls, table: Mapping[str, NDArray[Any]], known: Sequence[Known], weight: Any = None) -> Summary:
        """At one client: what its columns hold; then its categories, and squared deviations from the mean of all."""
        own = plain_table(table)
        if not known:
            return summarize_columns(own, weight)
        numbers, words = _numbers(known), summarize_categories(own, known[0])
        if not numbers:
            return Summary(sums={"squares": np.zeros(0)}, labels=words)
        squares = Standardizer.summarize(_matrix(own, numbers), [known_moments(known[0], numbers)], weight)
        return Summary(sums=squares.sums, labels=words)

    @classmethod
    def from_known(cls, known: Sequence[Known]) -> "Encoder":
        """From the merged summaries of both exchanges."""
        numbers = _numbers(known)
        found = {name: tuple(known[1][CATEGORIES + name].tolist()) for name in known_categories(known[0])}
        left_out = {**known_no_categories(known[0]), **known_constants(known[0], found)}
        categories = {name: words for name, words in found.items() if name not in left_out}
        if not numbers and not categories:
            held = ", ".join(f"{name} holds {what}" for name, what in left_out.items())
            raise ValueError(f"a table must have columns of numbers or categories; {held}")
        if not numbers:
            return cls(numbers, categories, None, left_out)
        moments = Standardizer.from_known([known_moments(known[0], numbers), known[1]])
        if np.any(large := ~np.isfinite(moments.mean + moments.deviation)):
            name = numbers[int(np.argmax(large))]
            raise ValueError(f"the column {name!r} must have a variance that float64 can hold: divide it by its size")
        return cls(numbers, categories, moments, left_out)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the matrix's columns."""
        return (*self.numbers, *(f"{name}={c}" for name, known in self.categories.items() for c in known))

    def transform(self, table: Columns) -> NDArray[Any]:
        """The matrix of a table with the columns that were fitted; it may have more."""
        gone = [name for name in (*self.numbers, *self.categories) if name not in table]
        if gone:
            raise ValueError(f"the table must have the column {gone[0]!r}, which was there when it was fitted")
        kinds = dict.fromkeys(self.numbers, False) | dict.fromkeys(self.categories, True)
        plain = {name: plain_column(name, table[name]) for name in kinds}
        whole = Table({name: column_of_kind(name, plain[name], text) for name, text in kinds.items()}, "the table")
        blocks: list[NDArray[Any]] = []
        if self.standardizer is not None:
            blocks.append(self.standardizer.transform(_matrix(whole, self.numbers)))
        for name, known in self.categories.items():
            blocks.append((whole[name][:, None] == np.array(known, str)[None, :]).astype(float))
        return np.concatenate(blocks, axis=1)


def _numbers(known: Sequence[Known]) -> tuple[str, ...]:
    return tuple(name for name, text in known_kinds(known[0]).items() if not text)


def _matrix(table: Table, names: tuple[str, ...]) -> NDArray[Any]:
    return np.stack([column_of_kind(name, table[name], text=False) for name in names], axis=1)
