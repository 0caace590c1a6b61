"""Tables and arrays from CSV, Parquet and .npz files."""

import csv
import io
import re
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import numpy as np

from ..arrays import Reals, Values
from ..storage import read_arrays
from ..validation import one_of, short
from .columns import Table, from_arrow, from_values, require_package

MISSING = frozenset({"", "?", "na", "n/a", "nan", "null"})
"""What a text file may write, in any case, where a value is missing."""
NONE = "none"
"""The same in a column of numbers. Among texts it is one of them: a patient who takes no drug."""

DELIMITERS = ",;\t|"


def read_csv(
    path: str | Path, *, delimiter: str | None = None, decimal: str | None = None, text: Collection[str] = ()
) -> Table:
    """A CSV file whose first line names the columns.

    delimiter: what is between columns; None finds it: of , ; tab and | the one that most often stands in the first
        line, and blanks where the file holds nothing but numbers. decimal: the decimal sign of numbers, "." or ",".
        None is ".", and also "," for a column that is not numeric otherwise, in a file whose columns a comma does not
        separate. text: the names of columns that are text, whatever they hold.
    A column is numbers if all its values that are not missing are, integers if they are and none is missing;
    otherwise it is text. Missing is an empty field, ?, NA, N/A, NaN or null, in any case, and None among numbers.
    path: the file.
    Returns: a `Table`.
    Raises: a ValueError that names the line, if rows have different lengths or a number is infinite.
    """
    _check_path(path)
    if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1):
        raise ValueError(f"delimiter must be one character, or None to find it, got {short(delimiter)}")
    if decimal not in (None, ".", ","):
        raise ValueError(f"decimal must be '.', ',' or None to find it, got {short(decimal)}")
    try:
        whole = Path(path).read_text(encoding="utf-8-sig")
        mark = _delimiter(whole) if delimiter is None else delimiter
        lines = [line for line in csv.reader(io.StringIO(whole, newline=""), delimiter=mark) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as a CSV file: {error}") from None
    if len(lines) < 2:
        raise ValueError(f"{path} must have a line of names and at least one row, got {len(lines)} lines")
    if len(lines[0]) == 1 and (likely := _delimiter(whole)) in lines[0][0] and likely != mark:
        raise ValueError(f"{path} has one column if {mark!r} is between columns, and more if {likely!r} is: give that")
    names, rows = [name.strip() for name in lines[0]], lines[1:]
    if double := [name for name, count in Counter(names).items() if count > 1]:
        several = ", ".join(map(repr, double))
        raise ValueError(f"{path} must have different names for its columns, got more than one {several}")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise ValueError(f"{path}, row {number}: {len(row)} values for {len(names)} columns")
    signs = (decimal,) if decimal else (".",) if mark == "," else (".", ",")
    kinds = [() if name in text else signs for name in names]
    return Table({name: _column([row[i] for row in rows], kinds[i]) for i, name in enumerate(names)}, str(path))


def read_npz(path: str | Path) -> dict[str, Values]:
    """The arrays of an .npz file; pickled objects are refused.

    path: the file.
    Returns: a dictionary from names to arrays.
    """
    _check_path(path)
    try:
        return read_arrays(path)
    except Exception as error:  # a missing, truncated or foreign file can fail in many ways
        raise ValueError(f"{path} cannot be read as an .npz file: {error}") from None


def read_npz_table(path: str | Path) -> Table:
    """The arrays of an .npz file as a table: one column for each array, or "name 0", "name 1", ... for a matrix.

    path: the file.
    Returns: a `Table`.
    """
    columns: dict[str, Values] = {}
    for name, array in read_npz(path).items():
        if array.ndim not in (1, 2):
            raise ValueError(f"{path}: the array {name!r} must be a column or a matrix, got shape {array.shape}")
        columns |= {name: array} if array.ndim == 1 else {f"{name} {i}": x for i, x in enumerate(array.T)}
    return Table(columns, str(path))


def read_parquet(path: str | Path) -> Table:
    """A Parquet file; needs pyarrow. Columns of numbers, decimals and truth values are numbers, all others are text.

    path: the file.
    Returns: a `Table`.
    """
    parquet = require_package("pyarrow.parquet", "pyarrow", "parquet", "a Parquet file")
    _check_path(path)
    try:
        table = parquet.read_table(path)
    except Exception as error:
        raise ValueError(f"{path} cannot be read as a Parquet file: {error}") from None
    return Table({name: from_arrow(table[name]) for name in table.column_names}, str(path))


def _check_path(path: object) -> None:
    """A number would be the descriptor of an open file, such as the screen, which is closed after reading."""
    if not isinstance(path, str | Path):
        raise TypeError(f"path must be the path of a file, got {short(path)}")


def _column(values: list[str], signs: tuple[str, ...]) -> Values:
    """Numbers with one of these decimal signs, or text."""
    stripped = ["" if value.strip().lower() in MISSING else value.strip() for value in values]
    known = [value if value.lower() != NONE else "" for value in stripped]
    for sign in signs if any(known) or not any(stripped) else ():
        with suppress(ValueError):
            return from_values([_number(value, sign) if value else None for value in known])
    return np.array(stripped)


def _delimiter(text: str) -> str:
    """What is between the columns of a file, by its first line."""
    head = [line for line in text.splitlines()[:2] if line.strip()]
    first = re.sub(r'"[^"]*"', "", head[0] if head else "")
    most = max(DELIMITERS, key=first.count)  # the first of equals
    if most in first or len(head) < 2:
        return most
    # Words in a name or in a text have blanks between them, too; numbers have not.
    numbers = len(head[1].split()) == len(first.split()) > 1 and _column(head[1].split(), (".",)).dtype.kind in "iuf"
    return " " if numbers else most


def _number(text: str, sign: str) -> int | float:
    if "_" in text or (sign == "," and "." in text):  # Python would read 1_1 as 11
        raise ValueError(text)
    text = text.replace(sign, ".")
    return int(text) if re.fullmatch(r"[+-]?\d{1,20}", text) else float(text)


# Any table by one name: a file by its ending, or one that comes with scikit-learn.


BUNDLED_TABLE = "bundled:"
"""Before the name of a table that comes with scikit-learn."""


def read_table(name: str, folder: Path, text: Collection[str] = ()) -> Table:
    """The table of this name: a file by its ending, from the folder or by its whole path, or "bundled:NAME".

    text: of a text file, the names of columns that are text, whatever they hold.
    """
    if name.startswith(BUNDLED_TABLE):
        return bundled_table(name.removeprefix(BUNDLED_TABLE))
    readers = {".csv": read_csv, ".tsv": read_csv, ".txt": read_csv, ".parquet": read_parquet, ".npz": read_npz_table}
    if (reader := readers.get(Path(name).suffix.lower())) is None:
        raise ValueError(f"table must be a file {', '.join(readers)} or {BUNDLED_TABLE}NAME, got {short(name)}")
    return read_csv(folder / name, text=text) if reader is read_csv else reader(folder / name)


# Data sets by name: those that come with scikit-learn, and OpenML's.


BUNDLED = ("breast_cancer", "diabetes", "digits", "wine")


def bundled(name: str) -> tuple[Reals, Reals]:
    """(X, y) of real data that comes with scikit-learn: breast_cancer, diabetes, digits or wine.

    name: one of `fx.data.BUNDLED`.
    """
    one_of("name", name, BUNDLED)
    datasets = require_package("sklearn.datasets", "scikit-learn", "estimators", "bundled data")
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return np.asarray(X, float), np.asarray(y)


def bundled_table(name: str) -> Table:
    """The same as a table with the names of its features, in the units in which they were measured, and "target".

    name: one of `fx.data.BUNDLED`.
    """
    one_of("name", name, BUNDLED)
    load = getattr(require_package("sklearn.datasets", "scikit-learn", "estimators", "bundled data"), f"load_{name}")
    loaded = load(scaled=False) if name == "diabetes" else load()
    columns = {str(key): np.asarray(x, float) for key, x in zip(loaded.feature_names, loaded.data.T, strict=True)}
    return Table(columns | {"target": np.asarray(loaded.target)}, name)


def openml(name: str, *, version: int = 1, checksum: str | None = None) -> Table:
    """A data set of OpenML by name and version, through scikit-learn; needs a network, or scikit-learn's cache.

    checksum: what `Table.checksum` was when the data was first seen; other data is refused. Without it, print the
    table's own and keep it.
    """
    datasets = require_package("sklearn.datasets", "scikit-learn", "estimators", "OpenML")
    try:
        fetched = datasets.fetch_openml(name, version=version, as_frame=False, parser="liac-arff")
    except Exception as error:  # no network, no such name, a broken cache
        raise ValueError(f"OpenML has not given {name!r}, version {version}: {' '.join(str(error).split())}") from None
    if not isinstance(fetched.data, np.ndarray):
        raise ValueError(f"OpenML {name!r}, version {version}, is sparse: only data of full columns can be read")
    categories = fetched.categories or {}
    columns = {}
    for key, column in zip(fetched.feature_names, np.asarray(fetched.data, object).T, strict=True):
        columns[key] = _name_categories(column, categories[key]) if key in categories else from_values(column.tolist())
    if fetched.target is not None:  # a data set may have no default target
        targets = np.asarray(fetched.target, object).reshape(len(fetched.data), -1).T
        columns |= {
            key: from_values(values.tolist()) for key, values in zip(fetched.target_names, targets, strict=True)
        }
    table = Table(columns, f"OpenML {name}")
    if checksum is not None and table.checksum != checksum:
        raise ValueError(f"OpenML {name!r}, version {version}, has checksum {table.checksum}, not {checksum}")
    return table


def _name_categories(codes: Values, names: list[str]) -> Values:
    """Names of categories from their numbers, which is how scikit-learn hands them out; nan is missing."""
    return np.array(["" if code is None or code != code else str(names[int(code)]) for code in codes])
