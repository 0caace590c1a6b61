"""Problems, each twice: for the library, and as numpy for the twins; their noise and cohorts; and how runs are compared."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import twins_shared

import fedualex as fx
from fedualex import tree
from fedualex.compiling import double
from fedualex.problems import AbstractOracle
from fedualex.runtime.rounds import draw_cohort
from fedualex.runtime.state import Setup

SLOW = pytest.mark.slow
SEED, ETA_C, ETA_S = 5, 0.1, 0.7
ROUNDS, MOST_STEPS = 4, 3
N_X, N_Y = 4, 5
LAM_X, LAM_Y, BOX_X, BOX_Y = 0.3, 0.2, 1.0, 0.7
L1_BOX = {"x": fx.L1(LAM_X) + fx.Box(BOX_X), "y": fx.L1(LAM_Y) + fx.Box(BOX_Y)}
KL_PRIOR = np.array([0.1, 0.2, 0.3, 0.25, 0.15])


class Wave(AbstractOracle):
    """g_m(z) plus a wave whose phase the key alone decides: another one for every sample, and quick to compile."""

    def __call__(self, problem, client, z, key):
        phase = jax.random.key_data(key)[0] % 997

        def disturb(g):
            return g + 0.3 * jnp.sin(phase.astype(g.dtype) + jnp.arange(g.size, dtype=g.dtype))

        return jax.tree.map(disturb, problem.client_operator(client, z))


@pytest.fixture(autouse=True, scope="module")
def compile_quickly():
    """Most of the time here is XLA's; the programs are tiny."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


ORACLES = {"wave": Wave(), "gauss": fx.GaussianNoise(0.3), "exact": fx.Exact()}
WAVE = ORACLES["wave"]

# --- each problem twice: for the library, and as numpy for the twins ------------------------------------------------


@dataclass(frozen=True, eq=False)
class Case:
    """`operator(m, z)` is g_m in numpy, on vectors that hold x, then y."""

    problem: Any
    space: Any
    operator: Any
    clients: int
    weights: Any
    z0: np.ndarray


def flat(z):
    return np.concatenate([np.ravel(z.x), np.ravel(z.y)])


def saddle(v):
    return fx.Saddle(v[:N_X], v[N_X:])


RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(N_Y, N_X)), RNG.normal(size=N_Y)
START = RNG.uniform(-0.6, 0.6, N_X + N_Y)
SIMPLEX_START = np.concatenate([START[:N_X], RNG.dirichlet(np.ones(N_Y))])
EXAMPLES = [
    (RNG.normal(size=(n, N_X)), RNG.normal(size=(n, N_Y)), RNG.normal(size=n)) for n in (3, 1, 5, 2)
]  # unequal clients
UNEQUAL = (1.0, 2.0, 0.5, 1.5)


def bilinear_operator(m, z):
    return np.concatenate([A.T @ z[N_X:], B - A @ z[:N_X]])


def example_loss(x, y, example):
    """Least squares in x, coupled to y, strongly concave in y: convex-concave."""
    a, c, target = example
    return (a @ x - target) ** 2 / 2 + (a @ x) * (c @ y) - jnp.sum(y**2) / 2


def data_operator(m, z):
    """The mean over client m's examples of (a (a.x - target + c.y), y - (a.x) c)."""
    x, y, total = z[:N_X], z[N_X:], np.zeros(N_X + N_Y)
    for a, c, target in zip(*EXAMPLES[m], strict=True):
        total += np.concatenate([a * (a @ x - target + c @ y), y - (a @ x) * c])
    return total / len(EXAMPLES[m][0])


def data_problem(x, y, weights=UNEQUAL, data=EXAMPLES):
    return fx.Problem(example_loss, x=x, y=y, like=saddle(np.zeros(N_X + N_Y)), data=data, weights=weights)


@cache
def case(name):
    box = twins_shared.L1Box(N_X, N_Y, LAM_X, LAM_Y, (-BOX_X, BOX_X), (-BOX_Y, BOX_Y))
    only_box = twins_shared.L1Box(N_X, N_Y, 0.0, 0.0, (-BOX_X, BOX_X), (-BOX_Y, BOX_Y))
    kl = twins_shared.L1BoxEntropy(N_X, N_Y, LAM_X, (-BOX_X, BOX_X), 0.4, KL_PRIOR)
    free = twins_shared.Free(N_X, N_Y)
    boxes, zeros = {"x": fx.Box(BOX_X), "y": fx.Box(BOX_Y)}, {"x": fx.Zero(), "y": fx.Zero()}
    entropic = {"x": L1_BOX["x"], "y": fx.EntropicSimplex(fx.KL(0.4, KL_PRIOR))}
    game, alike, p = fx.problems.bilinear, np.ones(5), np.array(UNEQUAL)
    return {
        "shared": lambda: Case(game(A, B, **L1_BOX), box, bilinear_operator, 5, alike, START),
        "shared box": lambda: Case(game(A, B, **boxes), only_box, bilinear_operator, 5, alike, START),
        "shared free": lambda: Case(game(A, B, **zeros), free, bilinear_operator, 5, alike, START),
        "shared entropic": lambda: Case(game(A, B, **entropic), kl, bilinear_operator, 5, alike, SIMPLEX_START),
        "data": lambda: Case(data_problem(**L1_BOX), box, data_operator, 4, p, START),
        "data alike": lambda: Case(data_problem(**L1_BOX, weights="clients"), box, data_operator, 4, p * 0 + 1, START),
        "data entropic": lambda: Case(data_problem(**entropic), kl, data_operator, 4, p, SIMPLEX_START),
    }[name]()


@cache
def noise_table(name, kind):
    """noise[r, m, k, s]: what the oracle adds in round r on client m, at sample s of local step k."""
    the, oracle, sizes = case(name), ORACLES[kind], (12, case(name).clients, 12, 2)
    with double():
        problem, z = the.problem, tree.cast(saddle(the.z0), jnp.float64)

        @jax.jit
        @jax.vmap
        def sample(r, m, k, s):
            key = jax.random.key(SEED)
            for counter in (r, m + 1, k, s):
                key = jax.random.fold_in(key, counter)
            client = jax.tree.map(lambda leaf: jnp.asarray(leaf)[m], problem.data)
            return tree.subtract(oracle(problem, client, z, key), problem.client_operator(client, z))

        noise = sample(*(jnp.ravel(jnp.asarray(index)) for index in np.indices(sizes)))
        return np.concatenate([noise.x, noise.y], axis=1).reshape(*sizes, N_X + N_Y)


def cohorts_of(the, size, rounds=ROUNDS):
    """The cohorts that the library draws, and the twins' weights for them."""
    with double():
        setup = Setup(
            problem=the.problem,
            method=fx.FedAvgS(1.0),
            oracle=fx.Exact(),
            weights=jnp.asarray(the.weights / np.sum(the.weights)),
            steps=jnp.ones(the.clients, int),
            key=jax.random.key(SEED),
            clients=the.clients,
            cohort=size,
            local_steps=1,
            chunk=size,
            equal_steps=True,
        )
        drawn = [draw_cohort(setup, jnp.asarray(r)) for r in range(rounds)]
    for ids, a in drawn:
        close(a, list(twins_shared.cohort_weights(the.weights, np.asarray(ids)).values()))
    return [np.asarray(ids) for ids, _ in drawn]


def close(ours, theirs, tolerance=1e-12):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * max(1.0, float(np.max(np.abs(theirs)))))


def differ(ours, theirs, least=1e-3):
    assert np.max(np.abs(np.asarray(ours) - np.asarray(theirs))) > least


def outputs(run, *names):
    return np.concatenate([flat(run.outputs[name].z) for name in names or ("last", "client_average", "ergodic")])


def same_run(left, right, *names):
    close(outputs(left, *names), outputs(right, *names))


def check_against_twin(run, twin, entropic=False):
    """Every output that the twin defines, and the server's dual pair; an entropic omega up to a constant."""
    for name in ("last", "client_average", "ergodic"):
        if name in twin:
            close(flat(run.outputs[name].z), twin[name])
    server = run.state.server
    if "omega" in twin:
        ours, theirs = flat(server.omega), np.array(twin["omega"])
        if entropic:
            ours[N_X:] -= np.mean(ours[N_X:])
            theirs[N_X:] -= np.mean(theirs[N_X:])
        close(ours, theirs)
        close(server.tau, twin["theta"])


BOTH = (ETA_C, ETA_S)
UNEVEN = (1, 3, 2, 2)  # local steps


def named(method):
    return type(method).__name__
