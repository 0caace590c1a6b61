"""The checkpoint of a stored run against its history, its settings and its outputs."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from .. import tree
from ..certificates.surveys import flat_of, pair_with_slopes
from ..precision import double
from ..problems import AbstractProblem
from ..runtime import Stop, checkpoint as checkpoints
from ..runtime.evaluator import points_of
from ..runtime.outputs import exact_problem, project
from ..runtime.records import without_gaps
from ..runtime.state import State
from ..tree import Tree
from . import seal
from .ending import equal
from .folder import StoredRun
from .provenance import other_versions
from .reach import Begun, Reached, averages, begun
from .verdict import Check

STATE = 1e4
"""A point computed again from a state may differ by so many units in the last place of the state's precision."""


def checkpoint_checks(run: StoredRun, reached: Reached) -> list[Check]:
    """The checkpoint holds the history, is that of a run with these settings, and its state has these outputs."""
    file, status = run.path / seal.CHECKPOINT, run.status or {}
    if not file.exists():  # the seal knows whether there was one
        return []
    try:
        header, leaves = checkpoints.read(file)
    except ValueError as error:
        return [Check("", f"checkpoint ({error})", None, None, False)]
    recorded = header["history"]
    if status["stop"] == Stop.DISPROVED.name:  # certificates were withdrawn after the last checkpoint
        recorded = [without_gaps(record) for record in recorded]
    same = recorded == run.history
    if status["stop"] == Stop.INTERRUPTED.name:  # perhaps before the last record was saved
        same |= recorded == run.history[:-1]
    checks = [Check("", "history in the checkpoint, records", len(run.history), len(recorded), same)]
    why_not = reached.why_not or other_versions(run.manifest)
    if reached.problem is None or why_not:
        return [*checks, Check("", f"settings in the checkpoint ({why_not})", None, None, None)]
    try:
        start = begun(run.manifest["configuration"], reached.problem)
    except Exception as error:  # whatever stands in the manifest
        return [*checks, Check("", f"settings of the run ({error})", None, None, False)]
    what = "settings in the checkpoint: method, steps, noise, seed, sizes, tol"
    checks.append(equal("", what, start.run_id, header["run"]))
    return [*checks, *_state_checks(run, start, leaves)] if checks[-1].agrees else checks


def _state_checks(run: StoredRun, start: Begun, leaves: list[Any]) -> list[Check]:
    """The outputs that need no operators, computed again from the state of the checkpoint."""
    status: Mapping[str, Any] = run.status or {}
    structure: Any = jax.tree.structure(start.start)
    state = jax.tree.unflatten(structure, leaves[: structure.num_leaves])
    if int(state.round) != status["rounds"]:
        late = status["stop"] == Stop.INTERRUPTED.name
        return [Check("", "rounds in the checkpoint", status["rounds"], int(state.round), None if late else False)]
    share = STATE * float(np.finfo(start.setup_of(state).weights.dtype).eps)
    checks = []
    with double():
        exact = exact_problem(start.problem)
        for name, point in _points(run, start, exact, state).items():
            found = dict(tree.leaves_with_names(project(exact, point)))
            z, _ = run.points(name)
            if z.keys() != found.keys() or any(z[leaf].shape != found[leaf].shape for leaf in z):
                checks.append(Check(name, "point in the checkpoint", None, None, False))
                continue
            apart = {leaf: float(np.max(np.abs(np.asarray(found[leaf]) - z[leaf]))) for leaf in z}
            near = all(apart[leaf] <= share * float(np.max(np.abs(z[leaf]))) for leaf in z)
            checks.append(Check(name, "point in the checkpoint, largest difference", 0.0, max(apart.values()), near))
    return checks


def _points(run: StoredRun, start: Begun, exact: AbstractProblem, state: State) -> dict[str, Tree]:
    """What the state of a run says of its outputs."""
    if not start.setup.method.exchanging:
        return points_of(start.setup_of(state), state, averages(run.manifest["configuration"]))
    bounds = state.server.bounds
    return {"bounds": pair_with_slopes(flat_of(exact), bounds)[0] if bounds.known else state.server.at}
