"""What the simulator refuses, and what it claims of what it runs."""

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import GAME, PSI
from support.simulating import SIZES, simulate, unequal

import fedualex as fx

# --- bad options ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"problem": "game"}, "problem must be a problem such as .*, got 'game'"),
        ({"method": fx.FeDualEx}, "method must be a method such as"),
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
        (
            {"output": "best"},
            "output must be one of 'last', 'ergodic', 'client_average', 'bounds', 'polished', got 'best'",
        ),
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


@pytest.mark.slow
def test_theory_is_named_only_where_it_holds():
    def named(problem=GAME, **options):
        return fx.simulate(problem, fx.FeDualEx(), **{"rounds": 2, "clients": 3, **options}).steps

    assert "(proposition B;" in named()
    assert "(heuristic: the step of proposition B;" in named(local_steps=(1, 3, 2))
    assert "(heuristic: the step of proposition B;" in named(init="paper")
    steep = fx.Problem(lambda x: jnp.sum(jnp.logaddexp(0, 400 * x)) / 400, x=fx.Box(3.0), like=fx.Saddle(np.zeros(1)))
    assert "(heuristic: the step of Theorem 4;" in named(steep, steps=2, rounds=None, clients=None)


@pytest.mark.slow
def test_another_default_generator_of_jax_changes_nothing():
    expected = fx.simulate(GAME, fx.FeDualEx(0.1), clients=2, rounds=2, noise=fx.GaussianNoise(0.1))
    with jax.default_prng_impl("rbg"):
        run = fx.simulate(GAME, fx.FeDualEx(0.1), clients=2, rounds=2, noise=fx.GaussianNoise(0.1))
    np.testing.assert_array_equal(run.z.x, expected.z.x)


@pytest.mark.slow
@pytest.mark.parametrize("method", [fx.BacktrackingDualExtrapolation(), fx.BacktrackingCoMP(growth=1.05)], ids=repr)
def test_backtracking_reaches_rounding_in_entropic_geometry(method):
    """Divergences of nearly equal points must not be lost to rounding, or tries are refused at random."""
    game = fx.problems.matrix_game(np.random.default_rng(0).normal(size=(5, 4)))
    assert fx.simulate(game, method, steps=6000).outputs["last"].gap < 1e-12
