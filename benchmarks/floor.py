"""The floor under W1, K = 10: its matrix products and its normals alone, at this machine's own rates.

    python benchmarks/floor.py            those rates, on one core
    python benchmarks/floor.py ours       CPU and wall milliseconds of our rounds on the same core
    python benchmarks/floor.py CLIENTS    CPU seconds of a round of so many clients, K = 1, on all cores

On two busy cores the same work takes more CPU time than on one, which no program can change: the floor is a matter of
one core, and so is what is held against it. Products: 100 clients by A, the better of OpenBLAS and XLA. Normals: the
best of numpy's, ours, and our generator written in C for this very processor (normals.c), where there is a compiler.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import HERE, Times, answer, interleaved

CLIENTS, ROWS, COLUMNS, STEPS = 100, 300, 600, 10
CALLS = 2 * STEPS  # of the operator: a product with A and one with its transpose
GFLOP = 2e-9 * CLIENTS * ROWS * COLUMNS * 2 * CALLS
MILLION_NORMALS = 1e-6 * CLIENTS * (ROWS + COLUMNS) * CALLS
TURNS, ROUNDS = 20, 60


def floor() -> dict[str, Times]:
    """Medians of the rates and of our own CPU time a round, on one core and on all, in turns."""
    contenders = {
        "machine": lambda: answer("floor.py"),
        "ours": lambda: answer("floor.py", "ours"),
        "all cores": lambda: answer("measure.py", "fedualex", "paper_l1", STEPS, ROUNDS),
    }
    medians = interleaved(contenders)
    machine, ours, shared = medians["machine"], medians["ours"]["cpu_ms"], medians["all cores"]["cpu_ms"]
    products = 1e3 * GFLOP / max(rate for name, rate in machine.items() if name.endswith("gflops"))
    normals = 1e3 * MILLION_NORMALS / max(rate for name, rate in machine.items() if name.endswith("normals"))
    times = {"products_ms": products, "normals_ms": normals, "ours_ms": ours, "ours_on_all_cores_ms": shared}
    return {"machine": machine, "round": times}


def many(clients: int = 1_000_000) -> Times:
    """CPU seconds of a round of a million clients, K = 1, and of its products and normals at the machine's rates.

    The first of the two operators of a round is at the server's point and the same for all clients.
    """
    contenders = {"machine": lambda: answer("floor.py"), "ours": lambda: answer("floor.py", clients)}
    medians = interleaved(contenders, repeats=1)
    gflops, normals = (
        max(rate for name, rate in medians["machine"].items() if name.endswith(kind)) for kind in ("gflops", "normals")
    )
    share = clients / CLIENTS / CALLS
    return {"ours_s": medians["ours"]["cpu_s"], "floor_s": share * (GFLOP / gflops + 2 * MILLION_NORMALS / normals)}


def a_round(clients: int) -> Times:
    """CPU seconds of one round of W1, K = 1, compiled before."""
    from measure import rounds_alone, times

    import fedualex as fx

    run = rounds_alone(fx.problems.paper_l1(0), clients, 1)
    run(0)
    return {"cpu_s": times(lambda: run(1))["cpu_ms"] / 1e3}


def stay_on_one_core() -> None:
    """This process, from now on."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def ours_on_one_core() -> Times:
    """Milliseconds of our rounds."""
    stay_on_one_core()
    import measure

    import fedualex as fx

    return measure.per_round(measure.contender("fedualex", fx.problems.paper_l1(0), STEPS), ROUNDS)


def rates() -> Times:
    """Best CPU rates on one core: GFLOP a second, millions of normals a second."""
    stay_on_one_core()
    import jax
    import numpy as np
    from measure import times

    from fedualex.compiling import WIDE
    from fedualex.random import normal

    def rate(amount, function, *arguments):
        """Of the amount in as many calls as a round makes."""

        def calls():
            jax.block_until_ready([function(*arguments) for _ in range(CALLS)])

        calls()
        return 1e3 * amount / min(times(calls)["cpu_ms"] for _ in range(TURNS))

    rng, key, count = np.random.default_rng(0), jax.random.key(0), CLIENTS * (ROWS + COLUMNS)
    shapes = (ROWS, COLUMNS), (COLUMNS, ROWS), (CLIENTS, COLUMNS), (CLIENTS, ROWS)
    A, At, x, y = operands = [rng.uniform(-1, 1, shape).astype("f4") for shape in shapes]
    products = jax.jit(lambda A, At, x, y: (y @ A, x @ At))
    by_jax = jax.jit(lambda key: jax.random.normal(key, (count,), "float32"))
    alone = jax.jit(lambda key: normal(key, (count,), "float32"), compiler_options=WIDE)
    by_client = jax.jit(jax.vmap(lambda key: normal(key, (ROWS + COLUMNS,), "float32")), compiler_options=WIDE)
    return {
        "openblas_gflops": rate(GFLOP, lambda: (y @ A, x @ At)),
        "xla_gflops": rate(GFLOP, products, *map(jax.numpy.asarray, operands)),
        "numpy_normals": rate(MILLION_NORMALS, lambda: rng.standard_normal(count, "f4")),
        "jax_normals": rate(MILLION_NORMALS, by_jax, key),
        "our_single_normals": rate(MILLION_NORMALS, alone, key),
        "our_client_normals": rate(MILLION_NORMALS, by_client, jax.random.split(key, CLIENTS)),
        **c_normals(),
    }


def c_normals() -> Times:
    """The rate of normals.c; nothing without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "normals"
        command = [compiler, "-O3", "-march=native", "-ffast-math", "-o", program, HERE / "normals.c", "-lm"]
        subprocess.run(command, check=True)
        return {"c_normals": float(subprocess.run([program], capture_output=True, check=True).stdout)}


if __name__ == "__main__":
    asked = sys.argv[1] if sys.argv[1:] else ""
    print(json.dumps(rates() if not asked else ours_on_one_core() if asked == "ours" else a_round(int(asked))))
