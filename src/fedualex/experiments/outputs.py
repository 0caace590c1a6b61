"""The outputs of a run as a run folder stores them."""

from typing import Any

from .. import tree
from ..problems import AbstractProblem
from ..runtime import Output, Run
from .history import finite


def stored_arrays(run: Run) -> dict[str, Any]:
    """Points, operators and surveys of all outputs, by "output/kind/leaf"."""
    arrays: dict[str, Any] = {}
    for name, output in run.outputs.items():
        for kind, point in (("z", output.z), ("g", output.operator)):  # no g if sites did not answer
            arrays |= {f"{name}/{kind}/{leaf}": array for leaf, array in tree.leaves_with_names(point)}
        if (found := output.evidence) is not None:
            arrays |= {f"{name}/surveys/{leaf}": array for leaf, array in tree.leaves_with_names(found.points)}
            arrays |= {f"{name}/weights/{side}": getattr(found, side) for side in ("upper", "lower", "floor")}
    return arrays


def output_summary(output: Output, problem: AbstractProblem) -> dict[str, Any]:
    """What status.json says about an output."""
    certificate = output.certificate
    return {
        "status": output.status.name,
        "origin": output.origin,
        "gap": output.gap,
        "gap_x": certificate.x,
        "gap_y": certificate.y,
        "shift": certificate.shift,
        "rounding": certificate.rounding,
        "estimated": certificate.estimated,
        "reason": certificate.reason,
        "violation": finite(output.violation),
        "density": output.density,
        "rank": None if output.rank is None else list(output.rank),
        # Where the data is elsewhere nobody can compute it.
        "objective": None if problem.clients == 0 else finite(problem.objective(output.z)),
    }
