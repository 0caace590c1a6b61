"""Rounds per second of everything that runs in this environment, on the paper's games."""

import importlib.util

from processes import Times, answer, interleaved, show

# workload: game, local steps, rounds, rounds for numpy, contenders
WORKLOADS = {
    "W1 K=10": ("paper_l1", 10, 60, 8, ["fedualex", "numpy-loop", "numpy-batched", "plain-jax", "torch"]),
    "W1 K=1": ("paper_l1", 1, 600, 60, ["fedualex", "fedualex-law", "numpy-loop", "numpy-batched", "plain-jax"]),
    "W2 K=10": ("paper_nuclear", 10, 3, 1, ["fedualex", "numpy-loop"]),
    "W2 K=1": ("paper_nuclear", 1, 20, 2, ["fedualex", "fedualex-law", "numpy-loop"]),
}


def speed() -> dict[str, dict[str, Times]]:
    """Every contender on every workload."""
    results = {}
    for workload, (game, local_steps, fast, slow, contenders) in WORKLOADS.items():
        rounds = {name: slow if name.startswith("numpy") else fast for name in contenders}
        if not importlib.util.find_spec("torch"):
            rounds.pop("torch", None)
        results[workload] = interleaved(
            {
                name: lambda name=name, game=game, k=local_steps, count=count: answer(
                    "measure.py", name, game, k, count
                )
                for name, count in rounds.items()
            }
        )
        show(workload, results[workload])
    return results
