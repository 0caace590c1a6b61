"""Pairs of points between which f may not be convex in x, or not concave in y: from rays, coordinates, curvature."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import AbstractProblem
from .curvature import bent_down
from .probes import ROWS, Vector, block_masks, look

EPS = float(np.finfo(np.float64).eps)
NEAR = EPS**0.4
"""A short step, relative to the domain: it leaves enough digits to what changes along it."""
ROUNDING = 1e-9
"""What is no suspicion yet, relative to the derivatives that were seen."""

SPREAD = np.array([0, NEAR, -NEAR, NEAR, -NEAR, 3, 1, 3, 3, 1, 0.3, 3, 1, 3, 1, 3])
"""How far the random directions of rays are thrown, relative to the domain; what leaves it is projected back."""
SHARE = np.array([0, 1, 1, 1, 1, 1, 0.5, 0.03, 1, 1, 1, 0.7, 0.4, 0.1, 0.01, 1e-3])
"""Which part of the way to that point is gone. The first is the point itself."""
DIRECTION = np.array([0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13])
"""The short steps come with their opposites: at a kink one of the two goes down."""
SHORT, LONG = slice(1, 5), slice(5, None)

COORDINATES = 4
STEP = 20 * NEAR
"""Along a single coordinate, relative to the domain."""
KINK = 1e-5
"""How far a slope must fall on a short step to be suspected of a kink, relative to the derivatives that were seen."""
SUSPECTS = 4
"""How many pairs of each kind are worth a closer look."""
INWARD = (0.0, 0.03, 0.3)
"""Shares of the way to the middle of the domain, where a direction of negative curvature is followed."""
LENGTHS = (0.5, 0.05, 0.005, 5e-4)
"""How far to both sides, relative to the domain."""

Pair = tuple[str, Vector, Vector]
"""A block, and two points that differ in this block alone."""


@dataclass(frozen=True)
class Seen:
    """Points of one block with phi, which is f in x or -f in y, and its gradients; of rays, the first is the center."""

    points: Vector
    phi: Vector
    g: Vector


class Surroundings:
    """What f does around one point of the domain, and what is suspicious of it; from twice as many rays if thorough."""

    def __init__(self, problem: AbstractProblem, center: Vector, rng: np.random.Generator, thorough: bool):
        self.problem, self.center, self.rng = problem, center, rng
        self.masks = block_masks(problem.like)
        rays = slice(2 * ROWS if thorough else ROWS)
        drawn = rng.normal(size=(DIRECTION[rays].max() + 1, center.size))[DIRECTION[rays]]
        self.rays = self._look(dict.fromkeys(self.masks, SPREAD[rays, None] * drawn), SHARE[rays])

    @property
    def middle(self) -> Vector:
        """A point in the midst of what was seen."""
        return np.sum([seen.points[LONG].mean(axis=0) * self.masks[block] for block, seen in self.rays.items()], axis=0)

    def suspicions(self) -> list[Pair]:
        """Pairs to look at closely, the worst of each kind first."""
        with np.errstate(all="ignore"):  # where f or g is not finite there is nothing to see
            return self._suspicions()

    def _suspicions(self) -> list[Pair]:
        found: list[Pair] = []
        for block, seen in self.rays.items():
            found += [(block, seen.points[i], seen.points[j]) for i, j in _falling(seen)]
            found += [(block, self.center, seen.points[k]) for k in _below_tangent(seen, seen)]
        found += self._kinks()
        for block, direction in bent_down(self.problem, self.center, self.rng.normal(size=self.center.size)).items():
            found += self._along(block, direction)
        return found

    def _look(self, directions: dict[str, Vector], share: Vector) -> dict[str, Seen]:
        every = np.concatenate([self.masks[block] * rows for block, rows in directions.items()])
        moved = np.concatenate([np.broadcast_to(self.masks[block], rows.shape) for block, rows in directions.items()])
        offset = np.broadcast_to(self.center, every.shape)
        seen = look(self.problem, self.center, offset, every, np.tile(share, len(directions)), moved)
        self.size = seen.size[0]
        parts = zip(directions, *(np.split(part, len(directions)) for part in seen[:3]), strict=True)
        return {b: Seen(points, f if b == "x" else -f, g * self.masks[b]) for b, points, f, g in parts}

    def _kinks(self) -> list[Pair]:
        """Steps to both sides along the coordinates whose own slope falls on the short rays, where phi falls below."""
        steps = {}
        for block, seen in self.rays.items():
            turn = np.min((seen.g[SHORT] - seen.g[0]) * np.sign(seen.points[SHORT] - self.center), axis=0)
            worst = [i for i in np.argsort(turn)[:COORDINATES] if turn[i] < -KINK * _steepest(seen)]
            if worst:
                rows = np.zeros((COORDINATES, self.center.size))
                rows[np.arange(len(worst)), worst] = STEP
                steps[block] = np.concatenate([rows, -rows])
        if not steps:
            return []
        found = self._look(steps, np.ones(2 * COORDINATES))
        return [
            (block, self.center, others.points[k])
            for block, others in found.items()
            for k in _below_tangent(self.rays[block], others)
        ]

    def _along(self, block: str, direction: Vector) -> list[Pair]:
        """Segments along a direction, through the point and through points further inside, the longest first."""
        mask = self.masks[block]
        way = mask * (self.middle - self.center)
        reach = self.size[mask].max() * np.sqrt(mask.sum())
        centers = np.array([self.center + share * way for _ in LENGTHS for share in INWARD])
        steps = np.array([length * reach * direction for length in LENGTHS for _ in INWARD])
        offset = np.concatenate([centers - steps, centers + steps])
        moved = np.broadcast_to(mask, offset.shape)
        ends = look(self.problem, self.center, offset, 0 * offset, np.ones(len(offset)), moved).points
        return [(block, a, b) for a, b in zip(*np.split(ends, 2), strict=True)]


def _steepest(*seen: Seen) -> Any:
    return max(np.linalg.norm(part.g, axis=1).max() for part in seen)


def _falling(seen: Seen) -> list[tuple[int, int]]:
    """Pairs of points on the rays with <g(u) - g(v), u - v> < 0."""
    i, j = np.triu_indices(len(seen.phi), 1)
    step, change = seen.points - seen.points[0], seen.g - seen.g[0]
    product = change @ step.T
    slope = product[i, i] + product[j, j] - product[i, j] - product[j, i]
    length, turn = np.linalg.norm(step, axis=1), np.linalg.norm(change, axis=1)
    lost = 64 * EPS * (length[i] + length[j]) * _steepest(seen)
    return [(int(i[k]), int(j[k])) for k in _worst(slope + lost, (length[i] + length[j]) * (turn[i] + turn[j]))]


def _below_tangent(seen: Seen, others: Seen) -> list[int]:
    """Points with phi(u) < phi(z) + <g(z), u - z>."""
    step = others.points - seen.points[0]
    below = others.phi - seen.phi[0] - step @ seen.g[0]
    lost = 64 * EPS * (np.abs(others.phi) + np.abs(seen.phi[0]))
    return _worst(below + lost, np.linalg.norm(step, axis=1) * _steepest(seen, others))


def _worst(margins: Any, scale: Any) -> list[int]:
    """The places of the most negative margins, if they are negative beyond rounding; nan says nothing."""
    negative = np.flatnonzero(margins < -ROUNDING * scale)
    return [int(k) for k in negative[np.argsort(margins[negative])][:SUSPECTS]]
