"""What averaging does to structure: the points of a round's clients, and the server's point that comes of them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import tree
from ..algorithms import AbstractMethod
from ..compiling import optimized
from ..precision import double
from ..problems import AbstractProblem
from ..tree import Tree
from .local_steps import local_rounds
from .options import RunOptions
from .outputs import structure_of
from .rounds import advance
from .setup import build_setup, first_state
from .state import Setup, State


def averaging(
    problem: AbstractProblem,
    method: AbstractMethod,
    *,
    clients: int,
    local_steps: int,
    rounds: int,
    every: int,
    noise: Any = None,
    seed: int = 0,
    z0: Any = None,
    dtype: Any = None,
) -> dict[str, list[int | float]]:
    """Densities of the clients' points at the end of a round (mean, lowest, highest) and of the server's after it.

    For dual and primal methods without a survey, whose messages are increments; not if all blocks are spectral.
    """
    series: dict[str, list[int | float]] = {name: [] for name in ("round", "clients", "lowest", "highest", "server")}
    with double():
        z0 = problem.validate_point(problem.like if z0 is None else z0, "z0")
        options = RunOptions(local_steps=local_steps, noise=noise, seed=seed, dtype=dtype)
        setup = build_setup(problem, method, options, clients)
        state = first_state(setup, z0, options)
        while int(state.round) < rounds:
            state = advance(setup, state, jnp.asarray(min(every, rounds - int(state.round)) - 1))
            points = _client_points(setup, state)
            state = advance(setup, state, jnp.asarray(1))
            each = [_density(problem, jax.tree.map(lambda leaf, m=m: leaf[m], points)) for m in range(clients)]
            server = _density(problem, setup.method.point(state.server, setup.problem.geometry))
            row = (int(state.round), float(np.mean(each)), min(each), max(each), server)
            for name, value in zip(series, row, strict=True):
                series[name].append(value)
    return series


@optimized
def _client_points(setup: Setup, state: State) -> Tree:
    """What the server averages: each client's state after its last step, as a point. A client alone is its own mean."""
    alone, steps = jnp.ones(1, setup.weights.dtype), jnp.asarray(setup.local_steps, setup.weights.dtype)

    def one(m: Array) -> Tree:
        data = jax.tree.map(lambda leaf: jnp.asarray(leaf)[m][None], setup.problem.data)
        part, _ = local_rounds(setup, state, None, data, None, m[None], alone, steps)
        return setup.method.point(tree.add(state.server, part.message), setup.problem.geometry)

    return jax.lax.map(one, jnp.arange(setup.clients))


def _density(problem: AbstractProblem, z: Tree) -> float:
    density, _ = structure_of(problem, jax.tree.map(np.asarray, z))
    if density is None:
        raise ValueError("averaging compares densities, and all blocks of this problem are spectral")
    return density
