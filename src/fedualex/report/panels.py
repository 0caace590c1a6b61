"""A panel of the page: methods on one problem, each with one run or one for every seed."""

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import multimode
from typing import Any

import numpy as np

from ..arrays import Reals, Values
from ..display import round_up
from ..paper.claims import seed_runs, steps_text
from ..paper.reproduction import structure_values
from ..runs import folder
from ..runs.folder import StoredRun
from ..runs.settings import ConfigurationError
from ..runtime.outputs import KINDS
from ..runtime.prepare import describe_untuned
from ..storage import Json
from .figures import OUTPUT_WORDS, settings_text

# Curves, table rows and solution blocks of methods: means and deviations over seeds.


OUTPUTS = (*KINDS, "best")


def curve(label: str, output: str, runs: Sequence[StoredRun]) -> Json:
    """Mean and standard deviation over seeds at every recorded round that all seeds have."""
    length = min(len(run.history) for run in runs)
    histories = [run.history[:length] for run in runs]

    def column(key: str) -> Reals:
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
        "exchanges": _list(column("exchanges").mean(0)),
        "seconds": _list(column("seconds").mean(0)),
        "megabytes": _list(traffic.mean(0) / 1e6),
        "gap": spread(column(f"gap_{output}")),
        "structure": structure,
    }


def row(label: str, output: str, runs: Sequence[StoredRun], exact: Json | None) -> Json:
    """The final numbers of one output: mean and deviation over seeds."""
    outputs = [stored_outputs(run)[output] for run in runs]
    gaps = [one["gap"] for one in outputs]
    certified = all(gap is not None for gap in gaps)
    ended = [run.status for run in runs if run.status]
    return {
        "method": label,
        "steps": steps_text(runs[0]),
        "output": output,
        "gap": float(np.mean(gaps)) if certified else None,
        "gap_std": float(np.std(gaps)) if certified and len(gaps) > 1 else None,
        "structure": structure_text(outputs),
        "distance": float(np.mean([abs(one["objective"] - exact["value"]) for one in outputs])) if exact else None,
        "rounds": float(np.mean([status["rounds"] for status in ended])),
        "exchanges": float(np.mean([status["exchanges"] for status in ended])),
        "seconds": float(np.mean([status["seconds"] for status in ended])),
        "megabytes": float(np.mean([traffic(status) for status in ended])),
        "status": _each_once([one["status"] for one in outputs]),
        "stop": _each_once([status["stop"] for status in ended]),
        "answer": all(status["output"] == output for status in ended),
    }


def traffic(status: Json) -> float:
    """Megabytes that a run has sent, up and down together; 0 where nothing was counted."""
    return ((status["bytes_up"] or 0) + (status["bytes_down"] or 0)) / 1e6


def structure_text(outputs: Sequence[Json]) -> str:
    """Density or ranks over seeds, as text."""
    if outputs[0]["rank"] is not None:
        ranks = np.array([one["rank"] for one in outputs], float)
        return " / ".join(_plus_minus(ranks[:, i], ".3g") for i in range(ranks.shape[1]))
    return _plus_minus(np.array([one["density"] for one in outputs], float), ".3f")


def blocks(run: StoredRun, output: str, exact: Json | None) -> list[Json]:
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


def spread(values: Values) -> dict[str, list[float | None]]:
    """Mean and standard deviation over the first axis; None where a number is missing, and no deviation of one run."""
    several = len(values) > 1
    return {"mean": _list(values.mean(0)), "std": _list(values.std(0)) if several else [None] * values.shape[1]}


def stored_outputs(run: StoredRun) -> Json:
    """What a run's status says of each output."""
    outputs = (run.status or {}).get("outputs", {})
    return {name: outputs[name] for name in OUTPUTS if name in outputs}


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


def _list(values: Values) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def _plus_minus(values: Values, form: str) -> str:
    mean = f"{values.mean():{form}}"
    return f"{mean} ± {values.std():{form}}" if len(values) > 1 else mean


# What runs found, in sentences: the answer first, then what the numbers say of methods side by side.


Panel = Json


def answer_of(label: str, runs: Sequence[StoredRun]) -> dict[str, str]:
    """Which output is a method's answer, and the recorded one whose curve stands for it.

    Over seeds the answer is that of most of them. Without a curve of its own, as an earlier record has none, the
    recorded output with the smallest final gap stands for it.
    """
    output = multimode(run.status["output"] for run in runs if run.status)[0]
    recorded = recorded_outputs(runs[0])
    last = runs[0].history[-1]
    gaps = {name: last.get(f"gap_{name}") for name in recorded}
    certified = {name: gap for name, gap in gaps.items() if gap is not None}
    other = min(certified, key=lambda name: certified[name]) if certified else (recorded or [output])[0]
    return {"method": label, "output": output, "curve": output if output in recorded else other}


def headline(groups: Mapping[str, Sequence[StoredRun]]) -> str:
    """The answer in one sentence; of several methods those of the two with the smallest certified gaps."""
    endings = {label: _ending(runs) for label, runs in groups.items()}
    if len(endings) == 1:
        (only,) = endings.values()
        return _sentence(only)
    certified = {label: end for label, end in endings.items() if end["gap"] is not None}
    if not certified:
        return f"Nothing is certified: {next(iter(endings.values()))['reason']}."
    first, *others = sorted(certified, key=lambda label: certified[label]["gap"])
    text = f"{first} is certified within {round_up(certified[first]['gap'], 3)} of optimal {_cost(certified[first])}"
    if others:
        second = certified[others[0]]
        text += f"; {others[0]}, the next, within {round_up(second['gap'], 3)} {_cost(second)}"
    return f"{text}."


def _ending(runs: Sequence[StoredRun]) -> Json:
    """How the runs of one method ended: means over seeds."""
    ended = [run.status for run in runs if run.status]
    gaps = [status["gap"] for status in ended]
    sent = [traffic(status) for status in ended]
    violations = [status["violation"] for status in ended if status.get("violation") is not None]
    settings = runs[0].manifest["configuration"]["run"]
    first = ended[0]
    return {
        "gap": None if None in gaps else sum(gaps) / len(gaps),
        "reason": stored_outputs(runs[0])[first["output"]]["reason"],
        "violation": max(violations, default=None),
        "tol": settings.get("tol"),
        "stop": first["stop_meaning"],
        "rounds": sum(status["rounds"] for status in ended) / len(ended),
        "unit": "steps" if settings.get("steps") else "rounds",
        "megabytes": sum(sent) / len(sent),
        "seeds": len(ended),
    }


def _sentence(end: Json) -> str:
    if end["gap"] is None:
        return f"Nothing is certified {_cost(end)}: {end['reason']}."
    text = f"Certified within {round_up(end['gap'], 3)} of optimal {_cost(end)}"
    if end["violation"] is not None:
        text += f", with limits exceeded by at most {round_up(end['violation'], 3)}"
    if end["tol"] is not None and end["gap"] > end["tol"]:
        text += f"; the tolerance {end['tol']:g} was not reached ({end['stop']})"
    return f"{text}."


def _cost(end: Json) -> str:
    seeds = f"on average over {end['seeds']} seeds, " if end["seeds"] > 1 else ""
    unit = end["unit"].removesuffix("s") if end["rounds"] == 1 else end["unit"]
    sent = f", {megabytes(end['megabytes'])}" if end["megabytes"] > 0 else ""
    return f"{seeds}after {end['rounds']:.6g} {unit}{sent}"


def megabytes(value: float) -> str:
    """An amount of traffic as people say it."""
    return f"{value:.0f} MB" if value >= 10 else f"{value:.2g} MB"


def verdicts(claims: Sequence[Json]) -> str:
    """How many of the paper's sentences, and of the questions that its theorems ask, hold, in one sentence."""
    if not claims:
        return "No sentence of the paper has been judged yet."
    words = [claim["verdict"] for claim in claims]
    counts = [words.count(word) for word in ("agrees", "agrees only if", "does not agree")]
    return (
        f"Of {len(claims)} sentences, {counts[0]} hold in every reading of the text, "
        f"{counts[1]} in some readings only, and {counts[2]} in none."
    )


def findings(panel: Panel) -> list[str]:
    """What the numbers of several methods say: at equal cost, of structure, of the server's own point, of steps."""
    if len({curve["method"] for curve in panel["curves"]}) < 2:
        return []
    return [text for text in (_at_equal_cost(panel), _structure(panel), _last(panel), panel["untuned"]) if text]


def _at_equal_cost(panel: Panel) -> str:
    """The smallest gap that each method had certified by the time the one that sent least had ended."""
    spent: dict[str, float] = {}
    for curve in panel["curves"]:
        spent[curve["method"]] = curve["megabytes"][-1] or 0.0
    budget = min(spent.values())
    if budget <= 0:
        return ""
    best: dict[str, tuple[float, str]] = {}
    for curve in panel["curves"]:
        for sent, gap in zip(curve["megabytes"], curve["gap"]["mean"], strict=True):
            if sent is not None and sent <= budget and gap is not None:
                reached = (gap, curve["output"])
                best[curve["method"]] = min(best.get(curve["method"], reached), reached)
    ranked = sorted(best.items(), key=lambda item: item[1])
    listed = ", ".join(f"{method} {round_up(gap, 3)} ({output})" for method, (gap, output) in ranked)
    return f"At {megabytes(budget)}, the smallest gap that each has certified: {listed}." if len(ranked) > 1 else ""


def _structure(panel: Panel) -> str:
    """How near each polished output comes to the structure of the exact optimum."""
    exact, rows = panel["exact"], [row for row in panel["table"] if row["output"] == "polished"]
    level = None if exact is None else exact["density"]
    if panel["structure"] != "density" or level is None or len(rows) < 2:
        return ""
    ranked = sorted(rows, key=lambda row: abs(float(row["structure"].split()[0]) - level))
    listed = ", ".join(f"{row['method']} {row['structure']}" for row in ranked)
    return f"Density of the polished outputs, where the exact optimum has {level:.3f}, the nearest first: {listed}."


def _last(panel: Panel) -> str:
    """The server's own point, if another method leads there than among the answers."""
    rows = [row for row in panel["table"] if row["output"] == "last" and row["gap"] is not None]
    answers = [row for row in panel["table"] if row["answer"] and row["gap"] is not None]
    if len(rows) < 2 or not answers:
        return ""
    ranked = sorted(rows, key=lambda row: row["gap"])
    if ranked[0]["method"] == min(answers, key=lambda row: row["gap"])["method"]:
        return ""
    name = panel["structure"]
    listed = ", ".join(f"{row['method']} {round_up(row['gap'], 3)} ({name} {row['structure']})" for row in ranked)
    return f"In last, the server's own point, the order is another one: {listed}."


def compared_panel(title: str, runs: Sequence[StoredRun], exact: Json | None = None) -> Json:
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


def experiment_panel(path: Path) -> Json:
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
    exact: Json | None = None,
    model: Json | None = None,
) -> Json:
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
        "x": "megabytes" if len(groups) > 1 and all(_has_traffic(runs) for runs in groups.values()) else "round",
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
        "untuned": describe_untuned(_describe_steps(groups)) if len(groups) > 1 else "",
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
        *(f"{label}: steps from theory: {text}" for label, text in _describe_steps(groups).items() if text),
        *(f"{', '.join(labels)}: rounds in {text}." for text, labels in precisions.items()),
    ]


def _describe_steps(groups: Mapping[str, Sequence[StoredRun]]) -> dict[str, str]:
    """The step sizes that theory chose for each method, in words."""
    return {label: runs[0].status["steps"] for label, runs in groups.items() if runs[0].status}


def _certificates(label: str, run: StoredRun) -> list[Json]:
    """A row for each output of a run."""
    columns = {"gap": "gap", "x": "gap_x", "y": "gap_y", "shift": "shift", "rounding": "rounding", "reason": "reason"}
    return [
        {"method": label, "output": output, **{name: measures[key] for name, key in columns.items()}}
        for output, measures in stored_outputs(run).items()
    ]


def _tol(run: StoredRun) -> float | None:
    return run.manifest["configuration"]["run"].get("tol")


def _has_traffic(runs: Sequence[StoredRun]) -> bool:
    return all(run.status is not None and traffic(run.status) > 0 for run in runs)


def exact_of(path: Path) -> Json | None:
    """The exact optimum kept in a folder, if there is one."""
    file = path / "exact.json"
    return json.loads(file.read_text()) if file.exists() else None
