"""The largest value of a concave function of [0, 1], by few evaluations."""

import numpy as np
import pytest

from fedualex.searches import SECTIONS, maximize_on_section

ENOUGH = 1e-9
FUNCTIONS = {
    "a kink": lambda t, at: min(3 * t, 3 * at - 200 * (t - at)),
    "many kinks": lambda t, at: min(k * at - (k**2 - 10) * (t - at) for k in range(8)),
    "a square": lambda t, at: -40 * (t - at) ** 2,
    "an exponential": lambda t, at: 2 * t - np.exp(30 * (t - at)),
    "infinite beyond": lambda t, at: t if t <= at else -np.inf,
    "rising": lambda t, at: at * t,
    "falling": lambda t, at: -at * t,
    "constant": lambda t, at: at,
}


@pytest.mark.parametrize("at", [1e-6, 0.3, 0.97, 1 - 1e-7])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_share_is_better_by_more_than_enough(name, at):
    looked = []

    def f(share):
        looked.append(share)
        return float(FUNCTIONS[name](share, at))

    share, value = maximize_on_section(f, f(0.0), f(1.0), ENOUGH)
    assert value == FUNCTIONS[name](share, at)
    assert len(looked) <= SECTIONS + 4
    grid = np.concatenate([np.linspace(0, 1, 2001), at + np.linspace(-1, 1, 201) * 1e-7])
    best = max(FUNCTIONS[name](t, at) for t in grid[(grid >= 0) & (grid <= 1)])
    # Beyond a step no line helps: halves of the section find it.
    assert best - value <= (ENOUGH if name != "infinite beyond" else 1e-8)
