"""Runs of the paper's experiments, written down as results without being run."""

import json

import numpy as np

from fedualex.runs import folder

PAPER = {
    "FeDualEx": {"name": "FeDualEx"},
    "FedDualAvg": {"name": "FedDualAvg"},
    "FedMiP as printed": {"name": "FedMiP", "server_prox": "paper"},
    "FedMiP plain averaging": {"name": "FedMiP", "server_prox": "none"},
    "FedMiD as printed": {"name": "FedMiD", "server_prox": "paper"},
    "FedMiD plain averaging": {"name": "FedMiD", "server_prox": "none"},
    "Extra Step Local SGD": {"name": "ExtraStepLocalSGD"},
}
AFTER = {"FedDualAvg averaged after the step": {"name": "FedDualAvg", "average": "after"}}
STARTS = {
    "unprojected start": {"init": "paper"},
    "unprojected small start": {"init": "paper", "start": {"uniform": 0.05}},
}
L1 = PAPER | AFTER
NUCLEAR = L1 | {
    f"{name} {start}": {"name": name, "run": run}
    for name in ("FeDualEx", "FedDualAvg")
    for start, run in STARTS.items()
}
OUTPUTS = ("last", "ergodic", "client_average", "polished")


def write_run(path, label, numbers, rounds=(0, 5, 10), eta_c=0.1, data="a game"):
    """A run folder by hand. numbers(output, round) is (gap, density, ranks)."""
    path.mkdir(parents=True)
    configuration = {"label": label, "method": {"name": "FeDualEx", "eta_s": 1.0, "eta_c": eta_c}, "run": {"seed": 0}}
    configuration |= {"problem": {"name": "by hand"}}
    about = {"created": "now", "command": "by hand", "versions": {}, "machine": {}}
    manifest = {"schema": folder.SCHEMA, "kind": "run", **about, "configuration": configuration, "data_sha256": data}
    manifest |= {"geometry": {}}
    (path / "manifest.json").write_text(json.dumps(manifest))
    history = []
    for r in rounds:
        record = {"round": r, "exchanges": 2 * r, "seconds": 0.5 * r + 1, "bytes_up": 2000 * r, "bytes_down": 1000 * r}
        for output in OUTPUTS[:2]:
            gap, density, ranks = numbers(output, r)
            record |= {f"gap_{output}": gap, f"density_{output}": density, f"rank_{output}": ranks}
        history.append(record)
    (path / "history.jsonl").write_text("".join(json.dumps(record) + "\n" for record in history))
    found = {}
    for output in OUTPUTS[:2]:
        gap, density, ranks = numbers(output, rounds[-1])
        parts = {"gap_x": None, "gap_y": None} if gap is None else {"gap_x": gap / 4, "gap_y": 3 * gap / 4}
        reason = "" if gap is not None else "unbounded"
        found[output] = {"gap": gap, **parts, "reason": reason, "density": density, "rank": ranks}
        found[output] |= {"status": "CERTIFIED", "origin": "", "rounding": 0.0, "estimated": False, "violation": None}
        found[output] |= {"shift": 0.0}
        found[output]["objective"] = 2.0 + (gap or 0) / 2
    status = {"schema": folder.SCHEMA, "status": "CERTIFIED", "meaning": "", "stop": "MAX_ROUNDS", "stop_meaning": ""}
    status |= {
        "output": "last",
        "gap": found["last"]["gap"],
        "violation": None,
        "least_violation": None,
        "unanswered": False,
    }
    status |= {"outputs": found, "rounds": rounds[-1], "seconds": 0.5 * rounds[-1] + 1, "steps": ""}
    status |= {"exchanges": 2 * rounds[-1]}
    status |= {"bytes_up": 2000 * rounds[-1], "bytes_down": 1000 * rounds[-1]}
    arrays = {f"{output}/z/{block}": np.array([[0.3, 0.0], [0.0, -0.5]]) for output in OUTPUTS[:2] for block in "xy"}
    np.savez(path / "solution.npz", **arrays)
    (path / "status.json").write_text(json.dumps(status))


def write_experiment(root, name, values, seeds=2, quick=False):
    """An experiment by hand. values(label, output, seed, round) is (gap, density, ranks)."""
    nuclear = name.startswith("nuclear")
    methods = NUCLEAR if nuclear else L1
    plan = {"name": name, "seeds": seeds, "settings": {"methods": methods}, **({"quick": True} if quick else {})}
    folder.write_collection(root / name, "experiment", title=name, plan=plan)
    for label in methods:
        for seed in range(seeds):
            path = root / name / "runs" / label.replace(" ", "-") / f"seed-{seed}"

            def numbers(output, r, label=label, seed=seed):
                gap, density, ranks = values(label, output, seed, r)
                return (gap, None, ranks) if nuclear else (gap, density, None)

            write_run(path, label, numbers)


def as_the_paper_says(label, output, seed, r):
    """Final numbers with which every sentence holds in every reading."""
    gap = {"FeDualEx": 0.1, "FedMiP": 0.2, "FedDualAvg": 2.0, "FedMiD": 3.0}.get(label.split(" ")[0], 1.0)
    density = {"FeDualEx": 0.7, "FedMiP": 0.95, "FedDualAvg": 0.8, "FedMiD": 0.9}.get(label.split(" ")[0], 1.0)
    rank = {"FeDualEx": 10, "FedMiP": 20, "FedDualAvg": 10, "FedMiD": 20}.get(label.split(" ")[0], 20)
    return gap + 0.01 * seed, density + 0.004 * seed, [rank, rank] if r >= 5 else [20, 20]
