"""A printed bound is never below the bound."""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import fedualex as fx
from fedualex.cli.common import shown
from fedualex.display import rounded_up


@settings(deadline=None)
@given(st.floats(0, allow_infinity=False), st.integers(1, 12))
@example(1.14412, 3)
@example(0.1, 3)
@example(5e-324, 2)
@example(1.7976931348623157e308, 17)
@example(999.9, 3)
def test_a_rounded_bound_is_not_below_and_hardly_above(bound, digits):
    text = rounded_up(bound, digits)
    assert float(text) >= bound
    assert float(text) <= bound * (1 + 10.0 ** (1 - digits)) * (1 + 1e-15) or bound < 1e-300
    assert len(re.sub(r"e.*|[.]", "", text).lstrip("0").rstrip("0")) <= digits


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        (0.0, "0"),
        (-1e-17, "0"),
        (0.1, "0.1"),
        (1.14412, "1.145"),
        (2.8e-12, "2.8e-12"),
        (float("inf"), "inf"),
        (12345678.0, "1.235e+07"),
    ],
)
def test_how_bounds_look(bound, text):
    assert rounded_up(bound) == text


def test_nan_is_no_bound():
    with pytest.raises(ValueError, match="nan"):
        rounded_up(float("nan"))


@pytest.mark.slow
def test_every_printed_bound_of_random_games_is_one():
    """Of 300 bounds that were printed to nearest, 136 were below the certified gap."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        game = fx.problems.bilinear(rng.normal(size=(3, 2)), rng.normal(size=3), x=fx.Box(1.0), y=fx.Simplex(1.0))
        z = game.project(fx.Saddle(rng.normal(size=2), rng.normal(size=3)))
        certificate = game.certificate(z)
        printed = [float(number) for number in re.findall(r"[\d.]+(?:e[-+]\d+)?", str(certificate))]
        assert printed[0] >= certificate.gap
        assert printed[1] >= certificate.x
        assert printed[2] >= certificate.y
        assert float(shown(certificate.gap)) >= certificate.gap
