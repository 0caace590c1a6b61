"""Limits of the mean losses of groups: which rows are whose, which limits are refused, and what is said of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Reals
from ..problems.constrained import SLIGHT, numbers_by_name
from ..runs.settings import ConfigurationError
from ..validation import short

OTHERS = "all others"
"""The group of the rows whose group has no limit."""


def limited_labels(column: NDArray[Any], limits: Mapping[str, float]) -> NDArray[Any]:
    """For each row the name by which its group is limited."""
    labels, number = np.unique(column, return_inverse=True)
    names, kept = numbers_by_name(labels), [OTHERS] * len(labels)
    for name in limits:
        for at in names.get(name, ()):
            kept[at] = name
    return np.array(kept)[number]


def check_limited(
    column: str, limits: Mapping[str, float], groups: NDArray[Any], rows: NDArray[Any], least: int
) -> None:
    """Refuse limits of groups that do not exist, or that have fewer than `least` rows to train on.

    groups, rows: the values of the column at all parties, and how many rows each has.
    """
    names, taken = numbers_by_name(groups), dict[int, str]()
    for name in limits:
        if len(at := names.get(name, [])) != 1:
            raise ConfigurationError(f"limit must name a value of {column!r}, {short(groups.tolist())}, got {name!r}")
        if at[0] in taken:
            raise ConfigurationError(f"limit must name every group once, got {taken[at[0]]!r} and {name!r}")
        taken[at[0]] = name
        if (count := round(float(rows[at[0]]))) < least:
            raise ConfigurationError(
                f"limit: {name!r} of {column!r} has {count} rows to train on, and what fewer than {least} lose is "
                "chance: leave it out, or choose another least_rows"
            )


def describe_limits(column: str, limits: Mapping[str, float], timed: bool = False) -> str:
    """Which losses are limited, in a sentence. timed: whether limits are shares, as of times to an event."""
    told = ", ".join(f"{column} = {name} to {limit:g}" for name, limit in limits.items())
    if timed:
        return f"the loss of these groups is limited to a share of what it is without a model: {told}"
    return f"the mean loss of these groups is limited: {told}"


def describe_reached(column: str, limits: Mapping[str, float], excess: Reals, timed: bool) -> str:
    """What limited groups lose on the rows that a model was fitted to, in a sentence.

    excess: by how much that is above each limit, groups in sorted order.
    """
    each = zip(sorted(limits), excess.tolist(), strict=True)
    told = ", ".join(f"{column} = {name} {limits[name] + over:.4g} (at most {limits[name]:g})" for name, over in each)
    what = "Limited shares of the loss without a model" if timed else "Limited losses"
    return f"{what}, on the rows that the model was fitted to: {told}."


def describe_unmet(column: str, limits: Mapping[str, float], excess: Reals) -> str:
    """Which limits an answer exceeds by more than rounding, in a sentence; empty where it exceeds none."""
    each = zip(sorted(limits), excess.tolist(), strict=True)
    over = [f"that of {column} = {name} is exceeded by {by:.2g}" for name, by in each if by > SLIGHT * limits[name]]
    if not over:
        return ""
    return f"Limits are not met on the rows that the model was fitted to: {', '.join(over)}."
