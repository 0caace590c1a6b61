"""A run before its first round: options checked, steps chosen, and the fingerprint by which its checkpoint is known."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np

from ..problems import AbstractProblem, Exact
from ..validation import one_of
from . import checkpoint as checkpoints
from .options import check_choices, check_cohort, check_mesh, check_sizes
from .rounds import Setup, State
from .setup import build_setup, first_state
from .steps import with_theory_steps


@dataclass(frozen=True)
class Prepared:
    """What a run begins with."""

    problem: AbstractProblem
    """With the weights of this run."""
    setup: Setup
    start: State
    rounds: int
    record_every: int
    tol: float | None
    output: str | None
    steps: str
    """Which step sizes theory chose; empty if all were given."""
    init: str

    def run_id(self) -> str:
        """The fingerprint of all that decides how the run goes on (docs/simulator.md)."""
        # The problem as it was given: on a mesh no process has all data of the setup's.
        whole = eqx.tree_at(lambda s: s.problem, self.setup, self.problem)
        choices = (self.rounds, self.record_every, self.tol, self.output)
        return checkpoints.run_id(whole, self.start, self.init, *map(str, choices))


def prepare(
    problem: Any,
    method: Any,
    *,
    tol: Any = None,
    rounds: Any = None,
    steps: Any = None,
    clients: Any = None,
    weights: Any = None,
    local_steps: Any = 1,
    cohort: Any = None,
    noise: Any = None,
    seed: Any = 0,
    z0: Any = None,
    init: Any = "project",
    record_every: Any = None,
    output: Any = None,
    dtype: Any = "float64",
    chunk: Any = None,
    fast: Any = None,
    mesh: Any = None,
) -> Prepared:
    """The run that these options of `simulate` describe, or one sentence about what does not fit. Within `double()`."""
    total, clients = check_sizes(problem, method, rounds, steps, clients, local_steps, cohort)
    check_choices(init, output, noise, seed, tol, record_every, chunk, dtype)
    seed = int(seed)  # numpy's narrow integers would overflow
    cohort, chunk, record_every = (None if size is None else int(size) for size in (cohort, chunk, record_every))
    if fast is not None:
        one_of("fast", fast, ("law",))
    mesh = check_mesh(mesh, problem)
    problem = problem if weights is None else problem.reweighted(weights)
    check_cohort(cohort, problem.client_weights(clients))
    oracle = Exact() if noise is None else noise
    z0 = problem.admit(problem.like if z0 is None else z0, "z0")
    sizes: dict[str, Any] = {"clients": clients, "local_steps": int(np.max(local_steps)), "rounds": total}
    sizes["as_assumed"] = init == "project" and bool(np.min(local_steps) == np.max(local_steps))
    method, chosen = with_theory_steps(method, problem, oracle, z0, one_machine=steps is not None, **sizes)
    setup = build_setup(problem, method, oracle, clients, cohort, local_steps, seed, dtype, chunk, fast, mesh)
    start = first_state(setup, z0, init, dtype)
    every = record_every or max(1, total // 50)
    return Prepared(problem, setup, start, total, every, tol, output, chosen, init)
