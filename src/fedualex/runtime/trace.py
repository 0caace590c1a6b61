"""What the surveys of records say together: bounds of the optimal value from above and from below."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..bundle import Bounds, Cuts, Flat, Known, improved, no_bounds, no_cuts
from ..certificates.surveys import flat_of, known_of
from ..compiling import compiled
from ..problems import AbstractProblem
from ..tree import Saddle

SURVEYS, ENTRIES = 20, 2**22
"""How many surveys are remembered, and of how many numbers at most."""


class Trace(eqx.Module):
    """The last surveys of a run, and the best bounds of all."""

    cuts: Cuts
    bounds: Bounds
    oldest: Array
    """The row that is overwritten next."""


def no_trace(problem: AbstractProblem) -> Trace:
    """Before the first survey."""
    flat = flat_of(problem)
    size = sum(leaf.size for leaf in jax.tree.leaves(flat.like))
    rows = max(2, min(SURVEYS, ENTRIES // size))
    return _nothing(flat, rows, size)


@compiled
def _nothing(flat: Flat, rows: int, size: int) -> Trace:
    return Trace(no_cuts(rows, size), no_bounds(flat, rows), jnp.asarray(0))


def traced(problem: AbstractProblem, trace: Trace, surveys: list[tuple[Saddle, Any, Any]]) -> Trace:
    """The trace with more surveys, each a point with its operator and value; the oldest are forgotten."""
    flat = flat_of(problem)
    return _traced(flat, known_of(problem, flat), trace, surveys)


@compiled
def _traced(flat: Flat, known: Known, trace: Trace, surveys: list[tuple[Saddle, Any, Any]]) -> Trace:
    cuts, row = trace.cuts, trace.oldest
    true, zero = jnp.asarray(True), jnp.zeros(())
    for z, g, value in surveys:
        new = Cuts(flat.vector(z), flat.vector(g), jnp.asarray(value, jnp.float64), zero, zero, true)
        cuts = cuts.with_row(row, new)
        row = (row + 1) % cuts.used.size
    return Trace(cuts, improved(flat, cuts, known, trace.bounds, model=False), row)
