"""Stored runs checked again: one, or all of a comparison, an experiment or a reproduction."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import folder, protocol
from .checkpointed import checkpoint_checks
from .description import describe
from .ending import claim_checks, history_checks, seal_checks
from .examined import convexity_checks
from .folder import StoredRun
from .limits import limit_checks
from .plan import Experiment
from .points import output_checks
from .reach import reach
from .registry import ConfigurationError
from .verdict import DATA, Check, Result

NOTHING = Check("", "missing: there are no runs", None, None, None)


def verify(path: Path, *, trust: bool = False) -> Result:
    """Every check of a finished run, or of all runs of a collection.

    trust: whether code that the folder names may be run; without it such a run's operators are not checked.
    """
    manifest = folder.read_manifest(path)
    match manifest["kind"]:
        case "run":
            return _verify_run(path, trust)
        case "comparison":
            runs = [_attempt(path / name, lambda one: _verify_run(one, trust)) for name in manifest["runs"]]
        case "comparisons":
            runs = [_attempt(path / name, lambda one: verify(one, trust=trust)) for name in manifest["comparisons"]]
        case "experiment":
            return _verify_experiment(path, trust)
        case _:
            names = manifest["experiments"]
            runs = [_attempt(path / name, lambda one: _verify_experiment(one, trust)) for name in names]
    return Result(path, () if runs else (NOTHING,), tuple(runs))


def _verify_run(path: Path, trust: bool, more: Callable[[StoredRun], list[Check]] = lambda run: []) -> Result:
    run = folder.load(path)
    if run.status is None:
        raise ConfigurationError(f"{path} is a run that has not ended: there is no answer to verify")
    reached = reach(run, trust=trust)
    checks = [*seal_checks(run), *history_checks(run), *claim_checks(run), *more(run)]
    data = run.manifest["data_sha256"]
    if reached.changed:
        checks.append(Check("", DATA, data, reached.changed, False))
    if reached.problem is not None:
        checks.append(Check("", DATA, data, data, True))
        same = describe(reached.problem.geometry) == run.manifest["geometry"]
        checks.append(Check("", "regularizers as configured", None, None, same))
        if reason := reached.problem.why_uncertifiable():
            claimed = any(stored["gap"] is not None for stored in run.status["outputs"].values())
            checks.append(Check("", f"no gap is claimed, as there is none: {reason}", None, None, not claimed))
    for find in (checkpoint_checks, output_checks, limit_checks, convexity_checks):
        checks += find(run, reached)
    return Result(path, tuple(checks))


def _verify_experiment(path: Path, trust: bool) -> Result:
    """All seeds of all methods, each with the configuration that the experiment's plan and its grid make of it."""
    manifest = folder.read_manifest(path, "experiment")
    plan = manifest["plan"]
    experiment = Experiment(plan["name"], manifest["title"], plan["settings"], plan["seeds"])
    planned: dict[Path, Any] = {}
    why_not = ""
    try:
        for task in protocol.seed_tasks(experiment, path):
            planned[protocol.result_path(path, task).parent] = protocol.configuration_of(experiment, task)
    except Exception as error:  # a grid that is not there, or not whole
        why_not = f"{type(error).__name__}: {error}"

    def as_planned(run: StoredRun) -> list[Check]:
        if why_not:
            return [Check("", f"configuration as planned ({why_not})", None, None, None)]
        same = json.loads(json.dumps(planned.get(run.path))) == run.manifest["configuration"]
        return [Check("", "configuration as planned", None, None, same)]

    there = sorted(path.glob("runs/*/seed-*"))
    runs = [_attempt(one, lambda one: _verify_run(one, trust, as_planned)) for one in there]
    missing = [Check("", f"missing: {one}", None, None, None) for one in planned if one not in there]
    return Result(path, tuple(missing) if runs or missing else (NOTHING,), tuple(runs))


def _attempt(path: Path, check: Callable[[Path], Result]) -> Result:
    """What one folder of a collection has to say, be it that it is not there or cannot be read."""
    if not (path / "manifest.json").exists():
        return Result(path, (Check("", "missing: there is no run in this folder", None, None, None),))
    if (path / "history.jsonl").exists() and not (path / "status.json").exists():
        return Result(path, (Check("", "missing: the run has not ended", None, None, None),))
    try:
        return check(path)
    except (ValueError, TypeError, OSError, ArithmeticError, MemoryError) as error:
        return Result(path, trouble=str(error))
