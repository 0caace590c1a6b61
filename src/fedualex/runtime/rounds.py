"""Rounds as pure functions: cohorts, local steps on many clients at once, aggregation, sums behind the outputs."""

from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array

from .. import tree
from ..algorithms import AbstractMethod
from ..geometry import AbstractGeometry
from ..problems import AbstractOracle, AbstractProblem
from ..random import fold_in
from ..tree import Tree
from .sharding import collect, over_devices, shard_memory

CLIENTS = "clients"
"""The name of the axis along which clients are computed side by side."""


class Setup(eqx.Module):
    """What does not change during a run."""

    problem: AbstractProblem
    method: AbstractMethod
    oracle: AbstractOracle
    weights: Array
    """p, one for each client, summing to 1."""
    steps: Array
    """Local steps of each client; at most `local_steps`."""
    key: Array
    clients: int = eqx.field(static=True)
    cohort: int = eqx.field(static=True)
    local_steps: int = eqx.field(static=True)
    chunk: int = eqx.field(static=True)
    """How many clients are computed at once: memory grows with this, not with `clients`."""
    equal_steps: bool = eqx.field(static=True)
    merge_noise: bool = eqx.field(static=True, default=False)
    """Draw the mean of the clients' last samples of a round at once: the same law, other numbers (fast="law")."""
    mesh: Mesh | None = eqx.field(static=True, default=None)
    """The devices that the clients are spread over; None for one device."""


class Sums(eqx.Module):
    """Weighted sums of probes read as points: of each client's own (`clients`), of the averaged ones (`ergodic`)."""

    clients: Tree
    ergodic: Tree
    weight: Array


class State(eqx.Module):
    """What a run must remember to go on exactly as it would have: saved in checkpoints."""

    server: Tree
    memory: Tree
    reference: Tree
    """The previous round's server point, for stale surveys."""
    sums: Sums
    round: Array


class Contribution(eqx.Module):
    """What a chunk of clients adds to a round."""

    message: Tree
    probes: Tree
    """sum_m a_m probe, for every local step."""
    probe_weights: Array
    """sum_m a_m weight over the clients active in each local step."""
    shares: Array
    """sum_m a_m over the clients active in each local step."""
    points: Tree
    """sum_m a_m (K / K_m) sum_k weight read(probe)."""
    point_weight: Array


class MapsOnce:
    """A geometry that maps the same dual pair to its point once, however often it is asked.

    Extra-step methods map their half pair for its operator, and the outputs read that pair again. XLA removes such
    repetitions itself, except for LAPACK calls that wait for one another (`tree.depend_on`), the dearest of all.
    """

    def __init__(self, geometry: AbstractGeometry):
        self._geometry = geometry
        self._points: list[tuple[Any, Tree]] = []

    def primal(self, dual: Any) -> Tree:
        """The geometry's own, remembered."""
        for known, point in self._points:
            if known is dual:
                return point
        self._points.append((dual, self._geometry.primal(dual)))
        return self._points[-1][1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._geometry, name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Passes for what it stands for, where types are checked."""
        return type(self._geometry)


@eqx.filter_jit
def advance(setup: Setup, state: State, rounds: Array) -> State:
    """`rounds` rounds later."""
    state = replace(state, memory=shard_memory(setup.mesh, state.memory))
    state = jax.lax.fori_loop(0, rounds.astype(int), lambda _, current: one_round(setup, current), state)
    return replace(state, memory=collect(setup.mesh, setup.clients, state.memory))


def one_round(setup: Setup, state: State) -> State:
    """Survey if the method asks for it, local rounds on the cohort, aggregation, server step."""
    method, geometry = setup.method, setup.problem.geometry
    point = method.point(state.server, geometry)
    at = {"none": None, "fresh": point, "stale": state.reference}[method.survey]
    survey = None if at is None else (at, setup.problem.operator(at))
    ids, a = draw_cohort(setup, state.round)
    mean_steps = jnp.vdot(a, setup.steps[ids].astype(a.dtype))
    work = partial(_over_chunks, setup, state, survey, mean_steps)
    total, memory = over_devices(setup.mesh, setup.clients, work, setup.problem.data, state.memory, ids, a)
    fraction = jnp.asarray(setup.cohort / setup.clients, a.dtype)
    server = method.server_step(state.server, total.message, geometry, fraction)
    return State(server, memory, point, add_probes(setup, state.sums, total), state.round + 1)


def draw_cohort(setup: Setup, round_index: Array) -> tuple[Array, Array]:
    """The ids of the round's clients, uniform and without replacement, and their aggregation weights."""
    ids = jnp.arange(setup.clients)
    if setup.cohort < setup.clients:
        # Counter 0 is the cohort's, client m has counter m + 1: no stream is used twice.
        key = fold_in(fold_in(setup.key, round_index), 0)
        ids = jnp.sort(jax.random.choice(key, setup.clients, (setup.cohort,), replace=False))
    p = setup.weights[ids]
    return ids, p / jnp.sum(p)


def _over_chunks(
    setup: Setup,
    state: State,
    survey: Any,
    mean_steps: Array,
    data: Tree,
    memory: Tree,
    rows: Array,
    ids: Array,
    a: Array,
) -> tuple[Contribution, Tree]:
    """Contributions summed over chunks of the clients ids, who are the given rows of data and memory; the memories."""

    def chunk_of(data: Tree, memory: Tree, rows: Array, ids: Array, a: Array) -> tuple[Contribution, Tree]:
        part, updated = local_rounds(setup, state, survey, data, _take(memory, rows), ids, a, mean_steps)
        return part, _put(memory, rows, updated)

    if ids.size <= setup.chunk:
        everyone = setup.cohort == setup.clients
        return chunk_of(data if everyone else _take(data, rows), memory, rows, ids, a)
    count = -(-ids.size // setup.chunk)
    padding = count * setup.chunk - ids.size

    def split(along: Array, filler: int) -> Array:
        return jnp.pad(along, (0, padding), constant_values=filler).reshape(count, setup.chunk)

    # Padded clients have weight 0; their row is out of range, so that their memory is dropped.
    chunks = split(rows, setup.clients), split(ids, setup.clients), split(a, 0)

    def add_chunk(carry: tuple[Any, Tree], chunk: tuple[Array, Array, Array]) -> tuple[tuple[Any, Tree], None]:
        total, memory = carry
        part, memory = chunk_of(_take(data, chunk[0]), memory, *chunk)
        return (tree.add(total, part), memory), None

    shapes = jax.eval_shape(
        lambda first: chunk_of(_take(data, first[0]), memory, *first)[0], jax.tree.map(lambda leaf: leaf[0], chunks)
    )
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    (total, memory), _ = jax.lax.scan(add_chunk, (zero, memory), chunks)
    return total, memory


def local_rounds(
    setup: Setup, state: State, survey: Any, data: Tree, memory: Tree, ids: Array, a: Array, mean_steps: Array
) -> tuple[Contribution, Tree]:
    """A round of local steps on clients side by side: their weighted sums, and their memories."""
    method, problem = setup.method, setup.problem
    geometry, steps = problem.geometry, setup.steps.at[ids].get(mode="fill", fill_value=1)
    round_key = fold_in(setup.key, state.round)
    own = (
        None
        if survey is None
        else jax.vmap(lambda client: problem.client_operator(client, survey[0]), axis_size=a.size)(data)
    )

    def step_of(local: Tree, client: Tree, own_reference: Tree, m: Array, share: Array, k: Array) -> Any:
        def oracle(z: Tree, sample: int) -> Tree:
            draw, whose = setup.oracle, m
            if setup.merge_noise and sample == method.linear_sample:
                z, draw, whose = *_merged(z, draw, share), ids[0]
            step_key = fold_in(fold_in(round_key, whose + 1), k)
            g = draw(problem, client, z, fold_in(step_key, sample))
            return g if survey is None else tree.add(g, tree.subtract(survey[1], own_reference))

        once: Any = MapsOnce(geometry)
        local, probe, weight = method.local_step(local, oracle, once)
        return local, probe, jnp.asarray(weight, a.dtype), method.read(probe, once)

    # In the only step of a round all clients stand at one point: what depends on it alone is computed once.
    together = setup.local_steps == 1 and not jax.tree.leaves(memory)
    # With one sample for all at the end of that step, they also end at one point.
    after = None if setup.merge_noise else 0
    before = None if together else 0
    side_by_side = jax.vmap(step_of, (before, 0, 0, 0, 0, None), (after, 0, 0, 0), axis_name=CLIENTS)

    def step(carry: tuple[Tree, Tree, Array], k: Array) -> Any:
        local, points, point_weight = carry
        following, probe, weight, point = side_by_side(local, data, own, ids, a, k)
        active = (k < steps).astype(a.dtype)
        if not setup.equal_steps:
            following = jax.tree.map(lambda new, old: jnp.where(_along(active, new) > 0, new, old), following, local)
        share = a * active * weight * mean_steps / steps
        points = tree.add(points, _weighted(share, point))
        sums = _weighted(a * active, probe), jnp.vdot(a * active, weight), jnp.sum(a * active)
        return (following, points, point_weight + jnp.sum(share)), sums

    nothing = tree.scale(0.0, state.sums.clients), jnp.zeros((), a.dtype)
    if together:
        start = method.local_init(state.server, None), *nothing
        carry, sums = step(start, jnp.asarray(0))
        sums = jax.tree.map(lambda leaf: leaf[None], sums)
    else:
        start = jax.vmap(method.local_init, (None, 0), axis_size=a.size)(state.server, memory), *nothing
        carry, sums = jax.lax.scan(step, start, jnp.arange(setup.local_steps))
    (local, points, point_weight), (probes, weights, shares) = carry, sums
    if setup.merge_noise:
        message, memory = method.local_final(local, state.server, memory)
        message = tree.scale(jnp.sum(a), message)
    else:
        message, memory = jax.vmap(method.local_final, (0, None, 0), axis_size=a.size)(local, state.server, memory)
        message = _weighted(a if setup.equal_steps else a * mean_steps / steps, message)
    return Contribution(message, probes, weights, shares, points, point_weight), memory


def _merged(z: Tree, oracle: Any, share: Array) -> tuple[Tree, AbstractOracle]:
    """The mean point of the clients side by side, and an oracle with the noise of the mean of their samples.

    sum_m a_m (g(z_m) + xi_m) = s g(sum_m a_m z_m / s) + N(0, sigma^2 sum_m a_m^2), s = sum_m a_m, for affine g.
    """
    total = jax.lax.psum(share, CLIENTS)
    total = jnp.where(total > 0, total, 1)  # a device may have no clients
    mean = jax.tree.map(lambda leaf: jax.lax.psum(share * leaf, CLIENTS) / total, z)
    shrink = jnp.sqrt(jax.lax.psum(share**2, CLIENTS)) / total
    return mean, eqx.tree_at(lambda o: o.sigma, oracle, oracle.sigma * shrink)


def add_probes(setup: Setup, sums: Sums, total: Contribution) -> Sums:
    """The averaged probes of every local step, read as points, and the clients' own points."""
    method, geometry = setup.method, setup.problem.geometry

    def read(carry: Tree, step: tuple[Tree, Array, Array]) -> tuple[Tree, None]:
        probe, weight, share = step
        # With unequal steps nobody may be active in the last ones; their weight is 0.
        mean = tree.scale(1 / jnp.where(share > 0, share, 1), probe)
        return tree.add(carry, tree.scale(weight, method.read(mean, geometry))), None

    ergodic, _ = jax.lax.scan(read, sums.ergodic, (total.probes, total.probe_weights, total.shares))
    return Sums(tree.add(sums.clients, total.points), ergodic, sums.weight + total.point_weight)


def _weighted(a: Array, stacked: Tree) -> Tree:
    """sum_m a_m leaf_m."""
    return jax.tree.map(lambda leaf: jnp.tensordot(a.astype(leaf.dtype), leaf, 1), stacked)


def _along(a: Array, leaf: Array) -> Array:
    return a.reshape(a.shape + (1,) * (leaf.ndim - 1))


def _take(stacked: Tree, ids: Array) -> Tree:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf).at[ids].get(mode="clip"), stacked)


def _put(stacked: Tree, ids: Array, updated: Tree) -> Tree:
    return jax.tree.map(lambda leaf, new: leaf.at[ids].set(new, mode="drop"), stacked, updated)
