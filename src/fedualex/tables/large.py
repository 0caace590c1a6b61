"""Fits of tables that are larger than the memory: what such a fit needs, and the rows of each party in files."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..arrays import Values
from ..data import Table, iid
from ..data.partitions import choose_held_out
from ..data.stored import StoredTable, sort_rows
from ..runs.settings import ConfigurationError
from ..validation import encode_labels, rows_of
from .goals import GOALS, MEAN
from .recipe import TableRecipe


def check_large(recipe: TableRecipe, table: StoredTable) -> None:
    """Refuse, before anything long begins, what cannot be made of sums over blocks of rows."""
    size = f"{table.source} has {table.rows:,} rows of {len(table)} columns, which are read block by block"
    if GOALS[recipe.goal].structure is not MEAN or not isinstance(recipe.target, str):
        able = ", ".join(name for name, goal in GOALS.items() if goal.structure is MEAN)
        raise ConfigurationError(f"{size}: goals of so large a table are {able}, got {recipe.goal}")
    if recipe.penalties:
        chosen = " or ".join(recipe.penalties)
        raise ConfigurationError(f"{size}: give {chosen}, which is chosen only by folds of a table in memory")


def sort_by_party(
    table: StoredTable, recipe: TableRecipe, clients: str | int, holdout: float
) -> tuple[Values, Sequence[Table], Table | None, Values]:
    """The names of the parties, the rows that each trains on, the held-out rows of all, and whose these are.

    A row is where `Source.split` would have it.
    """
    if isinstance(clients, str):
        names, number = encode_labels(f"the column of clients {clients!r}", table[clients])
    else:
        names, number = np.arange(clients), iid(table.rows, clients).astype(np.int32)
    kept = table.without(*([clients] if isinstance(clients, str) and clients not in recipe.beside else []))
    recipe.check_columns(kept)
    labels, used, part = recipe.kinds(kept), recipe.used_rows(kept), np.full(table.rows, len(names) + 1, np.int32)
    lost = []
    for m, every in enumerate(rows_of(number)):
        rows = every[used[every]]
        if not len(rows):
            raise ConfigurationError(f"every row of {names[m]} misses a value, so that missing = drop leaves none")
        lost.append(len(every) - len(rows))
        part[rows] = m
        part[rows[choose_held_out(labels[rows], holdout, recipe.has_kinds)]] = len(names)
    *trained, held_out = sort_rows(kept, part, len(names) + 1)
    trained = [replace(own, dropped=count) for own, count in zip(trained, lost, strict=True)]
    return names, trained, held_out if held_out.rows else None, names[number[part == len(names)]]
