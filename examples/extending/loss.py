"""A loss whose rounding is bounded: residuals to the fourth power."""

import jax.numpy as jnp
import numpy as np

import fedualex as fx
from fedualex.certificates.rounding import Majorized


class Quartic(Majorized):
    """(<row, x> - target)^4 / 4, which is convex and punishes large residuals harder than a square."""

    def __call__(self, x, example):
        row, target = example
        return (row @ x - target) ** 4 / 4

    def majorant(self, x, example):
        row, target = example
        return (jnp.abs(row) @ x + jnp.abs(target)) ** 4 / 4


rng = np.random.default_rng(0)
data = [(rng.normal(size=(6, 2)), rng.normal(size=6)) for _ in range(2)]
like = fx.Saddle(np.zeros(2))
problem = fx.Problem(Quartic(), x=fx.L1(0.1) + fx.Box(1.0), like=like, data=data, by_construction=True)
assert not problem.certificate(like).estimated
