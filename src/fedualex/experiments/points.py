"""The outputs of a stored run checked again: certificates in plain numpy, operators from the data where it is."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from .. import tree
from ..precision import double
from ..problems import AbstractProblem
from ..runtime import NONZERO
from ..runtime.outputs import exact_problem, operator_at
from ..tree import Saddle
from . import recheck
from .evidence import FEASIBLE, ROUNDING, Bounded, mean_checks, point_of, rounding_check, survey_checks
from .folder import StoredRun
from .reach import Reached
from .registry import ConfigurationError
from .stored_evidence import Arrays, read_evidence
from .verdict import Check


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
            what, why_not = "operator" if evidence is None else "surveys", reached.why_not or "the data is elsewhere"
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


def _certificate_checks(run: StoredRun, output: str, stored: dict[str, Any], z: Arrays, g: Arrays) -> list[Check]:
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
        found, size = sum(part.value for part in parts), sum(part.size for part in parts)
        close = bool(abs(found - stored[f"gap_{block}"]) <= ROUNDING * size)
        checks.append(Check(output, f"{block} part of the certificate", stored[f"gap_{block}"], found, close))
    total = max(stored["gap_x"] + stored["gap_y"] + stored["shift"], 0.0) + stored["rounding"]
    whole = total == stored["gap"] and stored["rounding"] >= 0
    return [*checks, Check(output, "sum of the parts and of the rounding", stored["gap"], total, whole)]


def _structure_checks(run: StoredRun, output: str, stored: dict[str, Any], z: Arrays) -> list[Check]:
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
    problem: AbstractProblem, output: str, stored: dict[str, Any], z: Arrays, g: Arrays, sizes: Mapping[str, float]
) -> list[Check]:
    """g(z) and the rounding, from the data."""
    try:
        point = point_of(problem, z)
        again, found = _operator(problem, point), problem.certificate(point)
    except (ValueError, FloatingPointError) as error:
        return [Check(output, f"operator from the data ({error})", None, None, False)]
    apart = {leaf: float(np.max(np.abs(again[leaf] - g[leaf]))) for leaf in g}
    near = all(apart[leaf] <= ROUNDING * max(sizes[leaf], float(np.max(np.abs(again[leaf])))) for leaf in g)
    checks = [Check(output, "operator from the data, largest difference", 0.0, max(apart.values()), bool(near))]
    if stored["gap"] is not None:
        checks.append(rounding_check(output, stored, found.rounding, found.estimated))
    return checks


def _objective_check(
    run: StoredRun, problem: AbstractProblem, output: str, stored: dict[str, Any], z: Arrays, sizes: Mapping[str, float]
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
        found = _operator(problem, problem.project(point_of(problem, mixed)))
        for leaf, array in found.items():
            sizes[leaf] = max(sizes[leaf], float(np.max(np.abs(array), where=np.isfinite(array), initial=0.0)))
    return sizes


def _operator(problem: AbstractProblem, point: Saddle) -> Arrays:
    """The exact operator in float64, whatever the data is stored in: as the run computed it."""
    with double():
        g = operator_at(exact_problem(problem), problem.validate_point(point))
        return {name: np.asarray(leaf) for name, leaf in tree.leaves_with_names(g)}
