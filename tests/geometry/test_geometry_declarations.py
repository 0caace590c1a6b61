"""What a geometry must declare so that certificates, theory and references can use it."""

import numpy as np
import pytest
from support.declared import concrete, declares
from support.rows import GEOMETRIES as ROWS

import fedualex as fx
from fedualex.geometry import AbstractGeometry, Product
from fedualex.verification import recheck

GEOMETRIES = [cls for cls in concrete(AbstractGeometry) if cls is not Product]
"""A product asks its parts."""
DECLARED = ("rounding_is_bound", "power", "model_form")
PLAIN = {name: row for name, row in ROWS.items() if not isinstance(row[0], Product)}


def test_all_are_seen():
    assert {cls.__name__ for cls in GEOMETRIES} >= {"Euclidean", "EntropicSimplex", "PNorm"}


@pytest.mark.parametrize("name", DECLARED)
@pytest.mark.parametrize("cls", GEOMETRIES)
def test_a_geometry_declares(cls, name):
    assert declares(cls, AbstractGeometry, name), f"{cls.__name__} must declare {name}"


def test_a_declaration_that_is_missing_is_seen():
    class Forgetful(AbstractGeometry):
        pass

    assert not any(declares(Forgetful, AbstractGeometry, name) for name in DECLARED)


@pytest.mark.parametrize("cls", GEOMETRIES)
def test_it_has_a_form_in_the_independent_check(cls):
    assert cls.__name__ in recheck.FORMS


@pytest.mark.parametrize("name", PLAIN)
def test_power_is_that_of_the_norm_and_of_its_dual(name):
    geometry, like = PLAIN[name]
    p = geometry.power
    q = np.inf if p == 1 else p / (p - 1)
    v = np.random.default_rng(0).normal(size=like.size)
    np.testing.assert_allclose(geometry.norm(v.reshape(like.shape)), np.linalg.norm(v, p), rtol=1e-5)
    np.testing.assert_allclose(geometry.dual_norm(v.reshape(like.shape)), np.linalg.norm(v, q), rtol=1e-5)
    if p == 2:
        np.testing.assert_allclose(geometry.ell(v.reshape(like.shape)), v @ v / 2, rtol=1e-5)


@pytest.mark.parametrize("name", PLAIN)
def test_no_point_of_the_domain_is_longer_than_its_radius(name):
    geometry, like = PLAIN[name]
    radius = float(geometry.radius(like))
    for seed in range(5):
        z = geometry.project(10 * np.random.default_rng(seed).normal(size=like.shape))
        assert float(geometry.norm(z)) <= radius * (1 + 1e-5)


def test_the_radius_that_a_geometry_has_without_declaring_one_is_a_bound():
    geometry, like = fx.Euclidean(fx.Box(lower=1.0, upper=2.0)), np.zeros(3)
    assert float(AbstractGeometry.radius(geometry, like)) >= float(geometry.radius(like)) == pytest.approx(12**0.5)


def test_a_product_has_the_weakest_declaration_of_its_parts():
    bound, estimate = fx.EntropicSimplex(), fx.PNorm(1.5)
    assert Product(fx.Saddle(bound, bound)).rounding_is_bound
    assert not Product(fx.Saddle(bound, estimate)).rounding_is_bound
