"""`make bench-peers`: frameworks that need environments of their own, on W1, interleaved with ours and the numpy loop.

Each peer is first compared with the numpy loop without noise; one that is missing here is reported with the reason.
"""

import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import environments
import numpy as np
from environments import HERE, PEERS, UnavailableError, ran

import fedualex as fx

REPEATS = 3
CHECK_STEPS, CHECK_ROUNDS = 10, 5
TOLERANCE = 1e-3  # rounding in float32 gives less than 1e-4, a wrong half-step or weight more than 5e-2
OURS = {1: {"fedualex": 300, "numpy-loop": 30}, 10: {"fedualex": 40, "numpy-loop": 4}}
ROUNDS = {
    1: {"torch": 200, "flower": 15, "pfl": 40, "fedjax": 40},
    10: {"torch": 40, "flower": 15, "pfl": 8, "fedjax": 8},
}
Times = dict[str, float]


def peer_times(python: Path, task: str, peer: str, game_file: str, local_steps: int, rounds: int) -> Times:
    """What measure_peer.py says in the peer's environment."""
    return json.loads(
        ran([str(python), str(HERE / "measure_peer.py"), task, peer, game_file, str(local_steps), str(rounds)])
    )


def our_times(contender: str, local_steps: int, rounds: int) -> Times:
    """What measure.py says in this one."""
    return json.loads(
        ran([sys.executable, str(HERE / "measure.py"), contender, "paper_l1", str(local_steps), str(rounds)])
    )


def available(game_file: str) -> tuple[dict[str, Path], dict[str, str]]:
    """The Python of each peer that installs and is the same method, and the reason for each other."""
    pythons, reasons = {}, {}
    for peer in PEERS:
        try:
            python = environments.environment(peer)
            error = peer_times(python, "check", peer, game_file, CHECK_STEPS, CHECK_ROUNDS)["error"]
            if not error < TOLERANCE:
                raise UnavailableError(f"differs from the numpy loop by {error:.1e}")
            print(f"{peer}: differs from the numpy loop by {error:.1e}", flush=True)
            pythons[peer] = python
        except UnavailableError as problem:
            reasons[peer] = str(problem)
            print(f"{peer} is not measured: {problem}", flush=True)
    return pythons, reasons


def interleaved(contenders: dict[str, Callable[[], Times]]) -> dict[str, Times]:
    """The median of each contender's repeats, taken in turns."""
    found: dict[str, list[Times]] = {name: [] for name in contenders}
    for _ in range(REPEATS):
        for name, measure in contenders.items():
            found[name].append(measure())
    return {
        name: {key: statistics.median(one[key] for one in many) for key in ("cpu_ms", "wall_ms")}
        for name, many in found.items()
    }


def show(workload: str, medians: dict[str, Times]) -> None:
    """A table with ratios to ours."""
    print(workload)
    ours = medians["fedualex"]
    for name, median in medians.items():
        speed = f"{1e3 / median['wall_ms']:8.1f} rounds/s {median['cpu_ms']:8.2f} CPU ms a round"
        ratios = [median[key] / ours[key] for key in ("wall_ms", "cpu_ms")]
        print(f"  {name:14s} {speed}   ours is {ratios[0]:6.1f}x (CPU {ratios[1]:6.1f}x)", flush=True)


def main() -> None:
    """Measure everything and write results-peers.json."""
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    game = fx.problems.paper_l1(0)
    workloads = {}
    with tempfile.TemporaryDirectory() as folder:
        game_file = str(Path(folder) / "game.npz")
        np.savez(game_file, A=np.asarray(game.A, np.float32), b=np.asarray(game.b, np.float32))
        pythons, reasons = available(game_file)
        for k, rounds in ROUNDS.items():
            contenders = {name: lambda name=name, k=k: our_times(name, k, OURS[k][name]) for name in OURS[k]}
            contenders |= {
                peer: lambda peer=peer, k=k, n=rounds[peer]: peer_times(pythons[peer], "measure", peer, game_file, k, n)
                for peer in pythons
            }
            workloads[f"W1 K={k}"] = interleaved(contenders)
            show(f"W1 K={k}", workloads[f"W1 K={k}"])
    versions = {peer: environments.version(python, PEERS[peer]) for peer, python in pythons.items()}
    results = {"workloads": workloads, "versions": versions, "not_measured": reasons, "cores": os.cpu_count()}
    results["python"] = platform.python_version()
    (HERE / "results-peers.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
