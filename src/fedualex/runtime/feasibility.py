"""Whether a run's problem has an answer at all: a proof that no model meets its limits, or nothing."""

import time
from dataclasses import replace

from ..display import rounded_down
from ..problems import AbstractProblem
from ..problems.feasibility import is_doubtful
from ..reference import least_violation
from .run import Run
from .status import Stop, status_of

UNDECIDED = "no model was found that meets the limits, and no proof that there is none"


def concluded(run: Run, problem: AbstractProblem) -> Run:
    """The run, ended as INFEASIBLE if its answer exceeds a limit and it is proved that every model does.

    None of its outputs is then optimal, however small its gap. Nothing is asked where a model is known that meets the
    limits. Where the data is elsewhere nothing can be: phase one is then a deployment of its own.
    """
    if run.violation is None or not run.violation > 0 or problem.clients == 0 or not is_doubtful(problem):
        return run
    began = time.perf_counter()
    try:
        found = least_violation(problem)
    except KeyboardInterrupt:
        return replace(run, stop=Stop.INTERRUPTED, detail="while it was asked whether the limits can be met")
    run = replace(run, seconds=run.seconds + time.perf_counter() - began)
    if found.lower > 0:
        bound = f"no model in this domain violates less than {rounded_down(found.lower)}"
        outputs = {name: replace(output, status=status_of(output.gap, None)) for name, output in run.outputs.items()}
        return replace(run, stop=Stop.INFEASIBLE, detail=f"the limits are infeasible: {bound}", outputs=outputs)
    return replace(run, detail=run.detail or UNDECIDED) if found.upper > 0 else run
