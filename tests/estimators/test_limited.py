"""Estimators that limit the losses of groups: beside a convex solver, without limits, infeasible, refused."""

import cvxpy as cp
import numpy as np
import pytest
import sklearn
from support.references import minimize

import fedualex as fx
from fedualex.estimators import FederatedLogisticRegression, LimitedClassifier, LimitedRegressor

RNG = np.random.default_rng(5)
X = RNG.normal(size=(150, 3)) * [1.0, 2.0, 0.5] + 1.0
GROUP = np.array(["a", "b", "c"])[np.arange(150) % 3]
CLIENTS = np.array(["north", "south"])[np.arange(150) % 2]
SCORE = (X - 1.0) @ [1.5, -0.5, 0.0] * np.where(GROUP == "b", 0.2, 1.0)
LABEL = np.where(SCORE + RNG.logistic(size=150) > 0, "yes", "no")
TARGET = 20 + 4 * SCORE + RNG.normal(size=150)


def stated(each):
    """The mean loss of each group, from the losses of rows."""
    return {name: cp.sum(each[np.flatnonzero(name == GROUP)]) / np.sum(name == GROUP) for name in "abc"}


def test_the_classifier_is_the_minimum_of_a_convex_solver():
    model = LimitedClassifier({"b": 0.63}, l1=0.01, l2=0.02, tol=1e-8).fit(X, LABEL, clients=CLIENTS, groups=GROUP)
    w, b = cp.Variable(3), cp.Variable()
    each = cp.logistic(cp.multiply(np.where(LABEL == "yes", -1, 1), X @ w + b))
    below = [stated(each)["b"] <= 0.63]
    minimize(cp.sum(each) / 150 + 0.01 * cp.norm1(w) + 0.01 * cp.sum_squares(w), below)
    assert float(np.squeeze(below[0].dual_value)) > 0.01  # the limit matters
    np.testing.assert_allclose(model.coef_[0], w.value, atol=1e-4)
    assert model.intercept_[0] == pytest.approx(float(b.value), abs=1e-4)
    assert model.gap_ <= 1e-8
    assert model.violation_ <= 1e-8
    assert model.predict_proba(X).shape == (150, 2)


@pytest.mark.parametrize(("loss", "limit"), [("squared", 2.4), pytest.param("huber", 2.4, marks=pytest.mark.slow)])
def test_the_regressor_is_the_minimum_of_a_convex_solver(loss, limit):
    model = LimitedRegressor({"b": limit}, l1=0.1, l2=0.02, loss=loss, delta=3.0, tol=1e-7)
    model.fit(X, TARGET, clients=CLIENTS, groups=GROUP)
    w, b = cp.Variable(3), cp.Variable()
    apart = X @ w + b - TARGET
    each = cp.square(apart) / 2 if loss == "squared" else cp.huber(apart, 3.0) / 2
    below = [stated(each)["b"] <= limit]
    minimize(cp.sum(each) / 150 + 0.1 * cp.norm1(w) + 0.01 * cp.sum_squares(w), below)
    assert float(np.squeeze(below[0].dual_value)) > 0.01  # the limit matters
    np.testing.assert_allclose(model.coef_, w.value, atol=1e-3)
    assert model.violation_ <= 1e-6


def test_limits_that_do_not_bind_change_nothing_and_clients_are_the_groups():
    ordinary = FederatedLogisticRegression(l1=0.01, tol=1e-8).fit(X, LABEL, clients=CLIENTS)
    for limits, clients in ((5.0, None), (5.0, CLIENTS), ({"north": 5.0}, CLIENTS)):
        model = LimitedClassifier(limits, l1=0.01, tol=1e-8).fit(X, LABEL, clients=clients)
        np.testing.assert_allclose(model.coef_, ordinary.coef_, atol=1e-4)
    assert isinstance(sklearn.clone(model), LimitedClassifier)
    assert sklearn.clone(model).limits == {"north": 5.0}


def test_limits_that_no_model_meets_are_refused_with_a_proof():
    words = "has no model: the limits are infeasible: no model in this domain violates less than"
    with pytest.raises(ValueError, match=f"LimitedClassifier {words}"):
        LimitedClassifier({"b": 0.3}, l2=0.02).fit(X, LABEL, groups=GROUP)
    with pytest.raises(ValueError, match=f"LimitedRegressor {words}"):
        LimitedRegressor(0.3, l2=0.02).fit(X, TARGET, clients=CLIENTS)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"limits must be for groups of .*'a', 'b', 'c'.*, got one for 'd'"):
        LimitedClassifier({"d": 0.3}).fit(X, LABEL, groups=GROUP)
    with pytest.raises(ValueError, match="limits must be a number > 0, got 0"):
        LimitedClassifier(0).fit(X, LABEL)
    with pytest.raises(ValueError, match="limits must hold at least one limit"):
        LimitedRegressor({}).fit(X, TARGET)
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        LimitedClassifier().fit(X, GROUP)


@pytest.mark.slow
def test_held_out_rows_choose_the_penalty_under_the_limit():
    model = LimitedClassifier({"b": 0.68}, l1="auto").fit(X, LABEL, clients=CLIENTS, groups=GROUP)
    assert model.l1_ == model.path_.value
    assert model.status_ is fx.Status.OPTIMAL
    assert model.violation_ <= 1e-3
