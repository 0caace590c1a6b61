"""Pairs of points between which f may not be convex, or not concave in y: from rays, coordinates and curvature."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import AbstractProblem
from .curvature import bent_down
from .probes import Vector, block_masks, extent, look

EPS = float(np.finfo(np.float64).eps)
NEAR = EPS**0.4
"""A short step, relative to the domain: it leaves enough digits to what changes along it."""
ROUNDING = 1e-9
"""What is no suspicion yet, relative to the derivatives that were seen."""

SPREAD = np.array([0, 3, 1, 0.3, 3, 1, 3, 1, 3, 1, 3, 3, NEAR, -NEAR, NEAR, -NEAR])
"""How far the random directions of rays are thrown, relative to the domain; what leaves it is projected back."""
SHARE = np.array([0, 1, 1, 1, 0.7, 0.7, 0.4, 0.4, 0.1, 0.1, 0.01, 1e-3, 1, 1, 1, 1])
"""Which part of the way to that point is gone: the first is the point itself."""
FAR, CLOSE = slice(1, 12), slice(12, 16)
DIRECTION = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 12, 13, 13])
"""The short steps come with their opposites: at a kink one of the two goes down."""
PAIRS = np.triu_indices(SPREAD.size, 1)
COORDINATES = 4
STEP = 20 * NEAR
"""Along a single coordinate, relative to the domain."""
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
    """Points of one block with phi, which is f in x or -f in y, and its gradients; the first is the one in question."""

    points: Vector
    phi: Vector
    g: Vector


class Surroundings:
    """What f does around one point of the domain, and what is suspicious of it."""

    def __init__(self, problem: AbstractProblem, center: Vector, rng: np.random.Generator):
        self.problem, self.center = problem, center
        self.masks = block_masks(problem.like)
        self.size = extent(problem, center)
        directions = rng.normal(size=(DIRECTION.max() + 1, center.size))[DIRECTION]
        self.rays = self._look(dict.fromkeys(self.masks, SPREAD[:, None] * directions), SHARE)
        steps = {block: self._falling_coordinates(seen) for block, seen in self.rays.items()}
        self.steps = self._look(steps, np.ones(2 * COORDINATES))
        self.bent = bent_down(problem, center, rng.normal(size=center.size))

    @property
    def middle(self) -> Vector:
        """A point in the midst of what was seen."""
        return np.sum([seen.points[FAR].mean(axis=0) * self.masks[block] for block, seen in self.rays.items()], axis=0)

    def suspicions(self) -> list[Pair]:
        """Pairs to look at closely, the worst of each kind first."""
        found: list[Pair] = []
        for block, seen in self.rays.items():
            found += [(block, seen.points[i], seen.points[j]) for i, j in _falling(seen)]
            for others in (seen, self.steps[block]):
                found += [(block, self.center, others.points[k]) for k in _below_tangent(seen, others)]
            if block in self.bent:
                found += self._along(block, self.bent[block])
        return found

    def _look(self, directions: dict[str, Vector], share: Vector) -> dict[str, Seen]:
        thrown = [self.center + self.masks[block] * self.size * rows for block, rows in directions.items()]
        moved = [np.broadcast_to(self.masks[block], rows.shape) for block, rows in directions.items()]
        rows = [np.concatenate(part) for part in (thrown, [share] * len(thrown), moved)]
        points, value, g = (np.split(part, len(thrown)) for part in look(self.problem, self.center, *rows))
        return {
            block: Seen(points[b], value[b] if block == "x" else -value[b], g[b] * self.masks[block])
            for b, block in enumerate(directions)
        }

    def _falling_coordinates(self, seen: Seen) -> Vector:
        """Steps to both sides along the coordinates whose own slope falls most on the short rays: a kink shows there."""
        turn = (seen.g[CLOSE] - seen.g[0]) * np.sign(seen.points[CLOSE] - self.center)
        worst = np.argsort(turn.min(axis=0))[:COORDINATES]
        steps = np.zeros((COORDINATES, self.center.size))
        steps[np.arange(worst.size), worst] = STEP
        return np.concatenate([steps, -steps])

    def _along(self, block: str, direction: Vector) -> list[Pair]:
        """Segments along a direction, through the point and through points further inside, the longest first."""
        way = self.masks[block] * (self.middle - self.center)
        centers = np.array([self.center + share * way for _ in LENGTHS for share in INWARD])
        reach = self.size[self.masks[block]].max() * np.sqrt(np.sum(self.masks[block]))
        steps = np.array([length * reach * direction for length in LENGTHS for _ in INWARD])
        thrown = np.concatenate([centers - steps, centers + steps])
        moved = np.broadcast_to(self.masks[block], thrown.shape)
        ends = look(self.problem, self.center, thrown, np.ones(len(thrown)), moved)[0]
        return [(block, a, b) for a, b in zip(*np.split(ends, 2), strict=True)]


def _falling(seen: Seen) -> list[tuple[int, int]]:
    """Pairs of points on the rays with <g(u) - g(v), u - v> < 0."""
    i, j = PAIRS
    step, change = seen.points - seen.points[0], seen.g - seen.g[0]
    product = change @ step.T
    slope = product[i, i] + product[j, j] - product[i, j] - product[j, i]
    length, turn = np.linalg.norm(step, axis=1), np.linalg.norm(change, axis=1)
    scale = (length[i] + length[j]) * (turn[i] + turn[j])
    lost = (length[i] + length[j]) * 64 * EPS * np.linalg.norm(seen.g, axis=1).max()
    return [(int(i[k]), int(j[k])) for k in _worst(slope + lost, scale)]


def _below_tangent(seen: Seen, others: Seen) -> list[int]:
    """Points with phi(u) < phi(z) + <g(z), u - z>."""
    step = others.points - seen.points[0]
    below = others.phi - seen.phi[0] - step @ seen.g[0]
    scale = np.linalg.norm(step, axis=1) * max(np.linalg.norm(s.g, axis=1).max() for s in (seen, others))
    return _worst(below + 64 * EPS * (np.abs(others.phi) + np.abs(seen.phi[0])), scale)


def _worst(margins: Any, scale: Any) -> list[int]:
    """The places of the most negative margins, if they are negative beyond rounding; nan says nothing."""
    negative = np.flatnonzero(margins < -ROUNDING * scale)
    return [int(k) for k in negative[np.argsort(margins[negative])][:SUSPECTS]]
