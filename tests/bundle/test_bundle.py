"""What a server does with remembered surveys: weights, merging, bounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize as so
from support.plain_rows import rows

import fedualex as fx
from fedualex.bundle import (
    Cuts,
    improve_bounds,
    lower_bound,
    no_bounds,
    no_cuts,
    pair_of,
    solve_level_problem,
    upper_bound,
)
from fedualex.certificates.surveys import flat_of, known_floor
from fedualex.compiling import double
from fedualex.runtime.outputs import exact_problem
from fedualex.searches import maximize_concave, minimize_nonnegative


@pytest.fixture(autouse=True)
def _in_float64():
    with double():
        yield


@pytest.mark.parametrize("seed", range(6))
def test_weights_are_those_of_nonnegative_least_squares(seed):
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(30, 12)) * np.logspace(0, -3, 12), rng.normal(size=30)
    expected, _ = so.nnls(A, b)

    def f(c):
        left = A @ c - b
        return jnp.vdot(left, left) / 2, A.T @ left

    used = jnp.ones(12, bool)
    found = minimize_nonnegative(f, jnp.asarray(rng.uniform(size=12)), jnp.asarray(A.T @ A), used, 500, 0.0)
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.max(expected))


def test_weights_that_are_not_used_stay_zero():
    used = jnp.asarray([True, False, True])
    found = minimize_nonnegative(
        lambda c: (jnp.sum((c - 1) ** 2), 2 * (c - 1)), jnp.zeros(3), jnp.eye(3), used, 50, 0.0
    )
    np.testing.assert_allclose(found, [1, 0, 1], atol=1e-12)


@pytest.mark.parametrize("top", [0.0, 0.3, 1.0])
def test_golden_sections_find_the_largest_value(top):
    tops = jnp.asarray([top, 0.5])
    shares, values = maximize_concave(lambda t: -jnp.abs(t - tops), -jnp.abs(1 - tops))
    np.testing.assert_allclose(shares, tops, atol=1e-8)
    np.testing.assert_allclose(values, 0, atol=1e-8)


def surveys(problem, count, seed=0):
    """Cuts from exact surveys at random points of the domain."""
    exact = exact_problem(problem)
    flat, rng = flat_of(exact), np.random.default_rng(seed)
    size = flat.vector(flat.like).size
    cuts = no_cuts(count, size)
    for _ in range(count):
        z = exact.geometry.project(flat.point(jnp.asarray(rng.normal(size=size))))
        u, at = flat.vector(z), exact.survey(z)
        g = flat.vector(at.operator)
        cuts = cuts.add(u, g, at.value, jnp.vdot(g, u) + flat.psi(u), jnp.asarray(rng.uniform()))
    return flat, known_floor(exact, flat), cuts


def test_a_survey_without_weight_and_with_the_largest_slack_is_forgotten():
    flat, _, cuts = surveys(rows("auc"), 6)
    cuts = cuts.with_weights(cuts.weights.at[jnp.array([2, 4])].set(0.0))
    slack = jnp.array([0.0, 9.0, 3.0, 9.0, 1.0, 0.0])  # weight counts before slack
    emptied = cuts.with_room(slack)
    np.testing.assert_array_equal(emptied.used, [True, True, False, True, True, True])
    center = flat.dual(cuts.points[0])
    for before, after in zip(pair_of(cuts, center), pair_of(emptied, center), strict=True):
        np.testing.assert_array_equal(after, before)
    assert jax.tree.all(jax.tree.map(np.array_equal, emptied.with_room(slack), emptied))  # there is room
    heavy = cuts.with_weights(jnp.arange(6.0, 0.0, -1.0))
    assert not heavy.with_room(slack).used[5]  # where all have weight, the one of least


def test_level_weights_decrease_their_function_and_meet_its_conditions():
    flat, _, cuts = surveys(rows("auc"), 6)
    center, level = flat.dual(flat.interior(cuts.points[0])), jnp.asarray(0.05)

    def slope(c):
        z, psi, _ = flat.map_dual(center - c @ cuts.operators, jnp.sum(c))
        return cuts.heights - cuts.operators @ z - psi - level

    c = solve_level_problem(flat, cuts, center, level)
    gradient = slope(c)
    size = float(jnp.max(jnp.abs(slope(0 * c))))
    assert float(jnp.min(gradient)) >= -1e-6 * size
    assert float(jnp.max(jnp.where(c > 0, jnp.abs(gradient), 0))) <= 1e-6 * size


@pytest.mark.slow
@pytest.mark.parametrize("name", ["agnostic, kl", "auc", "lasso", "low rank"])
def test_bounds_enclose_the_optimal_value(name):
    problem = rows(name)
    run = fx.solve(problem, fx.FeDualSlide(), rounds=150, tol=1e-6)
    between = float(run.state.server.bounds.upper.bound), float(run.state.server.bounds.lower.bound)
    flat, known, cuts = surveys(problem, 8, seed=1)
    rng = np.random.default_rng(2)
    for _ in range(5):
        mu, lam = rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(9))
        lam = lam if bool(known.there) else np.append(mu, 0.0)
        assert float(upper_bound(flat, cuts, jnp.asarray(mu))) >= between[1] - 1e-9
        assert float(lower_bound(flat, cuts, known, jnp.asarray(lam))) <= between[0] + 1e-9


@pytest.mark.parametrize("model", [pytest.param(False, marks=pytest.mark.slow), True])
def test_bounds_only_become_better(model):
    flat, known, cuts = surveys(rows("auc"), 6)
    bounds, gaps = no_bounds(flat, 6), []
    better = jax.jit(lambda cuts, bounds: improve_bounds(flat, cuts, known, bounds, model=model))
    for count in range(1, 7):
        some = Cuts(**{**vars(cuts), "used": jnp.arange(6) < count})
        bounds = better(some, bounds)
        gaps.append((float(bounds.upper.bound), float(bounds.lower.bound)))
    upper, lower = np.array(gaps).T
    assert np.all(np.diff(upper) <= 0)
    assert np.all(np.diff(lower) >= 0)
    assert np.all(upper >= lower)
