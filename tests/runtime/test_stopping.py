"""Statuses of a run: when it stops, what it calls its answer, and what a callback may do."""

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import PSI
from support.simulating import NAMES, Status, Stop, assert_finite, few_digits, simulate, solve

import fedualex as fx
from fedualex.runtime import status as rules


def test_optimal_stops_early_and_returns_the_sparsest_output_that_meets_tol():
    run = solve(rounds=500, tol=1e-3)
    assert run.status is Status.OPTIMAL
    assert run.rounds < 500
    assert run.gap <= 1e-3
    good = [output for output in run.outputs.values() if output.gap <= 1e-3]
    assert run.outputs[run.output].density == min(output.density for output in good)
    assert run.history["round"][-1] == run.rounds
    assert run.stop is Stop.TOLERANCE
    assert str(run).startswith("OPTIMAL, TOLERANCE: certified gap <= ")
    for output in run.outputs.values():
        assert (output.status is Status.OPTIMAL) == (output.gap <= 1e-3)


def test_the_answer_is_the_output_with_the_smallest_certificate():
    for run in (simulate(), solve(tol=1e-9), simulate(rounds=60, noise=fx.GaussianNoise(0.3))):
        assert run.gap == min(output.gap for output in run.outputs.values())
        assert run.z is run.outputs[run.output].z
        assert run.status is Status.CERTIFIED


def test_an_earlier_record_is_the_answer_if_its_certificate_is_smaller():
    """A run that gets worse: a step that is far too large from a good start."""
    start = solve(rounds=300, tol=1e-2).z
    run = simulate(eta=30.0, rounds=6, z0=start)
    assert run.output == "best"
    assert run.best.origin == run.outputs["best"].origin == "last of round 0"
    assert run.gap == run.history["gap_last"][0] < min(run.outputs[name].gap for name in NAMES)
    np.testing.assert_allclose(run.z.x, start.x, atol=1e-15)
    assert "(best: last of round 0)" in str(run)
    forced = simulate(eta=30.0, rounds=6, z0=start, output="last")
    assert forced.output == "last"
    assert forced.gap > forced.best.gap


def test_a_row_that_misses_tol_is_not_called_optimal_whatever_the_run_ended_with():
    gap = solve(rounds=6).gap
    for tol, worth in ((gap / 5, Status.OPTIMAL_INACCURATE), (gap / 50, Status.CERTIFIED)):
        for options, stop in (({}, Stop.MAX_ROUNDS), ({"max_seconds": 1e-9, "record_every": 6}, Stop.MAX_TIME)):
            run = solve(rounds=6, tol=tol, **options)
            assert (run.status, run.stop) == (worth, stop)
            assert str(run).startswith(f"{worth}, {stop}: certified gap <= ")


@pytest.mark.parametrize("output", sorted(NAMES))
def test_optimal_is_said_of_the_output_that_is_returned(output):
    run = solve(rounds=200, tol=8e-3, output=output)
    assert run.output == output
    assert (run.status is Status.OPTIMAL) == (run.gap <= 8e-3)
    assert (run.status is Status.OPTIMAL) == (output != "last")  # whose certificate stalls at 0.1


def test_optimal_inaccurate_within_ten_tol_at_the_end_of_the_budget():
    gap = solve(rounds=6).gap
    run = solve(rounds=6, tol=gap / 5)
    assert run.status is Status.OPTIMAL_INACCURATE
    assert run.rounds == 6
    assert gap / 5 < run.gap <= 2 * gap


def test_max_rounds():
    for run in (simulate(), solve(), solve(tol=1e-9)):
        assert run.stop is Stop.MAX_ROUNDS
        assert run.rounds == 6


def test_max_time_stops_at_the_first_record_beyond_it():
    run = solve(max_seconds=1e-9, record_every=2)
    assert run.stop is Stop.MAX_TIME
    assert run.rounds == 2
    assert run.seconds > 1e-9
    assert solve(max_seconds=3600.0).stop is Stop.MAX_ROUNDS


def test_stalled_when_the_certificate_hardly_improves():
    run = solve(eta=1e-6, rounds=50, tol=1e-9)
    assert run.stop is Stop.STALLED
    assert run.rounds == 11  # the first record that has one a fifth of the budget before it
    assert solve(eta=1e-6, rounds=50).stop is Stop.MAX_ROUNDS  # a stopping rule of tol only


@pytest.mark.slow
def test_diverged_with_too_large_a_step_on_heterogeneous_clients():
    options = {"rounds": 100, "local_steps": 10, "record_every": 2}
    run = fx.solve(few_digits(0.2), fx.FeDualEx(10.0), **options)
    assert run.stop is Stop.DIVERGED
    assert run.rounds == 6
    assert_finite(run)
    run = fx.simulate(few_digits(0.2), fx.FeDualEx(10.0), **(options | {"rounds": 8}))
    assert run.stop is Stop.MAX_ROUNDS  # no stopping rule


def at_gaps(gaps, rounds=100, **options):
    """The verdict on records with these certificates."""
    records = [
        {"round": r, "seconds": 0.0, "gap_last": gap, "gap_ergodic": gap and 2 * gap} for r, gap in enumerate(gaps)
    ]
    for record, bound in zip(records, options.get("bounds", []), strict=False):
        record["gap_bounds"] = bound
    return rules.stop_of(
        records,
        options.get("output"),
        rounds=rounds,
        record_every=options.get("every", 1),
        tol=options.get("tol"),
        patience=options.get("patience", 0),
    )


def test_bounds_cannot_hide_that_points_diverge():
    gaps = [1.0, 11.0, 11.0, 11.0]
    assert at_gaps(gaps, bounds=[1.0] * 4) is Stop.DIVERGED
    assert at_gaps(gaps, bounds=[1.0, 0.9, 0.8, 0.7]) is None  # these still become better
    assert at_gaps([None] * 4, bounds=[1.0] * 4) is None


@pytest.mark.parametrize(
    ("gaps", "tol", "status"),
    [
        ([1.0, 11.0, 11.0, 11.0], None, Stop.DIVERGED),
        ([1.0, 11.0, 11.0, 9.0], None, None),
        ([1.0, 11.0, 11.0], None, None),
        ([1.0, 11.0, 9.0, 11.0, 11.0], None, None),
        ([1.0, 0.1, 0.5, 2.0, 2.0, 2.0], None, Stop.DIVERGED),
        ([1.0, 0.5, 0.1], 0.1, Stop.TOLERANCE),
        ([1.0, 0.5, 0.1], 0.09, None),
        ([1.0] * 21, 0.1, Stop.STALLED),
        ([1.0] * 20, 0.1, None),
        ([1.0] * 21, None, None),
        (list(0.999 ** np.arange(40)), 0.1, None),
        (list(0.9999 ** np.arange(40)), 0.1, Stop.STALLED),
        # Certificates at rounding level go up and down by any factor, and below 0.
        ([1.0, 1e-17, 3e-16, 3e-16, 3e-16], None, None),
        ([1.0, -1e-17, 3e-16, 3e-16, 3e-16], None, None),
        ([1.0, -1e-17, -3e-16, -3e-17, -3e-16], None, None),
    ],
)
def test_verdict_on_records(gaps, tol, status):
    assert at_gaps(gaps, tol=tol) is status


@pytest.mark.parametrize(
    ("records", "every", "status"),
    [(20, 1, None), (40, 1, None), (41, 1, Stop.STALLED), (14, 3, None), (15, 3, Stop.STALLED)],
)
def test_no_run_is_called_stalled_before_the_patience_of_its_method(records, every, status):
    assert at_gaps([1.0] * records, rounds=60, tol=0.1, every=every, patience=40) is status


def root(x, y):
    """Not finite for x > 1/2, which is inside the domain; convex-concave to the left of it."""
    return jnp.sum(-jnp.sqrt(0.5 - x) - 5 * x) + 0.01 * jnp.sum(x) * jnp.sum(y) - jnp.sum(y**2)


ROOT = fx.Problem(root, x=fx.Box(1.0), y=fx.Box(1.0), like=fx.Saddle(np.zeros(2), np.zeros(2)))


@pytest.mark.slow
@pytest.mark.parametrize("record_every", [1, 3, 40])
@pytest.mark.parametrize("eta", [0.02, 0.035, 0.05])
def test_numerical_error_returns_the_last_good_point(record_every, eta):
    run = simulate(eta, 40, ROOT, clients=1, local_steps=1, record_every=record_every)
    assert run.stop is Stop.NUMERICAL_ERROR
    assert run.rounds == run.history["round"][-1] < 40
    assert_finite(run)
    if record_every == 1:
        assert run.rounds > 1
        assert np.all(run.outputs["last"].z.x <= 0.5)
    assert {output.gap is None for output in run.outputs.values()} == {False}


def test_uncertified_on_an_unbounded_domain():
    problem = fx.problems.bilinear(np.eye(3), np.ones(3), x=fx.L1(0.1), y=PSI)
    runs = [fx.simulate(problem, fx.FeDualEx(0.1), rounds=5), fx.solve(problem, fx.FeDualEx(0.1), rounds=5, tol=0.1)]
    for run in runs:
        assert run.status is Status.UNCERTIFIED
        assert run.gap is None
        assert "unbounded" in run.outputs["last"].certificate.reason
        assert run.output == "polished"
        assert all(gap is None for gap in run.history["gap_last"])
        assert_finite(run)
        assert str(run).startswith("UNCERTIFIED, MAX_ROUNDS: not certifiable: the domain is unbounded in x")


@pytest.mark.parametrize("at", [0, 2])
def test_interrupted_returns_what_is_there(at):
    def stop(record):
        if record["round"] == at:
            raise KeyboardInterrupt

    run = simulate(callback=stop)
    assert run.stop is Stop.INTERRUPTED
    assert run.rounds == run.history["round"][-1] == at
    assert set(run.outputs) == NAMES
    assert run.gap == simulate(rounds=at or 1).gap or at == 0


def test_a_callback_stops_the_run_by_returning_true_and_nothing_else():
    run = simulate(callback=lambda record: record["round"] == 2)
    assert (run.stop, run.rounds) == (Stop.INTERRUPTED, 2)
    assert "the callback returned True" in str(run)
    assert simulate(callback=lambda record: 1).stop is Stop.MAX_ROUNDS


def test_what_a_callback_does_to_its_record_is_its_own_affair():
    """One that rounded gaps for display once forged OPTIMAL."""

    def forge(record):
        for key in record:
            if key.startswith("gap_"):
                record[key] = 0.0
        record["rank_last"] = "forged"

    run, honest = solve(tol=1e-9, callback=forge), solve(tol=1e-9)
    assert (run.status, run.stop, run.gap) == (honest.status, honest.stop, honest.gap)
    assert run.status is not Status.OPTIMAL
    np.testing.assert_array_equal(run.history["gap_last"], honest.history["gap_last"])


@pytest.mark.parametrize("kind", [RuntimeError, FloatingPointError])
def test_other_exceptions_of_a_callback_are_the_users(kind):
    def fail(record):
        raise kind("mine")

    with pytest.raises(kind, match="mine"):
        simulate(callback=fail)


@pytest.mark.parametrize("double", [False, True])
def test_a_callback_runs_in_the_precision_of_its_user(double):
    seen = []
    with jax.enable_x64(double):
        simulate(callback=lambda record: seen.append(jnp.zeros(1).dtype))
    assert set(map(str, seen)) == {"float64" if double else "float32"}
