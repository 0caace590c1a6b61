"""Pairs of points between which f may not be convex in x, or not concave in y: from rays, coordinates, curvature."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..compiling import quickly
from ..geometry import EntropicSimplex, Product, is_geometry
from ..regularizers import Box, CappedSimplex, InBox, Simplex, split
from ..tree import Saddle, Tree
from .base import AbstractProblem

# f and its derivatives at points around one point: the compiled part of looking for a disproof.
#
# Points are vectors here: all arrays of x, and then all of y, in one.


ROWS = 8
"""Points in one call of the compiled program for each block, always, so that it is compiled once."""
AT_ONCE = 2**20
"""Numbers of data up to which the points of a call are computed with at once: faster, and more memory."""

Vector = NDArray[Any]


class Probed(NamedTuple):
    """Points, one a row, f and g there, and the size of the domain in each entry."""

    points: Vector
    value: Vector
    g: Vector
    size: Vector


def as_vector(z: Saddle) -> Vector:
    """All arrays of a point as one vector, outside of compiled programs."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(z)])


def flat(z: Tree) -> Array:
    """All arrays of a point as one vector."""
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(z)])


def unflat(like: Saddle, vector: Any) -> Saddle:
    """The point that a vector stands for."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])
    parts = [vector[end - np.size(leaf) : end].reshape(np.shape(leaf)) for end, leaf in zip(ends, leaves, strict=True)]
    return jax.tree.unflatten(structure, parts)


def block_masks(like: Saddle) -> dict[str, NDArray[np.bool_]]:
    """Which entries of a vector are those of x, and which those of y if there is one."""
    x, y = (sum(np.size(leaf) for leaf in jax.tree.leaves(block)) for block in (like.x, like.y))
    is_x = np.arange(x + y) < x
    return {"x": is_x, "y": ~is_x} if y else {"x": is_x}


def look(
    problem: AbstractProblem, center: Vector, offset: Vector, direction: Vector, share: Vector, moved: Vector
) -> Probed:
    """f and g at points on the way from `center` to the projections of `offset + size * direction` onto the domain.

    share: the part of the way that is gone. moved: the entries that move at all, which are those of a block, so that
    the points are in the domain. All four have one row for each point.
    """
    size = ROWS * len(block_masks(problem.like))
    spare = -len(share) % size
    rows = [np.concatenate([part, np.repeat(part[-1:], spare, axis=0)]) for part in (offset, direction, share, moved)]
    at_once = sum(np.size(leaf) for leaf in jax.tree.leaves(problem.data)) <= AT_ONCE
    seen = [
        _look(problem, center, tuple(part[first : first + size] for part in rows), at_once)
        for first in range(0, len(rows[0]), size)
    ]
    return Probed(*(np.concatenate(part)[: len(share)] for part in zip(*seen, strict=True)))


@quickly
def _look(problem: AbstractProblem, center: Any, rows: tuple[Any, ...], at_once: bool) -> tuple[Array, ...]:
    size = _extent(problem, center)

    def at(row: tuple[Array, ...]) -> tuple[Array, ...]:
        offset, direction, share, moved = row
        landed = flat(problem.geometry.project(unflat(problem.like, offset + size * direction)))
        point = jnp.where(moved, center + share * (landed - center), center)
        z = unflat(problem.like, point)
        return point, problem.loss(z), flat(problem.operator(z)), size

    return jax.vmap(at)(rows) if at_once else jax.lax.map(at, rows)


def _extent(problem: AbstractProblem, center: Array) -> Array:
    """The size of the domain in each entry; that of the array's own entries where it is unbounded."""

    def of(part: Any, leaf: Array) -> Array:
        diameter = part.diameter(leaf) / np.sqrt(leaf.size)
        return jnp.full(leaf.shape, jnp.where(jnp.isfinite(diameter), diameter, 1 + jnp.max(jnp.abs(leaf))))

    return flat(jax.tree.map(of, problem.geometry.parts, unflat(problem.like, center), is_leaf=is_geometry))


# The smallest curvatures of f in x and of -f in y at a point, by Lanczos' method.


STEPS = 10
"""Products with second derivatives. An eigenvalue apart from the others shows after a few."""
VISIBLE = 1e-12
"""Of the largest curvature: what is smaller is rounding."""
INDEPENDENT = 1e-6
"""Of the largest squared singular value of Lanczos' vectors: what is smaller repeats the others."""


def bent_down(problem: AbstractProblem, center: Vector, start: Vector) -> dict[str, Vector]:
    """The directions of the smallest curvature of f in x and of -f in y at a point, where it is negative.

    Those are extreme eigenvectors of diag(f_xx, -f_yy), the symmetric part of g's Jacobian, restricted to the
    directions in which the domain extends: elsewhere f may curve as it likes. Empty if f has no second derivatives.
    """
    try:
        vectors, products = map(np.asarray, _krylov(problem, center, start))
    except Exception:  # whatever jax or f raises where f cannot be differentiated twice
        return {}
    found = {block: _lowest(vectors[:, b], products[:, b]) for b, block in enumerate(block_masks(problem.like))}
    return {block: direction for block, direction in found.items() if direction is not None}


@quickly
def _krylov(problem: AbstractProblem, center: Any, start: Any) -> tuple[Array, Array]:
    """Lanczos' vectors v and their products H v, for each step and both blocks at once."""
    masks = jnp.stack(list(block_masks(problem.like).values()))
    _, derivative = jax.linearize(problem.operator, unflat(problem.like, center))

    def along_domain(v: Array) -> Array:
        return flat(_along_domain(problem.geometry, unflat(problem.like, v)))

    def normalized(v: Array) -> tuple[Array, Array]:
        size = jnp.sqrt(jnp.sum(v * v, axis=1, keepdims=True))
        return size, v / jnp.where(size > 0, size, 1)

    def step(state: tuple[Array, Array, Array], _: None) -> tuple[Any, tuple[Array, Array]]:
        before, beta, v = state
        product = masks * jax.vmap(lambda u: along_domain(flat(derivative(unflat(problem.like, u)))))(v)
        alpha = jnp.sum(v * product, axis=1, keepdims=True)
        return (v, *normalized(product - alpha * v - beta * before)), (v, product)

    beta, v = normalized(masks * along_domain(start))
    _, seen = jax.lax.scan(step, (jnp.zeros_like(v), 0 * beta, v), None, length=STEPS)
    return seen


def _lowest(vectors: Vector, products: Vector) -> Vector | None:
    """The direction of the smallest curvature in the span of the vectors, if that is negative beyond rounding.

    What rounding left of the vectors' orthogonality is restored here, by their Gram matrix.
    """
    if not np.all(np.isfinite(products)):
        return None
    squares, mixing = np.linalg.eigh(vectors @ vectors.T)
    kept = squares > INDEPENDENT * squares[-1]
    basis = mixing[:, kept] / np.sqrt(squares[kept])
    matrix = basis.T @ (vectors @ products.T) @ basis
    values, inner = np.linalg.eigh((matrix + matrix.T) / 2)
    if not values.size or values[0] >= -VISIBLE * np.abs(values).max():
        return None
    return np.asarray((basis @ inner[:, 0]) @ vectors)


def _along_domain(geometry: Product, v: Saddle) -> Saddle:
    """v projected onto the differences of points of the domain: sum 0 on a simplex, 0 where a box fixes an entry."""

    def project(part: Any, leaf: Array) -> Array:
        core = split(part.regularizer)[0] if hasattr(part, "regularizer") else None
        box = core.domain if isinstance(core, InBox) else core
        if isinstance(part, EntropicSimplex) or isinstance(core, Simplex | CappedSimplex):
            return leaf - jnp.mean(leaf)
        return jnp.where(box.lower < box.upper, leaf, 0) if isinstance(box, Box) else leaf

    return jax.tree.map(project, geometry.parts, v, is_leaf=is_geometry)


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
class SeenAlong:
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

    @np.errstate(all="ignore")  # where f is not finite it says nothing
    def suspicions(self) -> list[Pair]:
        """Pairs to look at closely, the worst of each kind first."""
        found: list[Pair] = []
        for block, seen in self.rays.items():
            found += [(block, seen.points[i], seen.points[j]) for i, j in _falling(seen)]
            found += [(block, self.center, seen.points[k]) for k in _below_tangent(seen, seen)]
        found += self._kinks()
        for block, direction in bent_down(self.problem, self.center, self.rng.normal(size=self.center.size)).items():
            found += self._along(block, direction)
        return found

    def _look(self, directions: dict[str, Vector], share: Vector) -> dict[str, SeenAlong]:
        every = np.concatenate([self.masks[block] * rows for block, rows in directions.items()])
        moved = np.concatenate([np.broadcast_to(self.masks[block], rows.shape) for block, rows in directions.items()])
        offset = np.broadcast_to(self.center, every.shape)
        seen = look(self.problem, self.center, offset, every, np.tile(share, len(directions)), moved)
        self.size = seen.size[0]
        parts = zip(directions, *(np.split(part, len(directions)) for part in seen[:3]), strict=True)
        return {b: SeenAlong(points, f if b == "x" else -f, g * self.masks[b]) for b, points, f, g in parts}

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


def _steepest(*seen: SeenAlong) -> Any:
    return max(np.linalg.norm(part.g, axis=1).max() for part in seen)


def _falling(seen: SeenAlong) -> list[tuple[int, int]]:
    """Pairs of points on the rays with <g(u) - g(v), u - v> < 0."""
    i, j = np.triu_indices(len(seen.phi), 1)
    step, change = seen.points - seen.points[0], seen.g - seen.g[0]
    product = change @ step.T
    slope = product[i, i] + product[j, j] - product[i, j] - product[j, i]
    length, turn = np.linalg.norm(step, axis=1), np.linalg.norm(change, axis=1)
    lost = 64 * EPS * (length[i] + length[j]) * _steepest(seen)
    return [(int(i[k]), int(j[k])) for k in _worst(slope + lost, (length[i] + length[j]) * (turn[i] + turn[j]))]


def _below_tangent(seen: SeenAlong, others: SeenAlong) -> list[int]:
    """Points with phi(u) < phi(z) + <g(z), u - z>."""
    step = others.points - seen.points[0]
    below = others.phi - seen.phi[0] - step @ seen.g[0]
    lost = 64 * EPS * (np.abs(others.phi) + np.abs(seen.phi[0]))
    return _worst(below + lost, np.linalg.norm(step, axis=1) * _steepest(seen, others))


def _worst(margins: Any, scale: Any) -> list[int]:
    """The places of the most negative margins, if they are negative beyond rounding; nan says nothing."""
    negative = np.flatnonzero(margins < -ROUNDING * scale)
    return [int(k) for k in negative[np.argsort(margins[negative])][:SUSPECTS]]
