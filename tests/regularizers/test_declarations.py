"""What a regularizer must declare so that certificates and references can use it; a missing declaration fails here."""

import equinox as eqx
import numpy as np
import pytest
from scipy.optimize import linprog
from support.declared import concrete, declares
from support.rows import REGULARIZERS as ROWS

import fedualex as fx
from fedualex.reference.exact import polyhedron
from fedualex.regularizers import AbstractRegularizer, Spectral
from fedualex.regularizers.fenchel import has_rounding_bound
from fedualex.regularizers.sums import WithQuadratic
from fedualex.verification import recheck

MADE_OF_OTHERS = (Spectral, WithQuadratic)
"""They ask the regularizer inside."""


REGULARIZERS = concrete(AbstractRegularizer)


def test_all_are_seen():
    names = {cls.__name__ for cls in REGULARIZERS}
    assert names >= {"Zero", "L1", "GroupL2", "KL", "Box", "L1Ball", "L2Ball", "Simplex", "CappedSimplex", "InBox"}


@pytest.mark.parametrize(
    "cls", [cls for cls in REGULARIZERS if cls not in MADE_OF_OTHERS], ids=lambda cls: cls.__name__
)
def test_a_regularizer_declares_its_roundings(cls):
    assert "roundings" in vars(cls), f"{cls.__name__} must say how often it rounds, or that nobody derived it (None)"


@pytest.mark.parametrize("cls", REGULARIZERS)
def test_it_says_which_form_it_has_in_models_and_linear_programs(cls):
    assert declares(cls, AbstractRegularizer, "model_form"), f"{cls.__name__} must declare its model form"


@pytest.mark.parametrize("cls", REGULARIZERS)
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


def test_a_declaration_that_is_missing_is_seen():
    class Forgetful(fx.regularizers.AbstractPenalty):
        pass

    assert not declares(Forgetful, AbstractRegularizer, "model_form")
    assert "roundings" not in vars(Forgetful)


@pytest.mark.parametrize(
    ("psi", "like"),
    [row for row in ROWS.values() if row[0].model_form().is_polyhedral],
    ids=lambda one: repr(one)[:40],
)
def test_the_polyhedral_form_is_the_same_function(psi, like):
    """Its linear program has the conjugate as its value; value and set are the same at the points of the prox."""
    form, rng = psi.model_form(), np.random.default_rng(0)
    program = polyhedron("x", fx.Euclidean(psi), like.shape)
    constant = np.ravel(getattr(psi, "constant", 0.0))[0]
    for scale in (0.1, 1.0, 3.0):
        s = scale * rng.normal(size=like.size)
        found = linprog(
            program.cost - np.concatenate([s, -s]),
            A_ub=program.rows if program.limits.size else None,
            b_ub=program.limits if program.limits.size else None,
            A_eq=program.totals if program.sums.size else None,
            b_eq=program.sums if program.sums.size else None,
            bounds=np.column_stack([program.low, program.high]),
        )
        most = -found.fun - constant if found.success else np.inf
        np.testing.assert_allclose(psi.conjugate(s.reshape(like.shape)), most, rtol=1e-6, atol=1e-6)
        x = np.asarray(psi.prox(s.reshape(like.shape), 0.5), float)
        value = form.l1 * np.sum(np.abs(x)) + np.sum(form.linear * x) + constant
        np.testing.assert_allclose(psi.value(x), value, rtol=1e-6, atol=1e-6)
        assert np.all(x >= form.lower - 1e-6)
        assert np.all(x <= form.upper + 1e-6)
        assert form.coupling != "l1" or np.sum(np.abs(x)) <= form.radius + 1e-6
        assert form.coupling != "sum" or np.sum(x) == pytest.approx(form.radius, abs=1e-6)
