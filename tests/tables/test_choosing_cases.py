"""A penalty is chosen for every kind of recipe and of rows: each path certified, beside what is known of it outside."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_wine
from sklearn.linear_model import Lasso
from support.choosing import breast_cancer, diabetes, recipes

import fedualex as fx
from fedualex.problems.low_rank import LowRankRecipe
from fedualex.problems.recipe import assemble
from fedualex.problems.rows import split_rows
from fedualex.problems.sparse_glm import SparseGlmRecipe
from fedualex.tables.choosing import Measured, choose, fold_rows, search

COUNT = 5


def fitted(recipe, **penalty):
    """The weights of one solve of the rows of diabetes."""
    problem = assemble(replace(recipe, **penalty), diabetes())
    return np.asarray(fx.solve(problem, fx.FeDualNewton(), rounds=60, tol=1e-9).z.x["weights"])


def searched(recipe, rows, **options):
    found = search(recipe, fold_rows(recipe, rows), **{"count": COUNT, **options})
    assert found.curve.missed == 0
    assert max(found.curve.gaps) <= found.curve.tol
    assert found.curve.nonzeros[0] == 0
    assert found.curve.nonzeros[-1] > 0
    return found.curve


def test_a_nuclear_norm_loses_directions():
    D = np.concatenate([own.X for own in diabetes()])
    rows = split_rows(D[:, :6], D[:, 6:], np.arange(len(D)) % 3)
    curve = searched(LowRankRecipe(nuclear=1.0), rows)
    assert curve.name == "nuclear"
    assert curve.nonzeros[-1] == 4
    assert curve.exchanges == LowRankRecipe.exchanges + 2


def test_three_classes():
    X, y = load_wine(return_X_y=True)
    rows = split_rows((X - X.mean(axis=0)) / X.std(axis=0), y, np.arange(len(y)) % 3)
    curve = searched(SparseGlmRecipe("logistic", l1=1.0), rows)
    assert curve.exchanges <= 40
    assert curve.measure[curve.chosen] < 0.2 < curve.measure[0]


def test_sparse_rows_choose_what_full_ones_choose():
    X = np.concatenate([own.X for own in breast_cancer()])
    y = np.concatenate([own.y for own in breast_cancer()])
    X = np.where(np.abs(X) > 0.7, X, 0.0)
    recipe, whose = SparseGlmRecipe("logistic", l1=1.0), np.arange(len(y)) % 3
    full, thin = (
        searched(recipe, split_rows(kind(X), y, whose), count=3) for kind in (np.asarray, scipy.sparse.csr_array)
    )
    np.testing.assert_allclose(thin.values, full.values, rtol=1e-9)
    np.testing.assert_allclose(thin.measure, full.measure, rtol=1e-4)
    assert thin.chosen == full.chosen


def test_groups_of_weights_come_and_go_together():
    recipe = SparseGlmRecipe("squared", group=1.0, groups=np.arange(10) // 2)
    parties = fold_rows(recipe, diabetes())
    found = search(recipe, parties, count=COUNT)
    assert found.curve.name == "group"
    assert found.curve.missed == 0
    for own in found.solved:
        used = np.abs(own.point.x["weights"]).reshape(5, 2) > 1e-9
        np.testing.assert_array_equal(used[:, 0], used[:, 1])
    assert found.curve.nonzeros[0] == 0
    below = fitted(recipe, group=0.99 * found.curve.values[0])
    assert np.count_nonzero(np.abs(below) > 1e-6) == 2


@pytest.mark.parametrize("scale", [1e-8, 3e6])
def test_raw_features_of_any_size_choose_the_same_model(scale):
    recipe = SparseGlmRecipe("squared", l1=1.0)
    plain = searched(recipe, diabetes())
    scaled = searched(recipe, [own._replace(X=scale * own.X) for own in diabetes()])
    np.testing.assert_allclose(np.asarray(scaled.values) / scale, plain.values, rtol=1e-6)
    np.testing.assert_allclose(scaled.measure, plain.measure, rtol=1e-4)
    assert scaled.chosen == plain.chosen


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_targets_of_any_size_choose_the_same_model(scale):
    recipe = SparseGlmRecipe("squared", l1=1.0)
    plain = searched(recipe, diabetes())
    scaled = searched(recipe, [own._replace(y=scale * own.y) for own in diabetes()])
    np.testing.assert_allclose(np.asarray(scaled.values) / scale, plain.values, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(scaled.measure) / scale**2, plain.measure, rtol=1e-4)
    assert scaled.chosen == plain.chosen


def test_raw_features_of_classes_choose_the_same_model_and_say_what_rounding_leaves():
    recipe = recipes()["logistic"]
    plain = searched(recipe, breast_cancer(), count=3)
    rows = [own._replace(X=1e7 * own.X) for own in breast_cancer()]
    scaled = search(recipe, fold_rows(recipe, rows), count=3).curve
    np.testing.assert_allclose(np.asarray(scaled.values) / 1e7, plain.values, rtol=1e-6)
    np.testing.assert_allclose(scaled.measure, plain.measure, rtol=1e-3)
    assert scaled.chosen == plain.chosen
    assert max(scaled.gaps) < 1e-4
    assert (scaled.missed > 0) == ("fits ended at a gap above" in scaled.sentence)


def test_fewer_rows_than_columns_have_a_shorter_path():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(45, 60))
    y = X[:, :3].sum(axis=1) + 0.3 * rng.normal(size=45)
    curve = searched(SparseGlmRecipe("squared", l1=1.0), split_rows(X, y, np.arange(45) % 3))
    assert curve.values[-1] == pytest.approx(1e-2 * curve.values[0])
    model = Lasso(alpha=curve.values[-1], tol=1e-10, max_iter=100_000).fit(X, y)
    assert curve.nonzeros[-1] == np.count_nonzero(model.coef_)


def test_a_target_that_no_feature_tells_anything_of_has_the_model_without_weights():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 4)), rng.normal(size=90)
    beside = np.column_stack([np.ones(90), X])
    y = y - beside @ np.linalg.lstsq(beside, y, rcond=None)[0]
    recipe = SparseGlmRecipe("squared", l1=1.0)
    found = search(recipe, fold_rows(recipe, split_rows(X, y, np.arange(90) % 3)))
    assert len(found.curve.values) == 1
    assert found.curve.nonzeros == [0]
    assert found.curve.missed == 0
    assert "No feature tells anything of the target" in found.curve.sentence


def test_a_constant_target_has_the_model_without_weights():
    recipe = SparseGlmRecipe("squared", l1=1.0)
    found = search(recipe, fold_rows(recipe, [own._replace(y=np.full(len(own.y), 3.7)) for own in diabetes()]))
    assert found.curve.nonzeros == [0]
    assert found.curve.measure[0] == pytest.approx(0, abs=1e-20)


def test_fits_that_were_left_uncertified_are_solved_once_more(monkeypatch):
    recipe = recipes()["logistic"]
    plain = searched(recipe, breast_cancer())
    monkeypatch.setattr("fedualex.runtime.lockstep.PATIENCE", 2)
    hasty = search(recipe, fold_rows(recipe, breast_cancer()), count=COUNT)
    assert hasty.curve.missed == 0
    np.testing.assert_allclose(hasty.curve.measure, plain.measure, atol=1e-4)


def test_fits_that_stay_uncertified_are_counted_and_not_chosen():
    recipe = recipes()["logistic"]
    found = search(recipe, fold_rows(recipe, breast_cancer()), count=COUNT, most_exchanges=6).curve
    assert found.exchanges <= 7  # and that of held-out rows
    assert found.missed > 0
    assert f"{found.missed} of the 30 fits ended at a gap above" in found.sentence
    measured = Measured(np.array([3.0, 1.0, 2.0]), np.full(3, 0.1), np.zeros(3), "")
    assert choose(measured, "best", np.array([True, False, True]))[:2] == (2, 2)
    assert choose(measured, "best", np.zeros(3, bool))[:2] == (1, 1)


def test_each_exchange_is_announced():
    recipe, told = recipes()["logistic"], []
    found = search(recipe, fold_rows(recipe, breast_cancer()), count=3, announce=told.append)
    assert len(told) == found.curve.exchanges
    assert told[-2].endswith("18 of 18 fits certified")
    assert told[-1] == f"exchange {found.curve.exchanges}: losses of held-out rows"
