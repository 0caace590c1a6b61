"""What a site's own rules may be about, from its table."""

import numpy as np
from numpy.typing import NDArray

from ...data import Table
from ...data.encoder import is_text, plain_column
from ...deploy import SiteFacts
from ...validation import missing
from .recipe import TableRecipe


def facts_of(table: Table, recipe: TableRecipe) -> SiteFacts:
    """The rows that a site trains on, and how many of them its smallest class, group or category has."""
    return SiteFacts(table.rows, min([table.rows, *smallest_groups(table, recipe).values()]), recipe.goal)


def smallest_groups(table: Table, recipe: TableRecipe) -> dict[str, int]:
    """For the target's classes, for groups and for each column of text: the rows of its rarest value.

    An id counts as well, whose every value has one row: whether it is one is seen by all sites together. `ignore` in
    site.toml takes it out.
    """
    columns = {name: plain_column(name, table[name]) for name in table}
    named = {recipe.groups} if recipe.predicts_numbers else {recipe.groups, recipe.target}
    return {name: _smallest(column) for name, column in columns.items() if name in named or is_text(column)}


def _smallest(column: NDArray[np.generic]) -> int:
    """The rows of the rarest value of a column; a missing value is none."""
    counts = np.unique(column[~missing(column)], return_counts=True)[1]
    return int(counts.min()) if counts.size else 0
