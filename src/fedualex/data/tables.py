"""A table of named columns, and the checksum of what it holds."""

import hashlib
import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..validation import hint, plain_array, refuse_masked, short

# Packages that only some sources of data need.


def required(module: str, package: str, extra: str, purpose: str) -> Any:
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

    columns: dict[str, NDArray[Any]]
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
        return checksum(*(item for name, column in self.columns.items() for item in (np.array(name), column)))

    def pick(self, names: str | Sequence[str]) -> NDArray[Any]:
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
