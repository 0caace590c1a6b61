"""`make bench`: every contender on every workload, interleaved, medians; a table and JSON.

Absolute times on a shared machine are noise; the ratios within one run are the result.
"""

import importlib.util
import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
REPEATS = 5
# workload: game, local steps, rounds for fast contenders, rounds for slow ones, contenders
WORKLOADS = {
    "W1 K=10": ("paper_l1", 10, 60, 8, ["fedualex", "numpy-loop", "numpy-batched", "plain-jax", "torch"]),
    "W1 K=1": ("paper_l1", 1, 600, 60, ["fedualex", "fedualex-law", "numpy-loop", "plain-jax"]),
    "W2 K=10": ("paper_nuclear", 10, 3, 1, ["fedualex", "numpy-loop"]),
    "W2 K=1": ("paper_nuclear", 1, 20, 2, ["fedualex", "fedualex-law", "numpy-loop"]),
}
SLOW = ("numpy-loop",)


def measure(contender: str, game: str, local_steps: int, rounds: int) -> dict[str, float]:
    """One measurement in its own process."""
    command = [sys.executable, str(HERE / "measure.py"), contender, game, str(local_steps), str(rounds)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Measure everything and write results.json."""
    results: dict[str, dict[str, dict[str, float]]] = {}
    for workload, (game, local_steps, fast, slow, contenders) in WORKLOADS.items():
        contenders = [c for c in contenders if c != "torch" or importlib.util.find_spec("torch")]
        found: dict[str, list[dict[str, float]]] = {contender: [] for contender in contenders}
        for _ in range(REPEATS):
            for contender in contenders:
                found[contender].append(measure(contender, game, local_steps, slow if contender in SLOW else fast))
        results[workload] = {
            contender: {key: statistics.median(one[key] for one in many) for key in ("cpu_ms", "wall_ms")}
            for contender, many in found.items()
        }
        ours = results[workload]["fedualex"]
        print(f"{workload}")
        for contender, median in results[workload].items():
            speed = f"{1e3 / median['wall_ms']:8.1f} rounds/s {median['cpu_ms']:8.2f} CPU ms a round"
            ratios = [median[key] / ours[key] for key in ("wall_ms", "cpu_ms")]
            print(f"  {contender:14s} {speed}   ours is {ratios[0]:5.1f}x (CPU {ratios[1]:5.1f}x)", flush=True)
    (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
