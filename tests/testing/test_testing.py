"""The public law checkers: they pass what is right and name what is wrong."""

import jax.numpy as jnp
import numpy as np
import pytest

import fedualex as fx
from fedualex.geometry import Euclidean
from fedualex.precision import double_available
from fedualex.regularizers import AbstractPenalty


class Huber(AbstractPenalty):
    """A user's own regularizer: sum of x^2/2 near 0, |x| - 1/2 beyond 1."""

    def value(self, x):
        return jnp.sum(jnp.where(jnp.abs(x) <= 1, jnp.square(x) / 2, jnp.abs(x) - 0.5))

    def prox(self, omega, weight):
        omega = jnp.asarray(omega)
        weight = jnp.asarray(weight, omega.dtype)
        return jnp.where(jnp.abs(omega) <= 1 + weight, omega / (1 + weight), omega - weight * jnp.sign(omega))

    def conjugate(self, s):
        return jnp.where(jnp.max(jnp.abs(s)) <= 1, jnp.sum(jnp.square(s)) / 2, jnp.inf)

    def subgradient(self, x):
        return jnp.clip(x, -1, 1)

    finite_conjugate = False
    absolutely_symmetric = True


class WrongProx(Huber):
    def prox(self, omega, weight):
        return jnp.asarray(omega) / (1 + weight)


class WrongConjugate(Huber):
    def conjugate(self, s):
        return super().conjugate(s) * 1.01


class WrongSubgradient(Huber):
    def subgradient(self, x):
        return jnp.sign(x)


class WrongViolation(fx.Box):
    def violation(self, x):
        return jnp.zeros(())


class WrongFiniteness(fx.L1):
    finite_conjugate = True


class WrongSymmetry(Huber):
    def value(self, x):
        return super().value(x) + jnp.sum(jnp.asarray(x)[:1])


class WrongDtype(Huber):
    def prox(self, omega, weight):
        return super().prox(omega, weight).astype(jnp.float64 if double_available() else jnp.float16)


class WrongWeight(Euclidean):
    def primal(self, dual):
        return self.regularizer.prox(dual.omega, dual.tau / 2)


class WrongNorm(Euclidean):
    def norm(self, z):
        return 2 * super().norm(z)


class WrongSize(Euclidean):
    def B0(self, omega0):
        return super().B0(omega0) / 4


@pytest.mark.slow
def test_shapes_are_found_if_none_is_given():
    fx.testing.check_regularizer(fx.L1(0.1))
    fx.testing.check_regularizer(fx.Spectral(fx.L1(0.1), "svd"), samples=3)
    fx.testing.check_regularizer(fx.GroupL2(0.1, np.arange(6).reshape(2, 3)), samples=3)
    fx.testing.check_geometry(fx.Product({"w": fx.Box(1.0), "p": fx.EntropicSimplex()}), samples=3)


def test_a_users_own_regularizer_passes_and_works_in_a_problem():
    fx.testing.check_regularizer(Huber(), np.zeros(4))
    fx.testing.check_geometry(fx.Euclidean(Huber()), np.zeros(4))
    game = fx.problems.bilinear(np.eye(3), np.ones(3), x=Huber() + fx.SquaredL2(1.0), y=fx.Box(1.0))
    assert game.certificate(fx.Saddle(np.zeros(3), np.ones(3))).gap > 0


@pytest.mark.parametrize(
    ("psi", "law"),
    [
        (WrongProx(), "prox is the argmin"),
        (WrongConjugate(), "the conjugate is attained"),
        (WrongSubgradient(), "subgradient inequality"),
        (WrongViolation(0.5), "violation sees what projection moves"),
        (WrongFiniteness(5.0), "finite_conjugate"),
        (WrongSymmetry(), "absolutely_symmetric is true"),
        (WrongDtype(), "prox turns float32"),
    ],
)
def test_a_wrong_regularizer_is_caught_by_name(psi, law):
    with pytest.raises(AssertionError, match=law):
        fx.testing.check_regularizer(psi, np.zeros(4))


@pytest.mark.parametrize(
    ("kind", "law"),
    [(WrongWeight, "conjugate is attained|argmin"), (WrongNorm, r"norm\^2 / 2"), (WrongSize, "no point is beyond B0")],
)
def test_a_wrong_geometry_is_caught_by_name(kind, law):
    with pytest.raises(AssertionError, match=law):
        fx.testing.check_geometry(kind(fx.L1(0.3) + fx.Box(0.5)), np.zeros(4))
