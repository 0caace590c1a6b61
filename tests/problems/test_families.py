"""Laws of every family: derivatives, Fenchel-Young, numpy as jax, and what bounds a family declares of itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedualex.precision import double
from fedualex.problems.families import Family, Huber, Logistic, Softmax, Squared, namespace

FAMILIES = {"squared": Squared(), "huber": Huber(0.7), "logistic": Logistic(), "multiclass": Softmax()}
EVERY = pytest.mark.parametrize("name", FAMILIES)
ROWS, OUTPUTS = 60, 4


def drawn(name: str, seed: int = 0):
    """A family with scores, from moderate to far, and targets."""
    rng = np.random.default_rng(seed)
    far = np.repeat([0.3, 3.0, 30.0], ROWS // 3)
    if name == "multiclass":
        return FAMILIES[name], far[:, None] * rng.normal(size=(ROWS, OUTPUTS)), rng.integers(0, OUTPUTS, ROWS)
    target = rng.choice([-1.0, 1.0], ROWS) if name == "logistic" else rng.normal(size=ROWS)
    return FAMILIES[name], far * rng.normal(size=ROWS), target


def points_of_domain(family: Family, score, target, seed: int):
    """Slopes with a finite conjugate, in the inside and on the boundary."""
    rng = np.random.default_rng(seed)
    return family.clipped(2.0 * rng.normal(size=score.shape), target)


def inner(a, b):
    return a * b if a.ndim == 1 else np.sum(a * b, axis=1)


@EVERY
def test_slopes_and_seconds_are_the_derivatives(name):
    family, score, target = drawn(name)
    score = score / np.maximum(np.abs(score), 1)  # where differences keep digits; kinks of Huber are not met
    step = 1e-6
    for k in range(1 if score.ndim == 1 else OUTPUTS):
        move = step * (np.ones(ROWS) if score.ndim == 1 else np.eye(OUTPUTS)[k] * np.ones((ROWS, 1)))
        slope = (family.loss(score + move, target) - family.loss(score - move, target)) / (2 * step)
        second = (family.slope(score + move, target) - family.slope(score - move, target)) / (2 * step)
        own = family.slope(score, target), family.second(score, target)
        np.testing.assert_allclose(own[0] if score.ndim == 1 else own[0][:, k], slope, atol=1e-8)
        np.testing.assert_allclose(own[1] if score.ndim == 1 else own[1][:, k], second, atol=1e-7)


@EVERY
def test_slopes_and_seconds_are_those_of_jax(name):
    family, score, target = drawn(name)
    with double():
        slope = jax.vmap(jax.grad(family.loss))(score, target)
        second = jax.vmap(jax.jacfwd(jax.grad(family.loss)))(score, target)
    np.testing.assert_allclose(family.slope(score, target), slope, atol=1e-14)
    np.testing.assert_allclose(family.second(score, target), second, atol=1e-13)


@EVERY
def test_numpy_and_jax_agree_and_numpy_stays_numpy(name):
    family, score, target = drawn(name)
    slope = points_of_domain(family, score, target, 1)
    for function, first in (
        ("loss", score),
        ("slope", score),
        ("second", score),
        ("conjugate", slope),
        ("clipped", 3 * slope),
    ):
        plain = getattr(family, function)(first, target)
        with double():
            compiled = eqx.filter_jit(getattr(family, function))(jnp.asarray(first), jnp.asarray(target))
            assert isinstance(compiled, jax.Array)
        assert isinstance(plain, np.ndarray)
        assert plain.dtype == np.float64
        scale = 0.0 if function in ("loss", "slope", "second") else 1e-15
        np.testing.assert_allclose(compiled, plain, rtol=1e-14, atol=scale, err_msg=function)


def test_the_namespace_is_that_of_the_arguments():
    assert namespace(1.0, np.ones(2)) is np
    assert namespace(np.ones(2), jnp.ones(2)) is jnp
    assert jax.eval_shape(lambda a: jnp.asarray(namespace(a) is jnp), jnp.ones(2)).shape == ()


@EVERY
def test_fenchel_and_young(name):
    """phi(s) + phi*(a) >= a s for all s and a, with equality at a = phi'(s)."""
    family, score, target = drawn(name)
    slope = family.slope(score, target)
    terms = family.loss(score, target), family.conjugate(slope, target), inner(slope, score)
    np.testing.assert_allclose(terms[0] + terms[1], terms[2], atol=1e-12 * max(1.0, np.max(np.abs(terms))))
    for seed in range(5):
        other = points_of_domain(family, score, target, seed)
        excess = family.loss(score, target) + family.conjugate(other, target) - inner(other, score)
        assert np.all(np.isfinite(excess))
        assert excess.min() >= -1e-12 * max(1.0, np.max(np.abs(terms)))


@EVERY
def test_the_conjugate_is_the_supremum(name):
    """Against the largest a s - phi(s) that Newton's method finds from a = phi'(s), and infinity outside."""
    family, score, target = drawn(name)
    score = score / np.maximum(np.abs(score), 1)
    slope = family.slope(score, target)
    if name != "multiclass":
        grid = np.linspace(-12, 12, 24001)[:, None]
        brute = np.max(slope * grid - family.loss(grid, target), axis=0)
        np.testing.assert_allclose(family.conjugate(slope, target), brute, atol=1e-6)
    if name != "squared":
        assert np.all(np.isinf(family.conjugate(slope + 40.0, target)))
        assert np.all(np.isinf(family.conjugate(slope - 40.0, target)))


@EVERY
def test_clipped_is_the_nearest_point_of_the_domain(name):
    """It changes no point of the domain, and no point of the domain is on its far side: <a - P a, b - P a> <= 0."""
    family, score, target = drawn(name)
    far = 3 * np.random.default_rng(2).normal(size=score.shape)
    near = family.clipped(far, target)
    np.testing.assert_allclose(family.clipped(near, target), near, atol=1e-15)
    assert np.all(np.isfinite(family.conjugate(near, target)))
    for seed in range(5):
        other = points_of_domain(family, score, target, seed)
        assert np.max(inner(far - near, other - near)) <= 1e-12


@EVERY
def test_bounds_hold_over_the_range_of_scores(name):
    family, score, target = drawn(name)
    lower, upper = score.min(), score.max()
    size = (
        np.abs(family.slope(score, target)) if score.ndim == 1 else np.linalg.norm(family.slope(score, target), axis=1)
    )
    assert np.all(size <= family.steepest(lower, upper, target) * (1 + 1e-12))
    second = family.second(score, target)
    largest = second if score.ndim == 1 else np.linalg.eigvalsh(second)[:, -1]
    assert np.all(largest <= family.curvature(lower, upper, target) * (1 + 1e-12))
    assert np.all(family.loss(score, target) >= 0)


@EVERY
def test_a_second_derivative_is_exact_where_it_says_so(name):
    family, score, target = drawn(name)
    changes = np.ptp(family.second(score, target), axis=0).max()
    assert (changes == 0) == family.exact_second
