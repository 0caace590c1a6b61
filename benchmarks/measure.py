"""One measurement in a process of its own: CPU and wall time a round of one contender on one workload, as JSON.

    python benchmarks/measure.py CONTENDER GAME LOCAL_STEPS ROUNDS

Warm: everything is compiled before the clock starts, and a short run is subtracted from a long one.
"""

import json
import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two BLAS threads on two busy cores run several times slower

import jax
import numpy as np
import peers

import fedualex as fx
from fedualex.compiling import double
from fedualex.runtime.options import RunOptions
from fedualex.runtime.prepare import build_setup, first_state
from fedualex.runtime.rounds import advance

CLIENTS, ETA, SIGMA = 100, 0.01, 0.1


def ours(game, local_steps, clients=CLIENTS, **options):
    """FeDualEx by this library, as a function of the number of rounds."""
    options |= {"clients": clients, "local_steps": local_steps, "dtype": "float32", "noise": fx.GaussianNoise(SIGMA)}
    return lambda rounds: fx.simulate(
        game, fx.FeDualEx(ETA, 1.0), **{"rounds": rounds, "record_every": rounds} | options
    )


def rounds_alone(problem, clients, local_steps, fast=None):
    """The same without records and certificates."""
    with double():
        options = RunOptions(noise=fx.GaussianNoise(SIGMA), local_steps=local_steps, dtype="float32")
        setup = build_setup(problem, fx.FeDualEx(ETA, 1.0), options, clients, fast=fast)
        start = first_state(setup, problem.validate_point(problem.like), options)

    def run(rounds):
        with double():
            jax.block_until_ready(advance(setup, start, jax.numpy.asarray(rounds)))

    return run


def contender(name, game, local_steps):
    """A function of the number of rounds that runs them and returns the server's point, or its dual image."""
    if name in ("fedualex", "fedualex-law"):
        return ours(game, local_steps, fast="law" if name.endswith("law") else None)
    A, b = np.asarray(game.A, np.float32), np.asarray(game.b, np.float32)
    sizes = {"local_steps": local_steps, "clients": CLIENTS, "eta": ETA}
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


def times(work):
    """CPU and wall milliseconds of a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return {"cpu_ms": 1e3 * (time.process_time() - cpu), "wall_ms": 1e3 * (time.perf_counter() - wall)}


def per_round(run, rounds):
    """Milliseconds a round; all that is compiled has been."""
    short, long = max(1, rounds // 4), rounds + max(1, rounds // 4)
    run(short), run(long)
    before, after = times(lambda: run(short)), times(lambda: run(long))
    return {key: (after[key] - before[key]) / (long - short) for key in after}


if __name__ == "__main__":
    name, game, local_steps, rounds = sys.argv[1:]
    run = contender(name, getattr(fx.problems, game)(0), int(local_steps))
    print(json.dumps(per_round(run, int(rounds))))
