"""Laws of every family: derivatives, Fenchel-Young, numpy as jax, and what bounds a family declares of itself."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import families as laws

from fedualex.problems import sparse_glm
from fedualex.problems.families import FAMILIES, Family, Huber, NumberFamily, Poisson, family_of, namespace
from fedualex.problems.families.counts import FARTHEST

EVERY = pytest.mark.parametrize("name", FAMILIES)
ROWS, OUTPUTS = 60, 4


def drawn(name: str, far: float = 30.0):
    """A family with scores, from near to far, and targets."""
    rng = np.random.default_rng(0)
    family, spread = FAMILIES[name](), np.geomspace(far / 100, far, ROWS)
    if not family.one_score:
        return family, spread[:, None] * rng.normal(size=(ROWS, OUTPUTS)), rng.integers(0, OUTPUTS, ROWS)
    target = rng.choice([-1.0, 1.0], ROWS) if family.reading.labelled else rng.normal(size=ROWS)
    target = rng.poisson(2.0, ROWS).astype(float) if family.counts else target
    if isinstance(family, NumberFamily) and not np.all(family.allows(target)):
        target = np.abs(target)
    return family, spread * rng.normal(size=ROWS), target


def slopes(family: Family, score, target, seed: int = 1):
    """Slopes with a finite conjugate, in the inside and on the boundary."""
    return family.clipped(2.0 * np.random.default_rng(seed).normal(size=score.shape), target)


@EVERY
def test_derivatives(name):
    laws.check_derivatives(*drawn(name, far=0.9))  # where differences keep digits, and few kinks of Huber are met


@EVERY
def test_numpy_and_jax_agree(name):
    family, score, target = drawn(name)
    laws.check_both_namespaces(family, score, target, slopes(family, score, target))


def test_the_namespace_is_that_of_the_arguments():
    assert namespace(1.0, np.ones(2)) is np
    assert namespace(np.ones(2), jnp.ones(2)) is jnp
    assert jax.eval_shape(lambda a: jnp.asarray(namespace(a) is jnp), jnp.ones(2)).shape == ()


@EVERY
@pytest.mark.parametrize("seed", range(4))
def test_fenchel_and_young(name, seed):
    family, score, target = drawn(name)
    laws.check_fenchel_and_young(family, score, target, slopes(family, score, target, seed))


@EVERY
def test_the_conjugate_is_the_supremum(name):
    """Against the largest a s - phi(s) on a grid, and infinity outside."""
    family, score, target = drawn(name, far=2.0)
    slope = family.slope(score, target)
    if family.one_score:
        grid = np.linspace(-12, 12, 24001)[:, None]
        brute = np.max(slope * grid - family.loss(grid, target), axis=0)
        np.testing.assert_allclose(family.conjugate(slope, target), brute, atol=1e-6)
    if not family.exact_second:
        assert family.counts or np.all(np.isinf(family.conjugate(slope + 40.0, target)))
        assert np.all(np.isinf(family.conjugate(slope - 40.0, target)))


@EVERY
@pytest.mark.parametrize("seed", range(4))
def test_clipped_is_the_nearest_point_of_the_domain(name, seed):
    family, score, target = drawn(name)
    laws.check_clipped(family, target, slopes(family, score, target, seed))


@EVERY
def test_bounds_hold_over_the_range_of_scores(name):
    laws.check_bounds(*drawn(name))


@EVERY
def test_a_second_derivative_is_exact_where_it_says_so(name):
    family, score, target = drawn(name)
    changes = np.ptp(family.second(score, target), axis=0).max()
    assert (changes == 0) == family.exact_second


@EVERY
def test_a_family_is_known_by_its_name(name):
    assert family_of("loss", name).name == name
    given = Huber(0.3)
    assert family_of("loss", given) is given
    assert float(family_of("loss", "huber", delta=0.3).delta) == 0.3


def test_counts_go_on_as_a_parabola_where_no_mean_is():
    """With value, slope and second derivative as they were, so that all of a domain is finite."""
    family, target = Poisson(), np.array([0.0, 3.0, 1e6])
    for function in (family.loss, family.slope, family.second):
        below, above = (function(np.full(3, FARTHEST + step), target) for step in (-1e-9, 1e-9))
        np.testing.assert_allclose(below, above, rtol=1e-7)
    far = np.full(3, 1e4)
    assert np.all(np.isfinite(family.loss(far, target)))
    slope = family.slope(far, target)
    both = family.loss(far, target) + family.conjugate(slope, target)
    np.testing.assert_allclose(both, slope * far, rtol=1e-10)


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="y must be numbers from 0 to 1e8 for the family poisson, got -1 in row 1"):
        Poisson().column([2.0, -1.0, 0.0], 3)
    with pytest.raises(ValueError, match="y must hold a number above 0 for the family poisson, got only 0"):
        sparse_glm("poisson", np.eye(3), np.zeros(3), l2=1.0)


def test_the_pages_name_every_family_and_what_tangents_send():
    docs = Path(__file__).parents[2] / "docs"
    page, recipes = (docs / "catalogue" / "sparse_glm.md").read_text(), (docs / "recipes.md").read_text()
    for name in FAMILIES:
        assert f'"{name}"' in page
        assert f'"{name}"' in sparse_glm.__doc__
    assert all(f"`tangent_{part}`" in recipes for part in ("losses", "slopes", "rows"))
