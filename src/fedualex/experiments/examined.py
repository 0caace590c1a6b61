"""What a stored run says about f: that it was looked at, taken on trust, or seen not to be convex-concave."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..precision import double
from ..runtime import Stop
from ..runtime.records import Examination
from .evidence import point_of
from .folder import StoredRun
from .reach import Reached, is_deployment
from .verdict import Check


def convexity_checks(run: StoredRun, reached: Reached) -> list[Check]:
    """A disproof of f looked for again, where the run looked: at the points that it certified.

    Where certificates were withdrawn the point of the disproof may be gone with them: not found is then not checked.
    """
    status, settings = run.status or {}, run.manifest["configuration"]["run"]
    said, problem = status["stop"] == Stop.DISPROVED.name, reached.problem
    certified = [name for name, output in status["outputs"].items() if output["gap"] is not None]
    if problem is None:
        return [Check("", f"why the run ended (DISPROVED: {reached.why_not})", None, None, None)] if said else []
    if not said and not certified:
        return []
    if is_deployment(run.manifest["configuration"]):
        problem = problem.without_data()
    stored = [run.points(name)[0] for name in (status["outputs"] if said else certified)]
    # A point that is not finite has failed already, as an output.
    points = [point_of(problem, z) for z in stored if all(np.all(np.isfinite(array)) for array in z.values())]
    with double():
        examination = Examination(problem, trust=settings.get("convexity") == "trust")
        found = examination.reason([problem.validate_point(point) for point in points])
    if said:
        return [Check("", "why the run ended (DISPROVED)", _said(status), found, True if found else None)]
    return [Check("", "what was seen of f", _said(status), examination.sentence, _said(status) == examination.sentence)]


def _said(status: Mapping[str, Any]) -> Any:
    return status.get("convexity")
