"""Clients spread over the devices of a mesh, of one process or of several; the server is on every device, alike.

Device i of D has clients i n, ..., (i + 1) n - 1 with their data and memories, n = ceil(M / D).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from ..problems import AbstractProblem
from ..tree import Tree


def spread(problem: AbstractProblem, mesh: Mesh | None) -> AbstractProblem:
    """The problem with its clients' data on their devices; clients of weight 0 fill the last ones up."""
    if mesh is None or problem.clients is None:
        return problem
    clients, total = problem.clients, -(-problem.clients // mesh.size) * mesh.size
    sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))

    def place(leaf: Array) -> Array:
        def rows(index: Any) -> Any:
            return np.take(leaf, np.arange(total)[index[0]], axis=0, mode="clip")

        return jax.make_array_from_callback((total, *np.shape(leaf)[1:]), sharding, rows)

    weights = np.pad(problem.client_weights(clients), (0, total - clients))
    return eqx.tree_at(lambda p: (p.data, p.weights), problem, (jax.tree.map(place, problem.data), weights))


def clients_per_device(mesh: Mesh | None, clients: int, cohort: int, settled: bool) -> int:
    """The most clients of a cohort that a device computes: those it has, if they are settled, else an even share."""
    if mesh is None:
        return cohort
    return min(cohort, -(-clients // mesh.size)) if settled else -(-cohort // mesh.size)


def map_over_devices(
    mesh: Mesh | None,
    clients: int,
    work: Callable[..., tuple[Tree, Tree]],
    data: Tree,
    memory: Tree,
    ids: Array,
    a: Array,
) -> tuple[Tree, Tree]:
    """work(data, memory, rows, ids, a) on every device for its part of a sorted cohort: the sum, and the memories.

    rows are the places of the clients ids in the device's data and memory; a, their weights.
    """
    if mesh is None:
        return work(data, memory, ids, ids, a)
    settled = bool(jax.tree.leaves((data, memory)))
    here, count = -(-clients // mesh.size), clients_per_device(mesh, clients, ids.size, settled)

    def on_device(data: Tree, memory: Tree) -> tuple[Tree, Tree]:
        device = jax.lax.axis_index(mesh.axis_names)
        edges = jnp.stack([device, device + 1])
        start, stop = jnp.searchsorted(ids, here * edges) if settled else count * edges
        # Nobody has weight 0 and an id beyond all clients, on every device.
        present = jnp.arange(count) < stop - start
        own = jax.lax.dynamic_slice(jnp.pad(ids, (0, count)), (start,), (count,))
        own = jnp.where(present & (own < clients), own, here * mesh.size)
        weights = jnp.where(present, jax.lax.dynamic_slice(jnp.pad(a, (0, count)), (start,), (count,)), 0)
        total, updated = work(data, memory, own - here * device, own, weights)
        return jax.lax.psum(total, mesh.axis_names), updated

    along = PartitionSpec(mesh.axis_names)
    # What a loop carries differs between devices until it is summed, which the check of replication would want marked.
    return jax.shard_map(on_device, mesh=mesh, in_specs=along, out_specs=(PartitionSpec(), along), check_vma=False)(
        data, memory
    )


def shard_memory(mesh: Mesh | None, memory: Tree) -> Tree:
    """Every client's memory on its device, with rows for nobody at the end."""
    if mesh is None:
        return memory

    def place(leaf: Array) -> Array:
        padded = jnp.pad(leaf, ((0, -len(leaf) % mesh.size), *[(0, 0)] * (leaf.ndim - 1)))
        return jax.lax.with_sharding_constraint(padded, NamedSharding(mesh, PartitionSpec(mesh.axis_names)))

    return jax.tree.map(place, memory)


def collect(mesh: Mesh | None, clients: int, memory: Tree) -> Tree:
    """All memories on every device."""
    if mesh is None:
        return memory
    everywhere = NamedSharding(mesh, PartitionSpec())
    return jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf[:clients], everywhere), memory)


def local(mesh: Mesh | None, replicated: Tree) -> Tree:
    """What all devices hold alike, as arrays of this process, which can be combined with others."""
    return replicated if mesh is None else jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), replicated)


# --- several processes ----------------------------------------------------------------------------------------------


def spans_processes(mesh: Mesh | None) -> bool:
    """Whether the mesh has devices of other processes, which must decide everything alike."""
    return mesh is not None and len({device.process_index for device in mesh.devices.flat}) > 1


def is_writer(mesh: Mesh | None) -> bool:
    """Whether this process writes checkpoints and shows progress."""
    return not spans_processes(mesh) or jax.process_index() == 0


def agree_on_seconds(mesh: Mesh | None, seconds: float) -> float:
    """The first process's clock, so that all stop at the same record."""
    return float(multihost_utils.broadcast_one_to_all(np.float64(seconds))) if spans_processes(mesh) else seconds


def check_shared(mesh: Mesh | None, file: Path) -> None:
    """Refuse a checkpoint that some processes do not see: they would start from different rounds."""
    if spans_processes(mesh):
        seen = multihost_utils.process_allgather(np.array([file.parent.is_dir(), file.exists()]))
        if np.any(seen != seen[0]):
            raise ValueError(f"checkpoint must be in a folder that all processes share; not all see {str(file)!r}")
