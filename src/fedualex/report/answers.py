"""What runs found, in sentences: the answer first, then what the numbers say of methods side by side."""

from collections.abc import Mapping, Sequence
from statistics import multimode
from typing import Any

from ..display import rounded_up
from ..experiments.folder import StoredRun
from .statistics import recorded_outputs, stored_outputs, traffic

Panel = Mapping[str, Any]


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
    found = {label: _ending(runs) for label, runs in groups.items()}
    if len(found) == 1:
        (only,) = found.values()
        return _sentence(only)
    certified = {label: end for label, end in found.items() if end["gap"] is not None}
    if not certified:
        return f"Nothing is certified: {next(iter(found.values()))['reason']}."
    first, *others = sorted(certified, key=lambda label: certified[label]["gap"])
    text = f"{first} is certified within {rounded_up(certified[first]['gap'], 3)} of optimal {_cost(certified[first])}"
    if others:
        second = certified[others[0]]
        text += f"; {others[0]}, the next, within {rounded_up(second['gap'], 3)} {_cost(second)}"
    return f"{text}."


def _ending(runs: Sequence[StoredRun]) -> dict[str, Any]:
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


def _sentence(end: Mapping[str, Any]) -> str:
    if end["gap"] is None:
        return f"Nothing is certified {_cost(end)}: {end['reason']}."
    text = f"Certified within {rounded_up(end['gap'], 3)} of optimal {_cost(end)}"
    if end["violation"] is not None:
        text += f", with limits exceeded by at most {rounded_up(end['violation'], 3)}"
    if end["tol"] is not None and end["gap"] > end["tol"]:
        text += f"; the tolerance {end['tol']:g} was not reached ({end['stop']})"
    return f"{text}."


def _cost(end: Mapping[str, Any]) -> str:
    seeds = f"on average over {end['seeds']} seeds, " if end["seeds"] > 1 else ""
    unit = end["unit"].removesuffix("s") if end["rounds"] == 1 else end["unit"]
    sent = f", {megabytes(end['megabytes'])}" if end["megabytes"] > 0 else ""
    return f"{seeds}after {end['rounds']:.6g} {unit}{sent}"


def megabytes(value: float) -> str:
    """An amount of traffic as people say it."""
    return f"{value:.0f} MB" if value >= 10 else f"{value:.2g} MB"


def verdicts(claims: Sequence[Mapping[str, Any]]) -> str:
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
                found = (gap, curve["output"])
                best[curve["method"]] = min(best.get(curve["method"], found), found)
    ranked = sorted(best.items(), key=lambda item: item[1])
    listed = ", ".join(f"{method} {rounded_up(gap, 3)} ({output})" for method, (gap, output) in ranked)
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
    listed = ", ".join(f"{row['method']} {rounded_up(row['gap'], 3)} ({name} {row['structure']})" for row in ranked)
    return f"In last, the server's own point, the order is another one: {listed}."
