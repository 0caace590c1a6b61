"""Two LAPACK calls in flight can hang jax forever on two threads: no program of ours may have two."""

import itertools
import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedualex as fx
from fedualex import tree
from fedualex.compiling import double

# Both blocks' spectral prox, batched over clients, inside a scan; then both blocks' certificate in one program.
PROGRAM = """
import sys
import jax, jax.numpy as jnp, numpy as np
import fedualex as fx
from fedualex.compiling import double
from fedualex.regularizers import for_reports

route, iterations = sys.argv[1], int(sys.argv[2])
with double():
    psi = fx.Spectral(fx.L1(0.1) + fx.Box(0.05), route)
    geometry = fx.Product(fx.Saddle(fx.Euclidean(psi), fx.Euclidean(psi)))
    rng = np.random.default_rng(0)
    omega = fx.Saddle(jnp.asarray(rng.normal(size=(50, 60, 20))), jnp.asarray(rng.normal(size=(50, 30, 20))))
    primal = jax.vmap(lambda w, tau: geometry.primal(fx.Dual(w, tau)), (0, None))

    def step(carry, tau):
        z = primal(carry, tau)
        return jax.tree.map(lambda w, leaf: w + 1e-3 * leaf, carry, z), geometry.norm(z)

    last, norms = jax.jit(lambda start: jax.lax.scan(step, start, jnp.linspace(0, 1, iterations)))(omega)
    assert jnp.all(jnp.isfinite(norms))

    reports = for_reports(geometry)
    gap = jax.jit(jax.vmap(lambda z, g: reports.fenchel_gap(z, g) + sum(jax.tree.leaves(reports.fenchel_gaps(z, g)))))
    for _ in range(20):
        assert jnp.all(gap(primal(last, 1.0), last) >= -1e-9)
print("finished")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("route", "iterations"), [("gram", 400), ("svd", 100)])
def test_both_blocks_of_a_spectral_game_never_wait_for_each_other(route, iterations):
    environment = {**os.environ, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=true", "OMP_NUM_THREADS": "2"}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, route, str(iterations)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.stdout.strip() == "finished", result.stderr


# --- the same, without waiting for a hang: in the compiled program every LAPACK call depends on the one before it ------


def lapack_calls(function, *arguments):
    """How many LAPACK calls the compiled program has, and how many pairs of them could run at the same time."""
    text = jax.jit(function).lower(*arguments).compile().as_text()
    inputs, calls = {}, []
    for line in text[text.index("ENTRY") :].splitlines()[1:]:
        if found := re.match(r"\s+(?:ROOT )?%?([\w.-]+) = (.*)", line):
            inputs[found[1]] = set(re.findall(r"%([\w.-]+)", found[2].split("metadata=")[0]))
            calls += [found[1]] if "lapack_" in found[2] else []

    def ancestors(name):
        seen, todo = set(), [name]
        while todo:
            new = inputs.get(todo.pop(), set()) - seen
            seen |= new
            todo += new
        return seen

    pairs = itertools.combinations(calls, 2)
    return len(calls), sum(a not in ancestors(b) and b not in ancestors(a) for a, b in pairs)


def spectral_pair(route):
    psi = fx.Spectral(fx.L1(0.1) + fx.Box(0.05), route) + fx.SquaredL2(0.1)
    return fx.Product(fx.Saddle({"a": fx.Euclidean(psi), "b": fx.Euclidean(fx.Box(1.0))}, fx.Euclidean(psi)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("route", ["gram", pytest.param("svd", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "method",
    [
        "primal",
        "psi",
        "psi_conjugate",
        "fenchel_gap",
        "fenchel_gaps",
        "generalized_divergence",
        "subgradient",
        "violation",
        "B0",
    ],
)
def test_lapack_calls_are_ordered_in_the_compiled_program(method, route, monkeypatch):
    geometry = spectral_pair(route)
    with double():
        z = jax.tree.map(jnp.asarray, fx.Saddle({"a": np.ones((6, 3)), "b": np.ones(2)}, np.ones((3, 5))))
        dual = fx.Dual(z, jnp.asarray(1.0))
        arguments = {
            "primal": (dual,),
            "generalized_divergence": (z, dual),
            "fenchel_gap": (z, z),
            "fenchel_gaps": (z, z),
        }
        count, unordered = lapack_calls(lambda *point: getattr(geometry, method)(*point), *arguments.get(method, (z,)))
        assert count >= 2
        assert unordered == 0

        monkeypatch.setattr(tree, "depend_on", lambda a, done: a)
        _, unordered = lapack_calls(lambda *point: getattr(geometry, method)(*point), *arguments.get(method, (z,)))
        assert unordered > 0  # so the zero above is the dependency's doing
