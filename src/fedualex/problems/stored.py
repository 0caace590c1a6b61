"""Rows that are read block by block, and the rows of clients as they are, which nobody copies."""

import hashlib
import os
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, NoReturn, TypeVar

import equinox as eqx
import numpy as np
from numpy.typing import NDArray

from ..arrays import Reals

BLOCK = 4096
"""Rows that are looked at together: their products stay in the cache."""


def slices(count: int, size: int = BLOCK) -> Iterator[slice]:
    """So many rows after the other."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


STRETCH = 16 * BLOCK
"""Rows that one thread looks at."""
T = TypeVar("T")
U = TypeVar("U")


def map_in_threads(work: Callable[[T], U], items: Sequence[T]) -> Iterator[U]:
    """work(item) of each item in their order, by as many threads as there are cores: numpy lets others compute.

    Only where BLAS was told to have one thread, as by the command line: its own beside these wait in loops.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = (os.cpu_count() or 1) if affinity is None else len(affinity(0))
    alone = "1" in (os.environ.get("OPENBLAS_NUM_THREADS"), os.environ.get("OMP_NUM_THREADS"))
    if not alone or min(cores, len(items)) < 2:
        yield from map(work, items)
        return
    contexts = [copy_context() for _ in items]
    with ThreadPoolExecutor(cores) as pool:
        yield from pool.map(lambda context, item: context.run(work, item), contexts, items)


class RowSource(ABC):
    """A matrix of which some rows are in memory at a time, as those of a file. A product with it reads all once."""

    shape: tuple[int, int]

    __array_ufunc__ = None
    """So that an array leaves its product with this to us."""

    @abstractmethod
    def __getitem__(self, part: slice) -> Reals:
        """These rows."""

    @property
    @abstractmethod
    def fingerprint(self) -> bytes:
        """What differs where the rows do."""

    def __len__(self) -> int:
        return self.shape[0]

    def __matmul__(self, other: Reals) -> Reals:
        return np.concatenate([self[part] @ other for part in slices(len(self))])

    def __rmatmul__(self, weights: Reals) -> Reals:  # type: ignore[misc]  # arrays leave it to us
        total = np.zeros((*weights.shape[:-1], self.shape[1]))
        for part in slices(len(self)):
            total += weights[..., part] @ self[part]
        return total

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"{self.shape[0]:,} rows that are read block by block cannot all be in memory at once")


class FileRows(RowSource):
    """Rows of float64 in a file of their own, which is there as long as they are."""

    def __init__(self, blocks: Iterable[Reals], columns: int):
        self._file, path = tempfile.mkstemp(prefix="fedualex-")
        os.unlink(path)  # it lives as long as it is open
        weakref.finalize(self, os.close, self._file)
        digest, rows = hashlib.sha256(), 0
        with open(self._file, "wb", closefd=False) as file:
            for block in blocks:
                written = np.ascontiguousarray(block, np.float64)
                file.write(written.data)
                digest.update(written.data)
                rows += len(written)
        self.shape, self._fingerprint = (rows, columns), digest.digest()

    def __getitem__(self, part: slice) -> Reals:
        start, stop, _ = part.indices(self.shape[0])
        rows = np.empty((max(stop - start, 0), self.shape[1]))
        # By its place, so that several threads may read at once.
        os.preadv(self._file, [rows.data.cast("B")] if rows.size else [], 8 * start * self.shape[1])
        return rows

    @property
    def fingerprint(self) -> bytes:
        """The hash of the file."""
        return self._fingerprint


class ChosenRows(RowSource):
    """Some rows of others, in their order."""

    def __init__(self, rows: RowSource, chosen: NDArray[np.intp]):
        self.rows, self.chosen, self.shape = rows, chosen, (len(chosen), rows.shape[1])

    def __getitem__(self, part: slice) -> Reals:
        own = self.chosen[part]
        first, end = (int(own[0]), int(own[-1]) + 1) if len(own) else (0, 0)
        return np.asarray(self.rows[first:end][own - first])

    @property
    def fingerprint(self) -> bytes:
        """Of the rows, and of which they are."""
        return self.rows.fingerprint + hashlib.sha256(np.ascontiguousarray(self.chosen).data).digest()


def chosen_rows(rows: Any, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Any:
    """Some rows of a matrix or, in rising order, of a source."""
    if not isinstance(rows, RowSource):
        return rows[chosen]
    kept: Any = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
    return ChosenRows(rows, kept)


class Held:
    """The examples of one client as they are. To jax this is no array, so that nothing of it is copied or placed."""

    def __init__(self, examples: Mapping[str, Any]):
        self.examples = examples

    @property
    def fingerprint(self) -> bytes:
        """A digest of all that the examples hold."""
        digest = hashlib.sha256()
        for name, part in self.examples.items():
            digest.update(name.encode())
            if isinstance(part, RowSource):
                digest.update(part.fingerprint)
                continue
            digest.update(f"{part.dtype}{part.shape}".encode())
            for some in slices(len(part)):
                digest.update(np.ascontiguousarray(part[some]).data)
        return digest.digest()


class HeldClients(eqx.Module):
    """What `Clients` is where rows are only looked at block by block, by numpy: nothing is stacked or padded."""

    each: tuple[Held, ...]
    counts: Any

    @classmethod
    def of_examples(cls, each: Sequence[Mapping[str, Any]], counts: NDArray[Any]) -> "HeldClients":
        """One mapping for each client, with so many examples."""
        return cls(tuple(map(Held, each)), counts)

    def client(self, m: int) -> Mapping[str, Any]:
        """The examples of client m."""
        return self.each[m].examples

    def of(self, m: int) -> "HeldClients":
        """Client m alone."""
        return HeldClients(self.each[m : m + 1], self.counts[m : m + 1])

    def shares(self) -> Reals:
        """One number for each example."""
        return np.broadcast_to(1.0, int(np.sum(self.counts)))

    @property
    def examples(self) -> Any:
        """Refused: it would be all rows at once, as jax wants them."""
        count = int(np.sum(self.counts))
        raise TypeError(f"{count:,} rows that are read block by block are surveyed by numpy alone: leave out method=")

    def weigh(self, weights: object) -> Any:
        """Refused likewise."""
        return self.examples

    def pool(self, weights: object) -> Any:
        """Refused likewise."""
        return self.examples

    def sampled(self, examples: int, rng: object) -> Any:
        """Refused likewise."""
        return self.examples
