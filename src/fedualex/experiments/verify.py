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
from ..runtime import NONZERO, Stop, fingerprint
from ..runtime.status import status_of
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
    total = max(stored["gap_x"] + stored["gap_y"], 0.0) + stored["rounding"]
    return [*checks, Check(output, "sum of the parts and rounding", stored["gap"], total, total == stored["gap"])]


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
    """Every status is what its output's gap is worth, and the answer's words are those of its output."""
    status: dict[str, Any] = run.status or {}
    settings = run.manifest["configuration"]["run"]
    answer, tol = status["outputs"][status["output"]], settings.get("tol")
    checks = [
        Check(status["output"], f"{key} of the answer", status[key], answer[key], status[key] == answer[key])
        for key in ("gap", "status")
    ]
    for name, output in status["outputs"].items():
        worth = status_of(output["gap"], tol).name
        checks.append(Check(name, f"status for tol {tol}", output["status"], worth, output["status"] == worth))
    stop = status["stop"]
    if stop == Stop.MAX_ROUNDS.name:
        total = settings.get("rounds") or settings.get("steps")
        checks.append(Check("", f"{stop}: all rounds were run", total, status["rounds"], status["rounds"] == total))
    elif stop not in Stop.__members__:
        checks.append(Check("", "a reason to stop that exists", stop, None, False))
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
