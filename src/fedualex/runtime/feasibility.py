"""Whether a model of the domain meets the limits of a problem: a proof that none does, or nothing."""

import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..algorithms import BacktrackingCoMP
from ..display import rounded_down
from ..precision import double
from ..problems import AbstractProblem
from ..problems.feasibility import excess, is_doubtful, least_violation, phase_one
from ..tree import Saddle, Tree
from .outputs import Evaluator
from .run import Run
from .status import Stop, status_of

FIRST, BLOCKS = 50, 5
"""Tries in the first block, and how many blocks of twice as many as the one before are run at most."""

CLOSE = 0.9
"""A lower bound that is this share of a violation that was reached says enough."""

METHOD = BacktrackingCoMP(growth=1.05)


def concluded(run: Run, problem: AbstractProblem) -> Run:
    """The run, or the same run ended as INFEASIBLE: none of its outputs is then optimal, however small its gap."""
    began = time.perf_counter()
    try:
        proof = infeasibility(problem, run.z, run.violation)
    except KeyboardInterrupt:
        return replace(run, stop=Stop.INTERRUPTED, detail="while it was asked whether the limits can be met")
    if not proof:
        return run
    outputs = {name: replace(output, status=status_of(output.gap, None)) for name, output in run.outputs.items()}
    seconds = run.seconds + time.perf_counter() - began
    return replace(run, stop=Stop.INFEASIBLE, detail=proof, outputs=outputs, seconds=seconds)


def infeasibility(problem: AbstractProblem, z: Saddle, violation: float | None) -> str:
    """The sentence that no model in the domain of x meets all limits, if that can be proved; empty otherwise.

    problem: any problem. z: where the search for a proof starts, such as a run's answer. violation: by how much z
        exceeds the limits, None if there are none; nothing is asked if z meets them, or if some model is known to.

    Phase one is run with exact operators of all clients by a method that finds its steps itself. The proof is
    `least_violation` > 0 at its point or at the mean of the probes of a block, whichever is larger; it does not depend
    on how they were found. A problem whose data is elsewhere is left alone: its phase one is a deployment of its own.
    """
    asked = is_doubtful(problem) and problem.clients != 0 and (violation or 0.0) > 0
    phase = phase_one(problem) if asked else None
    if phase is None or not (least := _lower_bound(phase, z)) > 0:
        return ""
    return f"the limits are infeasible: no model in this domain violates less than {rounded_down(least)}"


def _lower_bound(phase: AbstractProblem, start: Saddle) -> float:
    """The best lower bound on the value of phase one that the budget gave."""
    least, most = -np.inf, np.inf
    with double(), suppress(FloatingPointError):  # what was proved before the numbers broke down stays proved
        evaluator = Evaluator(phase)
        geometry = evaluator.problem.geometry
        state = METHOD.start(geometry.dual(_interior(evaluator.problem, start)), geometry)
        for block in range(BLOCKS):
            state, mean = _advance(evaluator.problem, state, jnp.asarray(FIRST * 2**block))
            for output in evaluator.outputs({"last": METHOD.point(state, geometry), "mean": mean}).values():
                g: Any = output.operator
                least, most = max(least, least_violation(output.certificate, g)), min(most, np.max(excess(g)))
            if most <= 0 or least >= CLOSE * most:
                break
    return least


def _interior(problem: AbstractProblem, z: Saddle) -> Saddle:
    """x as it is, and the multipliers as a mixture that leaves no group out: from a share of 0 none would return."""
    z = problem.admit(z)
    lam = z.y["multipliers"]
    total = jnp.sum(lam)
    mixture = jnp.where(total > 0, lam / total, 1 / lam.size)
    return Saddle(problem.geometry.project(z).x, {"multipliers": (mixture + 1 / lam.size) / 2})


@eqx.filter_jit
def _advance(problem: AbstractProblem, state: Tree, tries: Any) -> tuple[Tree, Tree]:
    """So many tries, and the mean of their probes; the state's point if none was accepted."""

    def one(_: Any, carry: tuple[Tree, Tree, Any]) -> tuple[Tree, Tree, Any]:
        state, total, weight = carry
        state, probe, share = METHOD.local_step(state, lambda z, _: problem.operator(z), problem.geometry)
        return state, tree.add(total, tree.scale(share, probe)), weight + share

    zero = tree.scale(0.0, state.z)
    state, total, weight = jax.lax.fori_loop(0, tries, one, (state, zero, jnp.zeros(())))
    return state, tree.where(weight > 0, tree.scale(1 / weight, total), state.z)
