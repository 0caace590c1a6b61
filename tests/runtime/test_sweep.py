"""Step sizes: grids, tuning by a stated rule, and the ones that find themselves."""

from typing import ClassVar

import jax
import numpy as np
import pytest

import fedualex as fx
from fedualex.problems import AbstractOracle

RNG = np.random.default_rng(0)
PSI = fx.L1(0.1) + fx.Box(0.5)
GAME = fx.problems.bilinear(RNG.normal(size=(4, 6)), RNG.normal(size=4), x=PSI, y=PSI)
SMALL = {"clients": 3, "local_steps": 2, "rounds": 10, "noise": fx.GaussianNoise(0.01)}

MULTIPLES = [0.1, 0.3, 1.0, 3.0, 10.0]


class Counting(AbstractOracle):
    """Counts how often it is traced."""

    traces: ClassVar[list[int]] = []

    def __call__(self, problem, client, z, key):
        Counting.traces.append(1)
        return problem.client_operator(client, z)


@pytest.mark.slow
def test_a_sweep_is_one_run_for_each_point_and_seed():
    grid = {"eta_c": [0.3, 0.1], "eta_s": [1.0, 0.5]}
    points = fx.sweep(GAME, fx.FeDualEx(), grid=grid, seeds=(0, 1), **SMALL)
    assert [(point.steps["eta_c"], point.steps["eta_s"], point.seed) for point in points] == [
        (eta_c, eta_s, seed) for eta_c in grid["eta_c"] for eta_s in grid["eta_s"] for seed in (0, 1)
    ]
    alone = fx.simulate(GAME, fx.FeDualEx(0.1, 0.5), seed=1, **SMALL)
    for one, other in zip(jax.tree.leaves(points[-1].run.z), jax.tree.leaves(alone.z), strict=True):
        assert np.array_equal(one, other)


def test_a_sweep_compiles_once():
    options = {**SMALL, "noise": Counting()}
    fx.sweep(GAME, fx.FeDualEx(), grid={"eta_c": [0.3]}, **options)
    Counting.traces.clear()
    fx.sweep(GAME, fx.FeDualEx(), grid={"eta_c": [0.2, 0.1, 0.05]}, seeds=(0, 1, 2), **options)
    assert Counting.traces == []


@pytest.mark.slow
def test_tune_takes_the_smallest_certified_gap():
    tuned = fx.tune(GAME, fx.FeDualEx(), grid={"eta_c": [1e-3, 0.1, 0.3]}, output="client_average", **SMALL)
    assert tuned.score == min(score for _, score in tuned.table)
    assert tuned.steps["eta_c"] > 1e-3
    assert float(tuned.method.eta_c) == tuned.steps["eta_c"]


@pytest.mark.slow
def test_tune_without_a_grid_tries_multiples_of_the_steps_of_theory():
    tuned = fx.tune(GAME, fx.FeDualEx(), **SMALL)
    chosen = float(fx.simulate(GAME, fx.FeDualEx(), **SMALL).steps.split("=")[1].split()[0])
    assert [steps["eta_c"] for steps, _ in tuned.table] == pytest.approx(np.outer(MULTIPLES, chosen)[:, 0], rel=1e-3)
    assert tuned.score == min(score for _, score in tuned.table)
    assert float(tuned.method.eta_s) == 1.0


@pytest.mark.slow
def test_tune_without_a_grid_combines_all_step_sizes_that_were_left_out():
    both = fx.tune(GAME, fx.ChambollePock(), steps=5)
    assert len(both.table) == 25
    one = fx.tune(GAME, fx.ChambollePock(tau_x=0.1), steps=5)
    assert [set(steps) for steps, _ in one.table] == [{"tau_y"}] * 5
    assert float(one.method.tau_x) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fx.tune(GAME, fx.FeDualSlide(), **SMALL), "nothing to tune: FeDualSlide has no step sizes"),
        (lambda: fx.tune(GAME, fx.FeDualEx(0.1), **SMALL), "nothing to tune: this FeDualEx has all its step sizes"),
        (
            lambda: fx.sweep(GAME, fx.FeDualEx(), grid={"eta": [0.1]}, **SMALL),
            "FeDualEx has the step sizes eta_c, eta_s",
        ),
        (lambda: fx.sweep(GAME, fx.FeDualEx(), grid={"eta_c": [-0.1]}, **SMALL), "eta_c must be a number > 0"),
        (lambda: fx.simulate(GAME, fx.FeDualEx(), round=3), "there is no option 'round'; did you mean 'rounds'?"),
        (lambda: fx.tune(GAME, fx.FeDualEx(), grid={"eta_c": [0.1]}, output="best", **SMALL), "output must be one of"),
        (
            lambda: fx.tune(
                fx.problems.bilinear(np.eye(2), np.ones(2), x=fx.L1(1.0), y=fx.Box(1.0)),
                fx.FeDualEx(),
                grid={"eta_c": [0.1]},
                **SMALL,
            ),
            "this problem has none",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises((TypeError, ValueError), match=message) as refused:
        call()
    assert "\n" not in str(refused.value)


# --- steps that find themselves ------------------------------------------------------------------------------------


@pytest.mark.parametrize("eta", [100.0, 1.0, 1e-4])
@pytest.mark.parametrize("method", [fx.AdaptiveDualExtrapolation, lambda eta: fx.BacktrackingCoMP(eta, growth=1.05)])
def test_adaptive_steps_obey_their_bound_from_any_start(method, eta):
    """gap(mean half point) <= B0 / (sum of accepted steps), at every record, with steps near 1 / beta."""
    run = fx.simulate(GAME, method(eta), steps=300, record_every=300)
    constants = fx.theory.constants(GAME)
    assert run.outputs["ergodic"].gap <= constants.B0 / float(run.state.sums.weight) * (1 + 1e-9)
    assert float(run.state.sums.weight) > 150 * 0.5 / constants.beta


def test_the_weight_of_psi_is_the_sum_of_accepted_steps():
    run = fx.simulate(GAME, fx.AdaptiveDualExtrapolation(), steps=50, record_every=50)
    assert float(run.state.server.dual.tau) == pytest.approx(float(run.state.sums.weight), rel=1e-12)


def test_backtracking_only_goes_down_and_stops_near_one_over_beta():
    run = fx.simulate(GAME, fx.BacktrackingDualExtrapolation(64.0), steps=100, record_every=100)
    beta = fx.theory.constants(GAME).beta
    assert 0.5 / beta <= float(run.state.server.eta) <= 8 / beta


@pytest.mark.slow
def test_adaptive_steps_match_the_best_fixed_step_on_the_papers_game():
    """After 2000 operator calls, at most 1.5 times the certificate of the best step of the grid that is <= 1/beta."""
    game = fx.problems.paper_l1(0)
    options = {"steps": 1000, "record_every": 1000}
    fixed = fx.sweep(game, fx.CompositeDualExtrapolation(), grid={"eta_c": [0.03, 0.01, 0.003, 0.001]}, **options)
    best = min(point.run.outputs["ergodic"].gap for point in fixed)
    for eta in (1.0, 1e-4):
        adaptive = fx.simulate(game, fx.AdaptiveDualExtrapolation(eta), **options)
        assert adaptive.outputs["ergodic"].gap <= 1.5 * best


# --- full size -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("eta_c", "last", "ergodic"), [(0.03, (0.179, 0.69), (0.053, 0.96)), (0.01, (0.212, 0.70), (0.0136, 0.99))]
)
def test_reference_points_of_the_papers_game(eta_c, last, ergodic):
    """Gap and density at K = 10, R = 500, M = 100, sigma = 0.1 within 30% of those measured before, on another seed."""
    game = fx.problems.paper_l1(3)
    rng = np.random.default_rng(3)
    z0 = fx.Saddle(rng.uniform(-0.05, 0.05, 600), rng.uniform(-0.05, 0.05, 300))
    run = fx.simulate(
        game,
        fx.FeDualEx(eta_c),
        clients=100,
        local_steps=10,
        rounds=500,
        noise=fx.GaussianNoise(0.1),
        z0=z0,
        seed=3,
        record_every=100,
    )
    for name, (gap, density) in {"last": last, "ergodic": ergodic}.items():
        assert run.outputs[name].gap == pytest.approx(gap, rel=0.3)
        assert run.outputs[name].density == pytest.approx(density, rel=0.3)


def test_a_sweep_that_is_interrupted_is_interrupted():
    def stop(record):
        raise KeyboardInterrupt

    game = fx.problems.bilinear(np.eye(2), np.ones(2), x=fx.Box(1.0), y=fx.Box(1.0))
    with pytest.raises(KeyboardInterrupt):
        fx.tune(game, fx.FeDualEx(), grid={"eta_c": [0.1, 0.2]}, rounds=5, clients=2, callback=stop)
    for options, message in [
        ({"grid": {"eta_c": [0.1]}, "checkpoint": "c.npz"}, "checkpoint is of one run"),
        ({"grid": {"eta_c": []}}, r"grid\['eta_c'\] must be a list of step sizes, got \[\]"),
        ({"grid": {}}, "grid must name step sizes of eta_c, eta_s"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            fx.sweep(game, fx.FeDualEx(), rounds=2, clients=2, **options)


def test_options_of_one_run_are_refused_and_not_ignored():
    grid = {"eta_c": [0.1]}
    with pytest.raises(TypeError, match="seed is of one run: give seeds="):
        fx.sweep(GAME, fx.FeDualEx(), grid=grid, seed=3, **SMALL)
    for function in (fx.sweep, fx.tune):
        with pytest.raises(TypeError, match="checkpoint is of one run"):
            function(GAME, fx.FeDualEx(), grid=grid, checkpoint="run.npz", **SMALL)
