"""One peer on W1 in its own environment, as JSON: is it the same method, or CPU and wall time a round.

    python benchmarks/measure_peer.py check|measure PEER GAME.npz LOCAL_STEPS ROUNDS

CPU time counts the process and everything it started (from /proc: Linux). The clock starts after the first rounds.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import peers

CLIENTS, ETA = 100, 0.01
WARM = 2


def cpu_seconds():
    """CPU seconds of this process and of all its descendants, alive or waited for."""
    parents, ticks = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(folder.name)], ticks[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    started = sum(ticks[pid] for pid in family - {os.getpid()}) / os.sysconf("SC_CLK_TCK")
    waited_for = os.times()
    return time.process_time() + waited_for.children_user + waited_for.children_system + started


def check(run, A, b, local_steps, rounds):
    """The largest relative difference from the numpy loop without noise, at a step that makes both prox terms bite."""
    options = {"rounds": rounds, "local_steps": local_steps, "clients": CLIENTS, "eta": 10 * ETA, "sigma": 0.0}
    found, expected = run(**options, after_round=lambda *state: None), peers.numpy_loop(A, b, **options)
    errors = [np.abs(np.asarray(one) - two).max() / np.abs(two).max() for one, two in zip(found, expected, strict=True)]
    return {"error": float(max(errors))}


def measure(run, A, b, local_steps, rounds):
    """Milliseconds a round."""
    marks = []

    def after_round(*state):
        marks.append(None)
        if len(marks) in (WARM, WARM + rounds):
            for leaf in state:
                np.asarray(leaf)  # waits for it
            marks[-1] = cpu_seconds(), time.perf_counter()

    sizes = {"local_steps": local_steps, "clients": CLIENTS, "eta": ETA, "sigma": peers.SIGMA}
    run(rounds=WARM + rounds, **sizes, after_round=after_round)
    cpu, wall = (1e3 * (last - first) / rounds for first, last in zip(marks[WARM - 1], marks[-1], strict=True))
    return {"cpu_ms": cpu, "wall_ms": wall}


def main(task, peer, game_file, local_steps, rounds):
    """Do the task and print."""
    with np.load(game_file) as game:
        A, b = game["A"], game["b"]
    module = importlib.import_module(f"peers_{peer}")

    def run(**options):
        return module.run(game_file, A, b, **options)

    print(json.dumps({"check": check, "measure": measure}[task](run, A, b, local_steps, rounds)))


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5]))
