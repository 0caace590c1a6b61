"""Outputs and history: certified, feasible, as defined, and counted in bytes."""

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import GAME
from support.simulating import NAMES, Status, simulate, solve

import fedualex as fx
from fedualex.compiling import double

# --- outputs -------------------------------------------------------------------------------------------------------


def test_all_outputs_are_certified_feasible_and_labelled():
    run = simulate(noise=fx.GaussianNoise(0.1))
    assert set(run.outputs) - {"best"} == NAMES
    for name, output in run.outputs.items():
        assert output.name == name
        projected = GAME.project(output.z)
        for leaf, nearest in zip(jax.tree.leaves(output.z), jax.tree.leaves(projected), strict=True):
            assert leaf.dtype == np.float64
            np.testing.assert_array_equal(leaf, nearest)
        assert output.gap == pytest.approx(GAME.gap(output.z), abs=1e-13)
        assert output.gap == pytest.approx(GAME.certificate(output.z).gap, abs=1e-13)
        entries = np.concatenate([output.z.x, output.z.y])
        assert output.density == np.mean(np.abs(entries) > 1e-5)
        assert output.rank is None
        assert output.status is Status.CERTIFIED


@pytest.mark.parametrize("output", sorted(NAMES))
def test_output_overrides_the_rule(output):
    run = simulate(output=output)
    assert run.output == output
    assert run.z is run.outputs[output].z


def test_means_are_the_definitions():
    """K = 1, one client, eta_s = 1: `clients` and `ergodic` are both the mean of the half points, `last` is P(state)."""
    eta, steps = 0.3, 4
    run = fx.simulate(GAME, fx.FeDualEx(eta), steps=steps)
    with double():
        dual, total = GAME.geometry.dual(jax.tree.map(jnp.asarray, GAME.project(GAME.like))), None
        for _ in range(steps):
            half = dual.descend(eta, GAME.operator(GAME.geometry.primal(dual)))
            point = GAME.geometry.primal(half)
            dual = dual.descend(eta, GAME.operator(point))
            total = point if total is None else jax.tree.map(jnp.add, total, point)
        last, mean = np.asarray(GAME.geometry.primal(dual).x), np.asarray(total.x) / steps
    for name, expected in (("client_average", mean), ("ergodic", mean), ("last", last)):
        np.testing.assert_allclose(run.outputs[name].z.x, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.slow
def test_rank_of_a_nuclear_game():
    rng = np.random.default_rng(1)
    psi = fx.Spectral(fx.L1(0.1) + fx.Box(0.5))
    b = rng.normal(size=(4, 1)) @ rng.normal(size=(1, 3))
    problem = fx.problems.bilinear(rng.uniform(-1, 1, (4, 5)), b, x=psi, y=psi)
    run = fx.simulate(problem, fx.FeDualEx(0.3), rounds=20, local_steps=2, record_every=10)
    for output in run.outputs.values():
        values = [np.linalg.svd(block, compute_uv=False) for block in (output.z.x, output.z.y)]
        assert output.rank == tuple(int(np.sum(s > 1e-5)) for s in values)
        assert output.density is None
        assert max(s.max() for s in values) <= 0.5 * (1 + 1e-12)
    assert run.history["rank_last"].shape == (3, 2)
    assert run.outputs["polished"].rank == (1, 1)  # b has rank 1


# --- history -------------------------------------------------------------------------------------------------------

ALWAYS = {"round", "exchanges", "seconds", "bytes_up", "bytes_down"}


@pytest.mark.parametrize(("tol", "names"), [(None, {"last", "ergodic"}), (1e-9, NAMES)])
def test_history_has_one_entry_for_each_record(tol, names):
    seen = []
    run = solve(rounds=7, record_every=3, tol=tol, callback=seen.append)
    assert set(run.history) == ALWAYS | {f"{what}_{name}" for what in ("gap", "density", "rank") for name in names}
    np.testing.assert_array_equal(run.history["round"], [0, 3, 6, 7])
    assert {len(column) for column in run.history.values()} == {4}
    assert np.all(np.diff(run.history["seconds"]) > 0)
    assert run.seconds >= run.history["seconds"][-1]
    assert [record["round"] for record in seen] == [0, 3, 6, 7]  # the callback is given every record
    for key, column in run.history.items():
        np.testing.assert_array_equal(column, [record[key] for record in seen])
    for name in names:
        assert run.history[f"gap_{name}"][-1] == run.outputs[name].gap
        assert run.history[f"density_{name}"][-1] == run.outputs[name].density


def test_about_fifty_records_by_default():
    assert len(simulate(rounds=120).history["round"]) == 61
    assert len(simulate(rounds=20).history["round"]) == 21


@pytest.mark.parametrize(
    ("survey", "up", "down"),
    [("none", 0, 0), ("fresh", 3 * 10, (3 + 2) * 9), ("stale", 3 * 10, (3 + 2) * 9)],
)
def test_bytes_are_the_formula(survey, up, down):
    """Down: omega (9) and tau to 2 of 3 clients; up: the increment and the sum of points. Surveys: all 3 send g_m, f_m."""
    method = fx.FeDualEx(0.1) if survey == "none" else fx.FeDualExCorrected(0.1, mode=survey)
    run = fx.simulate(GAME, method, rounds=2, clients=3, cohort=2)
    np.testing.assert_array_equal(run.history["bytes_up"], 8 * (2 * (10 + 9) + up) * np.arange(3))
    np.testing.assert_array_equal(run.history["bytes_down"], 8 * (2 * 10 + down) * np.arange(3))
