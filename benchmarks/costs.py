"""What things around the rounds cost: records, memory, sweeps, starts, imports.

python benchmarks/costs.py PART [ARGUMENT]     one measurement, as JSON
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from processes import Times, answer, interleaved

MANY, FEW = 1_000_000, 10_000
STEPS, SERVER_STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1], [0.5, 0.8, 1.0, 1.2, 1.5]
SEEDS = range(10)
IMPORTS = {
    "jax": "import jax",
    "fedualex": "import fedualex",
    "first-name": "import fedualex; fedualex.simulate",
    "help": "from fedualex.cli import main; main(['--help'], standalone_mode=False)",
}


def recording() -> dict[str, Times]:
    """W1, K = 10, with a record every ten rounds and without."""
    return answer("costs.py", "recording")


def memory() -> dict[str, Times]:
    """Peak memory of a process that runs one round of many clients, K = 1, d = 900: it compiles, or has compiled."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for clients in (FEW, MANY):
            compiling, running = (answer("costs.py", "memory", clients, FEDUALEX_CACHE=folder) for _ in range(2))
            found[str(clients)] = {"compiling_mib": compiling, "running_mib": running}
    return found


def sweep() -> Times:
    """A grid of 35 step sizes with ten seeds as sweeps and one by one."""
    return answer("costs.py", "sweep")


def start(repeats: int = 3) -> dict[str, Times]:
    """The first and the second start of a program: W1, K = 10, with a new cache folder."""
    found: dict[str, list[Times]] = {"first": [], "second": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            for one in found.values():
                one.append(answer("costs.py", "start", FEDUALEX_CACHE=folder))
    return {name: {key: statistics.median(one[key] for one in many) for key in many[0]} for name, many in found.items()}


def imports() -> dict[str, Times]:
    """Seconds of a process, and of the import alone."""

    def seconds(code: str) -> Times:
        began = time.perf_counter()
        timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
        done = subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True)
        return {"process": time.perf_counter() - began, "import": float(done.stdout.splitlines()[-1])}

    return interleaved({name: lambda code=code: seconds(code) for name, code in IMPORTS.items()}, repeats=9)


def measure_recording() -> dict[str, Times]:
    """Medians of whole runs in turns."""
    import measure

    import fedualex as fx

    game, rounds = fx.problems.paper_l1(0), 100
    runs = {
        name: measure.ours(game, 10, record_every=every) for name, every in (("unrecorded", rounds), ("recorded", 10))
    }
    for run in runs.values():
        run(rounds)
    return interleaved({name: lambda run=run: measure.times(lambda: run(rounds)) for name, run in runs.items()}, 9)


def measure_memory(clients: str) -> float:
    """The high-water mark of resident memory (Linux), in MiB."""
    import measure

    import fedualex as fx

    measure.ours(fx.problems.paper_l1(0), 1, clients=int(clients))(1)
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


def measure_sweep() -> Times:
    """Every seed's grid as a sweep and one by one in turns; compilations of the rounds are counted."""
    import jax
    import measure

    import fedualex as fx

    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, _, **named: compiled.append((event.rpartition("/")[2], named.get("fun_name")))
    )
    game, grid = fx.problems.paper_l1(0), {"eta_c": STEPS, "eta_s": SERVER_STEPS}
    options = {"rounds": 10, "record_every": 10, "clients": 10, "dtype": "float32", "noise": fx.GaussianNoise(0.1)}

    def as_sweep(seed):
        assert len(fx.sweep(game, fx.FeDualEx(), grid=grid, seeds=(seed,), **options)) == 35

    def one_by_one(seed):
        for eta_c in STEPS:
            for eta_s in SERVER_STEPS:
                fx.simulate(game, fx.FeDualEx(eta_c, eta_s), seed=seed, **options)

    as_sweep(0)
    total = {as_sweep: 0.0, one_by_one: 0.0}
    for seed in SEEDS:
        for way in sorted(total, key=lambda way: way is as_sweep, reverse=bool(seed % 2)):
            total[way] += measure.times(lambda way=way, seed=seed: way(seed))["wall_ms"]
    return {
        "sweep_s": total[as_sweep] / 1e3,
        "one_by_one_s": total[one_by_one] / 1e3,
        "compilations": compiled.count(("backend_compile_duration", "jit(advance)")),
    }


def measure_start() -> Times:
    """Seconds that jax spends on compiling, or on reading what was compiled, and seconds until the first result."""
    import jax

    compiling = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiling.append(seconds if event.endswith("backend_compile_duration") else 0.0)
    )
    import measure

    import fedualex as fx

    found = measure.times(lambda: measure.ours(fx.problems.paper_l1(0), 10)(1))
    return {"compile_s": sum(compiling), "first_run_s": found["wall_ms"] / 1e3}


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    parts = {"recording": measure_recording, "memory": measure_memory, "sweep": measure_sweep, "start": measure_start}
    print(json.dumps(parts[sys.argv[1]](*sys.argv[2:])))
