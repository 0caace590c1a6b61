"""A test of whether a problem is convex in x and concave in y: it can find a disproof, and no proof."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, jaxprs_in_params
from numpy.typing import NDArray

from .. import tree
from ..arrays import Array, Reals
from ..compiling import compile_quickly, double
from ..geometry import AbstractGeometry, EntropicSimplex, Product, is_geometry
from ..regularizers import Box, CappedSimplex, InBox, Simplex, for_reports, split
from ..tree import Saddle, Tree
from ..validation import whole_number
from .base import AbstractProblem, as_problem

# f and its derivatives at points around one point: the compiled part of looking for a disproof.
#
# Points are vectors here: all arrays of x, and then all of y, in one.


ROWS = 8
"""Points in one call of the compiled program for each block, always, so that it is compiled once."""
AT_ONCE = 2**20
"""Numbers of data up to which the points of a call are computed with at once: faster, and more memory."""

Vector = Reals


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


def unflat(like: Saddle, vector: Array) -> Saddle:
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
    problem: AbstractProblem, center: Vector, offset: Vector, direction: Vector, share: Vector, moved: NDArray[np.bool_]
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


@compile_quickly
def _look(problem: AbstractProblem, center: Array, rows: tuple[Array, ...], at_once: bool) -> tuple[Array, ...]:
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

    def of(part: AbstractGeometry, leaf: Array) -> Array:
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


def find_negative_curvature(problem: AbstractProblem, center: Vector, start: Vector) -> dict[str, Vector]:
    """The directions of the smallest curvature of f in x and of -f in y at a point, where it is negative.

    Those are extreme eigenvectors of diag(f_xx, -f_yy), the symmetric part of g's Jacobian, restricted to the
    directions in which the domain extends: elsewhere f may curve as it likes. Empty if f has no second derivatives.
    """
    try:
        vectors, products = map(np.asarray, _krylov(problem, center, start))
    except Exception:  # whatever jax or f raises where f cannot be differentiated twice
        return {}
    lowest = {block: _lowest(vectors[:, b], products[:, b]) for b, block in enumerate(block_masks(problem.like))}
    return {block: direction for block, direction in lowest.items() if direction is not None}


@compile_quickly
def _krylov(problem: AbstractProblem, center: Array, start: Array) -> tuple[Array, Array]:
    """Lanczos' vectors v and their products H v, for each step and both blocks at once."""
    masks = jnp.stack(list(block_masks(problem.like).values()))
    _, derivative = jax.linearize(problem.operator, unflat(problem.like, center))

    def along_domain(v: Array) -> Array:
        return flat(_along_domain(problem.geometry, unflat(problem.like, v)))

    def normalize(v: Array) -> tuple[Array, Array]:
        size = jnp.sqrt(jnp.sum(v * v, axis=1, keepdims=True))
        return size, v / jnp.where(size > 0, size, 1)

    def step(state: Any, _: None) -> Any:
        before, beta, v = state
        product = masks * jax.vmap(lambda u: along_domain(flat(derivative(unflat(problem.like, u)))))(v)
        alpha = jnp.sum(v * product, axis=1, keepdims=True)
        return (v, *normalize(product - alpha * v - beta * before)), (v, product)

    beta, v = normalize(masks * along_domain(start))
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

    def project(part: AbstractGeometry, leaf: Array) -> Array:
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
    def pairs_to_try(self) -> list[Pair]:
        """Pairs to look at closely, the worst of each kind first."""
        pairs: list[Pair] = []
        for block, seen in self.rays.items():
            pairs += [(block, seen.points[i], seen.points[j]) for i, j in _falling(seen)]
            pairs += [(block, self.center, seen.points[k]) for k in _below_tangent(seen, seen)]
        pairs += self._kinks()
        for block, direction in find_negative_curvature(
            self.problem, self.center, self.rng.normal(size=self.center.size)
        ).items():
            pairs += self._along(block, direction)
        return pairs

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
        moved = self._look(steps, np.ones(2 * COORDINATES))
        return [
            (block, self.center, others.points[k])
            for block, others in moved.items()
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


def _steepest(*seen: SeenAlong) -> float:
    return max(float(np.linalg.norm(part.g, axis=1).max()) for part in seen)


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


def _worst(margins: Array, scale: Array) -> list[int]:
    """The places of the most negative margins, if they are negative beyond rounding; nan says nothing."""
    negative = np.flatnonzero(margins < -ROUNDING * scale)
    return [int(k) for k in negative[np.argsort(margins[negative])][:SUSPECTS]]


# Whether f is convex along a segment, told apart from rounding: the last word on every suspicion.


SAMPLES = 32
PLACES = np.linspace(0, 1, SAMPLES)
PLACES[1:-1] += np.random.default_rng(0).uniform(-0.4, 0.4, SAMPLES - 2) / (SAMPLES - 1)
"""Of the samples, as shares of the segment: not quite equidistant, or rounding could be as regular as they are."""
LAST_PLACES = 128
"""What adding up may cost, in units of the last place of the largest term."""
ROUGH, JUMP = 16, 4
"""How many times the typical roughness of slopes, which jump at kinks, and the largest one of values, which do not, is
no rounding any more: some 12 standard deviations of it."""
RESOLVED = 8
"""So many values must phi have on a segment, or the segment is too short for it to tell its points apart."""


@dataclass(frozen=True)
class Fall:
    """Two points between which phi, which is f in x or -f in y, is not convex, and by how much."""

    start: Vector
    end: Vector
    slope: float
    """By how much the slope of phi falls from start to end; 0 if it does not."""
    below: float
    """By how much phi is below its tangent at the start when it comes to the end; 0 if it is not."""


@np.errstate(all="ignore")  # where f is not finite it says nothing
def fall(problem: AbstractProblem, block: str, a: Vector, b: Vector) -> Fall | None:
    """Where phi is not convex between a and b, which differ in one block alone; None if that cannot be told.

    From phi and its slope h = <g, b - a> at 32 points, a violation is that h falls, or that phi falls below its tangent
    at an end. Either must exceed what rounding could do: some units in the last place of the terms that are added, and
    many times the distance of samples from the lines through their neighbors, which is rounding where phi is smooth.
    """
    mask = block_masks(problem.like)[block]
    ends, still = (np.repeat(row[None], SAMPLES, axis=0) for row in (b, 0 * b))
    points, value, g, _ = look(problem, a, ends, still, PLACES, np.repeat(mask[None], SAMPLES, axis=0))
    phi = value if block == "x" else -value
    g = g * mask
    if not (np.all(np.isfinite(phi)) and np.all(np.isfinite(g))):
        return None
    length, slope, eps = float(np.linalg.norm(b - a)), g @ (b - a), _coarsest(problem, a)
    steepest = length * np.linalg.norm(g, axis=1).max()
    turn = length * np.linalg.norm(g - g[0], axis=1).max()
    noise = ROUGH * float(np.median(_roughness(slope))) + LAST_PLACES * eps * steepest
    drops = np.maximum.accumulate(slope[1:-1]) - slope[1:-1]  # the ends may be kinks
    if drops.max() > noise + eps**0.6 * turn:
        last = int(drops.argmax()) + 1
        first = int(slope[1 : last + 1].argmax()) + 1
        return Fall(points[first], points[last], slope=float(drops.max()) / length, below=0.0)
    if np.unique(phi).size < RESOLVED:
        return None
    noise += JUMP * _roughness(phi).max() + LAST_PLACES * eps * np.abs(phi).max() + eps**0.6 * steepest
    for end in (0, -1):
        below = phi - phi[end] - (PLACES - PLACES[end]) * slope[end]
        if below.min() < -noise:
            return Fall(points[end], points[below.argmin()], slope=0.0, below=float(-below.min()))
    return None


def _roughness(samples: Vector) -> Vector:
    """Distances from the lines through the neighbors."""
    share = (PLACES[1:-1] - PLACES[:-2]) / (PLACES[2:] - PLACES[:-2])
    return np.asarray(np.abs(samples[1:-1] - (1 - share) * samples[:-2] - share * samples[2:]))


def _coarsest(problem: AbstractProblem, a: Vector) -> float:
    """The largest unit in the last place of all the floating types that f computes in."""

    def types(jaxpr: Jaxpr) -> set[np.dtype[Any] | None]:
        own = {getattr(variable.aval, "dtype", None) for equation in jaxpr.eqns for variable in equation.outvars}
        inner = (types(sub) for equation in jaxpr.eqns for sub in jaxprs_in_params(equation.params))
        return own.union(*inner)

    kinds = types(jax.make_jaxpr(problem.loss)(unflat(problem.like, jnp.asarray(a))).jaxpr)
    floating = [float(jnp.finfo(kind).eps) for kind in kinds if kind is not None and jnp.issubdtype(kind, jnp.floating)]
    return max(floating, default=float(np.finfo(np.float64).eps))


# Evidence that a certificate would be wrong: f is not convex-concave, or its derivative is no subgradient.


EXAMPLES = 1024
"""Suspicions come from about so many examples; whether they are borne out is asked of all."""

CHECKED = (
    "a violation of convexity in x or concavity in y was looked for (curvature, tangents, pairs of points) and not "
    "found, which is no proof"
)
"""What may be said of f where `disproof` found nothing."""


@dataclass(frozen=True)
class Disproof:
    """Why no certificate may be claimed for f."""

    reason: str
    witness: tuple[Saddle, Saddle]
    """Two feasible points as a convex-concave f with its subgradients could not have them."""

    def __str__(self) -> str:
        return self.reason


def why_not_checked(problem: AbstractProblem) -> str:
    """Why `disproof` has nothing to look for, or nothing to look at; empty if it has."""
    if problem.by_construction:
        return "f is convex in x and concave in y by construction"
    if problem.clients == 0:
        return "whether f is convex in x and concave in y was not checked, because its data is elsewhere"
    return ""


def disproof(problem: AbstractProblem, z: Saddle, *, seed: int = 0, thorough: bool = False) -> Disproof | None:
    """Look for a contradiction to: f is convex in x and concave in y, and g(z) is made of its subgradients.

    Call within `double()`, with a problem in float64 that has its data, and a point z of its domain. Suspicions come
    from pairs of points on random rays from z, from steps along the coordinates whose slopes fall near z, and from the
    most negative curvature at z (`Surroundings`). One counts if f bears it out along a segment beyond rounding
    (`fall`). None proves nothing.

    thorough: along twice as many rays, and around a second point of the domain.
    """
    rng = np.random.default_rng(seed)
    problem = eqx.tree_at(lambda p: p.geometry, problem, for_reports(problem.geometry))  # witnesses are feasible
    sample = problem.sampled(EXAMPLES, rng)
    around = Surroundings(sample, as_vector(z), rng, thorough)
    first = _first(problem, around)
    if first or not thorough:
        return first
    return _first(problem, Surroundings(sample, around.middle, rng, thorough))


def disprove_between(problem: AbstractProblem, z: Saddle, other: Saddle) -> Disproof | None:
    """The disproof between two points of the domain that differ in x alone or in y alone, if there is one."""
    a, b = as_vector(z), as_vector(other)
    x = block_masks(problem.like)["x"]
    return _between(problem, "x" if np.any(a[x] != b[x]) else "y", a, b)


def _first(problem: AbstractProblem, around: Surroundings) -> Disproof | None:
    """The first suspicion that is borne out."""
    return next(filter(None, (_between(problem, *pair) for pair in around.pairs_to_try())), None)


def _between(problem: AbstractProblem, block: str, a: Vector, b: Vector) -> Disproof | None:
    seen = fall(problem, block, a, b)
    if not seen:
        return None
    apart = f"{np.linalg.norm(seen.end - seen.start):.3g}"
    kind, falls, below = ("convex in x", "falls", "below") if block == "x" else ("concave in y", "rises", "above")
    if seen.below:
        reason = (
            f"f is {seen.below:.3g} {below} its tangent in {block} at a feasible point {apart} away, so either it is "
            f"not {kind}, or what is computed as its derivative at a kink is no subgradient"
        )
    else:
        reason = f"f is not {kind}: its slope {falls} by {seen.slope:.3g} between two feasible points {apart} apart"
    return Disproof(reason, (unflat(problem.like, seen.start), unflat(problem.like, seen.end)))


SLOPE_ROUNDING = 1e-9
"""How negative <g(z) - g(z'), z - z'> may be, relative to ||g(z) - g(z')|| ||z - z'||, and still be rounding."""
CANCELLATION = 64 * float(np.finfo(np.float64).eps)
"""What g(z) - g(z') may have lost to cancellation, relative to ||g(z)|| + ||g(z')||."""
PAIRS_LOOKED_AT = 8
"""How many of the pairs that seem to violate monotonicity are looked at closely."""


@dataclass(frozen=True)
class ConvexityCheck:
    """What was seen in so many pairs of points; `passed` is not a proof, and a witness is a disproof."""

    passed: bool
    pairs: int
    worst: float
    """The smallest <g(z) - g(z'), z - z'> / (||g(z) - g(z')|| ||z - z'||) of the pairs; if passed, below 0 by rounding
    only."""
    skipped: int
    """Pairs where the operator was not finite: they say nothing."""
    witness: tuple[Saddle, Saddle] | None
    """Two feasible points that no convex-concave f could have, or None."""
    reason: str
    """What was violated; empty if nothing was."""

    def __str__(self) -> str:
        if not self.passed:
            return f"not convex-concave: {self.reason}"
        skipped = f" ({self.skipped} more had no finite operator)" if self.skipped else ""
        return (
            f"no violation in {self.pairs} pairs of points{skipped}, nor by tangents, kinks and curvature around two: "
            "consistent with convex-concave, which is not a proof"
        )


def check_convex_concave(problem: AbstractProblem, *, pairs: int = 200, seed: int = 0) -> ConvexityCheck:
    """Look for feasible z, z' with <g(z) - g(z'), z - z'> < 0, and for a `disproof` around the projection of 0.

    A differentiable f is convex in x and concave in y exactly if its operator g is monotone. Pairs are near and far,
    and differ in x alone or in y alone; one that seems to be a witness must hold out against rounding.

    problem: any. pairs: how many are tried. seed: decides which.
    """
    as_problem(problem)
    pairs, seed = whole_number("pairs", pairs), whole_number("seed", seed, 0)
    rng = np.random.default_rng(seed)
    with double():
        wide = tree.cast_module(problem, jnp.float64)
        drawn = [_random_pair(wide, rng, pair) for pair in range(pairs)]
        z, other = jax.tree.map(lambda *leaves: jnp.stack(leaves), *drawn)
        slopes = np.asarray(jax.lax.map(lambda pair: _relative_slope(wide, *pair), (z, other)))
        finite = np.isfinite(slopes)
        if not np.any(finite):
            raise FloatingPointError("the operator of this problem was not finite at any of the sampled pairs")
        order = np.argsort(np.where(finite, slopes, np.inf))
        suspects = [drawn[k] for k in order[:PAIRS_LOOKED_AT] if slopes[k] < -SLOPE_ROUNDING]
        against: Disproof | None = None
        for pair in suspects:
            against = against or disprove_between(wide, *pair)
        against = against or disproof(wide, wide.geometry.project(wide.like), seed=seed, thorough=True)
    witness, reason = (against.witness, against.reason) if against else (None, "")
    worst = float(slopes[order[0]])
    return ConvexityCheck(against is None, int(np.sum(finite)), worst, int(np.sum(~finite)), witness, reason)


def _relative_slope(problem: AbstractProblem, z: Saddle, other: Saddle) -> Array:
    """<g(z) - g(z'), z - z'> / (||g(z) - g(z')|| ||z - z'||), less what cancellation cost; nan if not finite."""
    step = tree.subtract(z, other)
    g, g_other = problem.operator(z), problem.operator(other)
    change = tree.subtract(g, g_other)
    length = jnp.sqrt(tree.dot(step, step))
    size = length * jnp.sqrt(tree.dot(change, change))
    lost = CANCELLATION * length * (jnp.sqrt(tree.dot(g, g)) + jnp.sqrt(tree.dot(g_other, g_other)))
    slope = jnp.where(size > 0, (tree.dot(change, step) + lost) / jnp.where(size > 0, size, 1), 0)
    return jnp.where(jnp.isfinite(size), slope, jnp.nan)


def _random_pair(problem: AbstractProblem, rng: np.random.Generator, pair: int) -> tuple[Saddle, Saddle]:
    def draw(scale: float) -> Saddle:
        return jax.tree.map(lambda leaf: np.asarray(scale * rng.normal(size=np.shape(leaf))), problem.like)

    z = problem.geometry.project(draw(10.0 ** rng.integers(-2, 2)))
    moved = problem.geometry.project(tree.add(z, draw(10.0 ** rng.integers(-3, 2))))
    return z, Saddle(moved.x, z.y) if z.y is None or pair % 2 == 0 else Saddle(z.x, moved.y)
