"""The laws of a family, on scores, targets and slopes of its own."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from fedualex.compiling import double

STEP = 1e-6


def inner(a, b):
    """<a, b> of each row."""
    return a * b if a.ndim == 1 else np.sum(a * b, axis=1)


def check_laws(family, score, target, slope):
    """All of them; slope: with a finite conjugate."""
    check_derivatives(family, score, target)
    check_both_namespaces(family, score, target, slope)
    check_fenchel_and_young(family, score, target, slope)
    check_clipped(family, target, slope)
    check_bounds(family, score, target)


def check_derivatives(family, score, target):
    """Against differences, and against jax."""
    outputs = 1 if score.ndim == 1 else score.shape[1]
    for k in range(outputs):
        move = STEP * np.broadcast_to(1.0 if score.ndim == 1 else np.eye(outputs)[k], score.shape)
        slope = (family.loss(score + move, target) - family.loss(score - move, target)) / (2 * STEP)
        second = (family.slope(score + move, target) - family.slope(score - move, target)) / (2 * STEP)
        own = family.slope(score, target), family.second(score, target)
        scale = max(1.0, np.abs(own[0]).max())
        np.testing.assert_allclose(own[0] if score.ndim == 1 else own[0][:, k], slope, atol=1e-8 * scale)
        np.testing.assert_allclose(own[1] if score.ndim == 1 else own[1][:, k], second, atol=1e-7 * scale)
    with double():
        slope = jax.vmap(jax.grad(family.loss))(score, target)
        second = jax.vmap(jax.jacfwd(jax.grad(family.loss)))(score, target)
    np.testing.assert_allclose(family.slope(score, target), slope, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(family.second(score, target), second, rtol=1e-12, atol=1e-13)


def check_both_namespaces(family, score, target, slope):
    """numpy and jax agree, and numpy stays numpy."""
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
        # A slope's conjugate is a sum of terms that cancel, and so is a small loss of numbers far apart.
        np.testing.assert_allclose(compiled, plain, rtol=1e-14, atol=1e-15, err_msg=function)


def check_fenchel_and_young(family, score, target, slope):
    """phi(s) + phi*(a) >= a s for all s and a, with equality at a = phi'(s)."""
    own = family.slope(score, target)
    terms = family.loss(score, target), family.conjugate(own, target), inner(own, score)
    size = max(1.0, np.max(np.abs(terms)))
    np.testing.assert_allclose(terms[0] + terms[1], terms[2], atol=1e-12 * size)
    excess = family.loss(score, target) + family.conjugate(slope, target) - inner(slope, score)
    assert np.all(np.isfinite(excess))
    assert excess.min() >= -1e-12 * size


def check_clipped(family, target, slope):
    """It changes no point of the domain, and no point of the domain is on its far side: <a - P a, b - P a> <= 0."""
    far = 4 * np.random.default_rng(2).normal(size=slope.shape)
    near = family.clipped(far, target)
    np.testing.assert_allclose(family.clipped(near, target), near, atol=1e-15)
    assert np.all(np.isfinite(family.conjugate(near, target)))
    assert np.max(inner(far - near, slope - near)) <= 1e-12


def check_bounds(family, score, target):
    """Of values, slopes and second derivatives over a range of scores."""
    lower, upper = score.min(), score.max()
    slope, second = family.slope(score, target), family.second(score, target)
    size = np.abs(slope) if score.ndim == 1 else np.linalg.norm(slope, axis=1)
    largest = second if score.ndim == 1 else np.linalg.eigvalsh(second)[:, -1]
    assert np.all(size <= family.steepest(lower, upper, target) * (1 + 1e-12))
    assert np.all(largest <= family.curvature(lower, upper, target) * (1 + 1e-12))
    assert np.all(family.loss(score, target) >= 0)
