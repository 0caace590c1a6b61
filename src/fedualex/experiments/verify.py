"""A stored run checked again: certificates in plain numpy, operators from the data where it can be reached."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..precision import double
from ..problems import AbstractProblem
from ..runtime import NONZERO, Status, fingerprint
from . import folder, recheck
from .configuration import weighted_problem
from .description import describe
from .folder import StoredRun
from .names import ConfigurationError

ROUNDING = 1e-11
"""Two float64 computations of one number may differ by this share of the sizes that were added up."""
FEASIBLE = 1e-12


@dataclass(frozen=True)
class Check:
    """One comparison: what the folder says, what was found again, and whether they agree (None: could not be done)."""

    output: str
    what: str
    stored: Any
    found: Any
    agrees: bool | None


def verify(path: Path) -> list[Check]:
    """Every check of a finished run."""
    run = folder.load(path)
    if run.status is None:
        raise ConfigurationError(f"{path} is a run that has not ended: there is no answer to verify")
    problem, why_not = _reach(run)
    checks = [*_history_checks(run), *_claim_checks(run)]
    if problem is not None:
        same = describe(problem.geometry) == run.manifest["geometry"]
        checks.append(Check("", "regularizers as configured", None, None, same))
        if reason := problem.why_uncertifiable():
            claimed = any(stored["gap"] is not None for stored in run.status["outputs"].values())
            checks.append(Check("", f"no gap is claimed, as there is none: {reason}", None, None, not claimed))
    for output, stored in run.status["outputs"].items():
        z, g = run.points(output)
        if not g and stored["gap"] is None:  # sites did not answer, and nothing was claimed
            checks.append(Check(output, f"no certificate: {stored['reason']}", None, None, None))
            continue
        if not _fit(run.manifest["geometry"], z, g):
            raise ConfigurationError(f"{path / 'solution.npz'} does not hold z and g of the output {output!r}")
        if not all(np.all(np.isfinite(array)) for array in (*z.values(), *g.values())):
            # A run that broke down may have stored such a slope; one with a certificate has not.
            checks.append(Check(output, "finite numbers", None, None, None if stored["gap"] is None else False))
            continue
        checks += _certificate_checks(run, output, stored, z, g)
        checks += _structure_checks(run, output, stored, z)
        checks += _data_checks(output, stored, problem, why_not, z, g)
    return checks


def _fit(description: Any, z: dict[str, NDArray[Any]], g: dict[str, NDArray[Any]]) -> bool:
    """Whether z and g have an array each for every part of the geometry, of equal shapes."""
    return z.keys() == g.keys() == description.keys() and all(z[leaf].shape == g[leaf].shape for leaf in z)


def plain(checks: list[Check]) -> list[dict[str, Any]]:
    """The checks as plain data; what is not finite as text, because strict JSON has no such numbers."""
    return [asdict(replace(check, stored=_finite(check.stored), found=_finite(check.found))) for check in checks]


def _finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def _certificate_checks(run: StoredRun, output: str, stored: dict[str, Any], z: Any, g: Any) -> list[Check]:
    """<g, z> + psi(z) + psi*(-g), block by block, and whether z is in the domain."""
    description = run.manifest["geometry"]
    try:
        violation = recheck.violation(description, z)
        gaps = recheck.fenchel_gaps(description, z, g) if stored["gap"] is not None else {}
    except recheck.CannotRedo as error:
        return [Check(output, f"certificate ({error})", stored["gap"], None, None)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"the geometry in {run.path / 'manifest.json'} is damaged: {error}") from None
    checks = [Check(output, "distance outside the domain", 0.0, violation, bool(violation <= FEASIBLE))]
    if stored["gap"] is None:
        return [*checks, Check(output, f"no certificate: {stored['reason']}", None, None, None)]
    for block in ("x", "y"):
        found = sum(gap for leaf, gap in gaps.items() if leaf.startswith(block))
        products = sum(float(np.sum(np.abs(z[leaf] * g[leaf]))) for leaf in gaps if leaf.startswith(block))
        size = products + abs(found)  # psi(z) + psi*(-g) is the one without the other
        close = bool(abs(found - stored[f"gap_{block}"]) <= ROUNDING * (1 + size))
        checks.append(Check(output, f"{block} part of the certificate", stored[f"gap_{block}"], found, close))
    total = stored["gap_x"] + stored["gap_y"]
    return [*checks, Check(output, "sum of the parts", stored["gap"], total, total == stored["gap"])]


def _structure_checks(run: StoredRun, output: str, stored: dict[str, Any], z: dict[str, NDArray[Any]]) -> list[Check]:
    """Ranks of the spectral blocks, and the share of nonzeros in all others."""
    spectral = [leaf for leaf, part in run.manifest["geometry"].items() if '"Spectral"' in json.dumps(part)]
    entries = [np.ravel(array) for leaf, array in z.items() if leaf not in spectral]
    ranks = [int(np.sum(np.linalg.svd(z[leaf], compute_uv=False) > NONZERO)) for leaf in spectral] or None
    density = float(np.mean(np.abs(np.concatenate(entries)) > NONZERO)) if entries else None
    found = {"density": density, "rank": ranks}
    return [
        Check(output, name, stored[name], found[name], found[name] == stored[name])
        for name in found
        if found[name] is not None or stored[name] is not None
    ]


def _data_checks(
    output: str,
    stored: dict[str, Any],
    problem: AbstractProblem | None,
    why_not: str,
    z: dict[str, NDArray[Any]],
    g: dict[str, NDArray[Any]],
) -> list[Check]:
    """g(z) and the objective from the data; else g is the operator as reported by sites."""
    if problem is None:
        return [Check(output, f"operator as reported by sites ({why_not})", None, None, None)]
    with double():
        problem = tree.cast_module(problem, jnp.float64)  # as the run did, whatever its data is stored in
        structure: Any = jax.tree.structure(problem.like)
        point = jax.tree.unflatten(structure, [z[name] for name, _ in tree.leaves_with_names(problem.like)])
        try:
            again = dict(tree.leaves_with_names(problem.operator(problem.admit(point))))
        except ValueError as error:
            return [Check(output, f"operator from the data ({error})", None, None, False)]
        apart = max(float(np.max(np.abs(np.asarray(again[leaf]) - g[leaf]))) for leaf in g)
        size = max(float(np.max(np.abs(array))) for array in g.values())
        value, said = problem.objective(point), stored["objective"]
    same = not np.isfinite(value) if said is None else bool(abs(value - said) <= ROUNDING * (1 + abs(value)))
    operator = "operator from the data, largest difference"
    return [
        Check(output, operator, 0.0, apart, bool(apart <= ROUNDING * (1 + size))),
        Check(output, "objective", said, value, same),
    ]


def _history_checks(run: StoredRun) -> list[Check]:
    """The history is the one that was stored, and its last record and the status tell of the same end."""
    status: dict[str, Any] = run.status or {}
    last = run.history[-1] if run.history else {}
    pairs = [("", f"{key} in the history", status.get(key), last.get(key)) for key in ("bytes_up", "bytes_down")]
    pairs.append(("", "rounds in the history", status["rounds"], last.get("round")))
    for output, stored in status["outputs"].items():
        if f"gap_{output}" in last:
            pairs.append((output, "gap in the history", stored["gap"], last[f"gap_{output}"]))
    digest = hashlib.sha256((run.path / "history.jsonl").read_bytes()).hexdigest()
    pairs.append(("", "SHA-256 of the history", status.get("history_sha256"), digest))
    return [Check(output, what, said, found, found == said) for output, what, said, found in pairs]


def _claim_checks(run: StoredRun) -> list[Check]:
    """The gap of the answer is that of its output, and is at most tol if the status says so."""
    status: dict[str, Any] = run.status or {}
    gap, tol = status["outputs"][status["output"]]["gap"], run.manifest["configuration"]["run"].get("tol")
    checks = [Check(status["output"], "gap of the answer", status["gap"], gap, status["gap"] == gap)]
    name, settings = status["status"], run.manifest["configuration"]["run"]
    within = {Status.OPTIMAL.name: 1, Status.OPTIMAL_INACCURATE.name: 10}
    if name in within:
        met = gap is not None and tol is not None and gap <= within[name] * tol
        limit = "tol" if within[name] == 1 else f"{within[name]} tol"
        checks.append(Check(status["output"], f"{name}: gap at most {limit}", tol, gap, met))
    elif name == Status.MAX_ROUNDS.name:
        total = settings.get("rounds") or settings.get("steps")
        checks.append(Check("", f"{name}: all rounds were run", total, status["rounds"], status["rounds"] == total))
    elif name not in Status.__members__:
        checks.append(Check("", "a status that exists", name, None, False))
    if name == Status.UNCERTIFIED.name:
        checks.append(Check(status["output"], f"{name}: no gap is claimed", None, gap, gap is None))
    return checks


def _reach(run: StoredRun) -> tuple[AbstractProblem | None, str]:
    """The problem again from its configuration, if its data is there and is the same."""
    configuration = run.manifest["configuration"]
    try:
        folder_of_file = Path(configuration.get("folder", "."))
        problem = weighted_problem(configuration["problem"], folder_of_file, configuration["run"].get("weights"))
    except ConfigurationError as error:
        return None, f"the data cannot be reached: {error}"
    if fingerprint(problem) != run.manifest["data_sha256"]:
        return None, "the data has changed since"
    return problem, ""
