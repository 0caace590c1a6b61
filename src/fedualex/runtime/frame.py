"""Columns of a history as a table of pandas."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.optional import required


def frame_of(history: Mapping[str, NDArray[Any]]) -> Any:
    """A pandas.DataFrame with one row for each record, NaN where there is no number."""
    pandas = required("pandas", "pandas", "pandas", "to_frame()")
    found: dict[str, NDArray[Any]] = {}
    for name, column in history.items():
        found |= numeric(name, column)
    return pandas.DataFrame(found)


def numeric(name: str, column: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """A column as numbers: as it is, with NaN for None, or one for each spectral block."""
    if column.ndim == 1 and column.dtype != object:
        return {name: column}
    blocks = max((len(value) for value in column if isinstance(value, tuple | list | np.ndarray)), default=0)
    if not blocks:
        return {name: np.array([np.nan if value is None else value for value in column], float)}
    whole = np.array([[np.nan] * blocks if value is None else value for value in column], float)
    return {f"{name}_{block}": whole[:, block] for block in range(blocks)}
