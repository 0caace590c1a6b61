"""Columns as people have them: as numbers or as text, with holes; and what is refused of them, by row and value."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..validation import missing, plain_array, short
from .tables import Table, from_values


def plain_table(table: Mapping[str, Any], codes: Collection[str] = ()) -> Table:
    """The table with columns of numbers, nan where one is missing, and of text, "" where one is.

    codes: columns whose numbers are text, as of `plain_column`.
    """
    return Table({name: plain_column(name, column, name in codes) for name, column in table.items()}, "the table")


def plain_column(name: str, values: object, code: bool = False) -> NDArray[Any]:
    """A column as numbers with nan or as text with "" where a value is missing.

    code: whether its numbers are codes of categories, which are text; 3, 3.0 and "3.0" are one code.
    """
    column = plain_array(f"the column {name!r}", values)
    if column.dtype.kind == "O":
        column = from_values(column.tolist())
    elif column.dtype.kind not in "fiubU":
        column = np.where(missing(column), "", column.astype(str))
    return np.array([code_of(value) for value in column.tolist()], str) if code else column


def code_of(value: Any) -> str:
    """The code of a category, in one way however it is written; "" of nan."""
    if not isinstance(value, str) or not _is_number(value):
        return _text_of(value)
    return str(int(value)) if re.fullmatch(r"[+-]?\d+", value) else _text_of(float(value))


def holes(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a plain column holds nothing."""
    return np.asarray(column == "" if is_text(column) else column != column)


def complete_rows(table: Mapping[str, Any]) -> NDArray[np.bool_]:
    """The rows in which no column is missing."""
    return ~np.any([holes(plain_column(name, column)) for name, column in table.items()], axis=0)


class CellError(ValueError):
    """A value that cannot stand where it does. row: counted from 0; the message counts from 1."""

    def __init__(self, row: int, said: str, rest: str = "") -> None:
        super().__init__(f"{said} in row {row + 1}{rest}")
        self.row, self.said, self.rest = row, said, rest

    def named(self, whose: str) -> "CellError":
        """The same, with whose row it is."""
        return CellError(self.row, self.said, f" ({whose}){self.rest}")


@contextmanager
def naming_rows(table: Mapping[str, Any], key: str | None, owners: Sequence[Any] | None = None) -> Iterator[None]:
    """What is refused of a row is told with its value in the column `key`, and with the client whose it is."""
    try:
        yield
    except CellError as error:
        row = error.row
        said = [] if key is None or key not in table else [f"{key} {_text_of(np.asarray(table[key])[row].item())}"]
        said += [] if owners is None else [f"client {owners[row]}"]
        raise error.named(", ".join(said)) if said else error from None


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
                f"the column {name!r} must hold numbers or categories: {number}, but there is {_shown(column, odd[0])}"
            )
            ways = "correct it, empty it if it is missing, or name the column in categories or in ignore"
            rest = f" of {len(column)}: {ways}"
            raise CellError(odd[0], said, rest)


def _shown(column: NDArray[Any], row: int) -> str:
    return short(str(column[row]))


def refuse_twins(what: str, labels: Iterable[Any], owners: Mapping[str, Collection[str]] | None = None) -> None:
    """Refuse labels that differ by case or blanks alone, which are one label spelled in two ways.

    owners: for each client the labels that it has, where it is known.
    """
    seen: dict[str, str] = {}
    for label in (label for label in labels if isinstance(label, str)):
        first = seen.setdefault("".join(label.split()).casefold(), label)
        if first != label:
            both = " and ".join(f"{short(one)}{_owned(one, owners)}" for one in (first, label))
            raise ValueError(f"{what} must spell a label in one way, got {both}, which differ by case or blanks alone")


def _owned(label: str, owners: Mapping[str, Collection[str]] | None) -> str:
    having = [name for name, own in (owners or {}).items() if label in own]
    return f" ({', '.join(having[:3])}{', ...' if len(having) > 3 else ''})" if having else ""


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
        said = f"the column {name!r} must hold numbers, as when it was fitted, got text, {_shown(column, row)}"
        raise CellError(row, said, f" of {len(column)}")
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
