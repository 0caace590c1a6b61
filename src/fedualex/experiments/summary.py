"""Finished seeds of an experiment, and their final numbers as mean and standard deviation."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import folder
from .folder import StoredRun


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over seeds."""

    mean: float
    std: float

    @staticmethod
    def of(values: Any) -> "Spread":
        """Of these values."""
        return Spread(float(np.mean(values)), float(np.std(values)))

    def __str__(self) -> str:
        return f"{self.mean:.3g} ± {self.std:.1g}"


def seed_runs(path: Path) -> dict[str, list[StoredRun]]:
    """The finished runs of each method of an experiment, in the order of its file."""
    manifest = folder.read_manifest(path, "experiment")
    groups = {}
    for label in manifest["plan"]["settings"]["methods"]:
        root = path / "runs" / label.replace(" ", "-")
        runs = [folder.load(one) for one in sorted(root.glob("seed-*")) if (one / "status.json").exists()]
        if runs:
            groups[label] = runs
    return groups


def complete(path: Path, groups: Mapping[str, Sequence[StoredRun]]) -> bool:
    """Whether every method of the experiment has all its seeds."""
    plan = folder.read_manifest(path, "experiment")["plan"]
    return all(len(groups.get(label, ())) == plan["seeds"] for label in plan["settings"]["methods"])


def is_small(path: Path) -> bool:
    """Whether an experiment is the small instance of its file."""
    return bool(folder.read_manifest(path, "experiment")["plan"].get("quick", False))


def is_case(path: Path) -> bool:
    """Whether an experiment is one case of a study."""
    return folder.read_manifest(path, "experiment")["plan"].get("case") is not None


def final(runs: list[StoredRun], output: str, key: str) -> Spread:
    """The final gap, density or total rank of an output over seeds."""
    return Spread.of([np.sum(run.status["outputs"][output][key]) for run in runs if run.status])


def gaps_at_equal_cost(groups: Mapping[str, Sequence[StoredRun]], output: str) -> dict[str, Spread]:
    """The gap of each method over seeds after as many exchanges as all of them have made.

    A round of a method with a fresh survey has one exchange more. A method without this output is read by its answer.
    """
    common = min(run.history[-1]["exchanges"] for runs in groups.values() for run in runs)

    def gap(run: StoredRun) -> float:
        record = [one for one in run.history if one["exchanges"] <= common][-1]
        key = f"gap_{output}"
        return float(record[key if key in record else f"gap_{(run.status or {})['output']}"])

    return {label: Spread.of([gap(run) for run in runs]) for label, runs in groups.items()}


def theory_of(path: Path, result: str, version: str) -> float:
    """What a theorem promises about the runs of a case at its own best step; infinite where it promises nothing."""
    bounds = json.loads((path / "theory.json").read_text())["bounds"]
    (bound,) = [one for one in bounds if one["result"] == result and one["version"] == version]
    return float("inf") if bound["total"] is None else float(bound["total"])


def steps_text(run: StoredRun) -> str:
    """The numbers of a run's method, which are its step sizes, and the sentence of theory about those not given."""
    method = run.manifest["configuration"]["method"]
    given = [f"{key} {value:g}" for key, value in method.items() if isinstance(value, int | float)]
    chosen = str(run.status["steps"]) if run.status else ""
    return ", ".join(filter(None, [*given, chosen]))
