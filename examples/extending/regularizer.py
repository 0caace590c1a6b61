"""A regularizer of one's own: an l1 norm that is not symmetric."""

import jax.numpy as jnp
import numpy as np

import fedualex as fx
from fedualex.regularizers import AbstractPenalty


class Tilted(AbstractPenalty):
    """sum_i max(2 x_i, -x_i): an l1 norm that likes negative entries more than positive ones."""

    finite_conjugate = False
    absolutely_symmetric = False

    def value(self, x):
        return jnp.sum(jnp.maximum(2 * jnp.asarray(x), -jnp.asarray(x)))

    def prox(self, omega, weight):
        omega = jnp.asarray(omega)
        weight = jnp.asarray(weight, omega.dtype)
        return jnp.maximum(omega - 2 * weight, 0) + jnp.minimum(omega + weight, 0)

    def conjugate(self, s):
        s = jnp.asarray(s)
        return jnp.where(jnp.all((s >= -1) & (s <= 2)), 0.0, jnp.inf).astype(s.dtype)

    def subgradient(self, x):
        x = jnp.asarray(x)
        return jnp.where(x > 0, 2.0, jnp.where(x < 0, -1.0, 0.0)).astype(x.dtype)


fx.testing.check_regularizer(Tilted(), np.zeros(3), samples=5)
game = fx.problems.bilinear(np.eye(3), np.ones(3), x=Tilted() + fx.SquaredL2(1.0), y=fx.Box(1.0))
assert game.certificate(fx.Saddle(np.zeros(3), np.ones(3))).gap > 0
