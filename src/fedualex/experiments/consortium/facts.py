"""What a site's own rules may be about, from its table."""

import numpy as np
from numpy.typing import NDArray

from ...data import Table
from ...data.columns import is_text, plain_column
from ...deploy import SiteFacts
from ...validation import missing
from .recipe import TableRecipe


def facts_of(table: Table, recipe: TableRecipe) -> SiteFacts:
    """The rows that a site trains on, and how many of them its smallest class, group or category has."""
    columns = {name: plain_column(name, table[name]) for name in table}
    named = {recipe.groups} if recipe.predicts_numbers else {recipe.groups, recipe.target}
    counted = [column for name, column in columns.items() if name in named or is_text(column)]
    return SiteFacts(table.rows, min([table.rows, *map(_smallest, counted)]), recipe.goal)


def _smallest(column: NDArray[np.generic]) -> int:
    """The rows of the rarest value of a column; a missing value is none."""
    counts = np.unique(column[~missing(column)], return_counts=True)[1]
    return int(counts.min()) if counts.size else 0
