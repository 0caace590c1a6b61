"""The independent check of certificates in numpy agrees with the library, through JSON, for every class."""

import ast
import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.rows import GEOMETRIES, GROUPS, LOWER, MATRIX, REGULARIZERS, UPPER, VECTOR, C, Q

import fedualex as fx
from fedualex import tree
from fedualex.compiling import double
from fedualex.geometry import AbstractGeometry
from fedualex.regularizers import AbstractRegularizer, InBall, for_reports
from fedualex.runs.folder import describe
from fedualex.verification import recheck
from fedualex.verification.verify import ROUNDING

# What the tables of the laws leave out: quadratic and linear terms beside every kind of set.
SUMS = {
    "quadratic + linear + capped simplex": (fx.CappedSimplex(0.3) + fx.SquaredL2(0.7) + fx.Linear(C), VECTOR),
    "quadratic + capped simplex of one point": (fx.CappedSimplex(0.2) + fx.SquaredL2(0.7), VECTOR),
    "quadratic + simplex of radius 3": (fx.Simplex(3.0) + fx.SquaredL2(0.7), VECTOR),
    "quadratic + simplex of radius 0": (fx.Simplex(0.0) + fx.SquaredL2(0.7), VECTOR),
    "elastic net + l1 ball": (fx.ElasticNet(0.3, 0.7) + fx.L1Ball(0.8), VECTOR),
    "elastic net + l2 ball": (fx.ElasticNet(0.3, 0.7) + fx.L2Ball(0.8), VECTOR),
    "elastic net + box of arrays": (fx.Box(lower=LOWER, upper=UPPER) + fx.ElasticNet(0.3, 0.7), VECTOR),
    "elastic net + linear + nonnegative": (fx.NonNegative() + fx.ElasticNet(0.3, 0.7) + fx.Linear(C), VECTOR),
    "box with some infinite bounds": (fx.Box(lower=[-np.inf, -1, 0, 0.1, -2], upper=[1, np.inf, 0, 1 / 3, 3]), VECTOR),
    "group l2 + l2 ball + quadratic": (fx.GroupL2(0.4, GROUPS) + fx.L2Ball(0.8) + fx.SquaredL2(0.7), VECTOR),
    "group l2 + quadratic": (fx.GroupL2(0.4, GROUPS, weights=[1.0, 2.0, 0.5]) + fx.SquaredL2(0.7), VECTOR),
    "kl + weak quadratic": (fx.KL(0.4, Q) + fx.SquaredL2(1e-3), VECTOR),
    "weak kl + quadratic": (fx.KL(1e-3, Q) + fx.SquaredL2(0.7), VECTOR),
    "kl of strength 0 + quadratic": (fx.KL(0.0, Q) + fx.SquaredL2(0.7), VECTOR),
    "tiny quadratic + simplex": (fx.Simplex() + fx.SquaredL2(1e-33), VECTOR),
    "tiny quadratic + capped simplex + l1": (fx.CappedSimplex(0.3) + fx.SquaredL2(1e-160) + fx.L1(0.3), VECTOR),
    "tiny quadratic": (fx.SquaredL2(1e-160), VECTOR),
    "tiny quadratic beyond floats": (fx.SquaredL2(1e-307), VECTOR),
    "tiny elastic net + nonnegative": (fx.NonNegative() + fx.ElasticNet(0.3, 1e-160), VECTOR),
    "nuclear by the Gram route": (fx.Spectral(fx.L1(0.3) + fx.Box(0.5)) + fx.Linear(MATRIX + 0.1), MATRIX),
}
ROWS = GEOMETRIES | {name: (fx.Euclidean(psi), like) for name, (psi, like) in (REGULARIZERS | SUMS).items()}


def product(geometry):
    return for_reports(geometry if isinstance(geometry, fx.Product) else fx.Product(geometry))


def through_json(geometry):
    return json.loads(json.dumps(describe(geometry), allow_nan=False))


def by_name(point):
    return {name: np.asarray(leaf) for name, leaf in tree.leaves_with_names(point)}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", ROWS)
def test_agrees_with_the_library(name):
    geometry, like = product(ROWS[name][0]), ROWS[name][1]
    description, rng = through_json(geometry), np.random.default_rng(0)

    def draw(scale):
        return jax.tree.map(lambda leaf: jnp.asarray(scale * rng.normal(size=np.shape(leaf))), like)

    with double():
        outside = draw(3.0)
        z = geometry.project(outside)
        assert recheck.violation(description, by_name(z)) <= 1e-12
        expected = float(geometry.violation(outside))
        assert recheck.violation(description, by_name(outside)) == pytest.approx(expected, rel=1e-10, abs=1e-15)
        for scale in (0.0, 0.05, 1.0, 30.0):  # some conjugates are finite only near 0
            g = draw(scale)
            gaps = recheck.fenchel_gaps(description, by_name(z), by_name(g))
            expected = {name: float(gap) for name, gap in by_name(geometry.fenchel_gaps(z, g)).items()}
            values = {name: gap.value for name, gap in gaps.items()}
            assert values == pytest.approx(expected, rel=1e-10, abs=1e-12 * (1 + scale))
            # What `verify` allows: a share of what was added up, with nothing absolute in it but what XLA makes 0.
            for name, gap in gaps.items():
                apart = abs(values[name] - expected[name]) if values[name] != expected[name] else 0.0
                assert apart <= ROUNDING * gap.size + np.finfo(np.float64).tiny


TINY = 1e-8


@pytest.mark.parametrize(
    ("psi", "scaled"),
    [
        (fx.L1(0.3) + fx.Box(0.5), fx.L1(0.3 * TINY) + fx.Box(0.5)),
        (fx.Simplex() + fx.Linear(C), fx.Simplex() + fx.Linear(TINY * C)),
        (fx.KL(0.4, Q), fx.KL(0.4 * TINY, Q)),
        (fx.L2Ball(0.8) + fx.SquaredL2(0.7), fx.L2Ball(0.8) + fx.SquaredL2(0.7 * TINY)),
        (fx.Spectral(fx.L1(0.3) + fx.Box(0.5)), fx.Spectral(fx.L1(0.3 * TINY) + fx.Box(0.5))),
    ],
    ids=repr,
)
def test_sizes_are_in_the_units_of_the_problem(psi, scaled):
    """A problem in units of 1e-8 has gaps and sizes 1e-8 times as large: nothing in them is absolute."""
    shape, rng = np.shape(MATRIX if "Spectral" in repr(psi) else VECTOR), np.random.default_rng(1)
    g = {"": rng.normal(size=shape)}
    with double():
        z = by_name(product(fx.Euclidean(psi)).project(jnp.asarray(rng.normal(size=shape))))
    gap = recheck.fenchel_gaps(through_json(fx.Product(psi)), z, g)[""]
    small = recheck.fenchel_gaps(through_json(fx.Product(scaled)), z, {"": TINY * g[""]})[""]
    assert small.value == pytest.approx(TINY * gap.value, rel=1e-6)
    assert small.size == pytest.approx(TINY * gap.size, rel=1e-6)
    assert abs(gap.value) <= gap.size <= 100 * (np.sum(np.abs(g[""])) + 1)


def test_a_nan_is_not_lost():
    description = through_json(fx.Product(fx.Saddle(fx.Box(1.0), fx.Simplex())))
    point = {"x": VECTOR, "y": np.full(5, np.nan)}
    assert np.isnan(recheck.violation(description, point))
    assert np.isnan(recheck.fenchel_gaps(description, point, point)["y"].value)


def test_every_class_has_a_form():
    def concrete(base):
        below = {cls for child in base.__subclasses__() for cls in {child, *concrete(child)}}
        return {cls for cls in below if cls.__module__.startswith("fedualex.") and not cls.__name__.startswith("Abs")}

    classes = concrete(AbstractRegularizer) | concrete(AbstractGeometry) - {fx.Product}
    assert recheck.FORMS.keys() == {cls.__name__ for cls in classes}


def test_imports_only_numpy_and_the_standard_library():
    modules = set()
    for node in ast.walk(ast.parse(Path(recheck.__file__).read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add("." * node.level + (node.module or ""))
    assert {module.split(".")[0] for module in modules} - set(sys.stdlib_module_names) == {"numpy"}


def test_a_description_keeps_every_bit_and_drops_the_route():
    bound = np.array([0.1, np.pi, np.inf, 5e-324, 1.7976931348623157e308])
    box = fx.Box(lower=-bound, upper=np.append(bound[:-1], np.inf))
    described = through_json(fx.Product(fx.Saddle({"w": fx.Euclidean(box)}, fx.Spectral(fx.L1(0.3)))))
    assert described["x['w']"]["regularizer"]["lower"][2] == "-inf"
    assert np.array_equal(np.array(described["x['w']"]["regularizer"]["lower"], dtype=float), -bound)
    assert described["y"] == {
        "class": "Euclidean",
        "regularizer": {"class": "Spectral", "psi": {"class": "L1", "lam": 0.3}},
    }


class L1(fx.regularizers.AbstractPenalty):
    """A user's own class, with a name of ours."""

    lam: float = 0.3

    def value(self, x):
        return self.lam * jnp.sum(jnp.abs(x))

    def prox(self, omega, weight):
        return omega

    def conjugate(self, s):
        return jnp.zeros(())

    def subgradient(self, x):
        return jnp.zeros_like(x)

    finite_conjugate = False
    absolutely_symmetric = True


@pytest.mark.parametrize(
    "psi", [L1(), fx.SquaredL2(0.7) + L1(), fx.Spectral(L1()), InBall(L1(), fx.L2Ball(1.0))], ids=repr
)
def test_a_users_own_class_cannot_be_redone(psi):
    description = through_json(fx.Product(psi))
    point = {"": np.zeros((2, 2))}
    with pytest.raises(recheck.CannotRedo, match="L1 is a class of the user's own"):
        recheck.fenchel_gaps(description, point, point)
    with pytest.raises(recheck.CannotRedo, match="L1 is a class of the user's own"):
        recheck.violation(description, point)


def test_what_has_no_form_cannot_be_redone():
    point = {"": VECTOR}
    with pytest.raises(recheck.CannotRedo, match="Huber has no formulas"):
        recheck.fenchel_gaps({"": {"class": "Huber"}}, point, point)
    groups = through_json(fx.Product(InBall(fx.GroupL2(0.4, GROUPS), fx.L1Ball(0.8))))
    with pytest.raises(recheck.CannotRedo, match="GroupL2 in L1Ball"):
        recheck.fenchel_gaps(groups, point, point)
    quadratic = through_json(fx.Product(fx.SquaredL2(0.7)))
    quadratic[""]["class"] = "EntropicSimplex"
    with pytest.raises(recheck.CannotRedo, match="WithQuadratic on EntropicSimplex"):
        recheck.fenchel_gaps(quadratic, point, point)
