"""Runs on a mesh of all devices against runs on one, in a process of its own; prints the largest differences as JSON.

mesh_program.py CASE,CASE,...                      one process, as many devices as XLA_FLAGS says
mesh_program.py CASE,CASE,... PORT PROCESS FILE    one of two processes, which also share a checkpoint
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedualex as fx

if __name__ == "__main__" and len(sys.argv) > 2:  # before anything that starts jax, such as the problems below
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{sys.argv[2]}", num_processes=2, process_id=int(sys.argv[3]))

RNG = np.random.default_rng(0)
PSI = fx.L1(0.1) + fx.Box(0.5)
NOISE = fx.GaussianNoise(0.1)
METHOD = fx.FeDualEx(0.1)
GAME = fx.problems.bilinear(RNG.uniform(-1, 1, (4, 5)), RNG.normal(size=4), x=PSI, y=PSI)


def coupled(x, y, example):
    feature, target = example
    return (feature @ x - target) ** 2 / 2 + (feature @ x) * jnp.sum(y) - jnp.sum(y**2) / 2


EXAMPLES = [(RNG.normal(size=(n, 3)), RNG.normal(size=n)) for n in (4, 1, 6, 2, 3)]
OWN = fx.Problem(
    coupled, x=PSI, y=fx.L2Ball(1.0), like=fx.Saddle(np.zeros(3), np.zeros(2)), data=EXAMPLES, weights="samples"
)
DRAW = fx.Minibatch(2)

# Five clients never divide evenly.
CASES = {
    "one step": (GAME, METHOD, {"clients": 5, "noise": NOISE}),
    "float32": (GAME, METHOD, {"clients": 5, "noise": NOISE, "dtype": "float32"}),
    "three steps": (GAME, METHOD, {"clients": 5, "local_steps": 3, "noise": NOISE, "chunk": 2}),
    "data": (OWN, METHOD, {"local_steps": 2, "noise": DRAW}),
    "data and a cohort": (OWN, METHOD, {"local_steps": [1, 3, 2, 2, 1], "noise": DRAW, "cohort": 3, "chunk": 2}),
    "cohort": (GAME, METHOD, {"clients": 5, "cohort": 3, "local_steps": 2, "noise": NOISE}),
    "one client": (GAME, METHOD, {"clients": 1, "local_steps": 2, "noise": NOISE}),
    "law": (GAME, METHOD, {"clients": 5, "noise": fx.GaussianNoise(0.0), "fast": "law"}),
    "law with empty devices": (GAME, METHOD, {"clients": 1, "noise": fx.GaussianNoise(0.0), "fast": "law"}),
    "survey": (OWN, fx.FeDualExCorrected(0.1), {"local_steps": 2, "noise": DRAW}),
    "memory": (GAME, fx.ScaffoldSMemory(0.05), {"clients": 5, "cohort": 3, "local_steps": 2, "noise": NOISE}),
    "memory and data": (OWN, fx.ScaffoldSMemory(0.05), {"local_steps": 2, "noise": DRAW}),
}


def simulate(case, **more):
    problem, method, options = CASES[case]
    return fx.simulate(problem, method, rounds=4, record_every=2, seed=3, **{"dtype": "float64"} | options, **more)


def numbers(run):
    outputs = [(output.z, output.gap) for output in run.outputs.values()]
    return [np.asarray(leaf) for leaf in jax.tree.leaves((run.state, outputs))]


def difference(one, other):
    assert list(one.history["round"]) == list(other.history["round"])
    return max(float(np.max(np.abs(u - v))) for u, v in zip(numbers(one), numbers(other), strict=True))


def checkpoints(case, mesh, file, process):
    """Two processes: one writes, both go on from it, and neither from a file that the other does not see."""
    first = simulate(case, mesh=mesh, checkpoint=file)
    assert difference(first, simulate(case, mesh=mesh, checkpoint=file)) == 0
    with pytest.raises(ValueError, match="all processes share"):
        simulate(case, mesh=mesh, checkpoint=file if process else file + "elsewhere")
    problem, method, options = CASES[case]
    run = fx.solve(
        problem, method, rounds=4, record_every=2, max_seconds=1e-9, mesh=mesh, **{"dtype": "float64"} | options
    )
    assert (run.stop, run.rounds) == (fx.Stop.MAX_TIME, 2)
    return list(first.history["seconds"])


def main(cases, port=None, process="0", file=None):
    mesh = jax.make_mesh((jax.device_count(),), ("anything",))
    runs = {case: simulate(case, mesh=mesh) for case in cases.split(",")}
    result = {
        "devices": jax.device_count(),
        "runs": {case: fx.runtime.fingerprint(numbers(run)) for case, run in runs.items()},
    }
    if port:
        result["clock"] = checkpoints(cases.split(",")[0], mesh, file, int(process))
    differences = {case: difference(run, simulate(case)) for case, run in runs.items()} if process == "0" else {}
    print(json.dumps({"same": result, "differences": differences}))


if __name__ == "__main__":
    main(*sys.argv[1:])
