"""One measurement in a process of its own: CPU and wall seconds a round of one contender on one workload, as JSON.

    python benchmarks/measure.py CONTENDER GAME LOCAL_STEPS ROUNDS

Warm: everything is compiled before the clock starts, and a short run is subtracted from a long one.
"""

import json
import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two BLAS threads on two busy cores run several times slower

import numpy as np
import peers

import fedualex as fx

CLIENTS, ETA = 100, 0.01


def contender(name, game, local_steps):
    """A function of the number of rounds that runs them and returns the server's point, or its dual image."""
    A, b = np.asarray(game.A, np.float32), np.asarray(game.b, np.float32)
    sizes = {"local_steps": local_steps, "clients": CLIENTS, "eta": ETA}
    if name in ("fedualex", "fedualex-law"):
        fast = "law" if name.endswith("law") else None
        options = {"clients": CLIENTS, "local_steps": local_steps, "dtype": "float32", "noise": fx.GaussianNoise(0.1)}
        return lambda rounds: fx.simulate(
            game, fx.FeDualEx(ETA, 1.0), rounds=rounds, record_every=rounds, fast=fast, **options
        )
    if name == "plain-jax":
        runs = {}

        def run(rounds):
            if rounds not in runs:
                runs[rounds] = peers.plain_jax(A, b, rounds=rounds, **sizes)
            return runs[rounds]()

        return run
    functions = {"numpy-loop": peers.numpy_loop, "numpy-batched": peers.numpy_batched, "torch": peers.torch_batched}
    prox = {"prox": peers.svd_prox} if b.ndim == 2 else {}
    return lambda rounds: functions[name](A, b, rounds=rounds, **sizes, **prox)


def main(name, game, local_steps, rounds):
    """Measure and print."""
    run = contender(name, getattr(fx.problems, game)(0), local_steps)
    short, long = max(1, rounds // 4), rounds + max(1, rounds // 4)
    run(short), run(long)
    seconds = []
    for count in (short, long):
        cpu, wall = time.process_time(), time.perf_counter()
        run(count)
        seconds.append((time.process_time() - cpu, time.perf_counter() - wall))
    cpu, wall = ((after - before) / (long - short) for before, after in zip(*seconds, strict=True))
    print(json.dumps({"cpu_ms": 1e3 * cpu, "wall_ms": 1e3 * wall}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
