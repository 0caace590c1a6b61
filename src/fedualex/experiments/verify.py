"""A stored run checked again: certificates in plain numpy, operators from the data where it can be reached."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..precision import double
from ..problems import AbstractProblem
from ..runtime import NONZERO, fingerprint
from . import folder, recheck
from .folder import StoredRun
from .names import ConfigurationError, build_problem

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
    checks = [_history_check(run)]
    for output, stored in run.status["outputs"].items():
        z, g = run.points(output)
        if not z or z.keys() != g.keys():
            raise ConfigurationError(f"{path / 'solution.npz'} does not hold z and g of the output {output!r}")
        checks += _certificate_checks(run, output, stored, z, g)
        checks.append(_structure_check(output, stored, z))
        checks.append(_operator_check(output, problem, why_not, z, g))
    return checks


def plain(checks: list[Check]) -> list[dict[str, Any]]:
    """The checks as plain data."""
    return [asdict(check) for check in checks]


def _certificate_checks(run: StoredRun, output: str, stored: dict[str, Any], z: Any, g: Any) -> list[Check]:
    """<g, z> + psi(z) + psi*(-g), block by block, and whether z is in the domain."""
    description = run.manifest["geometry"]
    try:
        violation = recheck.violation(description, z)
        gaps = recheck.fenchel_gaps(description, z, g) if stored["gap"] is not None else {}
    except recheck.CannotRedo as error:
        return [Check(output, f"certificate ({error})", stored["gap"], None, None)]
    checks = [Check(output, "distance outside the domain", 0.0, violation, bool(violation <= FEASIBLE))]
    if stored["gap"] is None:
        return [*checks, Check(output, f"no certificate: {stored['reason']}", None, None, None)]
    for block in ("x", "y"):
        found = sum(gap for leaf, gap in gaps.items() if leaf.startswith(block))
        size = sum(float(np.sum(np.abs(z[leaf] * g[leaf]))) for leaf in gaps if leaf.startswith(block))
        close = bool(abs(found - stored[f"gap_{block}"]) <= ROUNDING * (1 + size))
        checks.append(Check(output, f"{block} part of the certificate", stored[f"gap_{block}"], found, close))
    total = float(sum(gaps.values()))
    consistent = bool(abs(stored["gap_x"] + stored["gap_y"] - stored["gap"]) <= ROUNDING * (1 + abs(total)))
    return [*checks, Check(output, "sum of the parts", stored["gap"], total, consistent)]


def _structure_check(output: str, stored: dict[str, Any], z: dict[str, NDArray[Any]]) -> Check:
    if stored["rank"] is not None and stored["density"] is None:
        ranks = [int(np.sum(np.linalg.svd(array, compute_uv=False) > NONZERO)) for array in z.values()]
        return Check(output, "ranks", stored["rank"], ranks, ranks == stored["rank"])
    if stored["rank"] is None:
        entries = np.concatenate([np.ravel(array) for array in z.values()])
        density = float(np.mean(np.abs(entries) > NONZERO))
        return Check(output, "density", stored["density"], density, density == stored["density"])
    return Check(output, "density and ranks of mixed blocks", None, None, None)


def _operator_check(
    output: str, problem: AbstractProblem | None, why_not: str, z: dict[str, NDArray[Any]], g: dict[str, NDArray[Any]]
) -> Check:
    """g(z) from the data; else it is the operator as reported by sites."""
    if problem is None:
        return Check(output, f"operator as reported by sites ({why_not})", None, None, None)
    with double():
        structure: Any = jax.tree.structure(problem.like)
        point = jax.tree.unflatten(structure, [z[name] for name, _ in tree.leaves_with_names(problem.like)])
        again = dict(tree.leaves_with_names(problem.operator(problem.admit(point))))
        apart = max(float(np.max(np.abs(np.asarray(again[leaf]) - g[leaf]), initial=0)) for leaf in g)
        size = max(float(np.max(np.abs(array), initial=0)) for array in g.values())
    return Check(output, "operator from the data, largest difference", 0.0, apart, bool(apart <= ROUNDING * (1 + size)))


def _history_check(run: StoredRun) -> Check:
    """The last record and the status tell of the same end."""
    status: dict[str, Any] = run.status or {}
    if not run.history:
        return Check("last", "history", status["rounds"], None, False)
    last = run.history[-1]
    same = last["round"] == status["rounds"] and last["gap_last"] == status["outputs"]["last"]["gap"]
    return Check(
        "last", "gap in the last line of the history", status["outputs"]["last"]["gap"], last["gap_last"], same
    )


def _reach(run: StoredRun) -> tuple[AbstractProblem | None, str]:
    """The problem again from its configuration, if its data is there and is the same."""
    configuration = run.manifest["configuration"]
    try:
        problem = build_problem(configuration["problem"], Path(configuration.get("folder", ".")))
    except ConfigurationError as error:
        return None, f"the data cannot be reached: {error}"
    if fingerprint(problem) != run.manifest["data_sha256"]:
        return None, "the data has changed since"
    return problem, ""
