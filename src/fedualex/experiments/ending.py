"""How a stored run ended: its words from its numbers by the run's own rules, and its files against one another."""

from collections.abc import Mapping
from typing import Any

from ..runtime import Stop
from ..runtime.outputs import polishing
from ..runtime.status import answer_of, status_of, stop_of
from . import seal
from .folder import StoredRun
from .reach import averages, is_deployment, method_of
from .verdict import Check

SAME = 1e-6
"""A gap that was computed a second time, from a point that was projected a second time, may differ by this share."""


def seal_checks(run: StoredRun) -> list[Check]:
    """Every file, and the status itself, has the SHA-256 that the status says."""
    status: Mapping[str, Any] = run.status or {}
    stored, found = status.get("files"), seal.digests(run.path)
    if not isinstance(stored, dict):
        return [Check("", "SHA-256 of all files", None, seal.digest_of(status), False)]
    names = dict.fromkeys((*stored, *found))
    checks = [equal("", f"SHA-256 of {name}", stored.get(name), found.get(name)) for name in names]
    digest = seal.digest_of(status)
    return [*checks, equal("", "SHA-256 of all of these and of status.json", status.get("sha256"), digest)]


def history_checks(run: StoredRun) -> list[Check]:
    """The last record and the status tell of the same end."""
    status: Mapping[str, Any] = run.status or {}
    last = run.history[-1] if run.history else {}
    checks = [equal("", f"{key} in the history", status[key], last.get(key)) for key in ("bytes_up", "bytes_down")]
    said, found = status["rounds"], last.get("round", 0)
    # Sites may have been silent at the end: rounds without a record.
    fits = said >= found if is_deployment(run.manifest["configuration"]) else said == found
    checks.append(Check("", "rounds in the history", said, found, fits))
    trips = last.get("exchanges", 0)
    as_said = status["exchanges"] == trips if said == found else status["exchanges"] >= trips
    checks.append(Check("", "exchanges in the history", status["exchanges"], trips, as_said))
    for output, stored in status["outputs"].items():
        if said == found and stored["gap"] is not None and f"gap_{output}" in last:
            checks.append(_history_check(output, stored, last[f"gap_{output}"]))
    return checks


def _history_check(output: str, stored: Mapping[str, Any], recorded: Any) -> Check:
    """The gap of an output is that of the last record; bounds may be better by what was surveyed at the end."""
    if output != "bounds" or recorded is None:
        return equal(output, "gap in the history", stored["gap"], recorded)
    fits = stored["gap"] <= (1 + SAME) * recorded + stored["rounding"]
    return Check(output, "gap at most that in the history", stored["gap"], recorded, fits)


def claim_checks(run: StoredRun) -> list[Check]:
    """Statuses, the answer and the end of the run are those that the rules of docs/simulator.md make of its gaps."""
    status: Mapping[str, Any] = run.status or {}
    configuration = run.manifest["configuration"]
    outputs, tol, wanted = status["outputs"], configuration["run"].get("tol"), configuration["run"].get("output")
    gaps = {name: output["gap"] for name, output in outputs.items()}
    structure = {name: (output["density"] or 0) + sum(output["rank"] or ()) for name, output in outputs.items()}
    answer = outputs[status["output"]]
    checks = [
        equal("", "outputs of such a run", sorted(_expected(run)), sorted(set(outputs) - {"best"})),
        equal("", "which output is the answer", status["output"], wanted or answer_of(gaps, structure, tol)),
    ]
    for key in ("gap", "status", "violation"):
        checks.append(equal(status["output"], f"{key} of the answer", status[key], answer[key]))
    if status["stop"] == Stop.INFEASIBLE.name:  # nothing is optimal where the limits cannot be met
        tol = None
    for name, gap in gaps.items():
        checks.append(equal(name, f"status for tol {tol}", outputs[name]["status"], status_of(gap, tol).name))
    return [*checks, *_best_checks(run), *_stop_checks(run)]


def _expected(run: StoredRun) -> set[str]:
    """The outputs of such a run. Bounds are among them where points are certified and records have them."""
    configuration, outputs = run.manifest["configuration"], (run.status or {})["outputs"]
    method = method_of(configuration)
    if method is not None and method.exchanging:  # it has no other output than the bounds of its own surveys
        return {"bounds"}
    kept = averages(configuration)
    points = {"last", *kept, *(kind.name for kind in polishing(kept))}
    certified = any(outputs[name]["gap"] is not None for name in points & set(outputs))
    recorded = any(record.get("gap_bounds") is not None for record in run.history)
    return points | ({"bounds"} if certified and recorded else {"bounds"} & set(outputs))


def _stop_checks(run: StoredRun) -> list[Check]:
    """Why the run ended, where its records tell; `limits` and `examined` know of the others."""
    status: Mapping[str, Any] = run.status or {}
    configuration, said = run.manifest["configuration"], status["stop"]
    settings = configuration["run"]
    total = settings.get("rounds") or settings.get("steps") or 0
    every = settings.get("record_every") or max(1, total // 50)
    method = method_of(configuration)
    patience = 0 if method is None else method.patience
    rules: dict[str, Any] = {"rounds": total, "record_every": every, "tol": settings.get("tol"), "patience": patience}
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
    outputs: Mapping[str, Any] = (run.status or {})["outputs"]
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
        found = recorded.get(origin)
        near = said is not None and found is not None and abs(said - found) <= SAME * found + slack
        return [Check("best", f"gap in the history ({origin})", said, found, near)]
    smallest, least = min(recorded.values(), default=None), min(final, default=None)
    if smallest is None or least is None:
        return []
    return [Check("", "no earlier record is better", least, smallest, least <= (1 + SAME) * smallest + slack)]


def equal(output: str, what: str, stored: object, found: object) -> Check:
    """Whether two values are the same."""
    return Check(output, what, stored, found, stored == found)
