"""A run before its first round: options checked, steps chosen, and the fingerprint by which its checkpoint is known."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from .. import tree
from ..algorithms import AbstractMethod
from ..algorithms.exchanging import exchanging
from ..problems import AbstractProblem
from ..regularizers import is_spectral
from ..tree import Saddle
from ..validation import short
from . import checkpoint as checkpoints
from .choice import chosen_precision
from .exchanges import first_exchange
from .keywords import decisive
from .options import RunOptions, SimulatorOptions
from .setup import build_setup, first_state
from .state import Setup, State
from .steps import with_theory_steps
from .widening import Wider


@dataclass(frozen=True)
class Prepared:
    """What a run begins with."""

    problem: AbstractProblem
    """With the weights of this run."""
    options: SimulatorOptions
    setup: Setup
    start: State
    rounds: int
    steps: str
    """Which step sizes theory chose; empty if all were given."""
    precision: str
    """Of the rounds, and why."""
    wider: Wider | None
    """What rounds are computed with once they continue in float64; None if they keep their precision."""

    def run_id(self) -> str:
        """The fingerprint of all that decides how the run goes on (docs/simulator.md)."""
        # The problem as it was given: on a mesh no process has all data of the setup's.
        whole = eqx.tree_at(lambda s: s.problem, self.setup, self.problem)
        # The same if asked for or chosen, unless what was chosen may change.
        decides = decisive(replace(self.options, dtype=None if self.wider else self.setup.weights.dtype))
        return checkpoints.run_id(whole, self.start, decides)


def prepare(problem: AbstractProblem, method: AbstractMethod, options: SimulatorOptions) -> Prepared:
    """The run that these options describe, or one sentence about what does not fit. Call within `double()`."""
    rounds, clients = check_simulation(problem, method, options)
    mesh = fitting_mesh(options.mesh, problem)
    problem = _held_once(problem if options.weights is None else problem.reweighted(options.weights), mesh)
    check_cohort(options.cohort, problem.client_weights(clients))
    z0 = problem.validate_point(problem.like if options.z0 is None else options.z0, "z0")
    alone = options.steps is not None
    method, chosen = with_theory_steps(method, problem, options, z0, clients=clients, rounds=rounds, alone=alone)

    def built(dtype: Any) -> Setup:
        asked = replace(options, dtype=dtype)
        return build_setup(problem, method, asked, clients, chunk=options.chunk, fast=options.fast, mesh=mesh)

    setup, (kind, precision) = built(options.dtype), chosen_precision(method, options)
    wider = partial(built, "float64") if options.dtype is None and kind == "float32" else None
    return Prepared(problem, options, setup, start_of(setup, problem, z0, options), rounds, chosen, precision, wider)


def _held_once(problem: AbstractProblem, mesh: Mesh | None) -> AbstractProblem:
    """The problem with its data on the device in float64, which certificates, rounds in float64 and all else share."""
    if problem.data is None or mesh is not None:  # a mesh places the data of each device
        return problem
    held: AbstractProblem = eqx.tree_at(lambda p: p.data, problem, tree.cast(problem.data, jnp.float64))
    return held


def start_of(setup: Setup, problem: AbstractProblem, z0: Saddle, options: RunOptions, **averages: Any) -> State:
    """The state with which a run begins."""
    method = exchanging(setup.method)
    if method is not None:
        return first_exchange(method, setup, problem, z0)
    return first_state(setup, z0, options, **averages)


def check_simulation(problem: AbstractProblem, method: AbstractMethod, options: SimulatorOptions) -> tuple[int, int]:
    """The number of rounds and of clients, or one sentence about what does not fit."""
    check_length(options)
    alone = options.clients in (None, 1) and options.cohort in (None, 1) and options.local_steps == 1
    if options.steps is not None and not alone:
        raise ValueError("steps= means one client and one local step: leave out clients, cohort and local_steps")
    if problem.clients and options.clients not in (None, problem.clients):
        raise ValueError(f"clients must be {problem.clients}, as many as the problem's data has, got {options.clients}")
    clients = int(problem.clients or options.clients or 1)
    if options.steps is not None and clients > 1:
        raise ValueError(f"steps= means one client, and the problem has {clients}: use rounds=")
    check_clients(problem, method, options, clients)
    return int(options.rounds or options.steps or 0), clients


def check_length(options: SimulatorOptions) -> None:
    """It must be said how long a run is, and once."""
    if (options.rounds is None) == (options.steps is None):
        raise TypeError("give either rounds= (with clients= and local_steps=) or steps= (one machine)")


def check_clients(problem: AbstractProblem, method: AbstractMethod, options: RunOptions, clients: int) -> None:
    """Whether so many clients can run the method with these options."""
    steps = options.local_steps
    if np.shape(steps) not in ((), (clients,)):
        raise ValueError(
            f"local_steps must be a whole number >= 1, or one for each of {clients} clients, got {short(steps)}"
        )
    if options.cohort is not None and options.cohort > clients:
        raise ValueError(f"cohort must be at most the number of clients, {clients}, got {options.cohort}")
    if options.cohort not in (None, clients) and method.exchanging:
        raise ValueError(f"{type(method).__name__} surveys all clients: leave out cohort={options.cohort}")
    if options.cohort is not None and method.lead is not None:
        raise ValueError(f"{type(method).__name__} has a lead instead of a cohort: leave out cohort={options.cohort}")
    if reason := method.refusal(problem, clients, steps):
        raise ValueError(reason)


def check_cohort(cohort: object, weights: Any) -> None:
    """Whoever is drawn must weigh something."""
    if cohort is not None and not np.sum(np.sort(weights)[:cohort]) > 0:
        raise ValueError(f"cohort must be large enough that some client of weight > 0 is in it, got {cohort}")


def fitting_mesh(mesh: Mesh | None, problem: AbstractProblem) -> Mesh | None:
    """A mesh whose one axis is the clients', and which this process has a part in; its axis left to the compiler."""
    if mesh is None:
        return None
    if len(mesh.axis_names) != 1:
        raise ValueError(f"mesh must have one axis, along which clients are split, got {mesh.axis_names}")
    processes = {device.process_index for device in mesh.devices.flat}
    if processes not in ({jax.process_index()}, set(range(jax.process_count()))):
        raise ValueError(
            f"mesh must have devices of this process alone or of all {jax.process_count()} processes, "
            f"got those of {sorted(processes)}"
        )
    spectral = any(map(is_spectral, jax.tree.leaves(problem.geometry, is_leaf=is_spectral)))
    if spectral and len(mesh.local_devices) > 1 and mesh.local_devices[0].platform == "cpu":
        # Two devices that call LAPACK at once wait for each other forever (docs/scaling.md).
        raise ValueError(
            f"mesh must have one CPU device in each process for a problem with Spectral parts, got "
            f"{len(mesh.local_devices)}; start more processes instead"
        )
    return Mesh(mesh.devices, mesh.axis_names)
