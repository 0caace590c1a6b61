"""Families of losses by their names."""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from ...validation import one_of
from ..readings import ClassReading, RankReading, Reading, RiskReading
from .base import Family, namespace
from .classes import ClassFamily, Logistic, Softmax
from .counts import Poisson
from .numbers import Absolute, Huber, LocationFamily, NumberFamily, Squared

__all__ = [
    "FAMILIES",
    "Absolute",
    "ClassFamily",
    "Family",
    "Huber",
    "LocationFamily",
    "Logistic",
    "NumberFamily",
    "Poisson",
    "Softmax",
    "Squared",
    "family_of",
    "namespace",
    "reading_of",
]

FAMILIES: dict[str, Callable[..., Family]] = {
    "logistic": Logistic,
    "multiclass": Softmax,
    "squared": Squared,
    "huber": Huber,
    "absolute": Absolute,
    "poisson": Poisson,
}
"""By name, as files and arguments have them. A family of one's own is one more entry."""


def family_of(argument: str, given: object, refused: tuple[str, ...] = (), **parameters: Any) -> Family:
    """The family of this name, with those of the parameters that it takes; a `Family` as it is.

    argument: how callers know it, for refusals. refused: names that the problem cannot have.
    """
    if isinstance(given, Family):
        return given
    name = one_of(argument, given, tuple(name for name in FAMILIES if name not in refused))
    kind = FAMILIES[name]
    taken = {key: value for key, value in parameters.items() if key in _parameters_of(kind)}
    return kind(**taken) if taken else _plain_family(kind)


@cache
def _parameters_of(kind: Callable[..., Family]) -> frozenset[str]:
    return frozenset(inspect.signature(kind).parameters)


@cache
def _plain_family(kind: Callable[..., Family]) -> Family:
    """One for all who ask, as it cannot be changed."""
    return kind()


def reading_of(name: str) -> Reading:
    """What the scores of a stored model mean, by its name in the file."""
    every = [ClassReading(), RankReading(), RiskReading(), *(family().reading for family in FAMILIES.values())]
    known = {reading.name: reading for reading in every}
    if name not in known:
        raise ValueError(f"the kind of a model's answers must be one of {', '.join(known)}, got {name!r}")
    return known[name]
