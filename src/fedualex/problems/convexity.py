"""A test of whether a problem is convex in x and concave in y: it can find a disproof, and no proof."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import tree
from ..precision import double
from ..tree import Saddle
from ..validation import whole_number
from .base import AbstractProblem, as_problem
from .disproof import Disproof, borne_out, disproof

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
