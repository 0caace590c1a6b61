"""Who holds which row: partitions of n rows among clients, each decided by its arguments and a seed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..validation import positive, real_array, short, whole_number

Owner = NDArray[np.int64]
"""For each row the number of its client, 0, 1, ...; every client has at least one row."""

TRIES = 1000


def iid(rows: int, clients: int, *, seed: int = 0) -> Owner:
    """Rows at random, all clients of equal size up to one row."""
    _check(rows, clients)
    return np.random.default_rng(seed).permutation(np.arange(rows) % clients)


def by_column(values: Any) -> Owner:
    """One client for each distinct value of a column, such as a hospital or a region, in sorted order."""
    column = np.asarray(values)
    if column.ndim != 1 or column.size == 0:
        raise ValueError(f"values must be one column, got shape {column.shape}")
    if np.any(column != column) or (column.dtype.kind in "US" and np.any(column == "")):
        raise ValueError("values must not be missing: every row needs an owner")
    return np.asarray(np.unique(column, return_inverse=True)[1], np.int64)


def dirichlet(labels: Any, clients: int, alpha: float, *, seed: int = 0, least: int = 1) -> Owner:
    """For every label, shares of the clients from Dirichlet(alpha, ..., alpha): the smaller alpha, the less alike.

    Drawn again until every client has at least `least` rows.
    """
    label = by_column(labels)
    _check(label.size, clients)
    concentration = float(positive("alpha", alpha))
    if least < 1 or least * clients > label.size:
        raise ValueError(f"least must be from 1 to rows / clients = {label.size // clients}, got {least!r}")
    rng = np.random.default_rng(seed)
    for _ in range(TRIES):
        owner = np.empty(label.size, np.int64)
        for c in range(label.max() + 1):
            rows = rng.permutation(np.flatnonzero(label == c))
            cuts = np.cumsum(rng.dirichlet(np.full(clients, concentration)))[:-1] * rows.size
            owner[rows] = np.searchsorted(np.round(cuts), np.arange(rows.size), side="right")
        if np.bincount(owner, minlength=clients).min() >= least:
            return owner
    raise ValueError(
        f"alpha must be larger: no draw of {TRIES} with {alpha!r} gave each of {clients} clients {least} of "
        f"{label.size} rows"
    )


def by_size(rows: int, sizes: Any, *, seed: int = 0) -> Owner:
    """Rows at random, in numbers proportional to `sizes`, at least one for each client."""
    share = real_array("sizes", sizes, "numbers > 0, one for each client")
    if share.ndim != 1 or np.any(share <= 0):
        raise ValueError(f"sizes must be numbers > 0, one for each client, got {short(sizes)}")
    _check(rows, share.size)
    exact = share / share.sum() * (rows - share.size)
    counts = np.floor(exact).astype(int)
    largest = np.argsort(-(exact - counts), kind="stable")[: rows - share.size - counts.sum()]
    counts[largest] += 1
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(share.size), counts + 1))


def _check(rows: Any, clients: Any) -> None:
    if whole_number("clients", clients) > whole_number("rows", rows):
        raise ValueError(f"clients must be at most the number of rows, {rows}, got {clients}")
