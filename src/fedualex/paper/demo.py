"""The demonstration: FeDualEx and three baselines, each at the steps that are best for it in each output."""

from collections.abc import Callable
from pathlib import Path

from ..runs import folder
from ..runs.settings import ConfigurationError, configure, folder_names
from ..runs.solving import solve_afresh
from ..runtime import Stop
from ..storage import Json
from .reproduction import write_exact

TITLE = "The paper's l1 game, 100 clients, 10 local steps a round, 100 rounds"
METHODS: dict[str, Json] = {
    "FeDualEx": {"name": "FeDualEx"},
    "FedMiP (plain averaging)": {"name": "FedMiP", "server_prox": "none"},
    "FedDualAvg": {"name": "FedDualAvg"},
    "FedMiD (plain averaging)": {"name": "FedMiD", "server_prox": "none"},
}
# Of the paper's grid, after 100 rounds, on seed 1000: eta_s and eta_c with the smallest certified gap of the output.
STEPS: dict[str, dict[str, tuple[float, float]]] = {
    "ergodic": {
        "FeDualEx": (1.0, 0.03),
        "FedMiP (plain averaging)": (1.0, 0.03),
        "FedDualAvg": (0.3, 0.03),
        "FedMiD (plain averaging)": (1.0, 0.01),
    },
    "last": {
        "FeDualEx": (0.3, 0.03),
        "FedMiP (plain averaging)": (0.3, 0.01),
        "FedDualAvg": (0.3, 0.03),
        "FedMiD (plain averaging)": (0.3, 0.01),
    },
    "polished": {
        "FeDualEx": (1.0, 0.3),
        "FedMiP (plain averaging)": (1.0, 0.01),
        "FedDualAvg": (0.3, 1.0),
        "FedMiD (plain averaging)": (1.0, 0.01),
    },
}
MEANINGS = {
    "ergodic": "what Algorithm 1 returns, and what the theorems are about",
    "last": "the server's last point",
    "polished": "ours: one exact composite step from the average of the clients' points",
}
RUN: Json = {
    "clients": 100,
    "local_steps": 10,
    "rounds": 100,
    "noise": 0.1,
    "start": {"uniform": 0.05},
    "dtype": "float32",
    "record_every": 10,
}
WHY_LAST = (
    "Why FedMiP and FedMiD are ahead in last: they begin every step from their point, and a dual method from its dual "
    "state, which also keeps by how far a coordinate was pushed beyond its bound, and must undo that before the "
    "coordinate moves. Averaging over clients is not the reason: with one client and no noise they are ahead as well "
    "(docs/reproduction.md). It does fill the zeros that each client has."
)
"""What the numbers alone do not say; the report shows it below them."""


def run_demo(out: Path, seed: int, announce: Callable[[str, str, str], None]) -> Json:
    """Run all methods for all outputs into out/OUTPUT/METHOD; the status of the first.

    announce: is told the output, the label of the method and how its run ended.
    """
    if out.exists() and any(out.iterdir()) and folder.read_manifest(out).get("title") != TITLE:
        raise ConfigurationError(f"{out} holds something else: choose another --out")
    folder.write_collection(out, "comparisons", title=TITLE, comparisons=list(STEPS))
    places = folder_names(METHODS)
    for output, steps in STEPS.items():
        title = f"Steps that are best for {output}: {MEANINGS[output]}"
        why = [WHY_LAST] if output == "last" else []
        folder.write_collection(out / output, "comparison", title=title, runs=list(places.values()), findings=why)
        for label, settings in METHODS.items():
            eta_s, eta_c = steps[label]
            tables = {
                "problem": {"name": "paper_l1"},
                "method": {**settings, "eta_s": eta_s, "eta_c": eta_c},
                "run": {**RUN, "seed": seed, "output": output},
            }
            configuration = configure(tables, Path())
            configuration.resolved["label"] = label
            run = solve_afresh(out / output / places[label], configuration)
            announce(output, label, str(run))
            if run.stop is Stop.INTERRUPTED:
                raise KeyboardInterrupt
        write_exact(out / output / "exact.json", configuration.problem)
    return folder.load(out / "ergodic" / places["FeDualEx"]).status or {}
