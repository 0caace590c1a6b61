"""Evidence that a certificate would be wrong: f is not convex-concave, or its derivative is no subgradient."""

from dataclasses import dataclass

import equinox as eqx
import numpy as np

from ..regularizers import for_reports
from ..tree import Saddle
from .base import AbstractProblem
from .probes import Vector, as_vector, block_masks, unflat
from .segments import fall
from .suspicions import Surroundings

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
