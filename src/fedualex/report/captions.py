"""What runs were made with, as a caption says it."""

from collections.abc import Mapping
from typing import Any

from ..experiments.folder import StoredRun

OUTPUT_WORDS = {
    "last": "the server's own point after the last round.",
    "ergodic": "the average over rounds and steps that the paper's theorems are about.",
    "client_average": "the average of the clients' own points.",
    "polished": "one exact composite step from the average of the clients' points.",
    "bounds": "x of the best upper bound and y of the best lower bound of the optimal value, from several surveys.",
    "best": "an earlier record whose certificate was smaller than that of all outputs at the end.",
}
"""Each output in words."""
X_WORDS = {"round": "rounds", "exchanges": "exchanges", "megabytes": "megabytes carried by the network"}


def settings_text(run: StoredRun) -> str:
    """Problem and sizes of a run: "paper_l1; 100 clients, 10 local steps, 500 rounds, noise 0.1"."""
    configuration: dict[str, Any] = run.manifest["configuration"]
    problem, settings = configuration["problem"], configuration["run"]
    parts = [
        f"{settings[key]:g} {words}"
        for key, words in (("clients", "clients"), ("cohort", "of them each round"), ("local_steps", "local steps"))
        if settings.get(key)
    ]
    parts += [f"{settings[key]} {key}" for key in ("rounds", "steps") if settings.get(key)]
    parts += [f"{key} {settings[key]:g}" for key in ("noise", "minibatch") if settings.get(key)]
    name = problem.get("name") or problem.get("entry") or "a problem made in Python"
    return f"{name}; {', '.join(parts)}" if parts else str(name)


def caption(panel: Mapping[str, Any], output: str, x: str, small: str) -> str:
    """What a paper would print below a figure of gaps: what is drawn, of what, with which settings."""
    curves = [curve for curve in panel["curves"] if output in (curve["output"], "answer")]
    steps = {row["method"]: row["steps"] for row in panel["table"]}
    several = any(value is not None for curve in curves for value in curve["gap"]["std"])
    which = (
        "each method's answer" if output == "answer" else f"the output {output} ({OUTPUT_WORDS[output].rstrip('.')})"
    )
    answers = ", ".join(f"{one['method']}: {one['curve']}" for one in panel["answers"])
    parts = [
        f"{panel['title']} ({panel['settings']}).",
        f"Certified duality gap of {which}{f' ({answers})' if output == 'answer' else ''} against {X_WORDS[x]}"
        + (f", and its {panel['structure']}." if x == "round" else "."),
        f"Steps: {'; '.join(f'{method} {text}' for method, text in steps.items() if text)}."
        if any(steps.values())
        else "",
        "Lines are means over seeds, bands one standard deviation." if several else "One run of each method.",
        f"Dotted: the tolerance {panel['tol']:g}." if panel["tol"] is not None else "",
        f"This is {small}." if small else "",
    ]
    return " ".join(filter(None, parts))
