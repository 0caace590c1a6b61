"""Tables larger than the memory: a column, or some rows of all columns, are read at a time."""

import os
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Values
from .columns import Table, from_arrow, plain_column, require_package
from .files import read_table

LARGE = 2**26
"""Numbers in a Parquet file from which on it is not read at once."""
STRETCH = 2**14
"""Rows of all columns that are in memory at a time."""
AT_ONCE = 2**16
"""Rows of a Parquet file that are sorted by whose they are at a time."""
KINDS = {"halffloat": np.float32, "float": np.float32, "int8": np.int8, "uint8": np.int16, "int16": np.int16}
KINDS |= {"uint16": np.int32, "int32": np.int32, "uint32": np.int64, "int64": np.int64}
"""The narrowest type that holds each of Arrow's types as it is, where that is not float64."""
WORDS = 2**16
"""Different texts in a column, at most."""


class StoredColumn(ABC):
    """A column somewhere else."""

    count: int

    @abstractmethod
    def read(self, part: slice = slice(None)) -> Values:
        """These rows of it."""

    def __len__(self) -> int:
        return self.count


class StoredColumns(Mapping[str, Values]):
    """Columns by name, each of which is read when it is asked for."""

    def __init__(self, stored: Mapping[str, StoredColumn]):
        self.stored = dict(stored)

    def __getitem__(self, name: str) -> Values:
        return self.stored[name].read()

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    def __contains__(self, name: object) -> bool:  # a Mapping's would read it
        return name in self.stored


@dataclass(frozen=True, eq=False)
class StoredTable(Table):
    """A table whose `columns` are `StoredColumns`: what is asked of it is as of others, a column at a time."""

    columns: Any

    def __post_init__(self) -> None:
        """Columns are checked when they are read."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.columns.stored.values())))

    def without(self, *names: str) -> "StoredTable":
        """The table without some columns."""
        kept = {name: column for name, column in self.columns.stored.items() if name not in names}
        return replace(self, columns=StoredColumns(kept))

    def take(self, rows: Any) -> Table:
        """Successive rows, in memory; others, by mask or by rising index, as a table that is stored as well."""
        if isinstance(rows, slice):
            return Table({name: column.read(rows) for name, column in self.columns.stored.items()}, self.source)
        chosen = np.flatnonzero(rows) if rows.dtype == bool else rows
        return replace(self, columns=StoredColumns({n: _Chosen(c, chosen) for n, c in self.columns.stored.items()}))

    def blocks(self) -> Iterator[Table]:
        """All rows, in memory one block after the other."""
        return (self.take(slice(first, first + STRETCH)) for first in range(0, self.rows, STRETCH))

    def read_as_codes(self, names: tuple[str, ...]) -> "StoredTable":
        """The table in which the numbers of these columns are texts."""
        stored = self.columns.stored
        coded = {name: _Coded(name, stored[name]) for name in names if name in stored}
        return replace(self, columns=StoredColumns({**stored, **coded}))


class _Chosen(StoredColumn):
    """Some rows of a column, in their order."""

    def __init__(self, column: StoredColumn, rows: NDArray[np.intp]):
        self.column, self.chosen, self.count = column, rows, len(rows)

    def read(self, part: slice = slice(None)) -> Values:
        own = self.chosen[part]
        first, end = (int(own[0]), int(own[-1]) + 1) if len(own) else (0, 0)
        return self.column.read(slice(first, end))[own - first]


class _Coded(StoredColumn):
    """A column of numbers that are codes of categories."""

    def __init__(self, name: str, column: StoredColumn):
        self.name, self.column, self.count = name, column, len(column)

    def read(self, part: slice = slice(None)) -> Values:
        values, number = np.unique(self.column.read(part), return_inverse=True)
        return plain_column(self.name, values, code=True)[number]


# A Parquet file.


def open_table(name: str, folder: Path) -> Table:
    """The table of this name as `read_table` has it; a large Parquet file is opened only."""
    if Path(name).suffix.lower() != ".parquet" or not (folder / name).is_file():
        return read_table(name, folder)
    parquet = require_package("pyarrow.parquet", "pyarrow", "parquet", "a Parquet file")
    try:
        file = parquet.ParquetFile(folder / name)
    except Exception as error:
        raise ValueError(f"{folder / name} cannot be read as a Parquet file: {error}") from None
    if file.metadata.num_rows * file.metadata.num_columns <= LARGE:
        return read_table(name, folder)
    columns = {column: _ParquetColumn(file, column) for column in file.schema_arrow.names}
    return StoredTable(StoredColumns(columns), str(folder / name))


class _ParquetColumn(StoredColumn):
    def __init__(self, file: Any, name: str):
        self.file, self.name, self.count = file, name, file.metadata.num_rows

    def read(self, part: slice = slice(None)) -> Values:
        column = from_arrow(self.file.read([self.name]).column(self.name))
        if column.dtype.kind == "f" and np.any(np.isinf(column)):
            raise ValueError(f"the column {self.name!r} must hold finite numbers, got an infinite one")
        return column[part]

    @cached_property
    def words(self) -> Values | None:
        """The texts that there are; None of a column of numbers."""
        whole = self.file.read([self.name]).column(self.name)
        if from_arrow(whole[:1]).dtype.kind != "U" or whole.null_count == len(whole):
            return None
        words = np.unique(from_arrow(whole.unique()))
        if len(words) > WORDS:
            many = f"{len(words):,} different texts, more than a table of this size may have"
            raise ValueError(f"the column {self.name!r} holds {many}: name it in ignore")
        return np.union1d(words, [""])

    @cached_property
    def kind(self) -> "np.dtype[np.generic]":
        """The narrowest type that holds it as it is."""
        if self.words is not None:
            return np.dtype(np.int32)
        own = np.dtype(KINDS.get(str(self.file.schema_arrow.field(self.name).type), np.float64))
        holes = own.kind == "i" and self.file.read([self.name]).column(self.name).null_count > 0
        return np.dtype(np.float64) if holes else own


# Its rows once more, by whose they are.


class _Folder:
    """A temporary folder that is there as long as a column of it is."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="fedualex-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class _FileColumn(StoredColumn):
    """Successive numbers of a file, or texts by their numbers."""

    def __init__(
        self, place: tuple[_Folder, Path], kind: "np.dtype[np.generic]", first: int, count: int, words: Values | None
    ):
        self.folder, self.file = place
        self.kind, self.first, self.count, self.words = kind, first, count, words

    def read(self, part: slice = slice(None)) -> Values:
        start, stop, _ = part.indices(self.count)
        offset = (self.first + start) * self.kind.itemsize
        numbers = np.fromfile(self.file, self.kind, max(stop - start, 0), offset=offset)
        if self.words is not None:
            return np.asarray(self.words[numbers])
        wide = {"f": np.float64, "i": np.int64}.get(self.kind.kind)
        return numbers if wide is None else numbers.astype(wide, copy=False)


def sort_rows(table: StoredTable, part: NDArray[np.integer], parts: int) -> list[StoredTable]:
    """The rows of a Parquet file by the number of the part that each belongs to; those of other numbers are left out.

    They are written once into a temporary folder, of as many bytes as the file has numbers.
    """
    columns: dict[str, _ParquetColumn] = table.columns.stored
    room_for(sum(column.kind.itemsize for column in columns.values()) * table.rows)
    folder = _Folder()
    counts = np.bincount(part, minlength=parts)[:parts]
    starts = np.cumsum(counts) - counts
    paths = {name: folder.path / str(i) for i, name in enumerate(columns)}
    _write_columns(columns, paths, part, starts)
    return [
        replace(
            table,
            columns=StoredColumns(
                {
                    name: _FileColumn((folder, paths[name]), column.kind, int(start), int(count), column.words)
                    for name, column in columns.items()
                }
            ),
        )
        for start, count in zip(starts, counts, strict=True)
    ]


def _write_columns(
    columns: Mapping[str, _ParquetColumn],
    paths: Mapping[str, Path],
    part: NDArray[np.integer],
    starts: NDArray[np.integer],
) -> None:
    next_row, first = starts.copy(), 0
    with ExitStack() as stack:
        files = {name: stack.enter_context(open(path, "wb")) for name, path in paths.items()}
        for batch in _batches(next(iter(columns.values())).file, list(columns)):
            own = part[first : first + batch.num_rows]
            order = np.argsort(own, kind="stable")
            ends = np.cumsum(np.bincount(own, minlength=len(starts))[: len(starts)])
            for name, column in columns.items():
                values = _as_stored(batch.column(name), column)[order]
                for begin, end, row in zip(np.append(0, ends), ends, next_row, strict=False):
                    os.pwrite(files[name].fileno(), values[begin:end].tobytes(), int(row) * column.kind.itemsize)
            next_row += np.diff(ends, prepend=0)
            first += batch.num_rows


def _batches(file: Any, columns: list[str]) -> Iterator[Any]:
    """Row group by row group: of the whole file pyarrow keeps all that it has read."""
    for group in range(file.metadata.num_row_groups):
        yield from file.iter_batches(AT_ONCE, row_groups=[group], columns=columns)


def _as_stored(values: Any, column: _ParquetColumn) -> Values:
    """Texts as their numbers among the words."""
    plain = from_arrow(values)
    if plain.dtype.kind == "f" and np.any(np.isinf(plain)):
        raise ValueError(f"the column {column.name!r} must hold finite numbers, got an infinite one")
    if column.words is None:
        return plain.astype(column.kind, copy=False)
    if plain.dtype.kind != "U":  # none is there in this batch
        return np.zeros(len(plain), column.kind)
    texts, number = np.unique(plain, return_inverse=True)
    return np.searchsorted(column.words, texts).astype(column.kind)[number]


def room_for(size: int, folder: Path | None = None) -> None:
    """Refuse to begin where the temporary folder has less room than this many bytes."""
    place = Path(tempfile.gettempdir()) if folder is None else folder
    if (free := shutil.disk_usage(place).free) < size:
        need = f"{size / 2**30:.1f} GiB for the rows of the table, and has {free / 2**30:.1f}"
        raise ValueError(f"the temporary folder {place} needs {need}: name another one in TMPDIR")
