"""From a user's options to what a compiled round needs."""

from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array

from .. import tree
from ..algorithms import AbstractMethod
from ..compiling import compiled
from ..geometry import Product
from ..problems import AbstractOracle, AbstractProblem, Exact
from ..random import key_of
from ..tree import Saddle, Tree
from .choice import chosen_precision
from .kinds import AVERAGES, no_sums
from .options import RunOptions
from .sharding import clients_per_device, spread
from .state import Setup, State

CHUNK_ENTRIES = 2**19
"""About how many numbers of one variable a chunk of clients holds."""


def build_setup(
    problem: AbstractProblem,
    method: AbstractMethod,
    options: RunOptions,
    clients: int,
    *,
    chunk: int | None = None,
    fast: str | None = None,
    mesh: Mesh | None = None,
) -> Setup:
    """Everything in one precision, step sizes as arrays, and as many clients at once as memory likes."""
    kind = jnp.dtype(chosen_precision(method, options)[0])
    per_client = np.broadcast_to(np.asarray(options.local_steps, int), (clients,))
    cohort = clients if options.cohort is None else int(options.cohort)
    cohort = cohort if method.lead is None else 1
    at_once = clients_per_device(mesh, clients, cohort, settled=problem.clients is not None)
    oracle = oracle_of(options)
    return Setup(
        problem=tree.cast_module(spread(problem, mesh), kind),
        method=tree.cast_module(method, kind),
        oracle=tree.cast_module(oracle, kind),
        weights=jax.device_put(np.asarray(problem.client_weights(clients), kind)),
        steps=jax.device_put(np.array(per_client)),
        key=key_of(options.seed),
        clients=clients,
        cohort=cohort,
        local_steps=int(per_client.max()),
        chunk=chunk or _even_chunk(problem, at_once),
        equal_steps=bool(np.all(per_client == per_client[0])),
        # The same law needs all of this; elsewhere nothing is replaced.
        merge_noise=bool(
            fast == "law"
            and problem.shared_affine
            and oracle.gaussian
            and method.linear_sample is not None
            and method.survey == "none"
            and per_client.max() == 1
        ),
        mesh=mesh,
    )


def oracle_of(options: RunOptions) -> AbstractOracle:
    """Where clients have their operators from."""
    return Exact() if options.noise is None else options.noise


def _even_chunk(problem: AbstractProblem, count: int) -> int:
    """Clients at once of so many, so that all chunks are about equally full."""
    limit = max(1, CHUNK_ENTRIES // max(np.size(leaf) for leaf in jax.tree.leaves(problem.like)))
    return -(-count // -(-count // limit))


def first_state(setup: Setup, z0: Saddle, options: RunOptions, averages: Iterable[str] = AVERAGES) -> State:
    """The method's start from the dual image of z0, with nothing summed up yet for these averages."""
    projected = options.init == "project"
    server, point, memory = _begun(setup.method, setup.problem.geometry, z0, setup.weights, projected)
    return State(server, memory, point, no_sums(setup, averages), np.asarray(0))


@compiled
def _begun(
    method: AbstractMethod, geometry: Product, z0: Saddle, weights: Array, projected: bool
) -> tuple[Tree, Tree, Tree]:
    """The server's state, its point, and the memories of all clients, in the precision of the weights."""
    z0 = tree.cast(z0, weights.dtype)
    server = method.start(geometry.dual(geometry.project(z0) if projected else z0), geometry)
    memory = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (weights.size, *leaf.shape)), method.memory(server))
    return server, method.point(server, geometry), memory
