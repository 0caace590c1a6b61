"""The precision of rounds that nobody asked for: by the operators, the same as if it were asked for, and said."""

import jax
import numpy as np
import pytest
from support.games import GAME

import fedualex as fx
from fedualex.problems import AbstractOracle
from fedualex.runtime.choice import chosen_precision
from fedualex.runtime.options import RunOptions

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
    found, why = chosen_precision(method, RunOptions(**options))
    assert (found, why.startswith(dtype), reason in why) == (dtype, True, True)


def kinds(run):
    return {str(leaf.dtype) for leaf in jax.tree.leaves(run.state.server)}


def test_a_noisy_run_is_in_float32_with_the_bits_of_one_that_asks_for_it(tmp_path):
    file = tmp_path / "run"
    first = fx.simulate(GAME, METHOD, **OPTIONS, checkpoint=file, callback=lambda record: record["round"] == 2)
    assert (first.rounds, kinds(first)) == (2, {"float32"})
    # Asked for or chosen, it is the same run.
    resumed = fx.simulate(GAME, METHOD, **OPTIONS, dtype="float32", checkpoint=file)
    whole = fx.simulate(GAME, METHOD, **OPTIONS)
    for one, other in zip(jax.tree.leaves(resumed.state), jax.tree.leaves(whole.state), strict=True):
        np.testing.assert_array_equal(one, other)
    assert (whole.precision, resumed.precision) == ("float32: operators are noisy", "float32, as was asked for")
    assert whole.z.x.dtype == np.float64
    with pytest.raises(ValueError, match=r"belongs to another run: .*precision"):
        fx.simulate(GAME, METHOD, **OPTIONS, dtype="float64", checkpoint=file)


@pytest.mark.slow
def test_a_deployed_run_has_the_precision_of_a_simulated_one():
    options = {name: value for name, value in OPTIONS.items() if name != "clients"}
    run = fx.deploy.run(GAME, METHOD, sites=3, **options)
    assert (run.precision, kinds(run)) == ("float32: operators are noisy", {"float32"})
