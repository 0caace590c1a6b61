"""Tables of columns from files, from scikit-learn's own data, and from OpenML."""

import csv
import hashlib
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..validation import hint, one_of, plain_array, refuse_masked, short

MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
"""What a text file may write, in any case, where a value is missing."""

BUNDLED = ("breast_cancer", "diabetes", "digits", "wine")


@dataclass(frozen=True, eq=False)
class Table(Mapping[str, NDArray[Any]]):
    """Named columns of equal length: integers, float64 with nan where one is missing, or text with "" where one is.

    Two tables are equal if they are the same object; compare their checksums.
    """

    columns: dict[str, NDArray[Any]]
    source: str

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
        return checksum(*(item for name, column in self.columns.items() for item in (np.array(name), column)))

    def without(self, *names: str) -> "Table":
        """The table without some columns, such as the target."""
        for name in names:
            self[name]
        return Table({name: column for name, column in self.columns.items() if name not in names}, self.source)

    def take(self, rows: Any) -> "Table":
        """Some rows, by index or by mask."""
        return Table({name: column[rows] for name, column in self.columns.items()}, self.source)


def bundled(name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """(X, y) of real data that comes with scikit-learn: breast_cancer, diabetes, digits or wine."""
    one_of("name", name, BUNDLED)
    datasets = _required("sklearn.datasets", "scikit-learn", "estimators", "bundled data")
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return np.asarray(X, float), np.asarray(y)


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
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except Exception as error:  # a missing, truncated or foreign file can fail in many ways
        raise ValueError(f"{path} cannot be read as an .npz file: {error}") from None


def read_parquet(path: str | Path) -> Table:
    """A Parquet file; needs pyarrow. Columns of numbers, decimals and truth values are numbers, all others are text."""
    parquet = _required("pyarrow.parquet", "pyarrow", "parquet", "a Parquet file")
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


def openml(name: str, *, version: int = 1, checksum: str | None = None) -> Table:
    """A data set of OpenML by name and version, through scikit-learn; needs a network, or scikit-learn's cache.

    checksum: what `Table.checksum` was when the data was first seen; other data is refused. Without it, print the
    table's own and keep it.
    """
    datasets = _required("sklearn.datasets", "scikit-learn", "estimators", "OpenML")
    try:
        found = datasets.fetch_openml(name, version=version, as_frame=False, parser="liac-arff")
    except Exception as error:  # no network, no such name, a broken cache
        raise ValueError(f"OpenML has not given {name!r}, version {version}: {' '.join(str(error).split())}") from None
    if not isinstance(found.data, np.ndarray):
        raise ValueError(f"OpenML {name!r}, version {version}, is sparse: only data of full columns can be read")
    categories = found.categories or {}
    columns = {}
    for key, column in zip(found.feature_names, np.asarray(found.data, object).T, strict=True):
        columns[key] = _decoded(column, categories[key]) if key in categories else from_values(column.tolist())
    if found.target is not None:  # a data set may have no default target
        targets = np.asarray(found.target, object).reshape(len(found.data), -1).T
        columns |= {key: from_values(values.tolist()) for key, values in zip(found.target_names, targets, strict=True)}
    table = Table(columns, f"OpenML {name}")
    if checksum is not None and table.checksum != checksum:
        raise ValueError(f"OpenML {name!r}, version {version}, has checksum {table.checksum}, not {checksum}")
    return table


def checksum(*arrays: Any) -> str:
    """SHA-256 of arrays: their kinds, shapes and values, in order."""
    digest = hashlib.sha256()
    for item in arrays:
        array = plain_array("an array", item)
        array = array.astype(str) if array.dtype.kind == "O" else array
        if array.dtype.kind in "SU":  # of the least width, so that equal text is equal
            array = np.array(array.tolist(), array.dtype.kind).reshape(array.shape)
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def from_values(values: list[Any]) -> NDArray[Any]:
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


def _decoded(codes: NDArray[Any], names: list[str]) -> NDArray[Any]:
    """Names of categories from their numbers, which is how scikit-learn hands them out; nan is missing."""
    return np.array(["" if code is None or code != code else str(names[int(code)]) for code in codes])


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


def _required(module: str, package: str, extra: str, purpose: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(f"{purpose} needs {package}: pip install 'fedualex[{extra}]'") from None
