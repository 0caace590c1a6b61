"""Entropic and p-norm geometries against a convex solver."""

import math

import cvxpy as cp
import numpy as np
import pytest
from support.solver_rows import (
    C4,
    ON_SIMPLEX,
    Q4,
    Row,
    by_name,
    capped,
    check_minimizer,
    entropic,
    entropy,
    instances,
    kl,
    l1,
    linear,
    mixtures,
    row,
    solve,
    units,
)

import fedualex as fx
from fedualex.compiling import double

pytestmark = pytest.mark.slow

VERTICES, MIXTURES = units(1.0, (4,)), mixtures(0.3, 4)
ENTROPIC = [
    row("none", 4, ON_SIMPLEX, points=VERTICES),
    row("linear", 4, ON_SIMPLEX, linear(C4), points=VERTICES),
    row("l1", 4, ON_SIMPLEX, l1(0.4), points=VERTICES),
    row("entropy", 4, ON_SIMPLEX, entropy(0.6), points=VERTICES),
    row("kl", 4, ON_SIMPLEX, kl(0.6, Q4), points=VERTICES),
    row("capped simplex", 4, ON_SIMPLEX, capped(0.3), points=MIXTURES),
    row("cap 1/2", 4, ON_SIMPLEX, capped(0.5), points=mixtures(0.5, 4)),
    row("cap 1/d", 4, ON_SIMPLEX, capped(0.25), points=mixtures(0.25, 4)),
    row("linear + entropy", 4, ON_SIMPLEX, linear(C4), entropy(0.6), points=VERTICES),
    row("linear + kl", 4, ON_SIMPLEX, linear(C4), kl(0.6, Q4), points=VERTICES),
    row("linear + l1", 4, ON_SIMPLEX, linear(C4), l1(0.4), points=VERTICES),
    row("linear + capped simplex", 4, ON_SIMPLEX, linear(C4), capped(0.3), points=MIXTURES),
]


@by_name(ENTROPIC)
def test_entropic_primal(row: Row) -> None:
    x, omega = cp.Variable(row.shape), cp.Parameter(row.shape)
    penalty, constraints = row.cvx(x)
    for tau in (0.0, 0.7, 5.0):
        objective = -cp.sum(cp.entr(x)) + tau * penalty - omega @ x
        problem = cp.Problem(cp.Minimize(objective), constraints)
        for omega.value in instances(row.shape, (0.5, 3.0), 3):
            for geometry in entropic(row):
                with double():
                    ours = np.asarray(geometry.primal(fx.Dual(omega.value, tau)))
                    potential = float(geometry.potential(fx.Dual(omega.value, tau)))
                value = check_minimizer(ours, x, problem)
                assert potential == pytest.approx(-value, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("apart", [1e3, 1e6, 1e9])
def test_entropic_cap_with_free_entries_far_below_the_full_ones(apart: float) -> None:
    """One entry is full, whatever the distance; the others share the rest as softmax says.

    A sum that is off by more than 1e-12 is a point outside the domain, and its certificate infinite.
    """
    with double():
        geometry = fx.EntropicSimplex(fx.CappedSimplex(0.5))
        x = np.asarray(geometry.primal(fx.Dual(np.array([0.0, -apart, -apart - 0.75]), 0.0)))
        assert float(geometry.violation(x)) <= 1e-12
    share = 0.5 / (1 + math.exp(-0.75))
    np.testing.assert_allclose(x, [0.5, share, 0.5 - share], rtol=1e-12)


@by_name(ENTROPIC)
def test_entropic_conjugate(row: Row) -> None:
    tolerance = 1e-12 if row.piecewise_linear else 1e-7
    for s in instances(row.shape, (0.5, 5.0), 4):
        expected = row.conjugate(s)
        for geometry in entropic(row):
            with double():
                ours = float(geometry.psi_conjugate(s))
            assert ours == pytest.approx(expected, rel=tolerance, abs=tolerance)


def negative_entropy(u: np.ndarray) -> float:
    return float(np.sum(u[u > 0] * np.log(u[u > 0])))


@by_name(ENTROPIC)
def test_entropic_B0_and_diameter(row: Row) -> None:
    x, omega = cp.Variable(row.shape), cp.Parameter(row.shape)
    problem = cp.Problem(cp.Minimize(-cp.sum(cp.entr(x)) - omega @ x), row.cvx(x)[1])
    mixing = np.random.default_rng(5).dirichlet(np.full(len(row.points), 0.2), size=200)
    inside = mixing @ np.array(row.points)
    (geometry, *_) = entropic(row)
    for omega.value in instances(row.shape, (0.5, 3.0, 20.0), 6):
        conjugate = -solve(problem)
        with double():
            ours = float(geometry.B0(omega.value))

        def fenchel_gap(u: np.ndarray, omega0: np.ndarray = omega.value, top: float = conjugate) -> float:
            return negative_entropy(u) + top - float(omega0 @ u)

        assert ours == pytest.approx(max(map(fenchel_gap, row.points)), rel=1e-7, abs=1e-7)
        assert ours >= max(map(fenchel_gap, inside)) - 1e-7
    with double():
        diameter = float(geometry.diameter(np.zeros(row.shape)))
    widest = max(float(np.abs(u - v).sum()) for u in row.points for v in row.points)
    assert diameter == pytest.approx(widest) if widest == pytest.approx(2.0) else diameter >= widest


@pytest.mark.parametrize("p", [1.25, 1.5, 2.0])
@pytest.mark.parametrize("lam", [None, 0.3])
def test_p_norm_primal(p: float, lam: float | None) -> None:
    geometry = fx.PNorm(p) if lam is None else fx.PNorm(p, fx.L1(lam))
    x, omega = cp.Variable(4), cp.Parameter(4)
    for tau in (0.0, 1.0, 4.0):
        objective = cp.square(cp.pnorm(x, p)) / (2 * (p - 1)) + tau * (lam or 0.0) * cp.norm1(x) - omega @ x
        problem = cp.Problem(cp.Minimize(objective))
        for omega.value in instances((4,), (0.5, 3.0), 7):
            with double():
                ours = np.asarray(geometry.primal(fx.Dual(omega.value, tau)))
                potential = float(geometry.potential(fx.Dual(omega.value, tau)))
            assert potential == pytest.approx(-check_minimizer(ours, x, problem), rel=1e-8, abs=1e-8)
