"""What runs were made with, as a caption says it."""

from collections.abc import Mapping
from typing import Any

from ..experiments.folder import StoredRun
from ..runtime.outputs import KINDS

OUTPUT_WORDS = {name: kind.label for name, kind in KINDS.items()} | {
    "best": "an earlier record whose certificate was smaller than that of all outputs at the end"
}
"""Each output in words."""
X_WORDS = {"round": "rounds", "exchanges": "exchanges", "megabytes": "megabytes carried by the network"}


def settings_text(run: StoredRun) -> str:
    """Problem and sizes of a run: "paper_l1; 100 clients, 10 local steps, 500 rounds, noise 0.1"."""
    configuration: dict[str, Any] = run.manifest["configuration"]
    problem, settings = configuration["problem"], configuration["run"]
    numbers = {key: value for key, value in settings.items() if isinstance(value, int | float) and value}
    words = {"clients": "clients", "cohort": "of them each round", "local_steps": "local steps"}
    words |= {"rounds": "rounds", "steps": "steps"}
    parts = [f"{numbers[key]} {text}" for key, text in words.items() if key in numbers]
    parts += [f"{key} {numbers[key]:g}" for key in ("noise", "minibatch") if key in numbers]
    name = problem.get("name") or problem.get("entry") or "a problem made in Python"
    return f"{name}; {', '.join(parts)}" if parts else str(name)


def caption(panel: Mapping[str, Any], output: str, x: str, small: str) -> str:
    """What a paper would print below a figure of gaps: what is drawn, of what, with which settings."""
    several = any(value is not None for curve in panel["curves"] for value in curve["gap"]["std"])
    answers = ", ".join(f"{one['method']}: {one['curve']}" for one in panel["answers"])
    which = (
        f"each method's answer ({answers})" if output == "answer" else f"the output {output} ({OUTPUT_WORDS[output]})"
    )
    structure = f", and its {panel['structure']}" if x == "round" else ""
    steps = {row["method"]: f"{row['method']} {row['steps']}" for row in panel["table"] if row["steps"]}
    parts = [
        f"{panel['title']} ({panel['settings']}).",
        f"Certified duality gap of {which} against {X_WORDS[x]}{structure}.",
        f"Steps: {'; '.join(steps.values())}." if steps else "",
        panel["untuned"],
        "Lines are means over seeds, bands one standard deviation." if several else "One run of each method.",
        f"Dotted: the tolerance {panel['tol']:g}." if panel["tol"] is not None else "",
        f"This is {small}." if small else "",
    ]
    return " ".join(filter(None, parts))
