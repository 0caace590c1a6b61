"""Rounds as pure functions: a cohort, local steps in chunks of clients, aggregation, sums behind the outputs."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .. import tree
from ..algorithms import AbstractMethod
from ..compiling import optimized
from ..geometry import AbstractGeometry
from ..random import fold_in
from ..tree import Tree
from .kinds import accumulated
from .local_steps import CachedPrimal, local_rounds
from .sharding import collect, over_devices, shard_memory
from .state import Contribution, Setup, State


@optimized
def advance(setup: Setup, state: State, rounds: Any) -> State:
    """`rounds` rounds later."""
    state = replace(state, memory=shard_memory(setup.mesh, state.memory))
    state = jax.lax.fori_loop(0, rounds.astype(int), lambda _, current: one_round(setup, current), state)
    return replace(state, memory=collect(setup.mesh, setup.clients, state.memory))


def one_round(setup: Setup, state: State) -> State:
    """Surveys if the method asks for them, local rounds on the cohort, aggregation, server step."""
    method, geometry = setup.method, setup.problem.geometry
    survey = state.reference if method.survey == "given" else None
    once: Any = CachedPrimal(geometry)
    point = method.point(state.server, once)
    for index in range(method.surveys):
        at = survey_point(method, state, once, index)
        survey = (at, setup.problem.operator(at))
        state = replace(state, server=method.surveyed(state.server, survey[1], once, index))
    ids, a = draw_cohort(setup, state.round)
    mean_steps = jnp.vdot(a, setup.steps[ids].astype(a.dtype))
    work = partial(_over_chunks, setup, state, survey, mean_steps)
    total, memory = over_devices(setup.mesh, setup.clients, work, setup.problem.data, state.memory, ids, a)
    fraction = jnp.asarray(setup.cohort / setup.clients, a.dtype)
    server = method.server_step(state.server, total.message, geometry, fraction)
    reference = survey if method.survey == "given" else point
    return State(server, memory, reference, accumulated(setup, state.sums, total), state.round + 1)


def survey_point(method: AbstractMethod, state: State, geometry: AbstractGeometry, index: int) -> Tree:
    """Where the round's survey of this index is taken."""
    return state.reference if method.survey == "stale" else method.survey_point(state.server, geometry, index)


def draw_cohort(setup: Setup, round_index: Array) -> tuple[Array, Array]:
    """The ids of the round's clients and their aggregation weights: the lead, or uniform and without replacement."""
    if setup.method.lead is not None:
        return jnp.asarray([setup.method.lead]), jnp.ones_like(setup.weights[:1])
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


def _take(stacked: Tree, ids: Array) -> Tree:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf).at[ids].get(mode="clip"), stacked)


def _put(stacked: Tree, ids: Array, updated: Tree) -> Tree:
    return jax.tree.map(lambda leaf, new: leaf.at[ids].set(new, mode="drop"), stacked, updated)
