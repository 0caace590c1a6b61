"""What a stored run says about the limits of its problem: how far outputs exceed them, and whether they can be met."""

from collections.abc import Mapping
from typing import Any

from ..problems.feasibility import lagrangian_of, largest_violation
from ..runtime import Stop
from ..runtime.driver import asked, proof
from .evidence import point_of
from .folder import StoredRun
from .history import finite
from .reach import Reached, is_deployment
from .verdict import Check

CLOSE = 1.01
"""A search for a proof may end a little elsewhere on another machine: a bound up to so many times its own will do."""


def limit_checks(run: StoredRun, reached: Reached) -> list[Check]:
    """Violations from the stored operators, and the proof of infeasibility found again; nothing if nothing is said."""
    status: Mapping[str, Any] = run.status or {}
    said, problem = status["stop"] == Stop.INFEASIBLE.name, reached.problem
    if problem is None or problem.clients == 0:
        why_not = reached.why_not or "the data is elsewhere"
        return [Check("", f"why the run ended ({status['stop']}: {why_not})", None, None, None)] if said else []
    if lagrangian_of(problem) is None:
        return [Check("", "INFEASIBLE: the problem has limits", None, None, False)] if said else []
    checks = []
    for name, output in status["outputs"].items():
        _, g = run.points(name)
        found = finite(largest_violation(problem, point_of(problem, g) if g else None))
        checks.append(Check(name, "violation", output["violation"], found, output["violation"] == found))
    if is_deployment(run.manifest["configuration"]) or status["stop"] == Stop.INTERRUPTED.name:
        return checks
    again = proof(asked(problem, status["outputs"][status["output"]]["violation"]))
    agrees = bool(again) == said and (not said or _bound(status["stop_meaning"]) <= CLOSE * _bound(again))
    return [*checks, Check("", "limits that cannot be met", status["stop_meaning"] if said else "", again, agrees)]


def _bound(sentence: str) -> float:
    """The number that ends the sentence of a proof; infinite if there is none."""
    try:
        return float(sentence.rpartition(" ")[2])
    except ValueError:
        return float("inf")
