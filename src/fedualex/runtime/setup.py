"""From a user's options to what a compiled round needs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from .. import tree
from ..algorithms import AbstractMethod
from ..problems import AbstractOracle, AbstractProblem, GaussianNoise
from ..tree import Saddle
from .rounds import Setup, State, Sums
from .sharding import slots, spread

CHUNK_ENTRIES = 2**19
"""About how many numbers of one variable a chunk of clients holds."""


def build_setup(
    problem: AbstractProblem,
    method: AbstractMethod,
    oracle: AbstractOracle,
    clients: int,
    cohort: int | None,
    local_steps: Any,
    seed: int,
    dtype: Any,
    chunk: int | None,
    fast: str | None = None,
    mesh: Mesh | None = None,
) -> Setup:
    """Everything in one precision, step sizes as arrays, and as many clients at once as memory likes."""
    kind = jnp.dtype(dtype)
    per_client = np.broadcast_to(np.asarray(local_steps, int), (clients,))
    cohort = clients if cohort is None else cohort
    at_once = slots(mesh, clients, cohort, settled=problem.clients is not None)
    return Setup(
        problem=tree.cast_module(spread(problem, mesh), kind),
        method=tree.cast_module(method, kind),
        oracle=tree.cast_module(oracle, kind),
        weights=jnp.asarray(problem.client_weights(clients), kind),
        steps=jnp.asarray(per_client),
        key=jax.random.key(seed, impl="threefry2x32"),
        clients=clients,
        cohort=cohort,
        local_steps=int(per_client.max()),
        chunk=chunk or _even_chunk(problem, at_once),
        equal_steps=bool(np.all(per_client == per_client[0])),
        # The same law needs all of this; elsewhere nothing is replaced.
        merge_last_call=bool(
            fast == "law"
            and problem.shared_affine
            and isinstance(oracle, GaussianNoise)
            and method.last_call is not None
            and method.survey == "none"
            and per_client.max() == 1
        ),
        mesh=mesh,
    )


def _even_chunk(problem: AbstractProblem, count: int) -> int:
    """Clients at once of so many, so that all chunks are about equally full."""
    limit = max(1, CHUNK_ENTRIES // max(np.size(leaf) for leaf in jax.tree.leaves(problem.like)))
    return -(-count // -(-count // limit))


def first_state(setup: Setup, z0: Saddle, init: str, dtype: Any) -> State:
    """The method\'s start from the dual image of z0, with nothing averaged yet."""
    geometry = setup.problem.geometry
    z0 = tree.cast(z0, jnp.dtype(dtype))
    dual = geometry.dual(geometry.project(z0) if init == "project" else z0)
    server = setup.method.start(dual, geometry)
    point = setup.method.point(server, geometry)
    memory = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (setup.clients, *leaf.shape)), setup.method.memory(server)
    )
    zero = tree.scale(0.0, point)
    return State(server, memory, point, Sums(zero, zero, jnp.zeros((), jnp.dtype(dtype))), jnp.asarray(0))
