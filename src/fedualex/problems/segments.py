"""Whether f is convex along a segment, told apart from rounding: the last word on every suspicion."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxprs_in_params

from .base import AbstractProblem
from .probes import Vector, block_masks, look, unflat

SAMPLES = 32
PLACES = np.linspace(0, 1, SAMPLES)
PLACES[1:-1] += np.random.default_rng(0).uniform(-0.4, 0.4, SAMPLES - 2) / (SAMPLES - 1)
"""Of the samples, as shares of the segment: not quite equidistant, or rounding could be as regular as they are."""
LAST_PLACES = 128
"""What adding up may cost, in units of the last place of the largest term."""
ROUGH, JUMP = 16, 4
"""How many times the typical roughness of slopes, which may jump at some kinks, and the largest one of values, which
may not, is no rounding any more: some 12 standard deviations of it."""

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
