"""The sizes of a run, checked before anything is compiled."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from ..algorithms import AbstractMethod, ChambollePock, ScaffoldSMemory, SynchronousMirrorProx, TsengAPG
from ..geometry import Euclidean
from ..problems import AbstractOracle, AbstractProblem, Bilinear
from ..problems.base import as_problem
from ..regularizers import is_spectral
from ..validation import one_of, plain_array, positive, short, whole_number

OUTPUTS = ("last", "clients", "ergodic", "polished")


def check_sizes(
    problem: Any, method: Any, rounds: Any, steps: Any, clients: Any, local_steps: Any, cohort: Any
) -> tuple[int, int]:
    """The number of rounds and of clients, or one sentence about what does not fit."""
    as_problem(problem)
    if not isinstance(method, AbstractMethod):
        raise TypeError(f"method must be a method such as fx.FeDualEx(eta_c=0.03), got {short(method)}")
    if (rounds is None) == (steps is None):
        raise TypeError("give either rounds= (with clients= and local_steps=) or steps= (one machine)")
    for name, value in (("rounds", rounds), ("steps", steps), ("clients", clients), ("cohort", cohort)):
        if value is not None:
            whole_number(name, value)
    if steps is not None and (clients not in (None, 1) or cohort not in (None, 1) or local_steps != 1):
        raise ValueError("steps= means one client and one local step: leave out clients, cohort and local_steps")
    if problem.clients and clients not in (None, problem.clients):  # 0: a server, whose data is elsewhere
        raise ValueError(f"clients must be {problem.clients}, as many as the problem's data has, got {clients}")
    count = int(problem.clients or clients or 1)  # numpy's narrow integers would overflow
    if steps is not None and count > 1:
        raise ValueError(f"steps= means one client, and the problem has {count}: use rounds=")
    _check_local_steps(local_steps, count)
    if cohort is not None and cohort > count:
        raise ValueError(f"cohort must be at most the number of clients, {count}, got {cohort}")
    if method.one_machine and (count > 1 or np.max(local_steps) > 1):
        raise ValueError(f"{type(method).__name__} is a method for one machine: use steps=, on one client")
    if isinstance(method, SynchronousMirrorProx) and np.max(local_steps) > 1:
        raise ValueError(f"SynchronousMirrorProx takes local_steps=1, got {short(local_steps)}")
    if isinstance(method, ScaffoldSMemory) and np.min(local_steps) < np.max(local_steps):
        raise ValueError(
            f"ScaffoldSMemory takes the same number of local_steps on all clients, got {short(local_steps)}"
        )
    if isinstance(method, ChambollePock | TsengAPG) and not _is_euclidean_game(problem):
        raise ValueError(
            f"{type(method).__name__} is a method for bilinear games in Euclidean geometry, got {problem!r}"
        )
    return int(rounds if steps is None else steps), count


def check_cohort(cohort: int | None, weights: Any) -> None:
    """Whoever is drawn must weigh something."""
    if cohort is not None and not np.sum(np.sort(weights)[:cohort]) > 0:
        raise ValueError(f"cohort must be large enough that some client of weight > 0 is in it, got {cohort}")


def check_choices(
    init: Any, output: Any, noise: Any, seed: Any, tol: Any, record_every: Any, chunk: Any, dtype: Any
) -> None:
    """Everything else that can be wrong before a run begins."""
    one_of("init", init, ("project", "paper"))
    if output is not None:
        one_of("output", output, OUTPUTS)
    if noise is not None and not isinstance(noise, AbstractOracle):
        raise TypeError(f"noise must be fx.GaussianNoise(sigma), fx.Minibatch(size) or None, got {short(noise)}")
    if tol is not None:
        positive("tol", tol)
    if whole_number("seed", seed, least=0) >= 2**63:
        raise ValueError(f"seed must be a whole number below 2^63, got {seed}")
    for name, value in (("record_every", record_every), ("chunk", chunk)):
        if value is not None:
            whole_number(name, value)
    try:
        kind = str(np.dtype(dtype))
    except TypeError:
        kind = ""
    if kind not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float32' or 'float64', got {short(dtype)}")


def check_mesh(mesh: Any, problem: AbstractProblem) -> Mesh | None:
    """A mesh whose one axis is the clients', and which this process has a part in; its axis left to the compiler."""
    if mesh is None:
        return None
    if not isinstance(mesh, Mesh):
        raise TypeError(
            f"mesh must be a jax.sharding.Mesh such as jax.make_mesh((2,), ('clients',)), got {short(mesh)}"
        )
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


def check_hooks(callback: Any, checkpoint: Any, max_seconds: Any) -> None:
    """What a run calls, writes to and waits for."""
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function of one record, got {short(callback)}")
    if checkpoint is not None and not isinstance(checkpoint, str | Path):
        raise TypeError(f"checkpoint must be the path of a file, got {short(checkpoint)}")
    if max_seconds is not None:
        positive("max_seconds", max_seconds)


def _is_euclidean_game(problem: Any) -> bool:
    parts = (problem.geometry.parts.x, problem.geometry.parts.y)
    return isinstance(problem, Bilinear) and all(isinstance(part, Euclidean) for part in parts)


def _check_local_steps(local_steps: Any, clients: int) -> None:
    array = plain_array("local_steps", local_steps)
    if array.dtype.kind not in "iu" or array.shape not in ((), (clients,)) or np.any(array < 1):
        raise ValueError(
            f"local_steps must be a whole number >= 1, or one for each of {clients} clients, got {short(local_steps)}"
        )
