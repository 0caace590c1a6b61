"""When rounds in float32 continue in float64: once their rounding is no longer far below their noise."""

import math
from collections.abc import Callable
from dataclasses import replace

import jax
import numpy as np

from .. import tree
from .rounds import advance
from .sharding import local
from .state import Setup, State

SHARE = 1 / 128
"""Of the noise of a round that its rounding may have: rounding is no noise, it has a mean, and its errors add up."""
SPACING = 16
"""A run is looked at after so many rounds, and when it is so many times as long as at the last look."""
ELSEWHERE = 2**30
"""Rounds that no run reaches: their noise is other noise."""

Wider = Callable[[], Setup]
"""What float64 rounds of the same run are computed with."""


def is_due(before: int, after: int) -> bool:
    """Whether a run that went from one number of rounds to another is to be looked at: at SPACING, SPACING^2, ..."""
    return _powers(after) > _powers(before)


def _powers(rounds: int) -> int:
    return int(math.log(rounds + 0.5, SPACING)) if rounds else 0


def rounding_shows(setup: Setup, state: State) -> bool:
    """Whether the rounding of the server's state in a round is above SHARE of what the noise of the round makes of it.

    A dual state grows with the rounds and its increments do not, so that its rounding, eps |server| / 4 in the mean,
    comes near the noise at last. The noise is half the squared difference of two rounds that begin alike.
    """
    elsewhere = replace(state, round=np.asarray(int(state.round) + ELSEWHERE, np.asarray(state.round).dtype))
    one, other = (
        _numbers(local(setup.mesh, advance(setup, start, np.asarray(1))).server) for start in (state, elsewhere)
    )
    noise = math.sqrt(sum(float(np.sum((u - v) ** 2)) for u, v in zip(one, other, strict=True)) / 2)
    size = math.sqrt(sum(float(np.sum(u**2)) for u in one))
    return float(np.finfo(setup.weights.dtype).eps) * size / 4 > SHARE * noise


def _numbers(server: tree.Tree) -> list[np.ndarray]:
    """The floating numbers of a state, in float64."""
    return [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(server) if tree.is_floating(leaf)]
