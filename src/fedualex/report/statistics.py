"""Curves, table rows and solution blocks of methods: means and deviations over seeds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..experiments.exact import structure_values
from ..experiments.folder import StoredRun
from ..experiments.summary import steps_text
from ..runtime.outputs import KINDS

OUTPUTS = (*KINDS, "best")


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
        "exchanges": _listed(column("exchanges").mean(0)),
        "seconds": _listed(column("seconds").mean(0)),
        "megabytes": _listed(traffic.mean(0) / 1e6),
        "gap": spread(column(f"gap_{output}")),
        "structure": structure,
    }


def row(label: str, output: str, runs: Sequence[StoredRun], exact: dict[str, Any] | None) -> dict[str, Any]:
    """The final numbers of one output: mean and deviation over seeds."""
    found = [stored_outputs(run)[output] for run in runs]
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
        "rounds": float(np.mean([status["rounds"] for status in ended])),
        "exchanges": float(np.mean([status["exchanges"] for status in ended])),
        "seconds": float(np.mean([status["seconds"] for status in ended])),
        "megabytes": float(np.mean([traffic(status) for status in ended])),
        "status": _each_once([one["status"] for one in found]),
        "stop": _each_once([status["stop"] for status in ended]),
        "answer": all(status["output"] == output for status in ended),
    }


def traffic(status: Mapping[str, Any]) -> float:
    """Megabytes that a run has sent, up and down together; 0 where nothing was counted."""
    return ((status["bytes_up"] or 0) + (status["bytes_down"] or 0)) / 1e6


def structure_text(found: Sequence[Mapping[str, Any]]) -> str:
    """Density or ranks over seeds, as text."""
    if found[0]["rank"] is not None:
        ranks = np.array([one["rank"] for one in found], float)
        return " / ".join(_plus_minus(ranks[:, i], ".3g") for i in range(ranks.shape[1]))
    return _plus_minus(np.array([one["density"] for one in found], float), ".3f")


def blocks(run: StoredRun, output: str, exact: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The structure of a solution, block by block: sizes of entries, or singular values."""
    spectral = stored_outputs(run)[output]["rank"] is not None
    return [
        {
            "name": name,
            "kind": "singular values" if spectral and array.ndim == 2 else "entries",
            "values": structure_values(array, spectral and array.ndim == 2),
            "exact": exact["blocks"].get(name) if exact else None,
        }
        for name, array in run.points(output)[0].items()
    ]


def spread(values: NDArray[Any]) -> dict[str, list[float | None]]:
    """Mean and standard deviation over the first axis; None where a number is missing, and no deviation of one run."""
    several = len(values) > 1
    return {"mean": _listed(values.mean(0)), "std": _listed(values.std(0)) if several else [None] * values.shape[1]}


def stored_outputs(run: StoredRun) -> dict[str, Any]:
    """What a run's status says of each output."""
    found = (run.status or {}).get("outputs", {})
    return {name: found[name] for name in OUTPUTS if name in found}


def common_outputs(runs: Sequence[StoredRun]) -> list[str]:
    """The outputs that all runs have."""
    return [output for output in stored_outputs(runs[0]) if all(output in stored_outputs(run) for run in runs)]


def _each_once(words: Sequence[str]) -> str:
    return ", ".join(sorted(set(words)))


def recorded_outputs(run: StoredRun) -> list[str]:
    """The outputs that have a column in the history."""
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
