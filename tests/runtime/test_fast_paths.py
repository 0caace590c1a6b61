"""Fast paths against plain ones: equal to rounding where they claim to be exact, equal in law where they claim that."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedualex as fx
from fedualex import tree
from fedualex.compiling import double
from fedualex.geometry import AbstractGeometry
from fedualex.random import normal
from fedualex.runtime.options import RunOptions
from fedualex.runtime.prepare import build_setup, first_state
from fedualex.runtime.rounds import CachedPrimal, run_round

ETA, SIGMA, CLIENTS = 0.3, 0.4, 6
METHODS = [fx.FeDualEx(ETA, 0.7), pytest.param(fx.FedDualAvg(ETA, 0.7), marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def game():
    rng = np.random.default_rng(0)
    psi = fx.L1(0.1) + fx.Box(0.5)
    return fx.problems.bilinear(rng.normal(size=(2, 3)), rng.normal(size=2), x=psi, y=psi)


def begin(game, method, noise, fast=None, chunk=None, clients=CLIENTS):
    options = RunOptions(noise=noise, seed=3, dtype="float64")
    setup = build_setup(game, method, options, clients, chunk=chunk, fast=fast)
    start = fx.Saddle(np.array([0.2, -0.4, 0.1]), np.array([0.3, -0.1]))
    return setup, first_state(setup, game.validate_point(start), options)


OTHERS = [fx.FedMiP(ETA, 0.7), fx.FedMiD(ETA, 0.7), fx.ScaffoldSMemory(ETA, 0.7)]


@pytest.mark.slow
@pytest.mark.parametrize("method", [*METHODS, *(pytest.param(m, marks=pytest.mark.slow) for m in OTHERS)], ids=repr)
def test_clients_that_stand_together_do_what_each_does_alone(game, method):
    """The shared first point of K = 1 is exact: chunks of one client are the plain path."""
    with double():
        (together, state), (alone, _) = (begin(game, method, fx.GaussianNoise(SIGMA), chunk=c) for c in (CLIENTS, 1))
        for _ in range(3):
            state, other = run_round(together, state), run_round(alone, state)
            for one, two in zip(jax.tree.leaves(state), jax.tree.leaves(other), strict=True):
                np.testing.assert_allclose(one, two, rtol=0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize("chunk", [CLIENTS, pytest.param(4, marks=pytest.mark.slow)])
def test_without_noise_the_law_is_the_very_numbers(game, method, chunk):
    with double():
        states = []
        for fast in (None, "law"):
            setup, state = begin(game, method, fx.GaussianNoise(0.0), fast, chunk)
            assert setup.merge_noise is (fast == "law")
            states.append(run_round(setup, run_round(setup, state)))
        for one, two in zip(*map(jax.tree.leaves, states), strict=True):
            np.testing.assert_allclose(one, two, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize("chunk", [CLIENTS, pytest.param(4, marks=pytest.mark.slow)])
def test_mean_and_covariance_of_the_next_state_are_the_same(game, method, chunk):
    """T26: the server's omega after a round, over 10,000 seeds, all z-scores below 4.5."""
    with double():
        samples = []
        for fast, seed in ((None, 1), ("law", 2)):
            setup, state = begin(game, method, fx.GaussianNoise(SIGMA), fast, chunk)

            def next_state(key, setup=setup, state=state):
                own = eqx.tree_at(lambda s: s.key, setup, key)
                return run_round(own, state)

            found = jax.jit(jax.vmap(next_state))(jax.random.split(jax.random.key(seed), 10_000))
            flat = [np.asarray(leaf).reshape(10_000, -1) for leaf in jax.tree.leaves((found.server.omega, found.sums))]
            samples.append(np.hstack(flat))
    random = samples[0].std(0) > 1e-9  # a coordinate at its bound for all clients and seeds is constant
    np.testing.assert_array_equal(random, samples[1].std(0) > 1e-9)
    plain, law = samples = [sample[:, random] for sample in samples]
    n = len(plain)
    spread = plain.std(0) * np.sqrt(2 / n)
    assert np.max(np.abs(plain.mean(0) - law.mean(0)) / spread) < 4.5
    products = [(s - s.mean(0))[:, :, None] * (s - s.mean(0))[:, None, :] for s in samples]
    apart = np.abs(products[0].mean(0) - products[1].mean(0))
    assert np.max(apart / (products[0].std(0) * np.sqrt(2 / n))) < 4.5


@pytest.mark.slow
def test_the_merged_draw_is_the_one_that_is_described(game):
    """By hand: every client's half point from its own first sample, one operator at their mean, one draw of the mean."""
    with double():
        setup, state = begin(game, fx.FeDualEx(ETA, 1.0), fx.GaussianNoise(SIGMA), "law")
        geometry = game.geometry
        server = state.server
        z = geometry.primal(server)

        def noise(client, sample, scale):
            key = jax.random.fold_in(setup.key, 0)
            for counter in (client + 1, 0, sample):
                key = jax.random.fold_in(key, counter)
            shapes = [(3,), (2,)]
            return fx.Saddle(*(scale * normal(key, shape, jnp.float64, i) for i, shape in enumerate(shapes)))

        halves = [server.descend(ETA, tree.add(game.operator(z), noise(m, 0, SIGMA))) for m in range(CLIENTS)]
        points = [geometry.primal(half) for half in halves]
        mean = jax.tree.map(lambda *leaves: sum(leaves) / CLIENTS, *points)
        expected = server.descend(ETA, tree.add(game.operator(mean), noise(0, 1, SIGMA / np.sqrt(CLIENTS))))
        found = run_round(setup, state)
        for one, two in zip(jax.tree.leaves(found.server), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one, two, rtol=0, atol=1e-14)
        for one, two in zip(jax.tree.leaves(found.sums.points["client_average"]), jax.tree.leaves(mean), strict=True):
            np.testing.assert_allclose(one, ETA * two, rtol=0, atol=1e-14)


def test_nothing_is_merged_where_the_law_would_change(game):
    with double():
        noise = fx.GaussianNoise(SIGMA)
        assert not begin(game, fx.FedMiP(ETA), noise, "law")[0].merge_noise
        assert not begin(game, METHODS[0], fx.Exact(), "law")[0].merge_noise
        assert not build_setup(
            game, METHODS[0], RunOptions(noise=noise, local_steps=2), CLIENTS, fast="law"
        ).merge_noise
        data = [np.ones((2, 3)), np.zeros((3, 3))]
        own = fx.Problem(lambda x, row: (row @ x) ** 2, x=fx.Box(1.0), like=fx.Saddle(np.zeros(3)), data=data)
        assert not build_setup(own, METHODS[0], RunOptions(noise=noise), 2, fast="law").merge_noise
    with pytest.raises(ValueError, match="fast must be one of 'law', got 'fastest'"):
        fx.simulate(game, METHODS[0], rounds=1, fast="fastest")


def test_a_pair_is_mapped_once(game):
    calls = []

    class Counting(fx.Euclidean):
        def primal(self, dual):
            calls.append(dual)
            return super().primal(dual)

    geometry = CachedPrimal(Counting(fx.Box(1.0)))
    one, same = fx.Dual(jnp.array([2.0]), jnp.array(0.0)), fx.Dual(jnp.array([2.0]), jnp.array(0.0))
    assert geometry.primal(one) is geometry.primal(one)
    geometry.primal(same)
    assert len(calls) == 2  # by identity: equal pairs may differ once they are traced
    assert isinstance(geometry, AbstractGeometry)
    assert geometry.norm(jnp.array([3.0])) == 3.0
