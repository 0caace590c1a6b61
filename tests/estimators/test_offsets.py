"""Columns far from 0 for their spread, as time stamps are: predictions are those of the model that was certified."""

from fractions import Fraction

import numpy as np
import pytest

from fedualex.estimators import (
    FederatedLasso,
    FederatedLogisticRegression,
    FederatedMultiTask,
    NeymanPearsonClassifier,
)
from fedualex.estimators.base import linear_scores
from fedualex.regularizers.fenchel import UNIT

OFFSETS = [1e7, 1e9, 1e11, 1e13]


def rows_at(offset, rows=60, seed=0):
    """Rows of three columns whose spread is 1, the first of them far away."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    score = X @ [1.0, -0.5, 0.2] + 0.3 * rng.normal(size=rows)
    return X + np.array([offset, 0.0, -offset / 3]), score


def exact(values):
    return [Fraction(float(value)) for value in np.ravel(values)]


def exact_scores(X, model):
    """<coef, row - center> + offset without rounding, one list for each output."""
    found = []
    for weights, offset in zip(np.atleast_2d(model.coef_), np.atleast_1d(model.offset_), strict=True):
        w, center, b = exact(weights), exact(model.center_), Fraction(float(offset))
        found.append([sum((x - c) * v for x, c, v in zip(exact(row), center, w, strict=True)) + b for row in X])
    return found


def check_predictions(model, X, scores):
    """They err by no more than their own terms round."""
    for computed, true in zip(np.atleast_2d(scores), exact_scores(X, model), strict=True):
        reach = np.abs(X - model.center_) @ np.abs(np.atleast_2d(model.coef_)).max(axis=0) + np.abs(model.offset_).max()
        errors = [abs(Fraction(float(one)) - other) for one, other in zip(computed, true, strict=True)]
        assert np.all(np.array(errors, float) <= 2 * (X.shape[1] + 4) * UNIT * reach)


@pytest.mark.parametrize("offset", OFFSETS)
def test_the_gap_of_a_regression_is_about_its_predictions(offset):
    """The objective at the predictions, in exact arithmetic, against the best model of the columns less their offset."""
    X, score = rows_at(offset)
    model = FederatedLasso(0.05, tol=1e-7).fit(X, score)
    found = model.predict(X)
    check_predictions(model, X, found)
    near = X - X[0]  # exact: the offset is the same
    best = FederatedLasso(0.05, tol=1e-9).fit(near, score)

    def objective(predictions, weights):
        squares = sum((p - t) ** 2 for p, t in zip(exact(predictions), exact(score), strict=True))
        return float(squares / (2 * len(score)) + Fraction(0.05) * sum(map(abs, exact(weights))))

    assert objective(found, model.coef_) <= objective(best.predict(near), best.coef_) + model.gap_ + 1e-12
    assert model.intercept_ == pytest.approx(model.offset_ - model.coef_ @ model.center_)


@pytest.mark.parametrize("offset", OFFSETS)
def test_predictions_of_classes_and_of_several_targets_keep_their_digits(offset):
    X, score = rows_at(offset)
    model = FederatedLogisticRegression(0.01).fit(X, score > 0)
    check_predictions(model, X, model.decision_function(X))
    several = FederatedMultiTask(0.05).fit(X, np.stack([score, score**2], axis=1))
    check_predictions(several, X, several.predict(X).T)


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8, 9, 64, 129, 1000])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_score_is_the_same_whichever_rows_come_with_it(columns, order):
    rng = np.random.default_rng(columns)
    X = np.asarray(rng.normal(size=(333, columns)) * 10.0 ** rng.uniform(-8, 8, columns), order=order)
    center, weights = rng.normal(size=columns), rng.normal(size=(2, columns))
    whole = linear_scores(X, center, weights, 0.1)
    for size in (1, 2, 5, 100):
        parts = [linear_scores(X[i : i + size], center, weights, 0.1) for i in range(0, len(X), size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(linear_scores(X[::-1], center, weights, 0.1)[::-1], whole)


@pytest.mark.parametrize("limited", [0, 1])
@pytest.mark.parametrize("offset", [0.0, 1e7, 1e13])
def test_rows_one_by_one_with_ties_keep_the_rate(offset, limited):
    """Few different rows, so that many have the score at which the threshold is."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 400)
    X = np.stack([rng.integers(0, 4, 400) + y, rng.integers(0, 2, 400) * 0.1, 0.3 * rng.integers(0, 3, 400)], axis=1)
    X = X + np.array([offset, 0.0, offset / 7])
    model = NeymanPearsonClassifier(0.3, limited, rate=0.35, l1=0.001).fit(X[:250], y[:250])
    own = X[y == limited]
    together = model.decision_function(own)
    alone = np.array([model.decision_function(row[None])[0] for row in own])
    np.testing.assert_array_equal(alone, together)
    wrong = np.array([model.predict(row[None])[0] for row in own]) != limited
    assert wrong.mean() <= 0.35
