"""Stored runs as the plain data that figures and the page are drawn from."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..experiments import folder
from ..experiments.exact import structure_values
from ..experiments.folder import StoredRun
from ..experiments.names import ConfigurationError
from ..experiments.summary import seed_runs, steps_text

OUTPUTS = ("last", "ergodic", "clients", "polished", "best")


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
    """One panel for several runs; refused where they are of different problems."""
    first = runs[0]
    for run in runs:
        if run.manifest["data_sha256"] != first.manifest["data_sha256"]:
            raise ConfigurationError(f"{first.path} and {run.path} are runs of different problems")
    return runs_panel("comparison", title, {name: [run] for name, run in zip(_names(runs), runs, strict=True)}, exact)


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
    spectral = any(_outputs(run)["last"]["rank"] is not None for run in firsts.values())
    return {
        "name": name,
        "title": title,
        "structure": "rank" if spectral else "density",
        "exact": exact and {key: exact[key] for key in ("value", "gap", "how", "density", "rank")},
        "curves": [curve(label, output, runs) for label, runs in groups.items() for output in _recorded(runs[0])],
        "table": [row(label, output, runs, exact) for label, runs in groups.items() for output in _common(runs)],
        "certificates": [
            {
                "method": label,
                "output": output,
                "gap": found["gap"],
                "x": found["gap_x"],
                "y": found["gap_y"],
                "rounding": found["rounding"],
                "reason": found["reason"],
            }
            for label, run in firsts.items()
            for output, found in _outputs(run).items()
        ],
        "solutions": [
            {"method": label, "output": output, "blocks": blocks(run, output, exact)}
            for label, run in firsts.items()
            for output in _outputs(run)
        ],
        "notes": notes(groups),
    }


def curve(label: str, output: str, runs: Sequence[StoredRun]) -> dict[str, Any]:
    """Mean and standard deviation over seeds at every recorded round that all seeds have."""
    length = min(len(run.history) for run in runs)
    histories = [run.history[:length] for run in runs]

    def column(key: str) -> NDArray[Any]:
        return np.array([[_number(record.get(key)) for record in history] for history in histories], float)

    traffic = column("bytes_up") + column("bytes_down")
    if histories[0][0].get(f"rank_{output}") is not None:
        ranks = np.array([[record[f"rank_{output}"] for record in history] for history in histories], float)
        structure = {name: spread(ranks[:, :, i]) for i, name in enumerate(_block_names(ranks.shape[2]))}
    else:
        structure = {"all": spread(column(f"density_{output}"))}
    return {
        "method": label,
        "output": output,
        "round": [record["round"] for record in histories[0]],
        "seconds": _listed(column("seconds").mean(0)),
        "megabytes": _listed(traffic.mean(0) / 1e6),
        "gap": spread(column(f"gap_{output}")),
        "structure": structure,
    }


def row(label: str, output: str, runs: Sequence[StoredRun], exact: dict[str, Any] | None) -> dict[str, Any]:
    """The final numbers of one output: mean and deviation over seeds."""
    found = [_outputs(run)[output] for run in runs]
    gaps = [one["gap"] for one in found]
    certified = all(gap is not None for gap in gaps)
    ended = [run.status for run in runs if run.status]
    return {
        "method": label,
        "steps": steps_text(runs[0]),
        "output": output,
        "gap": float(np.mean(gaps)) if certified else None,
        "gap_std": float(np.std(gaps)) if certified and len(gaps) > 1 else None,
        "structure": structure_text(found),
        "distance": float(np.mean([abs(one["objective"] - exact["value"]) for one in found])) if exact else None,
        "seconds": float(np.mean([status["seconds"] for status in ended])),
        "megabytes": float(np.mean([(status["bytes_up"] + status["bytes_down"]) / 1e6 for status in ended])),
        "status": _each_once([one["status"] for one in found]),
        "stop": _each_once([status["stop"] for status in ended]),
        "answer": all(status["output"] == output for status in ended),
    }


def structure_text(found: Sequence[Mapping[str, Any]]) -> str:
    """Density or ranks over seeds, as text."""
    if found[0]["rank"] is not None:
        ranks = np.array([one["rank"] for one in found], float)
        return " / ".join(_plus_minus(ranks[:, i], ".3g") for i in range(ranks.shape[1]))
    return _plus_minus(np.array([one["density"] for one in found], float), ".3f")


def blocks(run: StoredRun, output: str, exact: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The structure of a solution, block by block: sizes of entries, or singular values."""
    spectral = _outputs(run)[output]["rank"] is not None
    return [
        {
            "name": name,
            "kind": "singular values" if spectral and array.ndim == 2 else "entries",
            "values": structure_values(array, spectral and array.ndim == 2),
            "exact": exact["blocks"].get(name) if exact else None,
        }
        for name, array in run.points(output)[0].items()
    ]


def notes(groups: Mapping[str, Sequence[StoredRun]]) -> list[str]:
    """What a reader must know to read the numbers."""
    seeds = max(len(runs) for runs in groups.values())
    chosen = {
        label: runs[0].status["steps"] for label, runs in groups.items() if runs[0].status and runs[0].status["steps"]
    }
    return [
        "last: the server's point. ergodic: the average over rounds and steps that the paper's theorems are about. "
        "clients: the average of the clients' own points. polished: one exact composite step from it. "
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


def spread(values: NDArray[Any]) -> dict[str, list[float | None]]:
    """Mean and standard deviation over the first axis; None where a number is missing."""
    return {"mean": _listed(values.mean(0)), "std": _listed(values.std(0))}


def _exact(path: Path) -> dict[str, Any] | None:
    file = path / "exact.json"
    return json.loads(file.read_text()) if file.exists() else None


def _outputs(run: StoredRun) -> dict[str, Any]:
    found = (run.status or {}).get("outputs", {})
    return {name: found[name] for name in OUTPUTS if name in found}


def _common(runs: Sequence[StoredRun]) -> list[str]:
    """The outputs that all runs have."""
    return [output for output in _outputs(runs[0]) if all(output in _outputs(run) for run in runs)]


def _each_once(words: Sequence[str]) -> str:
    return ", ".join(sorted(set(words)))


def _recorded(run: StoredRun) -> list[str]:
    return [output for output in OUTPUTS if f"gap_{output}" in run.history[0]]


def _block_names(count: int) -> tuple[str, ...]:
    return ("x", "y") if count == 2 else tuple(f"block {i + 1}" for i in range(count))


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _listed(values: NDArray[Any]) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def _plus_minus(values: NDArray[Any], form: str) -> str:
    mean = f"{values.mean():{form}}"
    return f"{mean} ± {values.std():{form}}" if len(values) > 1 else mean
