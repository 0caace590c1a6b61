"""The laws between the views of a problem: all of it, a client's own, a server's, a sample, other weights."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..precision import double
from ..problems import AbstractProblem
from ..runtime.outputs import operator_at
from ..tree import Saddle, Tree
from .sampling import holds

SAME = 1e-9
"""By how much operators that are computed in two ways may differ, relative to their sizes."""
DRAWS = 1000
DEVIATIONS = 7.0
"""How many standard errors the mean of DRAWS minibatches may be off: less than one entry in 1e11 is, by chance."""


def view_laws(problem: AbstractProblem, z: Saddle, rng: np.random.Generator) -> dict[str, float]:
    """The margins of all laws between views, with operators at z."""
    with double():
        exact, point = tree.cast_module(problem, jnp.float64), tree.cast(z, jnp.float64)
        whole, server = operator_at(exact, point), exact.without_data()
        laws = {
            "without_data keeps the domain": holds(eqx.tree_equal(server.geometry, exact.geometry)),
            "without_data holds no data": holds(problem.data is None or not _sizes(server.data)),
            "sampled with room for all is the problem": _agree(_sampled(problem, rng, point), whole),
        }
        if problem.clients is None:
            return laws | {"without data client_operator is the operator": _agree(_own(exact, None, point), whole)}
        return laws | _client_laws(exact, point, whole, rng)


def _client_laws(problem: AbstractProblem, z: Saddle, whole: Saddle, rng: np.random.Generator) -> dict[str, float]:
    clients = int(problem.clients or 1)
    p = np.asarray(problem.client_weights(clients))
    data = [jax.tree.map(lambda leaf, m=m: leaf[m], problem.data) for m in range(clients)]
    own = [_own(problem, client, z) for client in data]
    mean = tree.scale(0.0, whole)
    for share, g in zip(p, own, strict=True):
        mean = tree.add(mean, tree.scale(share, g))
    m = int(rng.integers(clients))
    laws = {
        "client_weights are >= 0 and sum to 1": SAME - abs(p.sum() - 1) if np.all(p >= 0) else -1.0,
        "the weighted mean of client operators is the operator": _agree(mean, whole, *own),
        "of_client has the operator of that client": _agree(operator_at(problem.of_client(m), z), own[m]),
        "minibatches are unbiased": _bias(problem, data[m], z, own[m], int(rng.integers(2**31))),
    }
    try:
        alone = problem.reweighted(np.eye(clients)[m])
    except (TypeError, ValueError):  # its domains hold for its own weights
        return laws
    return laws | {"reweighted to one client has its operator": _agree(operator_at(alone, z), own[m])}


def _bias(problem: AbstractProblem, client: Tree, z: Saddle, expected: Saddle, seed: int) -> float:
    """The smallest margin of |mean of minibatches - g_m| <= DEVIATIONS standard errors, over all entries."""
    keys = jax.random.split(jax.random.key(seed), DRAWS)
    drawn = eqx.filter_jit(lambda keys: jax.lax.map(lambda key: problem.minibatch_operator(client, z, 2, key), keys))
    margins = []
    for sample, exact in zip(jax.tree.leaves(drawn(keys)), jax.tree.leaves(expected), strict=True):
        rounding = SAME * (1e-12 + np.max(np.abs(sample)))
        allowed = DEVIATIONS * np.std(sample, axis=0) / np.sqrt(DRAWS) + rounding
        margins.append(np.min(allowed - np.abs(np.mean(sample, axis=0) - np.asarray(exact))))
    return float(min(margins))


def _sampled(problem: AbstractProblem, rng: np.random.Generator, z: Saddle) -> Saddle:
    clients = problem.clients or 1
    room = clients * max((np.size(leaf) for leaf in jax.tree.leaves(problem.data)), default=1)
    sampled: Saddle = operator_at(tree.cast_module(problem.sampled(room, rng), jnp.float64), z)
    return sampled


@eqx.filter_jit
def _own(problem: AbstractProblem, client: Any, z: Saddle) -> Saddle:
    return problem.client_operator(client, z)


def _sizes(data: Tree) -> int:
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(data))


def _agree(found: Saddle, expected: Saddle, *terms: Saddle) -> float:
    """The margin of equality, relative to the largest entry of what was compared or added up."""
    largest = max(float(jnp.max(jnp.abs(leaf))) for leaf in jax.tree.leaves((expected, terms)))
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return SAME * (1e-12 + largest) - max(float(jnp.max(jnp.abs(a - b))) for a, b in pairs)
