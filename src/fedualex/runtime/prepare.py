"""A run before its first round: options checked, steps chosen, and the fingerprint by which its checkpoint is known."""

from dataclasses import dataclass

import equinox as eqx

from ..algorithms import AbstractMethod
from ..problems import AbstractProblem
from . import checkpoint as checkpoints
from .checks import check_cohort, check_simulation, fitting_mesh
from .keywords import decisive
from .options import SimulatorOptions
from .rounds import Setup, State
from .setup import build_setup, first_state
from .steps import with_theory_steps


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

    def run_id(self) -> str:
        """The fingerprint of all that decides how the run goes on (docs/simulator.md)."""
        # The problem as it was given: on a mesh no process has all data of the setup's.
        whole = eqx.tree_at(lambda s: s.problem, self.setup, self.problem)
        return checkpoints.run_id(whole, self.start, decisive(self.options))


def prepare(problem: AbstractProblem, method: AbstractMethod, options: SimulatorOptions) -> Prepared:
    """The run that these options describe, or one sentence about what does not fit. Call within `double()`."""
    rounds, clients = check_simulation(problem, method, options)
    mesh = fitting_mesh(options.mesh, problem)
    problem = problem if options.weights is None else problem.reweighted(options.weights)
    check_cohort(options.cohort, problem.client_weights(clients))
    z0 = problem.validate_point(problem.like if options.z0 is None else options.z0, "z0")
    alone = options.steps is not None
    method, chosen = with_theory_steps(method, problem, options, z0, clients=clients, rounds=rounds, alone=alone)
    setup = build_setup(problem, method, options, clients, chunk=options.chunk, fast=options.fast, mesh=mesh)
    return Prepared(problem, options, setup, first_state(setup, z0, options), rounds, chosen)
