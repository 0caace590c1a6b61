"""A site's own table: which file it is, and how its columns are called elsewhere. Nobody else is told."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data import Table
from ...validation import hint, short
from ..configuration import read_toml
from ..fitting import read_table
from ..registry import ConfigurationError, check_keys
from ..tables import held_out_by
from .recipe import TableRecipe

SITE_FILE = "site.toml"
KEYS: Mapping[str, type] = {"table": str, "columns": dict, "ignore": list}
TEMPLATE = """# What this site alone knows. Nothing in this file is sent to anybody.

table = {table}      # your own file: .csv, .parquet or .npz, from this folder or by its whole path
ignore = []              # columns of it that take no part, such as ids

[columns]                # only where your table calls a column otherwise than the other sites do:
# {target} = "your name for it"
"""


@dataclass(frozen=True, eq=False)
class OwnTable:
    """The rows that a site trains on, and those that it holds out."""

    trained: Table
    held_out: Table | None

    @property
    def rows(self) -> int:
        """All of them."""
        return self.trained.rows + (0 if self.held_out is None else self.held_out.rows)


def read_own_table(party: Path, recipe: TableRecipe, holdout: float) -> OwnTable:
    """The table that a site's file names, with the columns' common names, split by the site's labels alone."""
    settings = _settings(party / SITE_FILE)
    table = _renamed(read_table(settings["table"], party), settings["columns"], settings["ignore"])
    for name in recipe.beside:
        if name not in table:
            where = f"name yours in [columns] of {SITE_FILE}"
            raise ConfigurationError(f"{table.source} has no column {name!r}, which all sites need: {where}")
    test = held_out_by(recipe.labels(table), holdout)
    train: NDArray[Any] = np.setdiff1d(np.arange(table.rows), test)
    return OwnTable(table.take(train), table.take(test) if len(test) else None)


def _settings(file: Path) -> dict[str, Any]:
    given = read_toml(file)
    check_keys(SITE_FILE, given, KEYS)
    if not given.get("table"):
        raise ConfigurationError(f'{file} must name this site\'s table, as table = "patients.csv"')
    for key, value in given.items():
        if not isinstance(value, KEYS[key]):
            raise ConfigurationError(f"{file}: {key} must be a {KEYS[key].__name__}, got {short(value)}")
    return {"columns": {}, "ignore": [], **given}


def _renamed(table: Table, names: Mapping[str, Any], ignored: list[Any]) -> Table:
    """The table without some columns, the others by their common names."""
    for own in (*names.values(), *ignored):
        if own not in table:
            raise ConfigurationError(
                f"{table.source} has no column {short(own)}, which {SITE_FILE} names; {hint(own, table)}"
            )
    common = {own: name for name, own in names.items()}
    kept = [name for name in table if name not in ignored]
    called = [common.get(name, name) for name in kept]
    if len(set(called)) < len(called):
        raise ConfigurationError(
            f"{SITE_FILE} must give different names to different columns, got {short(dict(names))}"
        )
    return Table({common.get(name, name): table[name] for name in kept}, table.source)
