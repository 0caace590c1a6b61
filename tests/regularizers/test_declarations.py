"""What a regularizer or a geometry must declare so that certificates can use it; a missing declaration fails here."""

import equinox as eqx
import pytest

import fedualex as fx
from fedualex.geometry import AbstractGeometry, Product
from fedualex.regularizers import AbstractRegularizer, Spectral
from fedualex.regularizers.fenchel import has_rounding_bound
from fedualex.regularizers.sums import WithQuadratic
from fedualex.verification import recheck

MADE_OF_OTHERS = (Spectral, WithQuadratic)
"""They ask the regularizer inside."""


def concrete(base):
    """The final classes of ours below this one: those that an instance can be made of."""
    found = [cls for sub in base.__subclasses__() for cls in (concrete(sub) or [sub])]
    ours = (cls for cls in found if cls.__module__.startswith("fedualex."))
    return sorted({cls for cls in ours if not cls.__abstractmethods__}, key=lambda cls: cls.__name__)


REGULARIZERS, GEOMETRIES = concrete(AbstractRegularizer), concrete(AbstractGeometry)


def test_all_are_seen():
    names = {cls.__name__ for cls in REGULARIZERS}
    assert names >= {"Zero", "L1", "GroupL2", "KL", "Box", "L1Ball", "L2Ball", "Simplex", "CappedSimplex", "InBox"}
    assert {cls.__name__ for cls in GEOMETRIES} >= {"Euclidean", "EntropicSimplex", "PNorm", "Product"}


@pytest.mark.parametrize(
    "cls", [cls for cls in REGULARIZERS if cls not in MADE_OF_OTHERS], ids=lambda cls: cls.__name__
)
def test_a_regularizer_declares_its_roundings(cls):
    assert "roundings" in vars(cls), f"{cls.__name__} must say how often it rounds, or that nobody derived it (None)"


@pytest.mark.parametrize("cls", [*REGULARIZERS, *(cls for cls in GEOMETRIES if cls is not Product)])
def test_it_has_a_form_in_the_independent_check(cls):
    assert cls.__name__ in recheck.FORMS


def test_what_is_made_of_others_has_their_declaration():
    assert has_rounding_bound(fx.Spectral(fx.L1(0.1) + fx.Box(1.0)))
    assert has_rounding_bound(fx.ElasticNet(0.1, 0.2))
    assert not has_rounding_bound(fx.Entropy(0.1))


def test_a_class_that_inherits_formulas_does_not_inherit_their_analysis():
    class Shifted(fx.L1):
        def value(self, x):
            return super().value(x) + 1e9 - 1e9

    assert eqx.tree_equal(Shifted(0.1).lam, fx.L1(0.1).lam)
    assert not has_rounding_bound(Shifted(0.1))
