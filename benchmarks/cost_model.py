"""The terms of docs/scaling.md and benchmarks/results/scaling.md, measured: CPU seconds, memory and bytes of a round.

python benchmarks/cost_model.py                   one process: seconds by M, K and d, memory by chunk
python benchmarks/cost_model.py PORT PROCESS      start twice, PROCESS = 0 and 1: bytes and seconds of sums, and rounds
"""

import itertools
import re
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import fedualex as fx
from fedualex.compiling import double
from fedualex.runtime.options import RunOptions
from fedualex.runtime.prepare import build_setup, first_state
from fedualex.runtime.rounds import advance
from fedualex.runtime.sharding import local


def game(d):
    """Two thirds of the variables in x, a third in y, as in the paper's l1 game."""
    rng, psi = np.random.default_rng(0), fx.L1(0.1) + fx.Box(0.05)
    n, m = d // 3, d - d // 3
    return fx.problems.bilinear(rng.uniform(-1, 1, (n, m)), rng.uniform(-1, 1, n), x=psi, y=psi)


def prepare(M, K, d, chunk=None, mesh=None):
    """The game with M clients and K local steps, ready to advance."""
    problem, options = game(d), RunOptions(noise=fx.GaussianNoise(0.1), local_steps=K, dtype="float32")
    setup = build_setup(problem, fx.FeDualEx(0.01), options, M, chunk=chunk, mesh=mesh)
    return setup, first_state(setup, problem.validate_point(problem.like), options)


def round_seconds(M, K, d, rounds, mesh=None):
    """CPU seconds of this process, and seconds, of one round; the better of two measurements."""
    setup, state = prepare(M, K, d, mesh=mesh)
    state = local(mesh, advance(setup, state, jnp.asarray(1)))
    found = []
    for _ in range(2):
        began = time.process_time(), time.perf_counter()
        jax.block_until_ready(advance(setup, state, jnp.asarray(rounds)))
        found.append(((time.process_time() - began[0]) / rounds, (time.perf_counter() - began[1]) / rounds))
    return min(found)


def compiled(M, K, d, chunk, mesh=None):
    """The compiled program of a round."""
    setup, state = prepare(M, K, d, chunk, mesh)
    return eqx.filter_jit(advance.__wrapped__).lower(setup, state, jnp.asarray(1)).compile().compiled


def one_process():
    """Seconds by M, K and d; memory by chunk."""
    for M, K, d in [(100, 1, 900), (100, 10, 900), (400, 10, 900), (1600, 10, 900), (100, 40, 900), (100, 10, 3600)]:
        cpu, wall = round_seconds(M, K, d, max(2, 20_000 // (M * K)))
        print(f"M={M} K={K} d={d}: {1e3 * cpu:.1f} CPU ms, {1e3 * wall:.1f} ms a round", flush=True)
    for (K, d), chunk in itertools.product([(1, 900), (10, 900), (10, 3600)], (50, 100, 200, 400)):
        size = compiled(4000, K, d, chunk).memory_analysis().temp_size_in_bytes
        print(f"M=4000 K={K} d={d} chunk={chunk}: {size / 1e6:.2f} MB, {size / (4 * chunk * d):.1f} points a client")


def summed(text):
    """How many sums over devices a compiled program has, and their bytes."""
    sums = re.findall(r" = (.*) all-reduce(?:-start)?\(", text)
    shapes = [shape for line in sums for shape in re.findall(r"f(\d+)\[([\d,]*)\]", line)]
    sizes = [int(bits) // 8 * int(np.prod([int(n) for n in shape.split(",") if n])) for bits, shape in shapes]
    return len(sums), sum(sizes)


def two_processes(port, process):
    """Seconds and bytes of sums over two processes, and rounds."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=int(process))
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("clients",))
    along = jax.sharding.PartitionSpec("clients")
    for size in (1, 1000, 10_000, 100_000, 1_000_000):

        def sums(x):
            return jax.lax.fori_loop(0, 50, lambda _, v: jax.lax.psum(v, "clients") / 2, x)

        run = jax.jit(jax.shard_map(sums, mesh=mesh, in_specs=along, out_specs=along, check_vma=False))
        x = jax.block_until_ready(run(np.ones(2 * size, np.float32)))
        began = time.perf_counter()
        jax.block_until_ready(run(x))
        print(f"a sum of {4 * size} bytes: {1e6 * (time.perf_counter() - began) / 50:.0f} us", flush=True)
    with double():
        for K, d in [(1, 900), (10, 900), (10, 3600)]:
            count, size = summed(compiled(8, K, d, None, mesh).as_text())
            print(
                f"K={K} d={d}: {count} sums a round, {size} bytes; formula {4 * (K * (d + 3) + 2 * d + 2)}", flush=True
            )
        for M, K, d in [(100, 1, 900), (100, 10, 900), (400, 10, 900), (1600, 10, 900)]:
            cpu, wall = round_seconds(M, K, d, max(2, 20_000 // (M * K)), mesh)
            print(f"M={M} K={K} d={d}: {1e3 * cpu:.1f} CPU ms in each, {1e3 * wall:.1f} ms a round", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        two_processes(*sys.argv[1:])
    else:
        with double():
            one_process()
