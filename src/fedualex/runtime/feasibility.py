"""Whether a run's problem has an answer at all: a proof that no model meets its limits, or nothing."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from ..display import rounded_down
from ..problems import AbstractProblem
from ..problems.feasibility import is_doubtful
from .run import Run
from .status import Stop, status_of

if TYPE_CHECKING:
    from ..reference import LeastViolation

UNDECIDED = "no model was found that meets the limits, and no proof that there is none"


def concluded(run: Run, problem: AbstractProblem) -> Run:
    """The run, ended as INFEASIBLE if that is proved: none of its outputs is then optimal, however small its gap."""
    began = time.perf_counter()
    try:
        found = asked(problem, run.violation)
    except KeyboardInterrupt:
        return replace(run, stop=Stop.INTERRUPTED, detail="while it was asked whether the limits can be met")
    if found is None:
        return run
    run = replace(run, seconds=run.seconds + time.perf_counter() - began)
    if not (sentence := proof(found)):
        return replace(run, detail=run.detail or UNDECIDED) if found.upper > 0 else run
    outputs = {name: replace(output, status=status_of(output.gap, None)) for name, output in run.outputs.items()}
    return replace(run, stop=Stop.INFEASIBLE, detail=sentence, outputs=outputs)


def asked(problem: AbstractProblem, violation: float | None) -> "LeastViolation | None":
    """Bounds on the least violation, if there is a reason to ask: an answer that exceeds the limits by `violation` > 0.

    None where the problem has no limits, or a model is known that meets them. None, too, where the data is elsewhere:
    phase one is then a deployment of its own.
    """
    doubtful = is_doubtful(problem) and problem.clients != 0 and (violation or 0.0) > 0
    if not doubtful:
        return None
    from ..reference import least_violation  # it brings scipy's solvers: a fifth of a second, for few runs

    return least_violation(problem)


def proof(found: "LeastViolation | None") -> str:
    """The sentence that the limits are infeasible, with the bound that proves it; empty if none does."""
    if found is None or not found.lower > 0:
        return ""
    return f"the limits are infeasible: no model in this domain violates less than {rounded_down(found.lower)}"
