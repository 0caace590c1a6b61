"""The simulator: statuses, outputs, records, randomness, options, recompilation, memory, and heterogeneous clients."""

import io
import subprocess
import sys

import equinox as eqx
import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from support.references import digits

import fedualex as fx
from fedualex.precision import double
from fedualex.runtime import progress as progress_module
from fedualex.runtime import rules
from fedualex.runtime.rounds import draw_cohort
from fedualex.runtime.state import Setup

Status, Stop = fx.Status, fx.Stop
NAMES = {"last", "clients", "ergodic", "polished"}
PSI = fx.L1(0.1) + fx.Box(0.5)
SIZES = {"clients": 3, "local_steps": 2}


def game(seed=0, rows=4, columns=5):
    rng = np.random.default_rng(seed)
    return fx.problems.bilinear(rng.uniform(-1, 1, (rows, columns)), rng.uniform(-1, 1, rows), x=PSI, y=PSI)


GAME = game()


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


# --- statuses ------------------------------------------------------------------------------------------------------


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


def few_digits(l1):
    """Fifteen clients with one or two kinds of digits each; with l1 = 0.2, no weights at all are nearly a solution."""
    return fx.problems.agnostic(*digits(rows=300), l1=l1, kl=0.01)


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
    records = [{"round": r, "seconds": 0.0, "gap_last": gap, "gap_ergodic": 2 * gap} for r, gap in enumerate(gaps)]
    best = [rules.best_gap(record, options.get("output")) for record in records]
    return rules.stop_of(best, rounds=rounds, record_every=1, tol=options.get("tol"))


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


def root(x, y):
    """Not finite for x > 1/2, which is inside the domain; convex-concave to the left of it."""
    return jnp.sum(-jnp.sqrt(0.5 - x) - 5 * x) + 0.01 * jnp.sum(x) * jnp.sum(y) - jnp.sum(y**2)


ROOT = fx.Problem(root, x=fx.Box(1.0), y=fx.Box(1.0), like=fx.Saddle(np.zeros(2), np.zeros(2)))


@pytest.mark.sampled(4)
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
    for name, expected in (("clients", mean), ("ergodic", mean), ("last", last)):
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

ALWAYS = {"round", "seconds", "bytes_up", "bytes_down"}


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
    [("none", 0, 0), ("fresh", 3 * 9, (3 + 2) * 9), ("stale", 3 * 9, (3 + 2) * 9)],
)
def test_bytes_are_the_formula(survey, up, down):
    """Down: omega (9) and tau to 2 of 3 clients; up: the increment and the sum of points. Surveys: all 3 send g_m."""
    method = fx.FeDualEx(0.1) if survey == "none" else fx.FeDualExCorrected(0.1, mode=survey)
    run = fx.simulate(GAME, method, rounds=2, clients=3, cohort=2)
    np.testing.assert_array_equal(run.history["bytes_up"], 8 * (2 * (10 + 9) + up) * np.arange(3))
    np.testing.assert_array_equal(run.history["bytes_down"], 8 * (2 * 10 + down) * np.arange(3))


# --- the result does not depend on how it is computed --------------------------------------------------------------


def coupled(x, y, example):
    feature, target = example
    return (feature @ x - target) ** 2 / 2 + (feature @ x) * jnp.sum(y) - jnp.sum(y**2) / 2


def unequal(weights="samples"):
    rng = np.random.default_rng(1)
    data = [(rng.normal(size=(n, 3)), rng.normal(size=n)) for n in (4, 1, 6, 2, 3)]
    like = fx.Saddle(np.zeros(3), np.zeros(2))
    return fx.Problem(coupled, x=PSI, y=fx.L2Ball(1.0), like=like, data=data, weights=weights)


@pytest.mark.slow
def test_chunks_change_nothing():
    problem = unequal()
    options = {"rounds": 4, "cohort": 4, "local_steps": [1, 3, 2, 2, 1], "noise": fx.Minibatch(2), "seed": 3}
    runs = [fx.simulate(problem, fx.FeDualEx(0.05), **options, chunk=chunk) for chunk in (1, 3, 100)]
    for run in runs[1:]:
        assert_close(run, runs[0], 1e-12)
        for name in NAMES:
            assert run.outputs[name].gap == pytest.approx(runs[0].outputs[name].gap, rel=1e-11)


@pytest.mark.slow
def test_chunks_change_nothing_for_clients_with_memory():
    options = {"rounds": 3, "cohort": 4, "clients": 5, "local_steps": 2, "noise": fx.GaussianNoise(0.1)}
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


# --- step sizes, precision, compilation, progress ------------------------------------------------------------------


@pytest.mark.slow
def test_theory_steps_are_reported():
    assert simulate().steps == ""
    run = fx.simulate(GAME, fx.FeDualEx(), rounds=6, **SIZES, noise=fx.GaussianNoise(0.1))
    constants = fx.theory.constants(GAME, fx.GaussianNoise(0.1))
    best = fx.theory.proposition_b(constants, clients=3, local_steps=2, rounds=6).best_step
    assert run.steps.startswith(f"eta_c={best:.4g} (proposition B; beta=")
    same = simulate(best, noise=fx.GaussianNoise(0.1))
    np.testing.assert_allclose(run.z.x, same.z.x, rtol=1e-13, atol=1e-15)
    heuristic = fx.simulate(few_digits(0.2), fx.FeDualEx(), rounds=2, local_steps=10)
    assert "heuristic: the step of proposition B" in heuristic.steps


COMPILED = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: COMPILED.append(event) if "backend_compile" in event else None
)


def test_new_numbers_never_recompile():
    noise = fx.GaussianNoise(0.1)
    options = {"rounds": 6, "record_every": 2, **SIZES}
    fx.solve(GAME, fx.FeDualEx(0.1, eta_s=0.9), noise=noise, tol=1e-9, **options)
    fx.solve(GAME, fx.FeDualEx(), noise=noise, tol=1e-9, **options)
    COMPILED.clear()
    fx.solve(GAME, fx.FeDualEx(0.2, eta_s=0.8), noise=noise, tol=1e-8, seed=5, **options)
    fx.solve(GAME, fx.FeDualEx(), noise=fx.GaussianNoise(0.2), tol=1e-9, seed=6, **options)
    fx.solve(game(7), fx.FeDualEx(0.2), noise=noise, tol=1e-8, **options)
    fx.solve(GAME, fx.FeDualEx(0.2), noise=noise, tol=1e-8, z0=fx.Saddle(np.ones(5), np.ones(4)), **options)
    fx.simulate(GAME, fx.FeDualEx(0.2), noise=noise, **(options | {"rounds": 9, "record_every": 4}))
    assert COMPILED == []


class Counting(fx.problems.AbstractOracle):
    """The exact operator; counts how often it is traced."""

    traces = []  # noqa: RUF012

    def __call__(self, problem, client, z, key):
        Counting.traces.append(1)
        return problem.client_operator(client, z)


def test_a_run_traces_its_rounds_once():
    Counting.traces.clear()
    simulate(rounds=3, record_every=1, noise=Counting())
    once = len(Counting.traces)
    simulate(0.2, rounds=5, record_every=2, noise=Counting(), seed=4)
    assert len(Counting.traces) == once
    assert once <= 4  # two samples in a local step; fori_loop and scan may look at their body twice


def test_the_users_precision_is_untouched():
    before = jax.config.read("jax_enable_x64")
    simulate()
    with pytest.raises(ValueError, match="rounds must be"):
        simulate(rounds=0)
    with pytest.raises(RuntimeError):
        simulate(callback=lambda record: (_ for _ in ()).throw(RuntimeError))
    assert jax.config.read("jax_enable_x64") == before
    assert jnp.zeros(1).dtype == jnp.result_type(float)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_programs_are_dropped_before_a_process_runs_out_of_memory_maps(tmp_path):
    program = """
from pathlib import Path
import numpy as np, fedualex as fx
from fedualex.runtime import compilation
def maps_after(size):
    game = fx.problems.bilinear(np.ones((2, size)), np.ones(2), x=fx.Box(1.0), y=fx.Box(1.0))
    fx.simulate(game, fx.FeDualEx(0.1), rounds=2)
    return compilation.MAPS.read_text().count("\\n")
one, two, three = map(maps_after, (3, 4, 5))
compilation.LIMIT = Path("limit")
compilation.LIMIT.write_text(str(three))
print(one < two < three, maps_after(6) < two)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=250, check=True
    )
    assert done.stdout.split() == ["True", "True"]


def test_no_progress_where_there_is_no_terminal(capfd):
    simulate()
    assert capfd.readouterr() == ("", "")


def test_progress_on_a_terminal(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(
        progress_module, "Console", lambda **_: Console(file=screen, force_terminal=True, width=100, color_system=None)
    )
    simulate(rounds=6)
    assert "6/6" in screen.getvalue()
    assert "gap <= " in screen.getvalue()
    assert "rounds/s" in screen.getvalue()


# --- bad options ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"problem": "game"}, "problem must be a problem such as .*, got 'game'"),
        ({"method": fx.FeDualEx}, "method must be a method such as"),
        ({"rounds": None}, "give either rounds= .* or steps="),
        ({"steps": 4}, "give either rounds= .* or steps="),
        ({"rounds": None, "steps": 4}, "steps= means one client and one local step"),
        ({"rounds": 0}, "rounds must be a whole number >= 1, got 0"),
        ({"rounds": 2.5}, "rounds must be a whole number >= 1, got 2.5"),
        ({"rounds": True}, "rounds must be a whole number >= 1, got True"),
        ({"clients": 0}, "clients must be a whole number >= 1, got 0"),
        ({"clients": 4, "problem": unequal()}, "clients must be 5, as many as the problem's data has, got 4"),
        ({"cohort": 4}, "cohort must be at most the number of clients, 3, got 4"),
        ({"cohort": 0}, "cohort must be a whole number >= 1, got 0"),
        ({"local_steps": 0}, "local_steps must be a whole number >= 1.*got 0"),
        ({"local_steps": [1, 2]}, r"local_steps must be .* one for each of 3 clients, got \[1, 2\]"),
        ({"local_steps": 1.5}, "local_steps must be a whole number >= 1.*got 1.5"),
        ({"method": fx.ChambollePock(0.1, 0.1)}, "ChambollePock is a method for one machine: use steps="),
        ({"method": fx.SynchronousMirrorProx(0.1)}, "SynchronousMirrorProx takes local_steps=1, got 2"),
        ({"output": "best"}, "output must be one of 'last', 'ergodic', 'clients', 'polished', got 'best'"),
        ({"init": "zero"}, "init must be one of 'project', 'paper', got 'zero'"),
        ({"z0": 3}, r"z0 must be fx.Saddle\(x, y\), got 3"),
        ({"z0": fx.Saddle(np.zeros(4), np.zeros(4))}, r"z0.x must have shape \(5,\), got \(4,\)"),
        ({"noise": 0.1}, "noise must be .*, got 0.1"),
        ({"seed": "a"}, "seed must be .*, got 'a'"),
        ({"seed": 1.5}, "seed must be .*, got 1.5"),
        ({"seed": None}, "seed must be .*, got None"),
        ({"record_every": 0}, "record_every must be a whole number >= 1, got 0"),
        ({"record_every": -1}, "record_every must be a whole number >= 1, got -1"),
        ({"record_every": 1.5}, "record_every must be a whole number >= 1, got 1.5"),
        ({"chunk": 0}, "chunk must be a whole number >= 1, got 0"),
        ({"chunk": -2}, "chunk must be a whole number >= 1, got -2"),
        ({"dtype": "int32"}, "dtype must be .*int32"),
        ({"dtype": "nonsense"}, "dtype must be .*nonsense"),
        ({"callback": 3}, "callback must be .*, got 3"),
        ({"checkpoint": 3}, "checkpoint must be .*, got 3"),
        ({"checkpoint": "/nowhere/at/all"}, "checkpoint must be .*'/nowhere/at/all'"),
        ({"tol": -1.0}, "tol must be a number > 0, got -1.0"),
        ({"tol": np.nan}, "tol must not contain nan"),
        ({"tol": "small"}, "tol must be a number > 0, got 'small'"),
        ({"max_seconds": 0.0}, "max_seconds must be a number > 0, got 0.0"),
        ({"max_seconds": "long"}, "max_seconds must be a number > 0, got 'long'"),
        ({"round": 3}, "round"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(changes, message):
    options = {"problem": GAME, "method": fx.FeDualEx(0.1), "rounds": 3, **SIZES, **changes}
    with pytest.raises((TypeError, ValueError), match=message) as refused:
        fx.solve(options.pop("problem"), options.pop("method"), **options)
    assert "\n" not in str(refused.value)


def test_simulate_has_no_stopping_rule():
    for option in ("tol", "max_seconds"):
        with pytest.raises(TypeError, match=r"use fx\.solve"):
            simulate(**{option: 1.0})


def test_theory_without_constants_asks_for_a_step():
    problem = fx.problems.bilinear(np.zeros((2, 2)), np.zeros(2), x=PSI, y=PSI)
    with pytest.raises(ValueError, match=r"theory gives no step size here .* give eta_c yourself"):
        fx.solve(problem, fx.FeDualEx(), rounds=3)


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


# --- memory --------------------------------------------------------------------------------------------------------

MEASURE = """
import sys
import fedualex as fx

def mebibytes(name):  # unlike ru_maxrss, VmHWM does not begin with the parent's peak
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024

game, noise = fx.problems.paper_l1(), fx.GaussianNoise(0.1)
baseline = mebibytes("VmRSS")
for clients in map(int, sys.argv[1:]):
    fx.simulate(game, fx.FeDualEx(0.03), clients=clients, local_steps=1, rounds=1, noise=noise)
    print(mebibytes("VmHWM") - baseline)
"""


def peaks(*clients):
    """The peak memory in MiB, above what importing took, of a round with so many clients at d = 900."""
    command = [sys.executable, "-c", MEASURE, *map(str, clients)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(line) for line in result.stdout.split()]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_is_flat_in_clients():
    """All at once, 20,000 clients would take 144 MB for every vector they hold, and they hold at least five."""
    (peak,) = peaks(20_000)
    assert peak < 512


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_of_a_million_clients():
    (few,), (many,) = peaks(10_000), peaks(1_000_000)
    print(f"10,000 clients: {few:.0f} MiB, 1,000,000 clients: {many:.0f} MiB above the baseline")
    assert many < 1024
    assert many < few + 128  # ids, weights and steps: 32 bytes a client, some of them twice


# --- what is refused, what is claimed -------------------------------------------------------------------------------


def three_clients(weights="clients"):
    data = [np.full((1, 2), m) for m in (0.0, 1.0, 2.0)]
    like = fx.Saddle(np.zeros(2))
    return fx.Problem(lambda x, e: jnp.sum((x - e) ** 2), x=fx.Box(1.0), like=like, data=data, weights=weights)


@pytest.mark.parametrize(
    ("problem", "options", "message"),
    [
        (
            three_clients([0, 1, 1]),
            {"rounds": 2, "cohort": 1},
            "cohort must be large enough that some client of weight",
        ),
        (three_clients(), {"steps": 2}, "steps= means one client, and the problem has 3: use rounds="),
        (GAME, {"rounds": 2, "seed": 2**63}, r"seed must be a whole number below 2\^63"),
    ],
)
def test_what_cannot_be_run_is_refused(problem, options, message):
    with pytest.raises(ValueError, match=message):
        fx.simulate(problem, fx.FeDualEx(0.1), **options)


def test_huge_weights_are_weights():
    np.testing.assert_allclose(three_clients([1.5e308, 1.5e308, 0]).weights, [0.5, 0.5, 0])


def test_theory_is_named_only_where_it_holds():
    def named(problem=GAME, **options):
        return fx.simulate(problem, fx.FeDualEx(), **{"rounds": 2, "clients": 3, **options}).steps

    assert "(proposition B;" in named()
    assert "(heuristic: the step of proposition B;" in named(local_steps=(1, 3, 2))
    assert "(heuristic: the step of proposition B;" in named(init="paper")
    steep = fx.Problem(lambda x: jnp.sum(jnp.logaddexp(0, 400 * x)) / 400, x=fx.Box(3.0), like=fx.Saddle(np.zeros(1)))
    assert "(heuristic: the step of Theorem 4;" in named(steep, steps=2, rounds=None, clients=None)


def test_another_default_generator_of_jax_changes_nothing():
    expected = fx.simulate(GAME, fx.FeDualEx(0.1), clients=2, rounds=2, noise=fx.GaussianNoise(0.1))
    with jax.default_prng_impl("rbg"):
        run = fx.simulate(GAME, fx.FeDualEx(0.1), clients=2, rounds=2, noise=fx.GaussianNoise(0.1))
    np.testing.assert_array_equal(run.z.x, expected.z.x)


@pytest.mark.parametrize("method", [fx.BacktrackingDualExtrapolation(), fx.BacktrackingCoMP(growth=1.05)], ids=repr)
def test_backtracking_reaches_rounding_in_entropic_geometry(method):
    """Divergences of nearly equal points must not be lost to rounding, or tries are refused at random."""
    game = fx.problems.matrix_game(np.random.default_rng(0).normal(size=(5, 4)))
    assert fx.simulate(game, method, steps=6000).outputs["last"].gap < 1e-12
