"""A sampled test of whether a problem is convex in x and concave in y."""

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

ROUNDING = 1e-9
"""How negative <g(z) - g(z'), z - z'> may be, relative to ||g(z) - g(z')|| ||z - z'||, and still be rounding."""
CANCELLATION = 64 * float(np.finfo(np.float64).eps)
"""What g(z) - g(z') may have lost to cancellation, relative to ||g(z)|| + ||g(z')||."""


@dataclass(frozen=True)
class ConvexityCheck:
    """What the sampling saw. Passing is not a proof; a witness is a disproof."""

    passed: bool
    pairs: int
    worst: float
    """The smallest <g(z) - g(z'), z - z'> / (||g(z) - g(z')|| ||z - z'||) seen, less rounding: >= 0 if monotone."""
    skipped: int
    """Pairs where the operator was not finite: they say nothing."""
    witness: tuple[Saddle, Saddle] | None
    """A pair (z, z') of feasible points that violates monotonicity, or None."""

    def __str__(self) -> str:
        if self.passed:
            skipped = f" ({self.skipped} more had no finite operator)" if self.skipped else ""
            return f"no violation in {self.pairs} pairs{skipped}: consistent with convex-concave, which is not a proof"
        return f"not convex-concave: <g(z) - g(z'), z - z'> < 0 at the witness (relative {self.worst:.3g})"


def check_convex_concave(problem: AbstractProblem, *, pairs: int = 200, seed: int = 0) -> ConvexityCheck:
    """Look for feasible z, z' with <g(z) - g(z'), z - z'> < 0.

    A differentiable f is convex in x and concave in y exactly if its operator g is monotone. Pairs are near and far,
    and differ in x alone, in y alone, or in both.
    """
    as_problem(problem), whole_number("pairs", pairs)
    rng = np.random.default_rng(whole_number("seed", seed, 0))
    with double():
        drawn = [_random_pair(problem, rng, pair) for pair in range(pairs)]
        z, other = jax.tree.map(lambda *leaves: jnp.stack(leaves), *drawn)
        slopes = np.asarray(jax.lax.map(lambda pair: _relative_slope(problem, *pair), (z, other)))
    finite = np.isfinite(slopes)
    if not np.any(finite):
        raise FloatingPointError("the operator of this problem was not finite at any of the sampled pairs")
    at = int(np.nanargmin(np.where(finite, slopes, np.nan)))
    passed = bool(slopes[at] >= -ROUNDING)
    witness = None if passed else jax.tree.map(np.asarray, drawn[at])
    return ConvexityCheck(passed, int(np.sum(finite)), float(slopes[at]), int(np.sum(~finite)), witness)


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
    which = pair % 3
    if which == 0 or z.y is None:
        return z, moved
    return (z, Saddle(moved.x, z.y)) if which == 1 else (z, Saddle(z.x, moved.y))
