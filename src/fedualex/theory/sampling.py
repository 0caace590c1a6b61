"""Constants from below: the largest values seen at random feasible points."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from .. import tree
from ..compiling import compiled, quickly
from ..geometry import Product
from ..problems import AbstractOracle, AbstractProblem
from ..regularizers import for_reports
from ..tree import Saddle, Tree

SWEEPS, DRAWS, CLIENTS = 50, 32, 32  # power iterations and oracle calls at each point; the most clients looked at


def largest_seen(
    problem: AbstractProblem, oracle: AbstractOracle, start: Saddle, samples: int, seed: int
) -> list[float]:
    """The largest Jacobian norm, ||g_m||_* and root mean square noise at the start and at random feasible points."""
    rng, count = np.random.default_rng(seed), problem.clients or 1
    points = feasible_points(problem, start, samples, rng)
    members = rng.choice(count, min(count, CLIENTS), replace=False)
    pairs = np.array([(i, m) for i in range(samples) for m in members])
    return [float(value) for value in _largest(problem, oracle, points, pairs, np.asarray(seed))]


def feasible_points(problem: AbstractProblem, start: Saddle, samples: int, rng: np.random.Generator) -> Saddle:
    """The start and random points of the domain, `samples` in all, along the first axis."""
    drawn = [jax.tree.map(lambda u: 10 ** rng.uniform(-2, 1) * rng.normal(size=u.shape), start) for _ in range(samples)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *drawn)
    found: Saddle = _projected(for_reports(problem.geometry), start, stacked)
    return found


@quickly
def _projected(geometry: Product, start: Saddle, drawn: Saddle) -> Saddle:
    """The start in the place of the first point, and the projections of the others."""
    points: Saddle = jax.tree.map(
        lambda row, others: others.at[0].set(row), start, jax.lax.map(geometry.project, drawn)
    )
    return points


def aligned(norm: Any, w: Tree) -> Tree:
    """The point of the unit ball that maximizes <., w>: the gradient at w of the norm dual to the ball's.

    A block of zeros has no direction: autodiff says nan, and 0 is one of its subgradients.
    """
    return jax.tree.map(lambda u: jnp.nan_to_num(u, posinf=0, neginf=0), jax.grad(norm)(w))


@compiled
def _largest(problem: Any, oracle: Any, points: Saddle, pairs: Any, seed: Any) -> Float[Array, "3"]:
    norm, keys = problem.geometry.dual_norm, jax.random.split(jax.random.key(seed), len(pairs))

    def measure(item: tuple[Array, Array]) -> Array:
        (i, m), key = item
        client, z = (jax.tree.map(lambda u, at=at: jnp.asarray(u)[at], t) for t, at in ((problem.data, m), (points, i)))
        operator = eqx.Partial(problem.client_operator, client)
        g, draws = operator(z), jax.random.split(key, DRAWS)
        noise = jax.lax.map(lambda k: norm(tree.subtract(oracle(problem, client, z, k), g)), draws)
        return jnp.stack([_jacobian_norm(operator, norm, z, key), norm(g), jnp.sqrt(jnp.mean(noise**2))])

    return jnp.max(jax.lax.map(measure, (pairs, keys)), axis=0)


def _jacobian_norm(operator: Any, norm: Any, z: Saddle, key: Array) -> Array:
    """max ||J v||_* over ||v|| = 1 by u = argmax <u, J v>, v = argmax <J^T u, v>: power iteration in any norm.

    Never above the true norm.
    """
    (_, forward), (_, backward) = jax.linearize(operator, z), jax.vjp(operator, z)
    flat, unflatten = ravel_pytree(z)
    v = aligned(norm, unflatten(jax.random.normal(key, flat.shape)))

    def sweep(_: Any, v: Tree) -> Tree:
        return aligned(norm, backward(aligned(norm, forward(v)))[0])

    return norm(forward(jax.lax.fori_loop(0, SWEEPS, sweep, v)))
