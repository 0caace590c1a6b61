"""Bounds of the optimal value from single surveys and from the dual cuts of single steps, all on vectors."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, by_numpy
from ..bundle import Bounds, Flat, KnownFloor, Side, lower_value, upper_value
from ..certificates.surveys import Surveyed
from ..searches import maximize_on_section
from ..tree import Saddle, Tree, Vector

ENOUGH = 1e-6
"""Up to which share of the gap the share of a floor in a bound is sought."""


def entries_of(z: Tree) -> NDArray[np.float64]:
    """All entries of a point, x first: without a program of jax, which would have to be compiled."""
    return np.concatenate([np.ravel(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(z)])


def point_of(flat: Flat, v: Vector) -> Saddle:
    """The point that has these entries, likewise."""
    point: Saddle = jax.tree.map(lambda leaf: np.asarray(leaf[0]), flat.points(np.asarray(v)[None]))
    return point


@by_numpy
def project(flat: Flat, v: Array) -> Array:
    """The point of the domain that is nearest to v."""
    return flat.vector(flat.geometry.project(flat.point(v)))


class Rows(NamedTuple):
    """What bounds the optimal value, one a row: from above by (x, slope, offset), from below by (y, slope, offset)."""

    points: Vector
    slopes: Vector
    offsets: Vector


@by_numpy
def _values(flat: Flat, known: KnownFloor, above: Rows, below: Rows) -> tuple[NDArray[np.float64], ...]:
    """P(x) <= the first, D(y) >= the second; a row from below is mixed with the floor, its own share is the third."""
    sides, rows = flat.sides, [*zip(*map(np.asarray, below), strict=True)]
    uppers = np.array([upper_value(sides, *row) for row in zip(*map(np.asarray, above), strict=True)])
    lowers = np.array([lower_value(sides, *row) for row in rows])
    shares = np.ones_like(lowers)
    if not known.there:
        return uppers, lowers, shares
    floor: Any = known.y, np.zeros(flat.split), known.value
    alone = float(lower_value(sides, *floor))
    for k, row in enumerate(rows):

        def mix(share: float, row: Any = row) -> float:
            mixed: Any = (share * own + (1 - share) * other for own, other in zip(row, floor, strict=True))
            return float(lower_value(sides, *mixed))

        enough = ENOUGH * float(np.min(uppers) - np.max(lowers, initial=alone))
        shares[k], lowers[k] = maximize_on_section(mix, alone, float(lowers[k]), enough)
    return uppers, lowers, shares


def bound_by_surveys(
    flat: Flat, known: KnownFloor, bounds: Bounds, points: NDArray[np.float64], start: Vector, answer: list[Surveyed]
) -> tuple[Bounds, NDArray[np.float64], NDArray[np.float64]]:
    """The best bounds of both sides, P(x) <= of each point, and D(y) >= of each point and last of the dual cut.

    points: of the surveys, one a row. start: where the step to the first began whose dual cut came with it, if one did.
    """
    split = flat.split
    operators = np.stack([entries_of(survey.operator) for survey in answer])
    values = np.asarray([float(survey.value) for survey in answer])
    x, y, gx, gy = points[:, :split], points[:, split:], operators[:, :split], operators[:, split:]
    above = Rows(x, gy, values + np.sum(gy * y, axis=1))
    below = Rows(y, gx, values - np.sum(gx * x, axis=1))
    starts, cut = points, answer[0].cut
    if cut is not None:
        slope = entries_of(cut.slope)
        below = Rows(
            *(np.concatenate([rows, [row]]) for rows, row in zip(below, (y[0], slope, cut.offset), strict=True))
        )
        starts = np.concatenate([points, [np.asarray(start)]])
    where = np.concatenate([points, points[:1]])[: len(starts)]
    uppers, lowers, shares = _values(flat, known, above, below)
    sizes = np.max(np.abs(operators)), np.max(np.abs(values))
    best, least = int(np.argmin(uppers)), int(np.argmax(lowers))
    upper = _side(bounds.upper, uppers[best], [part[best] for part in above], points[best], points[best], sizes)
    floor, share = (known.y, np.zeros(split), known.value), float(shares[least])
    mix = [share * part[least] + (1 - share) * other for part, other in zip(below, floor, strict=True)]
    lower = _side(bounds.lower, lowers[least], mix, where[least], starts[least], sizes, share)
    return choose_better(bounds, Bounds(upper, lower)), uppers, lowers


def _side(like: Side, bound: Any, about: list[Any], point: Any, start: Any, sizes: Any, share: float = 1.0) -> Side:
    """The bound of one step, which has this share, in the shape that bounds of several surveys have."""
    memory, size = like.points.shape
    points, starts, weights = np.zeros((memory, size)), np.zeros((memory, size)), np.zeros(memory + 1)
    points[0], starts[0], weights[0], weights[-1] = point, start, share, 1 - share
    own, slope, offset = map(np.asarray, about)
    numbers: list[Any] = [bound, own, slope, offset, points, weights, *map(np.asarray, sizes), starts]
    return Side(*numbers)


def choose_better(one: Bounds, other: Bounds) -> Bounds:
    """The better of both sides."""
    upper = other.upper if float(other.upper.bound) < float(one.upper.bound) else one.upper
    return Bounds(upper, other.lower if float(other.lower.bound) > float(one.lower.bound) else one.lower)


def with_starts(bounds: Bounds) -> Bounds:
    """Bounds of surveys alone, as steps that end where they start."""
    upper, lower = (replace(side, starts=np.asarray(side.points)) for side in (bounds.upper, bounds.lower))
    return Bounds(upper, lower)
