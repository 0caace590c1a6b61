"""Prox, conjugate, B0 and diameter of regularizers against a convex solver."""

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
from support.solver_rows import BOUNDED, ROWS, Row, by_name, check_minimizer, instances, mixtures, orders, solve

import fedualex as fx
from fedualex.compiling import double

pytestmark = pytest.mark.slow


@by_name(ROWS)
def test_prox(row: Row) -> None:
    x, omega, weight = cp.Variable(row.shape), cp.Parameter(row.shape), cp.Parameter(nonneg=True)
    penalty, constraints = row.cvx(x)
    ell = cp.sum_squares(x) / 2 - cp.sum(cp.multiply(omega, x))
    projection = cp.Problem(cp.Minimize(ell), constraints)
    weighted = cp.Problem(cp.Minimize(ell + weight * penalty), constraints)
    for omega.value in instances(row.shape, (1.0, 30.0), 1):
        for weight.value in (0.0, 1.5):
            tau = float(weight.value)
            with double():
                ours = np.asarray(row.psi.prox(omega.value, tau))
                potential = float(fx.Euclidean(row.psi).potential(fx.Dual(omega.value, tau)))
                value = float(row.psi.value(ours))
            assert value == pytest.approx(row.value(ours), rel=1e-12, abs=1e-12)
            optimum = check_minimizer(ours, x, weighted if tau else projection)
            assert potential == pytest.approx(-optimum, rel=1e-8, abs=1e-8)


@by_name(ROWS)
def test_conjugate(row: Row) -> None:
    tolerance = 1e-12 if row.piecewise_linear else 1e-7
    for s in instances(row.shape, (0.05, 0.5, 3.0), 2):
        with double():
            ours = float(row.psi.conjugate(s))
        assert ours == pytest.approx(row.conjugate(s), rel=tolerance, abs=tolerance)


@by_name([r for r in ROWS if len(r.parts) > 1])
def test_sums_do_not_depend_on_the_order(row: Row) -> None:
    omega, s = np.random.default_rng(3).normal(size=(2, *row.shape))
    with double():
        for psi in orders(row.parts):
            np.testing.assert_allclose(psi.prox(omega, 0.6), row.psi.prox(omega, 0.6), rtol=0, atol=1e-14)
            assert float(psi.conjugate(s)) == pytest.approx(float(row.psi.conjugate(s)), rel=1e-13, abs=1e-14)


@pytest.mark.parametrize("size", [3, 8])
def test_capped_simplex_for_every_whole_number_of_full_entries(size: int) -> None:
    rng = np.random.default_rng(size)
    for full in range(1, size + 1):
        for cap in (1 / full, 1 / (full - 0.5)):
            psi, points, s = fx.CappedSimplex(cap), mixtures(cap, size), rng.normal(size=size)
            with double():
                assert float(psi.conjugate(s)) == pytest.approx(max(float(s @ v) for v in points), rel=1e-13)
                x = np.asarray(psi.prox(s, 1.0))
            assert abs(x.sum() - 1) < 1e-14
            assert np.all((x >= 0) & (x <= cap * (1 + 1e-15)))
            # At the projection every direction into C makes an obtuse angle with s - x.
            assert max(float((s - x) @ (v - x)) for v in points) < 1e-13


@by_name(BOUNDED)
def test_euclidean_B0_and_diameter(row: Row) -> None:
    geometry = fx.Euclidean(row.psi)
    x, omega = cp.Variable(row.shape), cp.Parameter(row.shape)
    distance = cp.Problem(cp.Minimize(cp.sum_squares(x) / 2 - cp.sum(cp.multiply(omega, x))), row.cvx(x)[1])
    rng = np.random.default_rng(8)
    with double():
        inside = [np.asarray(row.psi.prox(5 * rng.normal(size=row.shape), 0.0)) for _ in range(12)]
    for omega.value in instances(row.shape, (0.3, 1.0, 4.0), 9):
        with double():
            ours = float(geometry.B0(omega.value))

        conjugate = -solve(distance)

        def fenchel_gap(u: np.ndarray, omega0: np.ndarray = omega.value, top: float = conjugate) -> float:
            return float(np.sum(u**2)) / 2 + top - float(np.vdot(omega0, u))

        if row.points is not None:
            exact = max(map(fenchel_gap, row.points))
        else:  # sup 1/2 |u|^2 - <omega, u> = 1/2 far^2 - 1/2 |omega|^2
            exact = (row.far(omega.value) ** 2 - float(np.sum(omega.value**2))) / 2 + conjugate
        assert ours == pytest.approx(exact, rel=1e-8, abs=1e-8)
        assert ours >= max(map(fenchel_gap, inside)) - 1e-8
    with double():
        diameter = float(geometry.diameter(np.zeros(row.shape)))
    points = inside if row.points is None else row.points
    widest = max(float(np.linalg.norm(u - v)) for u, v in itertools.product(points, points))
    assert diameter >= widest * (1 - 1e-12)
    if row.points is None:
        assert diameter == pytest.approx(row.diameter, rel=1e-12)
    elif "cap" not in row.name:  # there it is a bound, unless supports can be disjoint
        assert diameter == pytest.approx(widest, rel=1e-12)


@pytest.mark.parametrize(("cap", "size"), [(1.0, 3), (0.5, 4), (0.5, 5), (0.3, 8), (0.25, 8), (0.7, 4)])
def test_capped_simplex_diameter_is_attained_by_disjoint_mixtures(cap: float, size: int) -> None:
    points = mixtures(cap, size)
    with double():
        diameter = float(fx.CappedSimplex(cap).diameter(np.zeros(size)))
    assert diameter == pytest.approx(max(float(np.linalg.norm(points[0] - v)) for v in points), rel=1e-12)


@by_name([r for r in ROWS if r not in BOUNDED])
def test_unbounded_domains_have_no_finite_size(row: Row) -> None:
    with double():
        assert float(fx.Euclidean(row.psi).B0(np.ones(row.shape))) == math.inf
        assert float(fx.Euclidean(row.psi).diameter(np.ones(row.shape))) == math.inf
