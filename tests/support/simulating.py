"""A small game, and runs of the simulator on it."""

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
from support.games import GAME, PSI
from support.references import digits

import fedualex as fx

Status, Stop = fx.Status, fx.Stop
NAMES = {"last", "client_average", "ergodic", "polished"}
SIZES = {"clients": 3, "local_steps": 2}


def simulate(eta=0.3, rounds=6, problem=GAME, **options):
    return fx.simulate(problem, fx.FeDualEx(eta), rounds=rounds, **(SIZES | options))


def solve(eta=0.3, rounds=6, problem=GAME, **options):
    return fx.solve(problem, fx.FeDualEx(eta), rounds=rounds, **(SIZES | options))


def leaves(run):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(run.state)]


def assert_close(a, b, rtol):
    for u, v in zip(leaves(a), leaves(b), strict=True):
        np.testing.assert_allclose(u, v, rtol=rtol, atol=rtol)


def numbers(run):
    """Every number that a run reports."""
    for column in run.history.values():
        yield from (value for value in np.ravel(column) if value is not None)
    for output in run.outputs.values():
        yield from (value for value in (output.gap, output.density, *(output.rank or ())) if value is not None)
        for leaf in jax.tree.leaves(output.z):
            yield from np.ravel(leaf)
    for leaf in leaves(run):
        yield from np.ravel(leaf)


def assert_finite(run):
    assert all(np.isfinite(value) for value in numbers(run))


def few_digits(l1):
    """Fifteen clients with one or two kinds of digits each; with l1 = 0.2, no weights at all are nearly a solution."""
    return fx.problems.agnostic(*digits(rows=300), l1=l1, kl=0.01)


def coupled(x, y, example):
    feature, target = example
    return (feature @ x - target) ** 2 / 2 + (feature @ x) * jnp.sum(y) - jnp.sum(y**2) / 2


def unequal(weights="samples"):
    rng = np.random.default_rng(1)
    data = [(rng.normal(size=(n, 3)), rng.normal(size=n)) for n in (4, 1, 6, 2, 3)]
    like = fx.Saddle(np.zeros(3), np.zeros(2))
    return fx.Problem(coupled, x=PSI, y=fx.L2Ball(1.0), like=like, data=data, weights=weights)
