"""What averaging does to zeros, measured at the tuned steps."""

import jax
import numpy as np
import pytest

import fedualex as fx
from fedualex.compiling import double
from fedualex.runs.settings import start_point
from fedualex.runtime import averaging

SPARSE = fx.L1(0.5) + fx.Box(0.3)


def small_game():
    rng = np.random.default_rng(0)
    return fx.problems.bilinear(rng.uniform(-1, 1, (20, 30)), rng.uniform(-1, 1, 20), x=SPARSE, y=SPARSE)


def start_of(game):
    return start_point({"uniform": 0.3}, game, 0)


OPTIONS = {"clients": 8, "local_steps": 4, "rounds": 20, "every": 6, "noise": fx.GaussianNoise(0.3)}
METHODS = {"primal": fx.FedMiP(0.05, 1.0, server_prox="none"), "dual": fx.FeDualEx(0.05, 1.0)}


@pytest.fixture(scope="module")
def measured():
    game = small_game()
    return {kind: averaging(game, method, z0=start_of(game), **OPTIONS) for kind, method in METHODS.items()}


@pytest.mark.slow
def test_primal_averaging_fills_zeros_and_dual_averaging_does_not(measured):
    primal, dual = measured["primal"], measured["dual"]
    for series in (primal, dual):
        assert series["round"] == [6, 12, 18, 20]
        assert np.all(np.array(series["lowest"]) < series["clients"])
        assert np.all(np.array(series["clients"]) < series["highest"])
    # The support of a mean is the union of the supports.
    assert np.all(np.array(primal["server"]) >= primal["highest"])
    assert np.all(np.array(primal["server"]) - primal["clients"] > 0.25)
    assert np.all(np.abs(np.array(dual["server"]) - dual["clients"]) < 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", METHODS)
def test_averaging_is_a_function_of_its_seed(measured, kind):
    game = small_game()
    assert averaging(game, METHODS[kind], z0=start_of(game), **OPTIONS) == measured[kind]
    assert averaging(game, METHODS[kind], z0=start_of(game), **OPTIONS, seed=1) != measured[kind]


@pytest.mark.slow
@pytest.mark.parametrize("kind", METHODS)
def test_the_server_is_that_of_the_run(measured, kind):
    game, options = small_game(), {key: value for key, value in OPTIONS.items() if key != "every"}
    run = fx.simulate(game, METHODS[kind], z0=start_of(game), record_every=6, **options)
    assert run.history["round"].tolist() == [0, *measured[kind]["round"]]
    assert run.history["density_last"].tolist()[1:] == measured[kind]["server"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("local_steps", [1, 4])
def test_without_noise_all_clients_are_the_server(kind, local_steps):
    """Equal clients that see the same operator end at one point, which is its own mean in both spaces."""
    game, options = small_game(), OPTIONS | {"local_steps": local_steps, "noise": None, "every": 1, "rounds": 12}
    series = averaging(game, METHODS[kind], z0=start_of(game), **options)
    for name in ("clients", "lowest", "highest"):
        assert series[name] == pytest.approx(series["server"], abs=1e-12)
    assert 0 < series["server"][-1] < 0.6  # there are zeros to lose


@pytest.mark.slow
def test_densities_of_clients_by_hand():
    """FedMiP in numpy: every client's point after two steps, with the noise that its counters give."""
    game, sigma, eta, clients, steps = small_game(), 0.3, 0.05, 5, 2
    z0, oracle = start_of(game), fx.GaussianNoise(sigma)

    def prox(v):
        return np.clip(np.sign(v) * np.maximum(np.abs(v) - 0.5 * eta, 0), -0.3, 0.3)

    def stepped(z, at, key):
        g = oracle(game, None, at, key)
        return jax.tree.map(lambda leaf, slope: prox(leaf - eta * np.asarray(slope)), z, g)

    def density(z):
        return np.mean(np.abs(np.concatenate([z.x, z.y])) > 1e-5)

    points = []
    with double():
        for m in range(clients):
            z = z0
            for k in range(steps):
                key = jax.random.key(7)
                for counter in (0, m + 1, k):
                    key = jax.random.fold_in(key, counter)
                half = stepped(z, z, jax.random.fold_in(key, 0))
                z = stepped(z, half, jax.random.fold_in(key, 1))
            points.append(z)
        method = fx.FedMiP(eta, 1.0, server_prox="none")
        sizes = {"clients": clients, "local_steps": steps, "rounds": 1, "every": 1}
        series = averaging(game, method, noise=oracle, seed=7, z0=z0, dtype="float64", **sizes)
    each = [density(z) for z in points]
    assert len(set(each)) > 1
    mean = jax.tree.map(lambda *leaves: np.mean(leaves, axis=0), *points)
    expected = {"clients": np.mean(each), "lowest": min(each), "highest": max(each), "server": density(mean)}
    assert {name: series[name][0] for name in expected} == pytest.approx(expected, abs=1e-12)
    assert series["round"] == [1]


def test_averaging_needs_densities():
    spectral = fx.Spectral(SPARSE)
    game = fx.problems.bilinear(np.eye(4), np.ones((4, 3)), x=spectral, y=spectral)
    with pytest.raises(ValueError, match="averaging compares densities"):
        averaging(game, METHODS["dual"], clients=2, local_steps=1, rounds=1, every=1)
