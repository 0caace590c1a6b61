"""Folds of rows: stable, alike everywhere, and refused where something is lost."""

import jax
import numpy as np
import pytest
from support.choosing import breast_cancer, recipes, rows_of, some

from fedualex.algorithms.base import Survey
from fedualex.problems.curvature import surveyor_of
from fedualex.problems.recipe import assemble
from fedualex.tables.choosing import fold_rows, search
from fedualex.tables.folds import FoldedRows, fold_of, known_by_fold


@pytest.mark.parametrize("keys", [np.arange(1000), np.array([f"patient {i}" for i in range(1000)])])
def test_appended_rows_move_nobody(keys):
    before, after = fold_of(keys[:700], "north"), fold_of(keys, "north")
    np.testing.assert_array_equal(before, after[:700])


def test_a_longer_id_elsewhere_in_the_column_moves_nobody():
    names = np.array(["a", "bc", "d"])
    longer = np.array(["a", "bc", "d", "a much longer one"])
    np.testing.assert_array_equal(fold_of(names, "north"), fold_of(longer, "north")[:3])


def test_positions_are_the_keys_of_rows_without_ids():
    np.testing.assert_array_equal(fold_of(500, "north"), fold_of(np.arange(500), "north"))


def test_the_folds_of_this_version_are_those_of_the_next():
    assert fold_of(12, "north", 5, seed=3).tolist() == FOLDS_OF_TWELVE


FOLDS_OF_TWELVE = [1, 3, 2, 0, 0, 3, 4, 4, 3, 3, 1, 2]


def test_folds_are_about_equal_and_differ_by_site_and_seed():
    found = fold_of(10_000, "north")
    assert np.all(np.abs(np.bincount(found, minlength=5) - 2000) < 200)
    for other in (fold_of(10_000, "south"), fold_of(10_000, "north", seed=1)):
        assert 0.15 < np.mean(found == other) < 0.25


def test_fewer_rows_than_folds_are_refused_by_name():
    rows = breast_cancer()[0]
    few = type(rows)(rows.X[:4], rows.y[:4])
    with pytest.raises(ValueError, match="north must have at least 5 rows, one for each fold, got 4"):
        FoldedRows(recipes()["logistic"], few, np.zeros(4, int), 5, 0, "north")


def test_a_fold_without_one_class_is_refused():
    recipe = recipes()["logistic"]
    rows = breast_cancer()
    fold = [fold_of(len(own.y), str(m)) for m, own in enumerate(rows)]
    parties = fold_rows(recipe, rows)
    for m, own in enumerate(rows):
        parties.members[m].fold = np.where(own.y == 1, 2, fold[m])
    with pytest.raises(ValueError, match="all rows of the class 1 are in fold 2"):
        search(recipe, parties, count=3)


def test_two_sites_cannot_be_left_out_in_turn():
    with pytest.raises(ValueError, match="needs at least three, got 2"):
        fold_rows(recipes()["logistic"], breast_cancer()[:2], folds="sites")


@pytest.mark.parametrize("goal", ["logistic", "auc", "fair"])
def test_a_survey_without_a_fold_is_that_of_the_other_rows(goal):
    recipe, rows = recipes()[goal], breast_cancer()
    parties = fold_rows(recipe, rows)
    known = [[] for _ in range(parties.folds + 1)]
    for _ in range(recipe.exchanges):
        for own, part in zip(known, known_by_fold(parties.summaries(known), len(known)), strict=True):
            own.append(part)
    parties.settle(known)
    kept = [some(own, member.fold != 2) for own, member in zip(rows, parties.members, strict=True)]
    alone = surveyor_of(assemble(recipe, kept))
    rng = np.random.default_rng(0)
    point = alone.problem.geometry.project(
        jax.tree.map(lambda leaf: 0.1 * rng.normal(size=leaf.shape), alone.problem.like)
    )
    ((found,),), direct = parties.surveys([(2, Survey((point,), (True,)))]), alone.survey(point, curvature=True)
    np.testing.assert_allclose(found.value, direct.value, rtol=1e-12)
    np.testing.assert_allclose(found.curvature.xx, direct.curvature.xx, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.operator.x["weights"], direct.operator.x["weights"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("goal", ["logistic", "lasso"])
def test_folds_that_are_surveyed_together_say_what_each_says_alone(goal):
    recipe, rows = recipes()[goal], rows_of(goal)
    rows = [own._replace(weight=1.0 + np.arange(len(own.y)) % 3) for own in rows]
    parties = fold_rows(recipe, rows)
    known = [[] for _ in range(parties.folds + 1)]
    for _ in range(recipe.exchanges):
        for own, part in zip(known, known_by_fold(parties.summaries(known), len(known)), strict=True):
            own.append(part)
    parties.settle(known)
    for party in parties.members:
        like = party.like(0)
        point = jax.tree.map(lambda leaf: np.full(np.shape(leaf), 0.1), like)
        survey = Survey((point,), (True,))
        together = party.survey([(f, survey) for f in range(parties.folds + 1)])
        assert len(party._survey_together([(f, point, True, None) for f in range(6)])) == 6
        for f, (found,) in enumerate(together):
            ((alone,),) = party.survey([(f, survey)])
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-14), found, alone)
