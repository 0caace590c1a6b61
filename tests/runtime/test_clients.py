"""How a run is computed changes nothing; cohorts, unequal local steps, warm starts, and clients that differ."""

import equinox as eqx
import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import GAME
from support.references import digits
from support.simulating import NAMES, Status, assert_close, few_digits, leaves, simulate, solve, unequal

import fedualex as fx
from fedualex.compiling import double
from fedualex.runtime.rounds import draw_cohort
from fedualex.runtime.state import Setup


@pytest.mark.slow
def test_chunks_change_nothing():
    problem = unequal()
    options = {
        "rounds": 4,
        "cohort": 4,
        "local_steps": [1, 3, 2, 2, 1],
        "noise": fx.Minibatch(2),
        "seed": 3,
        "dtype": "float64",
    }
    runs = [fx.simulate(problem, fx.FeDualEx(0.05), **options, chunk=chunk) for chunk in (1, 3, 100)]
    for run in runs[1:]:
        assert_close(run, runs[0], 1e-12)
        for name in NAMES:
            assert run.outputs[name].gap == pytest.approx(runs[0].outputs[name].gap, rel=1e-11)


@pytest.mark.slow
def test_chunks_change_nothing_for_clients_with_memory():
    options = {
        "rounds": 3,
        "cohort": 4,
        "clients": 5,
        "local_steps": 2,
        "noise": fx.GaussianNoise(0.1),
        "dtype": "float64",
    }
    runs = [fx.simulate(GAME, fx.ScaffoldSMemory(0.05), **options, chunk=chunk) for chunk in (3, 100)]
    assert_close(*runs, 1e-12)


def test_records_change_nothing():
    runs = [simulate(rounds=12, noise=fx.GaussianNoise(0.1), record_every=every) for every in (1, 5, 12)]
    for run in runs[1:]:
        for one, other in zip(leaves(run), leaves(runs[0]), strict=True):
            np.testing.assert_array_equal(one, other)
        assert run.gap == runs[0].gap


def test_the_seed_decides_the_noise():
    one, same, other = (simulate(noise=fx.GaussianNoise(0.1), seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.z.x, same.z.x)
    assert np.max(np.abs(one.z.x - other.z.x)) > 1e-6


@pytest.mark.slow
def test_float32_is_close_to_float64():
    runs = [simulate(dtype=dtype, noise=None) for dtype in ("float64", "float32", jnp.float32)]
    assert {leaf.dtype for leaf in jax.tree.leaves(runs[1].state.server)} == {np.dtype("float32")}
    for run in runs[1:]:
        for name in NAMES:
            assert run.outputs[name].z.x.dtype == np.float64
            assert run.outputs[name].gap == pytest.approx(runs[0].outputs[name].gap, abs=1e-5)
            np.testing.assert_allclose(run.outputs[name].z.x, runs[0].outputs[name].z.x, atol=1e-6)
            assert run.outputs[name].gap == pytest.approx(GAME.certificate(run.outputs[name].z).gap, abs=1e-13)


# --- cohorts and local steps ---------------------------------------------------------------------------------------


def cohorts(seed, rounds, clients=6, cohort=2, weights=None):
    with double():
        setup = Setup(
            problem=GAME,
            method=fx.FeDualEx(0.1),
            oracle=fx.Exact(),
            weights=jnp.asarray(np.full(clients, 1 / clients) if weights is None else weights),
            steps=jnp.ones(clients, int),
            key=jax.random.key(seed),
            clients=clients,
            cohort=cohort,
            local_steps=1,
            chunk=10,
            equal_steps=True,
        )
        ids, weights = drawn_cohorts(setup, jnp.arange(rounds))
        return np.asarray(ids), np.asarray(weights)


@eqx.filter_jit
def drawn_cohorts(setup, rounds):
    return jax.vmap(lambda r: draw_cohort(setup, r))(rounds)


def test_cohorts_are_uniform_pairs_without_repetition():
    rounds = 3000
    ids, weights = cohorts(0, rounds)
    assert np.all(ids[:, 0] < ids[:, 1])
    np.testing.assert_allclose(weights, 0.5, rtol=1e-15)
    pairs = np.bincount(ids[:, 0] * 6 + ids[:, 1], minlength=36).reshape(6, 6)[np.triu_indices(6, 1)]
    chi_square = np.sum((pairs - rounds / 15) ** 2) / (rounds / 15)
    assert chi_square < 36.1  # 14 degrees of freedom: exceeded once in a thousand seeds
    np.testing.assert_array_equal(ids, cohorts(0, rounds)[0])
    assert np.mean(np.all(ids == cohorts(1, rounds)[0], axis=1)) < 0.15


def test_cohort_weights_are_the_clients_own():
    p = np.array([0.1, 0.2, 0.3, 0.4])
    ids, weights = cohorts(0, 50, clients=4, cohort=2, weights=p)
    np.testing.assert_allclose(weights, p[ids] / p[ids].sum(axis=1, keepdims=True), rtol=1e-14)
    np.testing.assert_array_equal(cohorts(0, 3, clients=4, cohort=4)[0], np.tile(np.arange(4), (3, 1)))


def linear(x, y, example):
    return jnp.vdot(example["x"], x) - jnp.vdot(example["y"], y)


@pytest.mark.slow
def test_unequal_local_steps_do_not_change_the_objective():
    """With constant operators the server moves by -K g, K the mean number of steps, g the weighted mean operator."""
    rng = np.random.default_rng(0)
    data = [{"x": rng.normal(size=(1, 3)), "y": rng.normal(size=(1, 2))} for _ in range(3)]
    p, steps, eta, rounds = np.array([0.2, 0.3, 0.5]), np.array([1, 4, 2]), 0.1, 3
    like = fx.Saddle(np.zeros(3), np.zeros(2))
    problem = fx.Problem(linear, x=fx.Box(9.0), y=fx.Box(9.0), like=like, data=data, weights=p)
    run = fx.simulate(problem, fx.FeDualEx(eta), rounds=rounds, local_steps=list(steps))
    elapsed = rounds * (p @ steps) * eta
    assert float(run.state.server.tau) == pytest.approx(elapsed, rel=1e-13)
    for name in ("x", "y"):
        mean = sum(weight * client[name][0] for weight, client in zip(p, data, strict=True))
        np.testing.assert_allclose(getattr(run.state.server.omega, name), -elapsed * mean, rtol=1e-12)
    assert float(run.state.sums.weight) == pytest.approx(elapsed, rel=1e-13)


def test_equal_local_steps_may_be_a_list():
    np.testing.assert_array_equal(simulate(local_steps=[2, 2, 2]).z.x, simulate(local_steps=2).z.x)


def test_steps_mean_one_machine():
    run = fx.simulate(GAME, fx.FeDualEx(0.3), steps=4)
    same = simulate(rounds=4, clients=None, local_steps=1)
    np.testing.assert_array_equal(run.z.x, same.z.x)
    assert run.rounds == 4
    assert fx.solve(GAME, fx.CompositeDualExtrapolation(), steps=200, tol=0.05).status is Status.OPTIMAL


def test_warm_start():
    good = solve(rounds=500, tol=1e-3)
    again = solve(rounds=500, tol=2e-3, z0=good.z)
    assert again.status is Status.OPTIMAL
    assert again.history["gap_last"][0] == pytest.approx(good.gap, abs=1e-12)
    assert again.rounds <= good.rounds
    outside = fx.Saddle(np.full(5, 3.0), np.full(4, -3.0))
    run = simulate(z0=outside, rounds=1)
    inside = simulate(z0=GAME.project(outside), rounds=1)
    assert run.history["gap_last"][0] == pytest.approx(GAME.certificate(GAME.project(outside)).gap, rel=1e-12)
    np.testing.assert_array_equal(run.z.x, inside.z.x)
    paper = simulate(z0=outside, rounds=1, init="paper")  # omega_0 = grad ell(z0) outside the domain
    assert np.max(np.abs(paper.state.server.omega.x - run.state.server.omega.x)) > 1


# --- heterogeneous clients -----------------------------------------------------------------------------------------


def best_gap(problem, build, etas, rounds):
    """The best certificate of any output over a grid of steps, K = 10."""
    runs = [fx.simulate(problem, build(eta), rounds=rounds, local_steps=10, record_every=rounds) for eta in etas]
    return min(output.gap for run in runs for output in run.outputs.values())


def check_corrections(problem, plain, corrected, exchanges):
    """At most half the gap of plain FeDualEx after as many exchanges; a fresh survey costs a second one a round."""
    best = best_gap(problem, fx.FeDualEx, plain, exchanges)
    fresh = best_gap(problem, lambda eta: fx.FeDualExCorrected(eta, mode="fresh"), corrected, exchanges // 2)
    stale = best_gap(problem, lambda eta: fx.FeDualExCorrected(eta, mode="stale"), corrected, exchanges)
    print(f"K=10, {exchanges} exchanges: plain {best:.4g}, fresh {fresh:.4g}, stale {stale:.4g}")
    assert fresh <= best / 2
    assert stale <= best / 2


@pytest.mark.slow
def test_drift_correction_halves_the_gap_on_a_few_digits():
    check_corrections(few_digits(0.01), plain=(0.01, 0.02, 0.03, 0.05, 0.1), corrected=(0.1, 0.15), exchanges=100)


@pytest.mark.slow
def test_drift_correction_halves_the_gap_on_digits():
    problem = fx.problems.agnostic(*digits(rows=1797), l1=0.01, kl=0.01)
    grid = (0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 1.0)
    check_corrections(problem, plain=grid, corrected=grid, exchanges=200)
