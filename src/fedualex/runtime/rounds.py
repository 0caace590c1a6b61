"""Rounds as pure functions: a cohort, local steps in chunks of clients, aggregation, sums behind the outputs."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .. import tree
from ..algorithms import AbstractMethod
from ..compiling import compile_fully
from ..geometry import AbstractGeometry, Dual
from ..problems import AbstractOracle
from ..random import fold_in
from ..tree import Count, Tree, Vector
from .outputs import accumulate
from .sharding import collect, map_over_devices, shard_memory
from .state import Contribution, Setup, State

# A round of local steps on clients side by side.


CLIENTS = "clients"
"""The name of the axis along which clients are computed side by side."""


class CachedPrimal:
    """A geometry that maps the same dual pair to its point once, however often it is asked.

    Extra-step methods map their half pair for its operator, and the outputs read that pair again. XLA removes such
    repetitions itself, except for LAPACK calls that wait for one another (`tree.depend_on`), the dearest of all.
    """

    def __init__(self, geometry: AbstractGeometry):
        self._geometry = geometry
        self._points: list[tuple[Dual, Tree]] = []

    def primal(self, dual: Dual) -> Tree:
        """The geometry's own `primal`, remembered."""
        for known, point in self._points:
            if known is dual:
                return point
        self._points.append((dual, self._geometry.primal(dual)))
        return self._points[-1][1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._geometry, name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of the geometry that it stands for, so that it passes checks of types."""
        return type(self._geometry)


def run_local_steps(
    setup: Setup, state: State, survey: Tree, data: Tree, memory: Tree, ids: Array, a: Array, mean_steps: Array
) -> tuple[Contribution, Tree]:
    """A round of local steps on clients side by side; returns their weighted sums, and their memories."""
    method, problem, steps = setup.rounds, setup.problem, setup.steps.at[ids].get(mode="fill", fill_value=1)
    own = (
        None
        if survey is None
        else jax.vmap(lambda client: problem.client_operator(client, survey[0]), axis_size=a.size)(data)
    )
    # In the only step of a round all clients stand at one point: what depends on it alone is computed once.
    together = setup.local_steps == 1 and not jax.tree.leaves(memory)
    # With one sample for all at the end of that step, they also end at one point.
    after = None if setup.merge_noise else 0
    before = None if together else 0
    step_client = _make_client_step(setup, state, survey, ids, a.dtype)
    side_by_side = jax.vmap(step_client, (before, 0, 0, 0, 0, None), (after, 0, 0, 0), axis_name=CLIENTS)

    def step(carry: tuple[Tree, Tree, Array], k: Array) -> tuple[tuple[Tree, Tree, Array], Tree]:
        local, points, point_weight = carry
        following, probe, weight, point = side_by_side(local, data, own, ids, a, k)
        active = (k < steps).astype(a.dtype)
        if not setup.equal_steps:
            following = jax.tree.map(lambda new, old: jnp.where(_along(active, new) > 0, new, old), following, local)
        share = a * active * weight * mean_steps / steps
        points = tree.add(points, _sum_weighted(share, point))
        sums = _sum_weighted(a * active, probe), jnp.vdot(a * active, weight), jnp.sum(a * active)
        return (following, points, point_weight + jnp.sum(share)), sums

    zero = jax.tree.map(lambda leaf: jnp.zeros(jnp.shape(leaf), a.dtype), problem.like)
    nothing = zero, jnp.zeros((), a.dtype)
    if together:
        carry, sums = step((method.local_init(state.server, None), *nothing), jnp.asarray(0))
        sums = jax.tree.map(lambda leaf: leaf[None], sums)
    else:
        start = jax.vmap(method.local_init, (None, 0), axis_size=a.size)(state.server, memory)
        carry, sums = jax.lax.scan(step, (start, *nothing), jnp.arange(setup.local_steps))
    (local, points, point_weight), (probes, weights, shares) = carry, sums
    by_steps = a if setup.equal_steps else a * mean_steps / steps
    message, memory = _collect(setup, state, local, memory, a, by_steps)
    return Contribution(message, probes, weights, shares, points, point_weight), memory


def _make_client_step(setup: Setup, state: State, survey: Tree, ids: Array, dtype: Any) -> Callable[..., Any]:
    """The function of one local step of one client: the state after it, the probe, the probe's weight and point."""
    method, problem = setup.rounds, setup.problem
    round_key = fold_in(setup.key, state.round)

    def step_client(local: Tree, client: Tree, own_reference: Tree, m: Array, share: Array, k: Array) -> Any:
        def oracle(z: Tree, sample: int) -> Tree:
            draw, whose = setup.oracle, m
            if setup.merge_noise and sample == method.linear_sample:
                z, draw, whose = *_merge_samples(z, draw, share), ids[0]
            step_key = fold_in(fold_in(round_key, whose + 1), k)
            g = draw(problem, client, z, fold_in(step_key, sample))
            return g if survey is None else tree.add(g, tree.subtract(survey[1], own_reference))

        once: Any = CachedPrimal(problem.geometry)
        local, probe, weight = method.local_step(local, oracle, once)
        return local, probe, jnp.asarray(weight, dtype), method.read(probe, once)

    return step_client


def _collect(setup: Setup, state: State, local: Tree, memory: Tree, a: Array, shares: Array) -> tuple[Tree, Tree]:
    """What the clients send after their last step, as one weighted sum, and their memories."""
    final = setup.rounds.local_final
    if setup.merge_noise:  # they stand at one point
        message, memory = final(local, state.server, memory)
        return tree.scale(jnp.sum(a), message), memory
    messages, memory = jax.vmap(final, (0, None, 0), axis_size=a.size)(local, state.server, memory)
    return _sum_weighted(shares, messages), memory


def _merge_samples(z: Tree, oracle: Any, share: Array) -> tuple[Tree, AbstractOracle]:
    """The mean point of the clients side by side, and an oracle with the noise of the mean of their samples.

    sum_m a_m (g(z_m) + xi_m) = s g(sum_m a_m z_m / s) + N(0, sigma^2 sum_m a_m^2), s = sum_m a_m, for affine g.
    """
    total = jax.lax.psum(share, CLIENTS)
    total = jnp.where(total > 0, total, 1)  # a device may have no clients
    mean = jax.tree.map(lambda leaf: jax.lax.psum(share * leaf, CLIENTS) / total, z)
    shrink = jnp.sqrt(jax.lax.psum(share**2, CLIENTS)) / total
    return mean, eqx.tree_at(lambda o: o.sigma, oracle, oracle.sigma * shrink)


def _sum_weighted(a: Array, stacked: Tree) -> Tree:
    """sum_m a_m leaf_m."""
    return jax.tree.map(lambda leaf: jnp.tensordot(a.astype(leaf.dtype), leaf, 1), stacked)


def _along(a: Array, leaf: Array) -> Array:
    return a.reshape(a.shape + (1,) * (leaf.ndim - 1))


@compile_fully
def advance(setup: Setup, state: State, rounds: Vector) -> State:
    """The state so many rounds later. rounds: an array, so that another number needs no other program."""
    state = replace(state, memory=shard_memory(setup.mesh, state.memory))
    state = jax.lax.fori_loop(0, rounds.astype(int), lambda _, current: run_round(setup, current), state)
    return replace(state, memory=collect(setup.mesh, setup.clients, state.memory))


def run_round(setup: Setup, state: State) -> State:
    """One round: surveys if the method asks for them, local steps on the cohort, aggregation, server step."""
    method, geometry = setup.rounds, setup.problem.geometry
    survey = state.reference if method.survey == "given" else None
    once: Any = CachedPrimal(geometry)
    point = method.point(state.server, once)
    for index in range(method.surveys):
        at = survey_point(method, state, once, index)
        survey = (at, setup.problem.operator(at))
        state = replace(state, server=method.surveyed(state.server, survey[1], once, index))
    ids, a = draw_cohort(setup, state.round)
    mean_steps = jnp.vdot(a, setup.steps[ids].astype(a.dtype))
    work = partial(_sum_over_chunks, setup, state, survey, mean_steps)
    total, memory = map_over_devices(setup.mesh, setup.clients, work, setup.problem.data, state.memory, ids, a)
    fraction = jnp.asarray(setup.cohort / setup.clients, a.dtype)
    server = method.server_step(state.server, total.message, geometry, fraction)
    reference = survey if method.survey == "given" else point
    return State(server, memory, reference, accumulate(setup, state.sums, total), state.round + 1)


def survey_point(method: AbstractMethod, state: State, geometry: AbstractGeometry, index: int) -> Tree:
    """Where the round's survey of this index is taken."""
    return state.reference if method.survey == "stale" else method.survey_point(state.server, geometry, index)


def draw_cohort(setup: Setup, round_index: Count) -> tuple[Array, Array]:
    """The ids of the round's clients and their aggregation weights: the lead, or uniform and without replacement."""
    if setup.rounds.lead is not None:
        return jnp.asarray([setup.rounds.lead]), jnp.ones_like(setup.weights[:1])
    ids = jnp.arange(setup.clients)
    if setup.cohort < setup.clients:
        # Counter 0 is the cohort's, client m has counter m + 1: no stream is used twice.
        key = fold_in(fold_in(setup.key, round_index), 0)
        ids = jnp.sort(jax.random.choice(key, setup.clients, (setup.cohort,), replace=False))
    p = setup.weights[ids]
    return ids, p / jnp.sum(p)


def _sum_over_chunks(
    setup: Setup,
    state: State,
    survey: object,
    mean_steps: Array,
    data: Tree,
    memory: Tree,
    rows: Array,
    ids: Array,
    a: Array,
) -> tuple[Contribution, Tree]:
    """Contributions summed over chunks of the clients ids, who are the given rows of data and memory; the memories."""

    def run_chunk(data: Tree, memory: Tree, rows: Array, ids: Array, a: Array) -> tuple[Contribution, Tree]:
        part, updated = run_local_steps(setup, state, survey, data, _take(memory, rows), ids, a, mean_steps)
        return part, _put(memory, rows, updated)

    if ids.size <= setup.chunk:
        everyone = setup.cohort == setup.clients
        return run_chunk(data if everyone else _take(data, rows), memory, rows, ids, a)
    count = -(-ids.size // setup.chunk)
    padding = count * setup.chunk - ids.size

    def split(along: Array, filler: int) -> Array:
        return jnp.pad(along, (0, padding), constant_values=filler).reshape(count, setup.chunk)

    # Padded clients have weight 0; their row is out of range, so that their memory is dropped.
    chunks = split(rows, setup.clients), split(ids, setup.clients), split(a, 0)

    def add_chunk(carry: tuple[Any, Tree], chunk: tuple[Array, Array, Array]) -> tuple[tuple[Any, Tree], None]:
        total, memory = carry
        part, memory = run_chunk(_take(data, chunk[0]), memory, *chunk)
        return (tree.add(total, part), memory), None

    shapes = jax.eval_shape(
        lambda first: run_chunk(_take(data, first[0]), memory, *first)[0], jax.tree.map(lambda leaf: leaf[0], chunks)
    )
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    (total, memory), _ = jax.lax.scan(add_chunk, (zero, memory), chunks)
    return total, memory


def _take(stacked: Tree, ids: Array) -> Tree:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf).at[ids].get(mode="clip"), stacked)


def _put(stacked: Tree, ids: Array, updated: Tree) -> Tree:
    return jax.tree.map(lambda leaf, new: leaf.at[ids].set(new, mode="drop"), stacked, updated)
