"""How the cost of a round grows with clients, local steps and dimension.

    python benchmarks/scaling.py AXIS     CPU milliseconds a round for every size of an axis, as JSON

Small sizes cost what a round costs anyway, and K = 1 has a path of its own: exponents are fitted on the upper range.
"""

import json
import os
import sys

import numpy as np
from processes import answer

# axis: sizes, the smallest size of the fit, the exponent of the work
AXES = {
    "clients": ([10, 100, 1_000, 10_000, 100_000], 1_000, 1),
    "local steps": ([1, 2, 5, 10, 20, 50, 100], 10, 1),
    "d, separable": ([100, 1_000, 10_000, 30_000, 100_000], 10_000, 1),
    "d, dense": ([100, 300, 1_000, 3_000, 5_000, 10_000], 1_000, 2),
}
REPEATS, SECONDS, MOST_ROUNDS = 3, 0.5, 300


def scaling() -> dict[str, dict[str, object]]:
    """Costs and fitted exponents of every axis."""
    results = {}
    for axis in AXES:
        cost = answer("scaling.py", axis)
        results[axis] = {"cpu_ms": cost, "exponent": exponent(axis, cost)}
        print(f"{axis}: exponent {results[axis]['exponent']:.2f}", flush=True)
    return results


def exponent(axis: str, cost: dict[str, float]) -> float:
    """The slope of the logarithms over the upper range."""
    _, smallest, _ = AXES[axis]
    sizes, values = np.array([(int(size), value) for size, value in cost.items() if int(size) >= smallest]).T
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def workload(axis, size):
    """A problem, clients and local steps."""
    import fedualex as fx

    rng, psi = np.random.default_rng(0), fx.L1(0.1) + fx.Box(0.05)
    half = size // 2
    if axis == "clients":
        return fx.problems.paper_l1(0), size, 1
    if axis == "local steps":
        return fx.problems.paper_l1(0), 100, size
    if axis == "d, dense":
        return fx.problems.bilinear(rng.uniform(-1, 1, (half, half)), rng.uniform(-1, 1, half), x=psi, y=psi), 100, 1
    scales = rng.uniform(-1, 1, half).astype(np.float32)
    like = fx.Saddle(np.zeros(half), np.zeros(half))
    return fx.Problem(lambda x, y: (scales * x) @ y, x=psi, y=psi, like=like), 100, 1


def costs(axis):
    """The median CPU time a round for each size, over as many rounds as fit into half a second."""
    from measure import rounds_alone, times

    found = {}
    for size in AXES[axis][0]:
        run = rounds_alone(*workload(axis, size))
        run(1)
        once = times(lambda run=run: run(1))["wall_ms"] / 1e3
        rounds = int(np.clip(SECONDS / once, 1, MOST_ROUNDS))
        repeats = [times(lambda run=run, rounds=rounds: run(rounds))["cpu_ms"] / rounds for _ in range(REPEATS)]
        found[str(size)] = float(np.median(repeats))
    return found


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    print(json.dumps(costs(sys.argv[1])))
