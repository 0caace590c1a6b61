"""Stored runs checked again: one, or all of a comparison, an experiment or a reproduction."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import tree
from ..certificates.surveys import flat_of, pair_with_slopes
from ..compiling import double
from ..models import Model
from ..paper import reproduction as protocol
from ..paper.reproduction import Experiment
from ..problems import AbstractProblem
from ..runs import folder, folder as seal
from ..runs.folder import RUN_OF_FIT, StoredRun, describe, other_versions
from ..runs.settings import ConfigurationError
from ..runs.solving import CONTENT
from ..runtime import NONZERO, Stop, checkpoint as checkpoints
from ..runtime.driver import without_gaps
from ..runtime.outputs import exact_problem, points_of, polished_kinds, project
from ..runtime.state import State
from ..runtime.status import answer_of, status_of, stop_of
from ..runtime.surveying import operator_at
from ..storage import Json
from ..summaries import Known, merge_summaries
from ..tables.effects import read_unpenalized, recheck_unpenalized
from ..tables.fit import stored_parties
from ..tables.party import agree
from ..tree import Saddle, Tree
from . import recheck
from .evidence import (
    DATA,
    FEASIBLE,
    ROUNDING,
    Arrays,
    Bounded,
    Check,
    Result,
    convexity_checks,
    limit_checks,
    mean_checks,
    point_of,
    read_evidence,
    rounding_check,
    survey_checks,
    told_checks,
)
from .reach import Begun, Reached, averages, begin_again, is_deployment, method_of, reach

# How a stored run ended: its words from its numbers by the run's own rules, and its files against one another.


SAME = 1e-6
"""A gap that was computed a second time, from a point that was projected a second time, may differ by this share."""


def seal_checks(run: StoredRun) -> list[Check]:
    """Every file, and the status itself, has the SHA-256 that the status says."""
    status: Json = run.status or {}
    stored, here = status.get("files"), seal.digests(run.path)
    if not isinstance(stored, dict):
        return [Check("", "SHA-256 of all files", None, seal.digest_of(status), False)]
    names = dict.fromkeys((*stored, *here))
    checks = [equal("", f"SHA-256 of {name}", stored.get(name), here.get(name)) for name in names]
    digest = seal.digest_of(status)
    return [*checks, equal("", "SHA-256 of all of these and of status.json", status.get("sha256"), digest)]


def history_checks(run: StoredRun) -> list[Check]:
    """The last record and the status tell of the same end."""
    status: Json = run.status or {}
    last = run.history[-1] if run.history else {}
    checks = [equal("", f"{key} in the history", status[key], last.get(key)) for key in ("bytes_up", "bytes_down")]
    said, recorded = status["rounds"], last.get("round", 0)
    # Sites may have been silent at the end: rounds without a record.
    fits = said >= recorded if is_deployment(run.manifest["configuration"]) else said == recorded
    checks.append(Check("", "rounds in the history", said, recorded, fits))
    trips = last.get("exchanges", 0)
    as_said = status["exchanges"] == trips if said == recorded else status["exchanges"] >= trips
    checks.append(Check("", "exchanges in the history", status["exchanges"], trips, as_said))
    for output, stored in status["outputs"].items():
        if said == recorded and stored["gap"] is not None and f"gap_{output}" in last:
            checks.append(_history_check(output, stored, last[f"gap_{output}"]))
    return checks


def _history_check(output: str, stored: Json, recorded: Any) -> Check:
    """The gap of an output is that of the last record; bounds may be better by what was surveyed at the end."""
    if output != "bounds" or recorded is None:
        return equal(output, "gap in the history", stored["gap"], recorded)
    fits = stored["gap"] <= (1 + SAME) * recorded + stored["rounding"]
    return Check(output, "gap at most that in the history", stored["gap"], recorded, fits)


def claim_checks(run: StoredRun) -> list[Check]:
    """Statuses, the answer and the end of the run are those that the rules of docs/simulator.md make of its gaps."""
    status: Json = run.status or {}
    configuration = run.manifest["configuration"]
    outputs, tol, wanted = status["outputs"], configuration["run"].get("tol"), configuration["run"].get("output")
    gaps = {name: output["gap"] for name, output in outputs.items()}
    structure = {name: (output["density"] or 0) + sum(output["rank"] or ()) for name, output in outputs.items()}
    answer = outputs[status["output"]]
    checks = [
        equal("", "outputs of such a run", sorted(_expected_outputs(run)), sorted(set(outputs) - {"best"})),
        equal("", "which output is the answer", status["output"], wanted or answer_of(gaps, structure, tol)),
    ]
    for key in ("gap", "status", "violation"):
        checks.append(equal(status["output"], f"{key} of the answer", status[key], answer[key]))
    if status["stop"] == Stop.INFEASIBLE.name:  # nothing is optimal where the limits cannot be met
        tol = None
    for name, gap in gaps.items():
        checks.append(equal(name, f"status for tol {tol}", outputs[name]["status"], status_of(gap, tol).name))
    return [*checks, *_best_checks(run), *_stop_checks(run)]


def _expected_outputs(run: StoredRun) -> set[str]:
    """The outputs of such a run. Bounds are among them where points are certified and records have them."""
    configuration, outputs = run.manifest["configuration"], (run.status or {})["outputs"]
    method = method_of(configuration)
    own = configuration["method"].get("outputs", ()) if method is None else method.outputs
    if own:
        return set(own)
    kept = averages(configuration)
    points = {"last", *kept, *(kind.name for kind in polished_kinds(kept))}
    certified = any(outputs[name]["gap"] is not None for name in points & set(outputs))
    recorded = any(record.get("gap_bounds") is not None for record in run.history)
    return points | ({"bounds"} if certified and recorded else {"bounds"} & set(outputs))


def _stop_checks(run: StoredRun) -> list[Check]:
    """Why the run ended, where its records tell; `limits` and `examined` know of the others."""
    status: Json = run.status or {}
    configuration, said = run.manifest["configuration"], status["stop"]
    settings = configuration["run"]
    total = settings.get("rounds") or settings.get("steps") or 0
    every = settings.get("record_every") or max(1, total // 50)
    method = method_of(configuration)
    patience = 0 if method is None else method.patience
    rules: Json = {"rounds": total, "record_every": every, "tol": settings.get("tol"), "patience": patience}
    due = stop_of(run.history, settings.get("output"), **rules) if configuration.get("stopping", True) else None
    seconds = settings.get("max_seconds")
    match said:
        case Stop.INFEASIBLE.name | Stop.DISPROVED.name:
            return []
        case Stop.TOLERANCE.name | Stop.DIVERGED.name | Stop.STALLED.name:
            return [equal("", "why the run ended", said, due and due.name)]
        case _ if said not in Stop.__members__:
            return [Check("", "why the run ended: a word that exists", said, None, False)]
        case _ if due is not None and said in (Stop.MAX_ROUNDS.name, Stop.MAX_TIME.name, Stop.CLIENTS_LOST.name):
            return [equal("", "why the run ended", said, due.name)]
        case Stop.MAX_ROUNDS.name:
            return [equal("", f"{said}: all rounds were run", total, status["rounds"])]
        case Stop.MAX_TIME.name:
            late = seconds is not None and status["seconds"] > seconds
            return [Check("", f"{said}: the time was over", seconds, status["seconds"], late)]
    return [Check("", f"why the run ended ({said}: no record tells of it)", said, due and due.name, None)]


def _best_checks(run: StoredRun) -> list[Check]:
    """The best record is among the outputs if it is better than the others, and is the one that it says."""
    outputs: Json = (run.status or {})["outputs"]
    recorded = {
        f"{key.removeprefix('gap_')} of round {record['round']}": gap
        for record in run.history
        for key, gap in record.items()
        if key.startswith("gap_") and gap is not None
    }
    final = [output["gap"] for name, output in outputs.items() if name != "best" and output["gap"] is not None]
    slack = max(output["rounding"] for output in outputs.values())
    if "best" in outputs:
        said, origin = outputs["best"]["gap"], outputs["best"]["origin"]
        kept = recorded.get(origin)
        near = said is not None and kept is not None and abs(said - kept) <= SAME * kept + slack
        return [Check("best", f"gap in the history ({origin})", said, kept, near)]
    smallest, least = min(recorded.values(), default=None), min(final, default=None)
    if smallest is None or least is None:
        return []
    return [Check("", "no earlier record is better", least, smallest, least <= (1 + SAME) * smallest + slack)]


def equal(output: str, what: str, stored: object, computed: object) -> Check:
    """Whether two values are the same."""
    return Check(output, what, stored, computed, stored == computed)


# The outputs of a stored run checked again: certificates in plain numpy, operators from the data where it is.


def output_checks(run: StoredRun, reached: Reached) -> list[Check]:
    """Every check of every output."""
    checks: list[Check] = []
    sizes: Mapping[str, float] | None = None
    for output, stored in (run.status or {})["outputs"].items():
        z, g = run.points(output)
        if not g and stored["gap"] is None:  # sites did not answer, and nothing was claimed
            checks.append(Check(output, f"no certificate: {stored['reason']}", None, None, None))
            continue
        if not _fit(run.manifest["geometry"], z, g):
            raise ConfigurationError(f"{run.path / 'solution.npz'} does not hold z and g of the output {output!r}")
        if not all(np.all(np.isfinite(array)) for array in (*z.values(), *g.values())):
            # A run that broke down may have stored such a slope; one with a certificate has not.
            checks.append(Check(output, "finite numbers", None, None, None if stored["gap"] is None else False))
            continue
        checks += _certificate_checks(run, output, stored, z, g)
        checks += _structure_checks(run, output, stored, z)
        problem, evidence = reached.problem, read_evidence(run, output, z)
        if evidence is None:
            checks.append(Check(output, "no shift at a single survey", stored["shift"], 0.0, stored["shift"] == 0))
        else:
            checks += mean_checks(run.manifest["geometry"], output, evidence, z, problem)
        if problem is None or problem.clients == 0:
            what = "operator" if evidence is None else "surveys"
            why_not = reached.why_not or "the data is elsewhere"
            if problem is not None and evidence is not None:
                checks += told_checks(problem, output, stored, Bounded(evidence, z, g))
            checks.append(Check(output, f"{what} as reported by sites ({why_not})", None, None, None))
            continue
        sizes = sizes or _operator_sizes(problem, z)
        if evidence is None:
            checks += _data_checks(problem, output, stored, z, g, sizes)
        else:
            checks += survey_checks(problem, output, stored, Bounded(evidence, z, g), sizes)
        checks.append(_objective_check(run, problem, output, stored, z, sizes))
    return checks


def _fit(description: Any, z: Arrays, g: Arrays) -> bool:
    """Whether z and g have an array each for every part of the geometry, of equal shapes."""
    return z.keys() == g.keys() == description.keys() and all(z[leaf].shape == g[leaf].shape for leaf in z)


def _certificate_checks(run: StoredRun, output: str, stored: Json, z: Arrays, g: Arrays) -> list[Check]:
    """<g, z> + psi(z) + psi*(-g), block by block, what the gap is made of, and whether z is in the domain."""
    description = run.manifest["geometry"]
    try:
        violation = recheck.violation(description, z)
        gaps = recheck.fenchel_gaps(description, z, g) if stored["gap"] is not None else {}
    except recheck.CannotRedo as error:
        return [Check(output, f"certificate ({error})", stored["gap"], None, None)]
    except Exception as error:  # a description may be wrong in many ways
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ConfigurationError(f"the geometry in {run.path / 'manifest.json'} is damaged: {reason}") from None
    checks = [Check(output, "distance outside the domain", 0.0, violation, bool(violation <= FEASIBLE))]
    if stored["gap"] is None:
        return [*checks, Check(output, f"no certificate: {stored['reason']}", None, None, None)]
    for block in ("x", "y"):
        parts = [gap for leaf, gap in gaps.items() if leaf.startswith(block)]
        computed, size = sum(part.value for part in parts), sum(part.size for part in parts)
        close = bool(abs(computed - stored[f"gap_{block}"]) <= ROUNDING * size)
        checks.append(Check(output, f"{block} part of the certificate", stored[f"gap_{block}"], computed, close))
    total = max(stored["gap_x"] + stored["gap_y"] + stored["shift"], 0.0) + stored["rounding"]
    whole = total == stored["gap"] and stored["rounding"] >= 0
    return [*checks, Check(output, "sum of the parts and of the rounding", stored["gap"], total, whole)]


def _structure_checks(run: StoredRun, output: str, stored: Json, z: Arrays) -> list[Check]:
    """Ranks of the spectral blocks, and the share of nonzeros in all others."""
    spectral = [leaf for leaf, part in run.manifest["geometry"].items() if '"Spectral"' in json.dumps(part)]
    entries = [np.ravel(array) for leaf, array in z.items() if leaf not in spectral]
    ranks = [int(np.sum(np.linalg.svd(z[leaf], compute_uv=False) > NONZERO)) for leaf in spectral] or None
    density = float(np.mean(np.abs(np.concatenate(entries)) > NONZERO)) if entries else None
    structure = {"density": density, "rank": ranks}
    return [
        Check(output, name, stored[name], structure[name], structure[name] == stored[name])
        for name in structure
        if structure[name] is not None or stored[name] is not None
    ]


def _data_checks(
    problem: AbstractProblem, output: str, stored: Json, z: Arrays, g: Arrays, sizes: Mapping[str, float]
) -> list[Check]:
    """g(z) and the rounding, from the data."""
    try:
        point = point_of(problem, z)
        again, certificate = _operator(problem, point), problem.certificate(point)
    except (ValueError, FloatingPointError) as error:
        return [Check(output, f"operator from the data ({error})", None, None, False)]
    apart = {leaf: float(np.max(np.abs(again[leaf] - g[leaf]))) for leaf in g}
    near = all(apart[leaf] <= ROUNDING * max(sizes[leaf], float(np.max(np.abs(again[leaf])))) for leaf in g)
    checks = [Check(output, "operator from the data, largest difference", 0.0, max(apart.values()), bool(near))]
    if stored["gap"] is not None:
        checks.append(rounding_check(output, stored, certificate.rounding, certificate.estimated))
    return checks


def _objective_check(
    run: StoredRun, problem: AbstractProblem, output: str, stored: Json, z: Arrays, sizes: Mapping[str, float]
) -> Check:
    """phi(z) from the data."""
    try:
        value, said = problem.objective(point_of(problem, z)), stored["objective"]
    except (ValueError, FloatingPointError) as error:
        return Check(output, f"objective ({error})", stored["objective"], None, False)
    size = abs(value) + sum(sizes[leaf] * float(np.sum(np.abs(z[leaf]))) for leaf in z)
    with suppress(recheck.CannotRedo):
        size += recheck.penalty_size(run.manifest["geometry"], z)
    same = not np.isfinite(value) if said is None else bool(abs(value - said) <= ROUNDING * size)
    return Check(output, "objective", said, value, same)


def _operator_sizes(problem: AbstractProblem, z: Arrays) -> dict[str, float]:
    """How large the operator's terms are: its entries where their signs do not let them cancel, leaf by leaf."""
    rng, sizes = np.random.default_rng(0), dict.fromkeys(z, 0.0)
    for _ in range(2):
        mixed = {leaf: np.asarray(array * rng.choice([-1.0, 1.0], array.shape)) for leaf, array in z.items()}
        slopes = _operator(problem, problem.project(point_of(problem, mixed)))
        for leaf, array in slopes.items():
            sizes[leaf] = max(sizes[leaf], float(np.max(np.abs(array), where=np.isfinite(array), initial=0.0)))
    return sizes


def _operator(problem: AbstractProblem, point: Saddle) -> Arrays:
    """The exact operator in float64, whatever the data is stored in: as the run computed it."""
    with double():
        g = operator_at(exact_problem(problem), problem.validate_point(point))
        return {name: np.asarray(leaf) for name, leaf in tree.leaves_with_names(g)}


# The checkpoint of a stored run against its history, its settings and its outputs.


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
        start = begin_again(run.manifest["configuration"], reached.problem)
    except Exception as error:  # whatever stands in the manifest
        return [*checks, Check("", f"settings of the run ({error})", None, None, False)]
    what = "settings in the checkpoint: method, steps, noise, seed, sizes, tol"
    checks.append(equal("", what, start.run_id, header["run"]))
    return [*checks, *_state_checks(run, start, leaves)] if checks[-1].agrees else checks


def _state_checks(run: StoredRun, start: Begun, leaves: list[Any]) -> list[Check]:
    """The outputs that need no operators, computed again from the state of the checkpoint."""
    status: Json = run.status or {}
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
            projected = dict(tree.leaves_with_names(project(exact, point)))
            z, _ = run.points(name)
            if z.keys() != projected.keys() or any(z[leaf].shape != projected[leaf].shape for leaf in z):
                checks.append(Check(name, "point in the checkpoint", None, None, False))
                continue
            apart = {leaf: float(np.max(np.abs(np.asarray(projected[leaf]) - z[leaf]))) for leaf in z}
            near = all(apart[leaf] <= share * float(np.max(np.abs(z[leaf]))) for leaf in z)
            checks.append(Check(name, "point in the checkpoint, largest difference", 0.0, max(apart.values()), near))
    return checks


def _points(run: StoredRun, start: Begun, exact: AbstractProblem, state: State) -> dict[str, Tree]:
    """What the state of a run says of its outputs."""
    method = start.setup.method
    if (bounds := method.bounds(state.server)) is None:
        return points_of(start.setup_of(state), state, averages(run.manifest["configuration"]))
    here = method.point(state.server, exact.geometry)
    return {"bounds": pair_with_slopes(flat_of(exact), bounds)[0] if bounds.are_known else here}


NOTHING = Check("", "missing: there are no runs", None, None, None)


def verify(path: Path, *, trust: bool = False) -> Result:
    """Every check of a finished run, of the run of a fit, of all runs of a collection, or of a fit without penalty.

    trust: whether code that the folder names may be run; without it such a run's operators are not checked.
    """
    if (model := find_unpenalized_model(path)) is not None:
        return verify_unpenalized(path, model)
    path = folder.run_of(path)
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


# A model without penalty has no run: its gap is computed again from the table that it was fitted to.


CLOSE = 1e-9
"""By how much a gap, or a coefficient of standardized columns, may differ when it is computed a second time."""


def find_unpenalized_model(path: Path) -> Model | None:
    """The model of a fit without penalty; None if the folder is no such fit, nor where its run would be."""
    return read_unpenalized(path.parent if path.name == RUN_OF_FIT else path)


def verify_unpenalized(path: Path, model: Model) -> Result:
    """The table, the coefficients and the gap that self-concordance proves at them."""
    told, certificate = model.training["configuration"], model.certificate
    if "table" not in told["problem"]:
        raise ConfigurationError(
            f"the rows of {path} are at its sites, and no run is kept of a model without penalty: its gap was proved "
            "from their sums, and cannot be computed again here"
        )
    parties, checksum = stored_parties(told["problem"], Path(told["folder"]))
    members, content = parties.members, told["problem"][CONTENT]
    same = Check("", "SHA-256 of the table", content, checksum, content == checksum)
    known = agree(members)

    def ask(asked: Known) -> Known:
        return merge_summaries(party.effects(known, asked) for party in members)

    x: Json = {"weights": model.weights, "bias": model.bias}
    again = recheck_unpenalized(members[0].recipe, known, ask, x)
    gap, status = float(certificate["gap"]), status_of(again.gap, certificate["tol"]).name
    return Result(
        path,
        (
            same,
            Check("", "change of a coefficient", 0.0, again.moved, again.moved <= CLOSE),
            Check("", "certified gap", gap, again.gap, abs(again.gap - gap) <= CLOSE),
            Check("", "status", certificate["status"], status, certificate["status"] == status),
        ),
    )
