"""Runs that are asked for exchange by exchange: counting, resuming, stopping."""

import jax.numpy as jnp
import numpy as np
import pytest
from support.checkpointed import digest, stop_at
from support.plain_rows import OWNER, TWO, X, rows

import fedualex as fx


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("mode", "steps"), [("survey", 1), ("auto", 3), ("local", 3)])
def test_a_resumed_run_is_the_undisturbed_one(tmp_path, mode, steps):
    def run(**more):
        method = fx.FeDualSlide(mode=mode)
        return fx.simulate(rows("agnostic"), method, rounds=14, local_steps=steps, record_every=2, **more)

    file = tmp_path / "run"
    half = run(checkpoint=file, callback=stop_at(6))
    assert half.stop is fx.Stop.INTERRUPTED
    whole = run()
    again = run(checkpoint=file)
    assert digest(again) == digest(whole)
    assert again.gap == whole.gap
    np.testing.assert_array_equal(again.z.x["weights"], whole.z.x["weights"])
    # The server's clock goes on from where it stood.
    assert np.all(np.diff(again.history["server_seconds"]) > 0)
    assert half.server_seconds < again.server_seconds < again.seconds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "a_round"),
    [
        (fx.FeDualEx(0.1), 1),
        (fx.FeDualExCorrected(0.1), 2),
        (fx.FeDualExCorrected(0.1, mode="stale"), 1),
        (fx.FeDualSlide(), 1),
    ],
)
def test_exchanges_are_counted(method, a_round):
    run = fx.simulate(rows("agnostic"), method, rounds=4, record_every=1)
    np.testing.assert_array_equal(run.history["exchanges"], a_round * run.history["round"])
    assert run.exchanges == 4 * a_round


def test_only_methods_that_decide_on_exchanges_have_seconds_of_the_server():
    game = fx.problems.bilinear(np.eye(2), np.zeros(2), x=fx.Box(1.0), y=fx.Box(1.0))
    run = fx.simulate(game, fx.FeDualEx(0.1), rounds=1)
    assert run.server_seconds is None
    assert "server_seconds" not in run.history


def test_bytes_follow_from_the_exchanges():
    run = fx.simulate(rows("agnostic"), fx.FeDualSlide(mode="local"), rounds=5, local_steps=3, record_every=1)
    server, d = run.state.server, 4 + 1 + 3
    assert (int(server.surveys), int(server.local_rounds)) == (3, 2)
    assert run.history["bytes_up"][-1] == 3 * 8 * (3 * (d + 1) + 2 * (d + 1))


def test_a_run_ends_with_the_exchange_that_meets_tol():
    few, many = (
        fx.solve(rows("agnostic"), fx.FeDualSlide(), rounds=rounds, local_steps=3, tol=1e-2) for rounds in (400, 4000)
    )
    assert few.stop is many.stop is fx.Stop.TOLERANCE
    assert few.rounds == many.rounds
    assert few.history["round"][-1] == few.rounds


@pytest.mark.slow
def test_a_run_with_few_rounds_waits_until_its_phase_has_ended(monkeypatch):
    """Of 20 rounds a fifth is 4. Without patience a plateau ends the run; with it the run goes on and improves."""
    few = {"rounds": 20, "tol": 1e-9, "record_every": 1}
    problem = fx.problems.agnostic(X + 30, TWO, OWNER, l1=0.001)  # columns far from 0 are slow at first
    run = fx.solve(problem, fx.FeDualSlide(), **few)
    monkeypatch.setattr(fx.FeDualSlide, "patience", 0)
    hasty = fx.solve(problem, fx.FeDualSlide(), **few)
    assert hasty.stop is fx.Stop.STALLED
    assert run.stop is fx.Stop.MAX_ROUNDS
    assert run.gap < hasty.gap


@pytest.mark.slow
def test_rounds_in_float32_are_certified_in_float64():
    run = fx.solve(rows("auc"), fx.FeDualSlide(mode="local"), rounds=100, local_steps=3, tol=1e-2, dtype="float32")
    assert run.status is fx.Status.OPTIMAL
    assert run.z.x["weights"].dtype == np.float64


@pytest.mark.slow
def test_other_methods_have_bounds_as_well():
    run = fx.simulate(rows("agnostic"), fx.FeDualExCorrected(0.1), rounds=20)
    own = np.min([run.history[f"gap_{name}"] for name in ("last", "ergodic")], axis=0)
    assert np.all(np.diff(run.history["gap_bounds"]) <= 1e-12)
    assert run.history["gap_bounds"][-1] <= own.min() + 1e-9


def test_an_operator_that_is_not_finite_ends_the_run_with_what_is_certified():
    def loss(x, example):
        return jnp.where(x[0] > 0.5, jnp.nan, 0.5 * (x[0] - 3 * example) ** 2)

    data, like = [np.ones(2), np.ones(3)], fx.Saddle(np.zeros(1))
    problem = fx.Problem(loss, x=fx.Box(4.0), like=like, data=data)
    run = fx.solve(problem, fx.FeDualSlide(), rounds=20, convexity="trust")
    assert run.stop is fx.Stop.NUMERICAL_ERROR
    assert run.rounds >= 1
    assert run.gap is not None
