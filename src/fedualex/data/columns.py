"""A table of named columns, as numbers or as text with holes; its checksum, and what is refused, by row and value."""

import hashlib
import importlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..accepted import Columns
from ..arrays import Reals, Values
from ..validation import hint, missing, plain_array, refuse_masked, short

# Packages that only some sources of data need.


def require_package(module: str, package: str, extra: str, purpose: str) -> Any:
    """The module of an optional package; what to install if it is not there."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(f"{purpose} needs {package}: pip install 'fedualex[{extra}]'") from None


@dataclass(frozen=True, eq=False)
class Table(Mapping[str, NDArray[Any]]):
    """Named columns of equal length: integers, float64 with nan where one is missing, or text with "" where one is.

    Two tables are equal if they are the same object; compare their checksums.

    source: where the table came from, for messages and manifests.
    """

    columns: Mapping[str, NDArray[Any]]
    source: str
    dropped: int = 0
    """How many rows were left out of it because a value is missing."""

    def __post_init__(self) -> None:
        lengths = {name: np.shape(column) for name, column in self.columns.items()}
        if not lengths or len(set(lengths.values())) > 1 or len(next(iter(lengths.values()))) != 1:
            raise ValueError(f"{self.source} must have columns, all of one length, got {short(lengths)}")
        for name, column in self.columns.items():
            refuse_masked(f"{self.source}: the column {name!r}", column)
            if np.asarray(column).dtype.kind == "f" and np.any(np.isinf(column)):
                raise ValueError(f"{self.source}: the column {name!r} must hold finite numbers, got an infinite one")

    def __eq__(self, other: object) -> bool:  # a Mapping's would ask arrays for one truth value
        return self is other

    __hash__ = object.__hash__

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            raise KeyError(f"{self.source} has no column {name!r}; {hint(name, self.columns)}")
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.columns.values())))

    @property
    def checksum(self) -> str:
        """SHA-256 of names and values."""
        return _checksum(item for name, column in self.columns.items() for item in (np.array(name), column))

    def pick(self, names: str | Sequence[str]) -> Values:
        """The column of this name; of several names the matrix with such columns, in their order."""
        return self[names] if isinstance(names, str) else np.stack([self[name] for name in names], axis=1)

    def without(self, *names: str) -> "Table":
        """The table without some columns, such as the target."""
        for name in names:
            self[name]
        return replace(self, columns={name: column for name, column in self.columns.items() if name not in names})

    def take(self, rows: Any) -> "Table":
        """Some rows, by index or by mask."""
        return replace(self, columns={name: column[rows] for name, column in self.columns.items()})


def checksum(*arrays: object) -> str:
    """SHA-256 of arrays: their kinds, shapes and values, in order."""
    return _checksum(arrays)


def _checksum(arrays: Iterable[object]) -> str:
    """Of one after the other, so that not all need be in memory."""
    digest = hashlib.sha256()
    for item in arrays:
        array = plain_array("an array", item)
        array = array.astype(str) if array.dtype.kind == "O" else array
        if array.dtype.kind in "SU":  # of the least width, so that equal text is equal
            array = np.array(array.tolist(), array.dtype.kind).reshape(array.shape)
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        if array.size:
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def from_values(values: list[Any]) -> Values:
    """A column of numbers if all values are numbers or missing, and text otherwise.

    Integers remain what they are if none is missing: as float64, two ids above 2^53 may be one.
    """
    values = [int(v) if isinstance(v, Decimal) and v.as_tuple().exponent == 0 else v for v in values]
    missing = [value is None or value != value for value in values]
    known = [value for value, gone in zip(values, missing, strict=True) if not gone]
    if all(isinstance(value, int | float | Decimal | np.number | np.bool_) for value in known):
        if (array := np.array(values)).dtype.kind in "iu":
            return array
        return np.array([np.nan if gone else float(value) for value, gone in zip(values, missing, strict=True)])
    return np.array(["" if gone else str(value) for value, gone in zip(values, missing, strict=True)])


def from_arrow(column: Any) -> Values:
    """`from_values` of an array of pyarrow, or of its chunks, without an object for each value where there is a way."""
    kind, holes = str(column.type), column.null_count
    if holes == len(column):
        return np.full(len(column), np.nan)
    whole = kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
    if whole and not holes:
        return _numbers_of(column, np.int64, lambda chunk: chunk)
    if whole or kind in ("float", "double", "halffloat"):
        return _numbers_of(column, np.float64, lambda chunk: chunk.cast("double", safe=False).fill_null(np.nan))
    if kind in ("string", "large_string"):
        coded = column.dictionary_encode()
        coded = coded.combine_chunks() if hasattr(coded, "combine_chunks") else coded
        coded = coded.chunk(0) if hasattr(coded, "chunk") else coded
        words = np.array([*coded.dictionary.to_pylist(), ""])
        return np.asarray(words[_numbers_of(coded.indices, np.int64, lambda chunk: chunk.fill_null(len(words) - 1))])
    return from_values(column.to_pylist())


def _numbers_of(column: Any, kind: type, without_holes: Callable[[Any], Any]) -> Reals:
    """Chunk by chunk; not by `to_numpy`, which imports pandas."""
    numbers: Reals = np.empty(len(column), kind)
    first = 0
    for chunk in getattr(column, "chunks", [column]):
        numbers[first : first + len(chunk)] = np.from_dlpack(without_holes(chunk))
        first += len(chunk)
    return numbers


# Columns as people have them.


def named_columns(table: Columns) -> Mapping[str, Any]:
    """The columns of a frame that speaks Arrow, as those of polars, pyarrow and DuckDB; any other table as it is."""
    if hasattr(table, "keys") or not hasattr(table, "__arrow_c_stream__"):
        return cast(Mapping[str, Any], table)
    arrow = require_package("pyarrow", "pyarrow", "parquet", f"a table of {type(table).__module__.partition('.')[0]}")
    whole = arrow.table(table)
    return Table({name: from_arrow(whole[name]) for name in whole.column_names}, "the table")


def plain_table(table: Columns, codes: Collection[str] = ()) -> Table:
    """The table with columns of numbers, nan where one is missing, and of text, "" where one is.

    codes: columns whose numbers are text, as of `plain_column`.
    """
    columns = named_columns(table).items()
    return Table({name: plain_column(name, column, name in codes) for name, column in columns}, "the table")


def plain_column(name: str, values: object, code: bool = False) -> Values:
    """A column as numbers with nan or as text with "" where a value is missing.

    code: whether its numbers are codes of categories, which are text; 3, 3.0 and "3.0" are one code.
    """
    column = plain_array(f"the column {name!r}", values)
    if column.dtype.kind == "O":
        column = from_values(column.tolist())
    elif column.dtype.kind not in "fiubU":
        column = np.where(missing(column), "", column.astype(str))
    return np.array([code_of(value) for value in column.tolist()], str) if code else column


def code_of(value: object) -> str:
    """The code of a category, in one way however it is written; "" of nan."""
    if not isinstance(value, str) or not _is_number(value):
        return _text_of(value)
    return str(int(value)) if re.fullmatch(r"[+-]?\d+", value) else _text_of(float(value))


def holes(column: Values) -> NDArray[np.bool_]:
    """Where a plain column holds nothing."""
    return np.asarray(column == "" if is_text(column) else column != column)


def complete_rows(table: Mapping[str, Any]) -> NDArray[np.bool_]:
    """The rows in which no column is missing."""
    whole: Any = True
    for name in table:  # of a stored table one column at a time
        whole = whole & ~holes(plain_column(name, table[name]))
    return np.asarray(whole)


class CellError(ValueError):
    """A value that cannot stand where it does. row: counted from 0; the message counts from 1. column: its name."""

    def __init__(self, row: int, said: str, rest: str = "", column: str = "") -> None:
        super().__init__(f"{said} in row {row + 1}{rest}")
        self.row, self.said, self.rest, self.column = row, said, rest, column

    def name_owner(self, whose: str) -> "CellError":
        """The same, with whose row it is."""
        return CellError(self.row, self.said, f" ({whose}){self.rest}", self.column)


@contextmanager
def name_rows(table: Mapping[str, Any], key: str | None, owners: Sequence[Any] | None = None) -> Iterator[None]:
    """What is refused of a row is told with its value in the column `key`, and with the client whose it is."""
    try:
        yield
    except CellError as error:
        row = error.row
        said = [] if key is None or key not in table else [f"{key} {_text_of(np.asarray(table[key])[row].item())}"]
        said += [] if owners is None else [f"client {owners[row]}"]
        raise error.name_owner(", ".join(said)) if said else error from None


MOST_NUMBERS = 0.8
"""The share of numbers among its texts from which on a column is one of numbers with something else in it."""


def refuse_odd_cells(table: Mapping[str, Any], codes: Collection[str]) -> None:
    """Refuse the first text in a column of numbers, which it would make one of categories, by its row and value."""
    for name in (name for name in table if name not in codes):
        column = plain_column(name, table[name])
        there = np.flatnonzero(~holes(column)).tolist() if is_text(column) else []
        odd = [row for row in there if not _is_number(column[row])]
        if odd and len(odd) <= (1 - MOST_NUMBERS) * len(there):
            number = f"{len(there) - len(odd)} of {len(there)} values are numbers"
            said = (
                f"the column {name!r} must hold numbers or categories: {number}, but there is {_quote(column, odd[0])}"
            )
            ways = "correct it, empty it if it is missing, or name the column in categories or in ignore"
            rest = f" of {len(column)}: {ways}"
            raise CellError(odd[0], said, rest, name)


def _quote(column: Values, row: int) -> str:
    return short(str(column[row]))


def refuse_twins(what: str, labels: Iterable[Any], owners: Mapping[str, Collection[object]] | None = None) -> None:
    """Refuse labels that differ by case or blanks alone, which are one label spelled in two ways.

    owners: for each client the labels that it has, where it is known.
    """
    seen: dict[str, str] = {}
    for label in (label for label in labels if isinstance(label, str)):
        first = seen.setdefault("".join(label.split()).casefold(), label)
        if first != label:
            both = " and ".join(f"{short(one)}{_owners_text(one, owners)}" for one in (first, label))
            raise ValueError(f"{what} must spell a label in one way, got {both}, which differ by case or blanks alone")


def _owners_text(label: str, owners: Mapping[str, Collection[object]] | None) -> str:
    having = [name for name, own in (owners or {}).items() if label in own]
    return f" ({', '.join(having[:3])}{', ...' if len(having) > 3 else ''})" if having else ""


def is_text(column: Values) -> bool:
    """Whether a plain column is one of text."""
    return column.dtype.kind == "U"


def column_of_kind(name: str, column: Values, text: bool) -> NDArray[Any]:
    """A plain column as text or as numbers, as it was when it was fitted.

    Numbers can be text, as where all codes of a table happen to be numbers: whole ones are written without a point.
    Text is no number; where all is missing a column can be either.
    """
    if missing(column).all():
        return np.full(len(column), "" if text else np.nan)
    if is_text(column) and not text:
        there = np.flatnonzero(column != "").tolist()
        row = next((i for i in there if not _is_number(column[i])), there[0])
        said = f"the column {name!r} must hold numbers, as when it was fitted, got text, {_quote(column, row)}"
        raise CellError(row, said, f" of {len(column)}")
    return column if is_text(column) == text else np.array([_text_of(value) for value in column.tolist()], str)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text_of(value: object) -> str:
    """As a file has it; "" of nan."""
    if value != value:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
