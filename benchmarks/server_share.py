"""Milliseconds of FeDualSlide's server in an exchange, and its share of a simulated run, for l1 logistic regression.

    python benchmarks/server_share.py [30] [1000]     # features; a minute

Surveys only, a memory of 20, 500 rows at 5 clients; of runs after the first, in which nothing is compiled.
"""

import sys
import time

import numpy as np

import fedualex as fx

ROWS, EXCHANGES, WARM = 500, 150, 20
"""WARM: exchanges until the memory is full, which are not counted."""


def measured(features: int) -> str:
    """A line about runs with so many features."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(ROWS, features)), np.zeros(features)
    w[:20] = rng.normal(size=20)
    y = (X @ w + 0.5 * rng.normal(size=ROWS) > 0).astype(int)
    problem = fx.problems.sparse_glm("logistic", X, y, np.arange(ROWS) % 5, l1=0.01)
    for every in (EXCHANGES, 1, EXCHANGES):
        began = time.process_time()
        run = fx.simulate(problem, fx.FeDualSlide("survey"), rounds=EXCHANGES, record_every=every)
        if every == 1:
            each = 1000 * np.diff(run.history["server_seconds"])[WARM:]
    cpu = 1000 * (time.process_time() - began) / EXCHANGES
    share = f"{run.server_seconds:.2f} of the {run.seconds:.2f} s of a run, {cpu:.1f} ms of CPU an exchange in all"
    return f"{features} features: median {np.median(each):.1f} ms, 90% below {np.quantile(each, 0.9):.1f} ms; {share}"


if __name__ == "__main__":
    for number in sys.argv[1:] or ("30", "1000"):
        print(measured(int(number)), flush=True)
