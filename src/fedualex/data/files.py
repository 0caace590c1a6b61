"""Tables and arrays from CSV, Parquet and .npz files."""

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import read_arrays
from ..validation import short
from .optional import required
from .tables import Table, from_values

MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
"""What a text file may write, in any case, where a value is missing."""


def read_csv(path: str | Path, *, delimiter: str = ",") -> Table:
    """A CSV file whose first line names the columns.

    A column is numbers if all its values that are not missing are, integers if they are and none is missing;
    otherwise it is text. Missing is an empty field, ?, NA, N/A, NaN, null or None, in any case.
    """
    _check_path(path)
    try:
        with open(path, newline="", encoding="utf-8-sig") as stream:
            lines = [line for line in csv.reader(stream, delimiter=delimiter) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as a CSV file: {error}") from None
    if len(lines) < 2:
        raise ValueError(f"{path} must have a line of names and at least one row, got {len(lines)} lines")
    if other := _other_delimiter(lines, delimiter):
        raise ValueError(
            f"{path} has one column if {delimiter!r} is between columns; {other!r} seems to be: save the file with "
            f"commas, or read it with fx.data.read_csv(path, delimiter={other!r})"
        )
    names, rows = [name.strip() for name in lines[0]], lines[1:]
    if len(set(names)) < len(names):
        raise ValueError(f"{path} must have different names for its columns, got {short(names)}")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise ValueError(f"{path}, row {number}: {len(row)} values for {len(names)} columns")
    return Table({name: _column([row[i] for row in rows]) for i, name in enumerate(names)}, str(path))


def read_npz(path: str | Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file; pickled objects are refused."""
    _check_path(path)
    try:
        return read_arrays(path)
    except Exception as error:  # a missing, truncated or foreign file can fail in many ways
        raise ValueError(f"{path} cannot be read as an .npz file: {error}") from None


def read_parquet(path: str | Path) -> Table:
    """A Parquet file; needs pyarrow. Columns of numbers, decimals and truth values are numbers, all others are text."""
    parquet = required("pyarrow.parquet", "pyarrow", "parquet", "a Parquet file")
    _check_path(path)
    try:
        table = parquet.read_table(path)
    except Exception as error:
        raise ValueError(f"{path} cannot be read as a Parquet file: {error}") from None
    return Table({name: from_values(table[name].to_pylist()) for name in table.column_names}, str(path))


def _check_path(path: Any) -> None:
    """A number would be the descriptor of an open file, such as the screen, which is closed after reading."""
    if not isinstance(path, str | Path):
        raise TypeError(f"path must be the path of a file, got {short(path)}")


def _column(values: list[str]) -> NDArray[Any]:
    stripped = ["" if value.strip().lower() in MISSING else value.strip() for value in values]
    try:
        return from_values([_number(value) if value else None for value in stripped])
    except ValueError:
        return np.array(stripped)


def _other_delimiter(lines: list[list[str]], delimiter: str) -> str | None:
    """What is between the columns of a file that was read as one, if something is."""
    header, first = lines[0][0], lines[1][0]
    if len(lines[0]) > 1:
        return None
    if found := [mark for mark in ",;\t|" if mark != delimiter and mark in header]:
        return found[0]
    # Words in a name or in a text have blanks between them, too; numbers have not.
    numbers = len(first.split()) == len(header.split()) > 1 and _column(first.split()).dtype.kind in "iuf"
    return " " if numbers else None


def _number(text: str) -> int | float:
    if "_" in text:  # Python would read 1_1 as 11
        raise ValueError(text)
    return int(text) if re.fullmatch(r"[+-]?\d{1,20}", text) else float(text)
