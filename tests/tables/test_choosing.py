"""The penalty that is chosen is that of a direct search, every point of the path is certified, in few exchanges."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Lasso, Ridge
from support.choosing import direct_search, fitted, recipes, rows_of, some

from fedualex.tables.choosing import Curve, Measured, choose, fold_rows, penalty_grid, search


@pytest.fixture(scope="module")
def searched():
    found = {}

    def of(goal, **options):
        key = goal, *options.items()
        if key not in found:
            recipe = recipes()[goal]
            parties = fold_rows(recipe, rows_of(goal))
            found[key] = search(recipe, parties, **options), parties
        return found[key]

    return of


LONG = ("fair", "neyman-pearson")
EVERY = [pytest.param(goal, marks=pytest.mark.slow) if goal in LONG else goal for goal in recipes()]


@pytest.mark.parametrize("goal", EVERY)
def test_the_whole_path_and_all_folds_take_at_most_forty_exchanges_and_are_certified(searched, goal):
    found, _ = searched(goal)
    curve = found.curve
    assert curve.exchanges <= 40
    assert len(curve.values) == 30
    assert max(curve.gaps) <= curve.tol
    assert curve.nonzeros[0] == 0
    assert curve.nonzeros[-1] > 5


@pytest.mark.parametrize("goal", ["lasso", "auc"])
def test_squares_are_surveyed_once(searched, goal):
    found, _ = searched(goal)
    assert found.curve.exchanges == recipes()[goal].exchanges + 1 + 1  # summaries, the survey, held-out rows


@pytest.mark.parametrize("goal", EVERY)
def test_the_choice_is_that_of_a_direct_search(searched, goal):
    found, parties = searched(goal, count=5)
    compare_directly(goal, found, parties)


@pytest.mark.slow
@pytest.mark.parametrize("goal", EVERY)
def test_the_choice_among_thirty_is_that_of_a_direct_search(searched, goal):
    compare_directly(goal, *searched(goal))


def compare_directly(goal, found, parties):
    curve = found.curve
    direct = direct_search(goal, recipes()[goal], rows_of(goal), parties.members, curve.values)
    np.testing.assert_allclose(curve.measure, direct.mean, rtol=0, atol=3e-4)
    np.testing.assert_allclose(curve.error, direct.error, rtol=0, atol=3e-4)
    for rule, chosen in ((curve.rule, curve.chosen), ("best", curve.best)):
        assert choose(Measured(direct.mean, direct.error, direct.excess, ""), rule)[1] == chosen


@pytest.mark.parametrize("goal", EVERY)
def test_gaps_hold_against_an_outside_solve(searched, goal):
    found, _ = searched(goal)
    for v in (3, 17, 29):
        outside = fitted(recipes()[goal], found.curve.values[v], rows_of(goal), tol=1e-9)
        bounds = outside.state.server.bounds
        lower, upper = float(bounds.lower.bound), float(bounds.upper.bound)
        solved = found.solved[v]
        assert lower - 1e-12 <= solved.value <= upper + solved.gap


def test_the_curve_of_lasso_is_that_of_scikit_learn(searched):
    found, parties = searched("lasso")
    rows, curve = rows_of("lasso"), found.curve
    for v in (0, 9, 20, 29):
        losses = []
        for k in range(5):
            kept, held = (
                [
                    np.concatenate(part)
                    for part in zip(
                        *((own.X[at], own.y[at]) for own, at in chosen_rows(rows, parties, k, inside)), strict=True
                    )
                ]
                for inside in (False, True)
            )
            model = Lasso(alpha=curve.values[v], tol=1e-10, max_iter=100_000).fit(*kept)
            losses.append(np.sum((model.predict(held[0]) - held[1]) ** 2) / 2)
        np.testing.assert_allclose(curve.measure[v], np.sum(losses) / sum(len(own.y) for own in rows), rtol=1e-5)


def test_a_path_of_l2_is_that_of_ridge_regression():
    rows, recipe = rows_of("lasso"), replace(recipes()["lasso"], l1=0.0, l2=1.0)
    parties = fold_rows(recipe, rows)
    curve = search(recipe, parties, name="l2", count=4).curve
    X, count = np.concatenate([own.X for own in rows]), sum(len(own.y) for own in rows)
    assert curve.values[0] == pytest.approx(10 * np.sum(X**2) / count, rel=1e-5)
    assert curve.values[-1] == pytest.approx(1e-5 * curve.values[0])
    for v, value in enumerate(curve.values):
        losses = []
        for k in range(5):
            kept, held = (
                [np.concatenate(part) for part in zip(*((own.X[at], own.y[at]) for own, at in found), strict=True)]
                for found in (chosen_rows(rows, parties, k, inside) for inside in (False, True))
            )
            model = Ridge(alpha=value * len(kept[1])).fit(*kept)
            losses.append(np.sum((model.predict(held[0]) - held[1]) ** 2) / 2)
        assert curve.measure[v] == pytest.approx(np.sum(losses) / count, rel=1e-4)
    assert max(curve.gaps) <= curve.tol


def chosen_rows(rows, parties, k, inside):
    return [(own, (party.fold == k) == inside) for own, party in zip(rows, parties.members, strict=True)]


def test_squares_known_at_the_server_give_what_surveys_give(searched, monkeypatch):
    found, _ = searched("lasso")
    monkeypatch.setattr("fedualex.tables.choosing.is_quadratic", lambda problem: False)
    recipe = recipes()["lasso"]
    asked = search(recipe, fold_rows(recipe, rows_of("lasso")))
    assert asked.curve.exchanges > found.curve.exchanges
    np.testing.assert_allclose(asked.curve.measure, found.curve.measure, rtol=1e-6)
    assert asked.curve.chosen == found.curve.chosen


@pytest.mark.parametrize("goal", ["lasso", "auc"])
def test_active_sets_find_the_path_that_other_fits_find(searched, goal, monkeypatch):
    found, _ = searched(goal)
    monkeypatch.setattr("fedualex.tables.choosing.solve_lasso_path", lambda squares, values: None)
    recipe = recipes()[goal]
    plain = search(recipe, fold_rows(recipe, rows_of(goal)))
    np.testing.assert_allclose(found.curve.measure, plain.curve.measure, rtol=1e-6)
    assert (found.curve.chosen, found.curve.best) == (plain.curve.chosen, plain.curve.best)
    assert found.curve.nonzeros == plain.curve.nonzeros
    for one, other in zip(found.solved, plain.solved, strict=True):
        assert one.value - one.gap <= other.value
        assert other.value - other.gap <= one.value


def test_blocks_choose_what_one_block_chooses(searched):
    found, _ = searched("logistic", count=8)
    recipe = recipes()["logistic"]
    blocks = search(recipe, fold_rows(recipe, rows_of("logistic")), count=8, numbers_per_exchange=4000)
    assert blocks.curve.exchanges > found.curve.exchanges
    np.testing.assert_allclose(blocks.curve.measure, found.curve.measure, atol=3e-4)
    assert (blocks.curve.chosen, blocks.curve.best) == (found.curve.chosen, found.curve.best)
    assert max(blocks.curve.gaps) <= blocks.curve.tol


def test_sites_left_out_in_turn():
    recipe, rows = recipes()["logistic"], rows_of("logistic")
    found = search(recipe, fold_rows(recipe, rows, folds="sites"), count=4)
    value = found.curve.values[2]
    losses = []
    for k, held in enumerate(rows):
        x = fitted(recipe, value, [own for m, own in enumerate(rows) if m != k]).z.x
        scores = held.X @ np.asarray(x["weights"]) + np.asarray(x["bias"])
        losses.append(np.mean(np.logaddexp(0, np.where(held.y == 1, -scores, scores))))
    sizes = [len(own.y) for own in rows]
    np.testing.assert_allclose(found.curve.measure[2], np.average(losses, weights=sizes), atol=1e-4)
    mean = np.average(losses, weights=sizes)
    error = np.sqrt(np.average((np.array(losses) - mean) ** 2, weights=sizes) / (3 - 1))  # glmnet's cvsd
    np.testing.assert_allclose(found.curve.error[2], error, atol=1e-4)


def test_the_grid_falls_evenly_to_its_share():
    grid = penalty_grid(2.0, 5, 1e-2)
    np.testing.assert_allclose(grid, [2.0, 2 * 10**-0.5, 0.2, 2 * 10**-1.5, 0.02])
    with pytest.raises(ValueError, match="finite number > 0, got 0"):
        penalty_grid(0.0)


def test_one_standard_error_is_the_largest_penalty_within_it():
    measured = Measured(np.array([5.0, 2.05, 2.0, 3.0]), np.array([1, 1, 0.1, 1]), np.zeros(4), "")
    assert choose(measured, "one-standard-error") == (2, 1, "")
    assert choose(measured, "best") == (2, 2, "")
    with pytest.raises(ValueError, match="got 'median'"):
        choose(measured, "median")


def test_values_over_the_limit_are_not_chosen_and_the_least_excess_is_if_all_are():
    measured = Measured(np.array([1.0, 2.0, 3.0]), np.ones(3), np.array([0.3, 0.0, 0.0]), "")
    assert choose(measured, "one-standard-error")[:2] == (1, 1)
    best, chosen, said = choose(measured._replace(excess=np.array([0.3, 0.1, 0.2])), "one-standard-error")
    assert (best, chosen) == (1, 1)
    assert "No value keeps the limit" in said


def test_a_curve_is_read_again_from_json(searched):
    curve = searched("lasso")[0].curve
    assert Curve.read(json.loads(json.dumps(curve.plain()))) == curve
    assert "among the 30 values tried" in curve.sentence


def test_row_weights_count_as_repeated_rows():
    recipe, rows = recipes()["lasso"], rows_of("lasso")
    twice = [replace_weight(own, np.where(np.arange(len(own.y)) % 3 == 0, 2.0, 1.0)) for own in rows]
    parties = fold_rows(recipe, twice)
    found = search(recipe, parties, count=4)
    repeated = [
        some(own, np.repeat(np.arange(len(own.y)), own.weight.astype(int)))._replace(weight=None) for own in twice
    ]
    again = fold_rows(recipe, repeated)
    for party, own, before in zip(again.members, twice, parties.members, strict=True):
        party.fold = np.repeat(before.fold, own.weight.astype(int))
    other = search(recipe, again, count=4)
    np.testing.assert_allclose(found.curve.values, other.curve.values, rtol=1e-9)
    np.testing.assert_allclose(found.curve.measure, other.curve.measure, rtol=1e-6)


def replace_weight(rows, weight):
    return rows._replace(weight=weight)


def test_the_penalty_of_the_given_recipe_does_not_matter():
    recipe, rows = recipes()["lasso"], rows_of("lasso")
    found, other = (search(replace(recipe, l1=l1), fold_rows(recipe, rows), count=3) for l1 in (1.0, 0.01))
    assert found.curve == other.curve
