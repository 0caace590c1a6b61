"""The precision of rounds that nobody asked for: by the operators, the same as if it were asked for, and said."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.games import GAME

import fedualex as fx
from fedualex import tree
from fedualex.compiling import double
from fedualex.problems import AbstractOracle
from fedualex.runtime.clients import is_due
from fedualex.runtime.options import RunOptions
from fedualex.runtime.prepare import choose_precision

METHOD = fx.FeDualEx(0.1)
OPTIONS = {"rounds": 4, "record_every": 2, "clients": 3, "noise": fx.GaussianNoise(0.1)}


class Shifted(AbstractOracle):
    """An oracle of a user, who says nothing about noise."""

    def __call__(self, problem, client, z, key):
        return jax.tree.map(lambda leaf: leaf + 1, problem.client_operator(client, z))


@pytest.mark.parametrize(
    ("method", "options", "dtype", "reason"),
    [
        (METHOD, {}, "float64", "operators are exact"),
        (METHOD, {"noise": fx.GaussianNoise(0.1)}, "float32", "operators are noisy"),
        (METHOD, {"noise": fx.Minibatch(2)}, "float32", "operators are noisy"),
        (METHOD, {"noise": fx.GaussianNoise(0.0)}, "float64", "operators are exact"),
        (METHOD, {"noise": Shifted()}, "float64", "operators are exact"),
        (fx.FeDualSlide(), {"noise": fx.Minibatch(2)}, "float64", "the method works with exact operators"),
        (METHOD, {"noise": fx.GaussianNoise(0.1), "dtype": float}, "float64", "as was asked for"),
        (METHOD, {"dtype": np.float32}, "float32", "as was asked for"),
    ],
)
def test_operators_decide_unless_one_is_asked_for(method, options, dtype, reason):
    found, why = choose_precision(method, RunOptions(**options))
    assert (found, why.startswith(dtype), reason in why) == (dtype, True, True)


def kinds(run):
    return {str(leaf.dtype) for leaf in jax.tree.leaves(run.state.server)}


def equal_states(one, other):
    for leaf, expected in zip(jax.tree.leaves(one.state), jax.tree.leaves(other.state), strict=True):
        np.testing.assert_array_equal(leaf, expected)


def test_a_noisy_run_is_in_float32_with_the_bits_of_one_that_asks_for_it(tmp_path):
    file = tmp_path / "run"
    first = fx.simulate(GAME, METHOD, **OPTIONS, checkpoint=file, callback=lambda record: record["round"] == 2)
    assert (first.rounds, kinds(first)) == (2, {"float32"})
    resumed, asked = (
        fx.simulate(GAME, METHOD, **OPTIONS, **more) for more in ({"checkpoint": file}, {"dtype": "float32"})
    )
    equal_states(resumed, asked)
    assert (resumed.precision, asked.precision) == ("float32: operators are noisy", "float32, as was asked for")
    assert resumed.z.x.dtype == np.float64
    for dtype in ("float32", "float64"):  # the first would keep its precision, the other has another one
        with pytest.raises(ValueError, match=r"belongs to another run: .*precision"):
            fx.simulate(GAME, METHOD, **OPTIONS, dtype=dtype, checkpoint=file)


@pytest.mark.parametrize(
    ("before", "after", "due"),
    [(0, 10, False), (0, 16, True), (10, 20, True), (16, 255, False), (255, 256, True), (300, 4000, False)],
)
def test_precision_is_looked_at_after_16_rounds_and_16_times_as_many(before, after, due):
    assert is_due(before, after) is due


QUIET = OPTIONS | {"rounds": 40, "record_every": 5, "noise": fx.GaussianNoise(1e-7)}


def test_rounds_continue_in_float64_once_their_rounding_shows(tmp_path):
    """Noise of 1e-7 is below float32's rounding from the start; of 0.1 it is far above it."""
    whole = fx.simulate(GAME, METHOD, **QUIET)
    assert whole.precision.startswith("float32: operators are noisy; float64 after round 20,")
    assert kinds(whole) == {"float64"}
    narrow, wide = (fx.simulate(GAME, METHOD, **QUIET, dtype=dtype) for dtype in ("float32", "float64"))
    assert (kinds(narrow), narrow.precision) == ({"float32"}, "float32, as was asked for")
    # Twenty rounds of float32's bytes, then twice as many bytes a round.
    assert whole.history["bytes_up"][-1] == narrow.history["bytes_up"][4] + wide.history["bytes_up"][4]
    file = tmp_path / "run"
    for last in (20, 30):  # right after the change, and later
        fx.simulate(GAME, METHOD, **QUIET, checkpoint=file, callback=lambda record, last=last: record["round"] == last)
    resumed = fx.simulate(GAME, METHOD, **QUIET, checkpoint=file)
    equal_states(resumed, whole)
    assert resumed.precision == whole.precision
    np.testing.assert_array_equal(resumed.history["bytes_down"], whole.history["bytes_down"])


def test_float64_of_numpy_is_a_precision_to_cast_to():
    """It equals None, which means no change."""
    with double():
        assert tree.cast(jnp.ones(2, jnp.float32), np.dtype("float64")).dtype == np.float64


@pytest.mark.slow
def test_a_long_run_with_little_noise_is_not_limited_by_float32():
    """The dual state grows to 3e4, so that its rounding in float32 is as large as the noise of a round."""
    rng = np.random.default_rng(0)
    psi = fx.L1(0.1) + fx.Box(1.0)
    long = fx.problems.bilinear(rng.normal(size=(30, 40)) / 6, rng.normal(size=30), x=psi, y=psi)
    options = {"rounds": 30_000, "clients": 10, "local_steps": 2, "noise": fx.GaussianNoise(0.01)}
    chosen, narrow = (fx.simulate(long, fx.FeDualEx(0.3), **options, dtype=dtype) for dtype in (None, "float32"))
    assert chosen.gap < 0.75 * narrow.gap


@pytest.mark.slow
def test_a_deployed_run_has_the_precision_of_a_simulated_one():
    options = {name: value for name, value in OPTIONS.items() if name != "clients"}
    run = fx.deploy.run(GAME, METHOD, sites=3, **options)
    assert (run.precision, kinds(run)) == ("float32: operators are noisy", {"float32"})
