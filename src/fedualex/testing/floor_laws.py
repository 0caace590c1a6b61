"""The laws of a known lower bound: f is nowhere below it, in the problem and in the views that keep it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import tree
from ..precision import double
from ..problems import AbstractProblem, Floor
from ..runtime.outputs import exact_problem
from ..tree import Saddle
from .sampling import holds

STEPS = 10
"""Descents from a random point: most points are far above a floor that is a little too high."""
SIZES = 10.0 ** np.arange(-6, 7, 2)
"""Sizes of the steps that each of them tries, relative to 1 and to the size of x over that of the gradient."""


def floor_laws(problem: AbstractProblem, z: Saddle, rng: np.random.Generator) -> dict[str, float]:
    """The margins of all laws of problem.floor, from a point z of the domain; none if there is no floor."""
    if problem.floor is None:
        return {}
    server = problem.without_data().floor
    laws = {
        "f is never below its floor": _margin(problem, problem.floor, z),
        "without_data keeps the floor": holds(server is not None and bool(eqx.tree_equal(server, problem.floor))),
    }
    if problem.clients is not None:
        own = problem.of_client(int(rng.integers(problem.clients)))
        if own.floor is not None:
            laws["f of a client is never below the floor that it keeps"] = _margin(own, own.floor, z)
    return laws


def _margin(problem: AbstractProblem, floor: Floor, z: Saddle) -> float:
    """The least f(x, floor.y) that a few steps of projected descent find, with its rounding, less the floor."""
    with double():
        exact, at = exact_problem(problem), tree.cast(Saddle(z.x, floor.y), jnp.float64)
        least = np.inf
        for _ in range(STEPS + 1):
            at, above = _descend(exact, at)
            least = min(least, float(above))
        return least - float(floor.value)


@eqx.filter_jit
def _descend(problem: AbstractProblem, at: Saddle) -> tuple[Saddle, Array]:
    """The best of some points along the projected gradient in x, and how large f may be at this one."""
    found = problem.survey(at)
    above = found.value + problem.value_error(at, found).size
    g, y = found.operator, tree.depend_on(at.y, above)
    length = jnp.sqrt(tree.dot(at.x, at.x) / jnp.maximum(tree.dot(g.x, g.x), 1e-300))
    steps = jnp.concatenate([jnp.zeros(1), jnp.asarray(SIZES), jnp.asarray(SIZES) * length])

    def step(eta: Array) -> tuple[Saddle, Array]:
        moved = problem.geometry.project(Saddle(tree.subtract(at.x, tree.scale(eta, g.x)), y))
        there = Saddle(moved.x, at.y)
        return there, problem.loss(there)

    points, values = jax.lax.map(step, steps)
    best = jnp.nanargmin(values)
    return jax.tree.map(lambda leaf: leaf[best], points), above
