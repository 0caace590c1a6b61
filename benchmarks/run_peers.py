"""`make bench-peers`: frameworks that need environments of their own, on W1, interleaved with ours and the numpy loop.

Each peer is first compared with the numpy loop without noise; one that is missing here is reported with the reason.
"""

import json
import os
import platform
import tempfile
from pathlib import Path

import environments
import numpy as np
from environments import HERE, PEERS, UnavailableError, ran
from processes import Times, answer, interleaved, show

import fedualex as fx

REPEATS = 3
CHECK_STEPS, CHECK_ROUNDS = 10, 5
TOLERANCE = 1e-3  # rounding in float32 gives less than 1e-4, a wrong half-step or weight more than 5e-2
OURS = {1: {"fedualex": 300, "numpy-loop": 30}, 10: {"fedualex": 40, "numpy-loop": 4}}
ROUNDS = {
    1: {"torch": 200, "flower": 15, "pfl": 40, "fedjax": 40},
    10: {"torch": 40, "flower": 15, "pfl": 8, "fedjax": 8},
}


def peer_times(python: Path, task: str, peer: str, game_file: str, local_steps: int, rounds: int) -> Times:
    """What measure_peer.py says in the peer's environment."""
    return json.loads(
        ran([str(python), str(HERE / "measure_peer.py"), task, peer, game_file, str(local_steps), str(rounds)])
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
            contenders = {
                name: lambda name=name, k=k, n=n: answer("measure.py", name, "paper_l1", k, n)
                for name, n in OURS[k].items()
            }
            contenders |= {
                peer: lambda peer=peer, k=k, n=rounds[peer]: peer_times(pythons[peer], "measure", peer, game_file, k, n)
                for peer in pythons
            }
            workloads[f"W1 K={k}"] = interleaved(contenders, REPEATS)
            show(f"W1 K={k}", workloads[f"W1 K={k}"])
    versions = {peer: environments.version(python, PEERS[peer]) for peer, python in pythons.items()}
    results = {"workloads": workloads, "versions": versions, "not_measured": reasons, "cores": os.cpu_count()}
    results["python"] = platform.python_version()
    (HERE / "results-peers.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
