"""OSBDO, Stanford's bundle method for distributed minimization, beside FeDualNewton and FeDualSlide on a sparse model.

    python benchmarks/beside_osbdo.py [EXCHANGES]

OSBDO bounds the optimal value itself; its bounds are compared with the optimum that FeDualNewton certifies. It keeps
the cuts of all clients apart, d + 1 numbers of each, where FeDualSlide has sums of as many, which masks can hide.
"""

import json
import sys
import tempfile
from pathlib import Path

import environments
import numpy as np

import fedualex as fx
from fedualex.field.benchmark import LEVELS, gap_of_start
from fedualex.field.tasks import FIELD
from fedualex.problems.active import domain_of
from fedualex.problems.curvature import score_sums

TASK = "logistic, breast cancer"
L1 = 0.001


def write_task(problem, file):
    """The rows of the clients, and a box that holds the domain of the problem."""
    arrays = {}
    for m, (weight, own) in enumerate(score_sums(problem)):
        rows = own.rows.rows if own.rows.center is None else own.rows.rows - own.rows.center
        # The ones of `beside` come last, as the intercept does in the other program.
        arrays[f"rows_{m}"] = np.hstack([rows, own.rows.beside])
        arrays[f"sign_{m}"], arrays[f"counts_{m}"] = np.where(own.target > 0, 1.0, -1.0), weight * own.fixed
    radius = float(domain_of(problem.geometry.parts.x["weights"].regularizer).radius)
    np.savez(file, **arrays, clients=problem.clients, l1=L1, radius=radius)


def exchanges_to(gaps, start):
    """The first exchange at which a gap is at most each level's share of the start's."""
    reached = np.minimum.accumulate(gaps) / start
    return [int(np.argmax(reached <= level)) + 1 if np.any(reached <= level) else None for level in LEVELS]


def main():
    """One line a method."""
    exchanges = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    problem = FIELD[TASK].make()
    start, exact = gap_of_start(problem), fx.solve(problem, tol=1e-10)
    optimum = problem.objective(exact.z)
    python = environments.environment("osbdo")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "task.npz"
        write_task(problem, file)
        found = json.loads(environments.ran([str(python), "peers_osbdo.py", str(file), str(exchanges)]))
    upper, lower = np.array(found["upper"], float), np.array(found["lower"], float)
    wrong = max(float(np.max(lower - optimum)), float(np.max(optimum - upper)))
    print(f"{TASK}: gap at the start {start:.4f}, optimum {optimum:.10f}, certified to {exact.gap:.1e}")
    print(f"levels {LEVELS} of the start's gap; exchanges to each, and the last gap")
    gaps = upper - lower
    last = f"{np.min(gaps) / start:.1e} after {len(gaps)}; bounds wrong by {wrong:.1e} at most"
    print(f"OSBDO: {exchanges_to(gaps, start)}, {last}")
    for method in (fx.FeDualNewton(), fx.FeDualSlide(mode="survey")):
        run = fx.solve(problem, method, rounds=4 * exchanges, record_every=1, tol=LEVELS[-1] * start / 10)
        own = np.asarray(run.history["gap_bounds"], float)
        print(f"{type(method).__name__}: {exchanges_to(own, start)}, {np.nanmin(own) / start:.1e} after {len(own)}")


if __name__ == "__main__":
    main()
