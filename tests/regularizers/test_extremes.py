"""Strengths at the ends of the range of floats, derivatives at zeros, and constants that are stored as such."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.rows import GROUPS, REGULARIZERS, Q, kinds_first

import fedualex as fx
from fedualex.compiling import double
from fedualex.geometry import calls_lapack
from fedualex.regularizers import AbstractPenalty
from fedualex.runs.folder import describe

A = np.array([[0.1, -0.1, 0.6], [0.1, -0.5, 0.4], [1.3, 0.9, -0.7]])


@pytest.mark.slow
@pytest.mark.parametrize("lam", [1e-33, 1e-160, 1e-300])
def test_a_tiny_quadratic_on_a_simplex_does_not_hide_the_gap(lam):
    psi = fx.Simplex() + fx.SquaredL2(lam)
    run = fx.simulate(fx.problems.bilinear(A, np.zeros(3), x=psi, y=psi), fx.FeDualEx(eta_c=0.1), rounds=2)
    for output in run.outputs.values():
        true = np.max(A @ output.z.x) - np.min(A.T @ output.z.y)
        assert true > 0.05
        assert output.gap == pytest.approx(true, rel=1e-12)


def test_a_tiny_quadratic_alone_gives_a_huge_bound_or_none():
    with double():
        for jit in (lambda f: f, eqx.filter_jit):
            conjugate = jit(lambda psi, s: psi.conjugate(s))
            s = np.array([3.0, -4.0])
            assert float(conjugate(fx.SquaredL2(1e-160), s)) == pytest.approx(12.5e160)
            assert float(conjugate(fx.SquaredL2(1e-300), 1e10 * s)) == np.inf
            assert float(conjugate(fx.SquaredL2(1e-300) + fx.NonNegative(), -1e10 * s)) == np.inf
            assert float(conjugate(fx.SquaredL2(1e-300) + fx.L2Ball(2.0), 1e10 * s)) == pytest.approx(1e11)
            assert float(conjugate(fx.Box(lower=1e200, upper=2e200), 1e150 * s)) == np.inf


@pytest.mark.parametrize("psi", [fx.L1(0.3), fx.L1(0.3) + fx.NonNegative(), fx.GroupL2(0.3, [0, 1, 2])], ids=repr)
def test_rounding_at_a_threshold_does_not_make_a_conjugate_too_small(psi):
    """The maximizer of a conjugate is off by the rounding of s over lam: 5e16 for lam = 1e-33."""
    with double():
        for steps in range(4):
            s = 0.3
            for _ in range(steps):
                s = np.nextafter(s, 1)
            exact = 3 * (s - 0.3) ** 2 / 2 / 1e-33
            assert float((psi + fx.SquaredL2(1e-33)).conjugate(np.full(3, s))) >= exact * (1 - 1e-12)


def test_a_strength_that_the_machine_takes_for_zero_is_zero():
    psi = fx.SquaredL2(1e-310)
    assert not psi.finite_conjugate
    with double():
        assert float(psi.conjugate(np.ones(2))) == np.inf


@pytest.mark.parametrize("size", [3, 17, 300])
def test_projections_of_huge_points_are_feasible_when_compiled(size):
    rng = np.random.default_rng(size)
    c = fx.Linear(rng.normal(size=size)) + fx.SquaredL2(0.3)
    project = eqx.filter_jit(lambda g, dual: g.violation(g.primal(dual)))
    rows = [fx.Simplex() + c, fx.CappedSimplex(0.4) + c, fx.L1Ball(1.0) + fx.SquaredL2(0.3)]
    geometries = [*map(fx.Euclidean, rows), fx.EntropicSimplex(fx.CappedSimplex(0.4) + fx.Linear(c.c))]
    with double():
        for geometry in geometries:
            for scale in 10.0 ** rng.uniform(15, 40, 10):
                dual = fx.Dual(jnp.asarray(scale * rng.normal(size=size)), jnp.asarray(scale * rng.uniform()))
                assert float(project(geometry, dual)) <= 1e-12


# --- derivatives ---------------------------------------------------------------------------------------------------

SMOOTH_OR_NOT = {name: row for name, row in REGULARIZERS.items() if not calls_lapack(row[0])} | {
    "nonnegative + squared l2": (fx.NonNegative() + fx.SquaredL2(0.5), np.zeros(5)),
    "upper bound + squared l2 + linear": (fx.Box(upper=0.0) + fx.SquaredL2(0.5) + fx.Linear(1.0), np.zeros(5)),
    "kl + linear": (fx.KL(0.4, Q) + fx.Linear(1.0), np.zeros(5)),
    "group l2 + squared l2": (fx.GroupL2(0.4, GROUPS) + fx.SquaredL2(0.5), np.zeros(5)),
}


def points(shape):
    """All zeros, some zeros, and none."""
    away = np.random.default_rng(1).normal(size=shape)
    return [0 * away, np.where(np.arange(away.size).reshape(shape) % 2, np.abs(away), 0.0), -np.abs(away), away]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", kinds_first(SMOOTH_OR_NOT))
def test_derivatives_are_finite_and_right_at_zeros(name):
    psi, like = SMOOTH_OR_NOT[name]
    rng, n = np.random.default_rng(2), like.size
    with double():
        slope, maximizer = jax.jit(jax.grad(psi.value)), jax.jit(jax.grad(psi.conjugate))
        jacobian = jax.jit(jax.jacobian(psi.prox))
        rivals = [psi.prox(3 * rng.normal(size=like.shape), 0.0) for _ in range(5)]
        for omega in points(like.shape):
            x = psi.prox(omega, 0.0)
            g = slope(x)
            assert np.all(np.isfinite(g))
            for u in rivals:  # g is a subgradient
                assert float(psi.value(u) - psi.value(x) - jnp.vdot(g, u - x)) >= -1e-9
            for weight in (0.0, 0.5):  # the Jacobian of a firmly nonexpansive gradient map
                J = np.asarray(jacobian(omega, weight)).reshape(n, n)
                np.testing.assert_allclose(J, J.T, atol=1e-12)
                assert np.all(np.abs(np.linalg.eigvalsh(J) - 0.5) <= 0.5 + 1e-12)
                if weight == 0 and isinstance(psi, AbstractPenalty):
                    assert np.array_equal(J, np.eye(n))
            if np.isfinite(conjugate := float(psi.conjugate(omega))):
                best = maximizer(omega)
                assert float(psi.violation(best)) <= 1e-12
                attained = float(jnp.vdot(omega, best) - psi.value(best))
                assert attained == pytest.approx(conjugate, rel=1e-9, abs=1e-9)


# --- l1 on a simplex -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("psi", "plain", "constant"),
    [
        (fx.L1(0.3) + fx.Simplex(2.0), fx.Simplex(2.0), 0.6),
        (fx.CappedSimplex(0.4) + fx.L1(0.3), fx.CappedSimplex(0.4), 0.3),
        (fx.L1(1e12) + fx.Simplex() + fx.SquaredL2(0.5), fx.Simplex() + fx.SquaredL2(0.5), 1e12),
        (fx.ElasticNet(0.3, 0.5) + fx.Simplex() + fx.L1(0.2), fx.Simplex() + fx.SquaredL2(0.5), 0.5),
    ],
    ids=repr,
)
def test_l1_on_a_simplex_is_stored_as_a_constant(psi, plain, constant):
    omega = np.random.default_rng(3).normal(size=5)
    described = describe(fx.Product(psi))[""]["regularizer"]
    assert described["constant"] == pytest.approx(constant)
    assert described["c"] == 0
    assert repr(psi) == f"{plain!r} + constant {constant!r}"
    with double():
        x = psi.prox(omega, 7.0)
        assert np.array_equal(x, plain.prox(omega, 7.0))  # also beside 1e12, which would drown omega
        assert float(psi.value(x)) == float(plain.value(x)) + constant
        assert float(psi.conjugate(omega)) == float(plain.conjugate(omega)) - constant


def test_l1_on_the_entropic_simplex_is_stored_as_a_constant():
    omega = np.random.default_rng(3).normal(size=5)
    geometry = fx.EntropicSimplex(fx.L1(0.3))
    assert repr(geometry) == "EntropicSimplex(constant 0.3)"
    with double():
        x = geometry.primal(fx.Dual(omega, 7.0))
        assert np.array_equal(x, fx.EntropicSimplex().primal(fx.Dual(omega, 7.0)))
        assert float(geometry.psi(x)) == 0.3
        assert float(geometry.psi_conjugate(omega)) == np.max(omega) - 0.3
