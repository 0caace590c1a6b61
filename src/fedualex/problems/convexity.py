"""A test of whether a problem is convex in x and concave in y: it can find a disproof, and no proof."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxprs_in_params
from jaxtyping import Array

from .. import tree
from ..precision import double
from ..regularizers import for_reports
from ..tree import Saddle
from ..validation import whole_number
from .base import AbstractProblem, as_problem
from .suspicions import Surroundings, Vector, as_vector, block_masks, look, unflat

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
    ends, still, moved = (np.repeat(row[None], SAMPLES, axis=0) for row in (b, 0 * b, mask))
    points, value, g, _ = look(problem, a, ends, still, PLACES, moved)
    phi, g = (value if block == "x" else -value), g * mask
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

    def types(jaxpr: Any) -> set[Any]:
        found = {getattr(variable.aval, "dtype", None) for equation in jaxpr.eqns for variable in equation.outvars}
        inner = (types(sub) for equation in jaxpr.eqns for sub in jaxprs_in_params(equation.params))
        return found.union(*inner)

    kinds = types(jax.make_jaxpr(problem.loss)(unflat(problem.like, jnp.asarray(a))).jaxpr) - {None}
    floating = [float(jnp.finfo(kind).eps) for kind in kinds if jnp.issubdtype(kind, jnp.floating)]
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


def unchecked(problem: AbstractProblem) -> str:
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
    found = _first(problem, around)
    if found or not thorough:
        return found
    return _first(problem, Surroundings(sample, around.middle, rng, thorough))


def borne_out(problem: AbstractProblem, z: Saddle, other: Saddle) -> Disproof | None:
    """The disproof between two points of the domain that differ in x alone or in y alone, if there is one."""
    a, b = as_vector(z), as_vector(other)
    x = block_masks(problem.like)["x"]
    return _between(problem, "x" if np.any(a[x] != b[x]) else "y", a, b)


def _first(problem: AbstractProblem, around: Surroundings) -> Disproof | None:
    """The first suspicion that is borne out."""
    return next(filter(None, (_between(problem, *pair) for pair in around.suspicions())), None)


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


ROUNDING = 1e-9
"""How negative <g(z) - g(z'), z - z'> may be, relative to ||g(z) - g(z')|| ||z - z'||, and still be rounding."""
CANCELLATION = 64 * float(np.finfo(np.float64).eps)
"""What g(z) - g(z') may have lost to cancellation, relative to ||g(z)|| + ||g(z')||."""
SUSPECTS = 8
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
        suspects = [drawn[k] for k in order[:SUSPECTS] if slopes[k] < -ROUNDING]
        found: Disproof | None = None
        for pair in suspects:
            found = found or borne_out(wide, *pair)
        found = found or disproof(wide, wide.geometry.project(wide.like), seed=seed, thorough=True)
    witness, reason = (found.witness, found.reason) if found else (None, "")
    worst = float(slopes[order[0]])
    return ConvexityCheck(found is None, int(np.sum(finite)), worst, int(np.sum(~finite)), witness, reason)


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
