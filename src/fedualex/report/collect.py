"""Stored runs as the plain data that figures and the page are drawn from."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..experiments import folder
from ..experiments.folder import StoredRun
from ..experiments.registry import ConfigurationError
from ..experiments.summary import seed_runs
from .statistics import blocks, common_outputs, curve, recorded_outputs, row, stored_outputs


def collect(path: Path) -> dict[str, Any]:
    """The report of a folder: of one run, of runs side by side, of an experiment, or of several experiments."""
    manifest = folder.read_manifest(path)
    match manifest["kind"]:
        case "run":
            run = folder.load(path)
            panel = runs_panel(path.resolve().name, run.label, {run.label: [run]})
            return report(run.label, [panel], manifest, seeds_text([run]))
        case "comparison":
            runs = [folder.load(path / name) for name in manifest["runs"]]
            panel = compared_panel(manifest["title"], runs, _exact(path))
            return report(manifest["title"], [panel], manifest, seeds_text(runs))
        case "experiment":
            title, seeds = manifest["title"], f"0 to {manifest['plan']['seeds'] - 1}"
            return report(title, [experiment_panel(path)], manifest, seeds, stored_claims(path))
        case _:
            names = [name for name in manifest["experiments"] if any((path / name / "runs").glob("*/*/status.json"))]
            panels, seeds = [experiment_panel(path / name) for name in names], f"0 to {manifest['seeds'] - 1}"
            return report("The paper's experiments", panels, manifest, seeds, stored_claims(path))


def compared_panel(title: str, runs: Sequence[StoredRun], exact: dict[str, Any] | None = None) -> dict[str, Any]:
    """One panel for several runs, those that differ in their seeds alone as one; refused if their problems differ."""
    first = runs[0]
    for run in runs:
        if run.manifest["data_sha256"] != first.manifest["data_sha256"]:
            raise ConfigurationError(f"{first.path} and {run.path} are runs of different problems")
    groups = _by_seed(runs)
    names = _names([group[0] for group in groups])
    return runs_panel("comparison", title, dict(zip(names, groups, strict=True)), exact)


def _by_seed(runs: Sequence[StoredRun]) -> list[list[StoredRun]]:
    """Runs of one configuration with different seeds together; the same seed twice is two."""
    groups: dict[str, list[StoredRun]] = {}
    for run in runs:
        configuration = run.manifest["configuration"]
        seed = configuration["run"].get("seed")
        same = json.dumps({**configuration, "run": {**configuration["run"], "seed": None}}, sort_keys=True)
        seeds = [one.manifest["configuration"]["run"].get("seed") for one in groups.get(same, ())]
        groups.setdefault(f"{same} {run.path}" if seed in seeds else same, []).append(run)
    return list(groups.values())


def _names(runs: Sequence[StoredRun]) -> list[str]:
    """The shortest names that tell the runs apart: the method, with its folder, with its whole path."""
    for name in (lambda run: run.label, lambda run: f"{run.label} ({run.path.name})"):
        names = [name(run) for run in runs]
        if len(set(names)) == len(names):
            return names
    return [f"{run.label} ({run.path})" for run in runs]


def experiment_panel(path: Path) -> dict[str, Any]:
    """The panel of an experiment: every method at its tuned steps, mean and deviation over seeds."""
    manifest = folder.read_manifest(path, "experiment")
    groups = seed_runs(path)
    if not groups:
        raise ConfigurationError(f"{path} has no finished runs yet")
    return runs_panel(path.resolve().name, manifest["title"], groups, _exact(path))


def runs_panel(
    name: str, title: str, groups: Mapping[str, Sequence[StoredRun]], exact: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Curves, table, certificates and solutions of methods, each with one run or one for every seed."""
    for runs in groups.values():
        for run in runs:
            if run.status is None or not run.history:
                raise ConfigurationError(f"{run.path} is a run that has not ended")
    firsts = {label: runs[0] for label, runs in groups.items()}
    spectral = any(one["rank"] is not None for run in firsts.values() for one in stored_outputs(run).values())
    return {
        "name": name,
        "title": title,
        "structure": "rank" if spectral else "density",
        "exact": exact and {key: exact[key] for key in ("value", "gap", "how", "density", "rank")},
        "curves": [
            curve(label, output, runs) for label, runs in groups.items() for output in recorded_outputs(runs[0])
        ],
        "table": [row(label, output, runs, exact) for label, runs in groups.items() for output in common_outputs(runs)],
        "certificates": [
            {
                "method": label,
                "output": output,
                "gap": found["gap"],
                "x": found["gap_x"],
                "y": found["gap_y"],
                "shift": found["shift"],
                "rounding": found["rounding"],
                "reason": found["reason"],
            }
            for label, run in firsts.items()
            for output, found in stored_outputs(run).items()
        ],
        "solutions": [
            {"method": label, "output": output, "blocks": blocks(run, output, exact)}
            for label, run in firsts.items()
            for output in stored_outputs(run)
        ],
        "notes": notes(groups),
    }


def notes(groups: Mapping[str, Sequence[StoredRun]]) -> list[str]:
    """What a reader must know to read the numbers."""
    seeds = max(len(runs) for runs in groups.values())
    chosen = {
        label: runs[0].status["steps"] for label, runs in groups.items() if runs[0].status and runs[0].status["steps"]
    }
    return [
        "last: the server's point. ergodic: the average over rounds and steps that the paper's theorems are about. "
        "client_average: the average of the clients' own points. polished: one exact composite step from it. "
        "bounds: x of the best upper bound and y of the best lower bound of the optimal value, from several surveys. "
        "best: an earlier record whose certificate was smaller than all of these.",
        *([f"Mean and standard deviation over {seeds} seeds; certificates and solutions of seed 0."] * (seeds > 1)),
        *(f"{label}: steps from theory: {text}" for label, text in chosen.items()),
    ]


def report(
    title: str,
    panels: list[dict[str, Any]],
    manifest: Mapping[str, Any],
    seeds: str,
    claims: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """All that the page shows."""
    return {
        "title": title,
        "subtitle": "Certified upper bounds on the duality gap, computed in float64 from the exact operator",
        "panels": panels,
        "claims": list(claims),
        "repeat": {key: manifest[key] for key in ("command", "versions", "machine", "created")} | {"seeds": seeds},
    }


def seeds_text(runs: Sequence[StoredRun]) -> str:
    """The seeds of some runs, each once."""
    return ", ".join(dict.fromkeys(str(run.manifest["configuration"]["run"]["seed"]) for run in runs))


def stored_claims(path: Path) -> list[dict[str, Any]]:
    """The comparison with the paper's sentences, if it was made."""
    file = path / "claims.json"
    return list(json.loads(file.read_text())) if file.exists() else []


def _exact(path: Path) -> dict[str, Any] | None:
    file = path / "exact.json"
    return json.loads(file.read_text()) if file.exists() else None
