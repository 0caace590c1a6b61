"""Problems that are solved together end where each would alone, in the same exchanges, and none holds up the others."""

from functools import cache

import numpy as np
import pytest
from support.choosing import breast_cancer, diabetes

import fedualex as fx
from fedualex.algorithms.base import Survey
from fedualex.problems.curvature import surveyor_of
from fedualex.problems.recipe import assemble
from fedualex.problems.sparse_glm import SparseGlmRecipe
from fedualex.runtime.lockstep import PATIENCE, Member, Quadratic, is_quadratic, numbers_of, solve_together

LOSSES = ("logistic", "squared")
PENALTIES = (0.1, 0.03, 0.01)


@cache
def problem(loss, l1):
    return assemble(SparseGlmRecipe(loss, l1=l1), breast_cancer() if loss == "logistic" else diabetes())


class Asked:
    """Surveys of both losses, and how many were wanted in each exchange."""

    def __init__(self):
        self.surveyors = [surveyor_of(problem(loss, 1.0)) for loss in LOSSES]
        self.counts = []

    def __call__(self, requests):
        self.counts.append(len(requests))
        return [[self._at(f, *place) for place in places(survey)] for f, survey in requests]

    def _at(self, f, point, curvature, start):
        return self.surveyors[f].survey(point, curvature=curvature, start=start)


def places(survey):
    nothing = (None,) * len(survey.points)
    return zip(survey.points, survey.curvature or nothing, survey.starts or nothing, strict=True)


def members(start=None):
    return [Member(f, problem(loss, l1), start) for l1 in PENALTIES for f, loss in enumerate(LOSSES)]


def test_each_of_two_families_ends_where_it_would_alone():
    asked = Asked()
    found = solve_together(members(), asked, tol=1e-7)
    assert found.exchanges == len(asked.counts) <= 12
    for member, own in zip(members(), found.solved, strict=True):
        alone = fx.solve(member.problem, fx.FeDualNewton(), rounds=40, tol=1e-9).state.server.bounds
        assert own.met
        assert 0 <= own.gap <= 1e-7
        assert float(alone.lower.bound) - 1e-12 <= own.value <= float(alone.upper.bound) + own.gap


def test_who_is_done_is_asked_no_more():
    asked = Asked()
    solve_together(members(), asked, tol=1e-7)
    assert asked.counts[0] == 6
    assert sorted(asked.counts, reverse=True) == asked.counts
    assert asked.counts[-1] < 6


def test_as_many_are_under_way_as_fit_in_one_exchange():
    asked, whole = Asked(), solve_together(members(), Asked(), tol=1e-7)
    room = numbers_of(problem("logistic", 1.0)) + numbers_of(problem("squared", 1.0))
    found = solve_together(members(), asked, tol=1e-7, numbers_per_exchange=room)
    assert found.exchanges > whole.exchanges
    assert all(own.met for own in found.solved)
    values = [[own.value for own in each.solved] for each in (found, whole)]
    np.testing.assert_allclose(*values, atol=2e-7)


def test_one_that_needs_more_than_an_exchange_may_carry_goes_alone():
    asked = Asked()
    found = solve_together(members()[:2], asked, tol=1e-7, numbers_per_exchange=1)
    assert set(asked.counts) == {1}
    assert all(own.met for own in found.solved)


def test_a_start_is_worth_exchanges():
    cold = solve_together(members()[4:], Asked(), tol=1e-7)
    warm = solve_together(members()[2:4] + members()[4:], Asked(), tol=1e-7, numbers_per_exchange=1)
    near = [member._replace(start=own.place) for member, own in zip(members()[4:], cold.solved, strict=True)]
    again = solve_together(near, Asked(), tol=1e-7)
    assert again.exchanges < cold.exchanges
    assert all(own.met for own in (*warm.solved, *again.solved))


def test_one_whose_gap_no_longer_falls_leaves_with_what_it_has():
    found = solve_together(members()[:1], Asked(), tol=1e-30)
    (own,) = found.solved
    assert not own.met
    assert own.gap < 1e-10
    assert found.exchanges <= 12 + PATIENCE


@pytest.mark.parametrize("most", [0, 1, 3])
def test_an_early_end_returns_what_there_is(most):
    room = numbers_of(problem("logistic", 1.0)) + numbers_of(problem("squared", 1.0))
    found = solve_together(members(), Asked(), tol=1e-12, most_exchanges=most, numbers_per_exchange=room)
    assert found.exchanges == most
    assert len(found.solved) == 6
    begun = [np.isfinite(own.gap) for own in found.solved]
    assert not begun[-1]
    assert begun[0] == (most > 0)
    assert not any(own.met and not np.isfinite(own.gap) for own in found.solved)


def test_a_tolerance_may_be_a_share_of_the_value():
    for own in solve_together(members(), Asked(), tol=1e-5, relative=True).solved:
        assert own.met
        assert own.gap <= 1e-5 * own.value


def test_each_exchange_is_reported_with_how_many_are_certified():
    told = []
    found = solve_together(members(), Asked(), tol=1e-7, report=told.append)
    assert len(told) == found.exchanges
    assert sorted(told) == told
    assert told[-1] == 6


def test_squares_are_known_everywhere_from_one_survey():
    own, rng = problem("squared", 1.0), np.random.default_rng(0)
    assert is_quadratic(own)
    assert not is_quadratic(problem("logistic", 1.0))
    one, other = (
        type(own.like)({"bias": np.asarray(rng.normal()), "weights": rng.normal(size=10)}, None) for _ in range(2)
    )
    surveyor = surveyor_of(own)
    model = Quadratic(one, surveyor.survey(one, curvature=True))
    (found,), direct = model.survey(Survey((other,), (True,))), surveyor.survey(other, curvature=True)
    np.testing.assert_allclose(found.value, direct.value, rtol=1e-12)
    np.testing.assert_allclose(found.operator.x["weights"], direct.operator.x["weights"], rtol=1e-10)
