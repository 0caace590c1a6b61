"""A panel of the page: methods on one problem, each with one run or one for every seed."""

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ..experiments import folder
from ..experiments.folder import StoredRun
from ..experiments.registry import ConfigurationError
from ..experiments.summary import seed_runs
from ..runtime.prepare import untuned
from .answers import answer_of, findings, headline
from .captions import OUTPUT_WORDS, settings_text
from .statistics import blocks, common_outputs, curve, recorded_outputs, row, stored_outputs, traffic


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
    return runs_panel(path.resolve().name, manifest["title"], groups, exact_of(path))


def runs_panel(
    name: str,
    title: str,
    groups: Mapping[str, Sequence[StoredRun]],
    exact: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Answer, curves, table, certificates and solutions of methods, each with one run or one for every seed."""
    for run in chain.from_iterable(groups.values()):
        if run.status is None or not run.history:
            raise ConfigurationError(f"{run.path} is a run that has not ended")
    firsts = {label: runs[0] for label, runs in groups.items()}
    spectral = any(one["rank"] is not None for run in firsts.values() for one in stored_outputs(run).values())
    panel = {
        "name": name,
        "title": title,
        "headline": headline(groups),
        # What several methods are compared by is what they cost.
        "x": "megabytes" if len(groups) > 1 and all(_sent(runs) for runs in groups.values()) else "round",
        "tol": next((tol for run in firsts.values() if (tol := _tol(run)) is not None), None),
        "structure": "rank" if spectral else "density",
        "exact": exact and {key: exact[key] for key in ("value", "gap", "how", "density", "rank")},
        "curves": [
            curve(label, output, runs) for label, runs in groups.items() for output in recorded_outputs(runs[0])
        ],
        "answers": [answer_of(label, runs) for label, runs in groups.items()],
        "table": [row(label, output, runs, exact) for label, runs in groups.items() for output in common_outputs(runs)],
        "certificates": [row for label, run in firsts.items() for row in _certificates(label, run)],
        "solutions": [
            {"method": label, "output": output, "blocks": blocks(run, output, exact)}
            for label, run in firsts.items()
            for output in stored_outputs(run)
        ],
        "model": model,
        "methods": {label: run.manifest["configuration"]["method"]["name"] for label, run in firsts.items()},
        "settings": settings_text(next(iter(firsts.values()))),
        "untuned": untuned(_chosen(groups)) if len(groups) > 1 else "",
        "notes": notes(groups),
    }
    return panel | {"findings": findings(panel)}


def notes(groups: Mapping[str, Sequence[StoredRun]]) -> list[str]:
    """What a reader must know to read the numbers."""
    seeds = max(len(runs) for runs in groups.values())
    # Folders of before do not say it.
    precisions: dict[str, list[str]] = {}
    for label, runs in groups.items():
        if text := (runs[0].status or {}).get("precision"):
            precisions.setdefault(text, []).append(label)
    present = {output for runs in groups.values() for output in stored_outputs(runs[0])}
    return [
        "Gaps are certified upper bounds on the duality gap, computed in float64 from the exact operator.",
        *(f"{name}: {text}." for name, text in OUTPUT_WORDS.items() if name in present),
        *([f"Mean and standard deviation over {seeds} seeds; certificates and solutions of seed 0."] * (seeds > 1)),
        *(f"{label}: steps from theory: {text}" for label, text in _chosen(groups).items() if text),
        *(f"{', '.join(labels)}: rounds in {text}." for text, labels in precisions.items()),
    ]


def _chosen(groups: Mapping[str, Sequence[StoredRun]]) -> dict[str, str]:
    """The step sizes that theory chose for each method, in words."""
    return {label: runs[0].status["steps"] for label, runs in groups.items() if runs[0].status}


def _certificates(label: str, run: StoredRun) -> list[dict[str, Any]]:
    """A row for each output of a run."""
    columns = {"gap": "gap", "x": "gap_x", "y": "gap_y", "shift": "shift", "rounding": "rounding", "reason": "reason"}
    return [
        {"method": label, "output": output, **{name: found[key] for name, key in columns.items()}}
        for output, found in stored_outputs(run).items()
    ]


def _tol(run: StoredRun) -> float | None:
    return run.manifest["configuration"]["run"].get("tol")


def _sent(runs: Sequence[StoredRun]) -> bool:
    return all(run.status is not None and traffic(run.status) > 0 for run in runs)


def exact_of(path: Path) -> dict[str, Any] | None:
    """The exact optimum kept in a folder, if there is one."""
    file = path / "exact.json"
    return json.loads(file.read_text()) if file.exists() else None
