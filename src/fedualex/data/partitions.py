"""Who holds which row: partitions of n rows among clients, each decided by its arguments and a seed."""

import numpy as np
from numpy.typing import NDArray

from ..accepted import Column, Number, Numbers, Whole
from ..arrays import Values
from ..validation import classes, encode_labels, positive, real_array, rows_of, short, whole_number

Owner = NDArray[np.int64]
"""For each row the number of its client, 0, 1, ...; every client has at least one row."""

TRIES = 1000


def iid(rows: Whole, clients: Whole, *, seed: Whole = 0) -> Owner:
    """Rows at random, all clients of equal size up to one row.

    rows, clients: how many there are. seed: decides which rows go where.
    Returns: the number of its client for each row.
    """
    rows, clients = _check_counts(rows, clients)
    return _random(seed).permutation(np.arange(rows) % clients)


def by_column(values: Column) -> Owner:
    """One client for each distinct value of a column, such as a hospital or a region, in sorted order.

    values: the column, one value for each row.
    Returns: the number of its client for each row.
    """
    return encode_labels("values", values)[1].astype(np.int64)


def dirichlet(labels: Column, clients: Whole, alpha: Number, *, seed: Whole = 0, least: Whole = 1) -> Owner:
    """For every class, shares of the clients from Dirichlet(alpha, ..., alpha): the smaller alpha, the less alike.

    Drawn again until every client has at least `least` rows.

    labels: the class of each row. clients: how many. seed: decides the shares and the rows.
    Returns: the number of its client for each row.
    """
    label = classes("labels", labels)[1]
    _, clients = _check_counts(label.size, clients)
    concentration = float(positive("alpha", alpha))
    if whole_number("least", least) * clients > label.size:
        raise ValueError(f"least must be from 1 to rows / clients = {label.size // clients}, got {least!r}")
    rng = _random(seed)
    for _ in range(TRIES):
        owner = np.empty(label.size, np.int64)
        for alike in rows_of(label):
            rows = rng.permutation(alike)
            cuts = np.cumsum(rng.dirichlet(np.full(clients, concentration)))[:-1] * rows.size
            owner[rows] = np.searchsorted(np.round(cuts), np.arange(rows.size), side="right")
        if np.bincount(owner, minlength=clients).min() >= least:
            return owner
    raise ValueError(
        f"alpha must be larger: no draw of {TRIES} with {alpha!r} gave each of {clients} clients {least} of "
        f"{label.size} rows"
    )


def by_size(rows: Whole, sizes: Numbers, *, seed: Whole = 0) -> Owner:
    """Rows at random, in numbers proportional to `sizes` up to one row, but at least one for each client.

    rows: how many there are. sizes: one number > 0 for each client. seed: decides which rows go where.
    Returns: the number of its client for each row.
    """
    share = real_array("sizes", sizes, "numbers > 0, one for each client")
    if share.ndim != 1 or np.any(share <= 0):
        raise ValueError(f"sizes must be numbers > 0, one for each client, got {short(sizes)}")
    rows, _ = _check_counts(rows, share.size)
    share = share / share.max()  # no sum overflows
    exact = rows * share / share.sum()
    counts = np.floor(exact).astype(int)
    counts[np.argsort(counts - exact, kind="stable")[: rows - counts.sum()]] += 1  # the largest remainders
    for client in np.flatnonzero(counts == 0):
        counts[np.argmax(counts)] -= 1
        counts[client] = 1
    return _random(seed).permutation(np.repeat(np.arange(share.size), counts))


def choose_held_out(labels: Values, share: object, classes: bool = True) -> NDArray[np.int64]:
    """The rows that one client holds out, from its labels alone: the share of its rows, and of each of its classes.

    Classes are labels of which each has ten rows on average; of several targets the first decides. What is too small to
    share stays with training. classes: whether labels may be classes; of counts the rare ones would all stay there.
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        raise ValueError(f"holdout must be a share of the rows, from 0 to below 1, got {short(share)}")
    names, label = encode_labels("the target", labels.reshape(len(labels), -1)[:, 0])
    groups = rows_of(label) if classes and 10 * len(names) <= len(labels) else [np.arange(len(labels))]
    rng = np.random.default_rng(0)
    return np.sort(np.concatenate([rng.permutation(rows)[: int(share * len(rows))] for rows in groups]))


def _random(seed: object) -> np.random.Generator:
    return np.random.default_rng(whole_number("seed", seed, 0))


def _check_counts(rows: object, clients: object) -> tuple[int, int]:
    rows, clients = whole_number("rows", rows), whole_number("clients", clients)
    if clients > rows:
        raise ValueError(f"clients must be at most the number of rows, {rows}, got {clients}")
    return rows, clients
