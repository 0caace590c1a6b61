"""Regressors beside outside oracles."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import QuantileRegressor

import fedualex as fx
from fedualex.estimators import (
    AgnosticRegressor,
    FederatedGroupLasso,
    FederatedLasso,
    FederatedMultiTask,
    FederatedRobustRegression,
)

RNG = np.random.default_rng(0)
X = 3 + RNG.normal(size=(60, 4)) * [1.0, 2.0, 1.0, 0.5]
TARGET = 5 + X @ [1.0, -1.0, 0.0, 0.0] + 0.3 * RNG.standard_t(2, 60)
CLIENTS = np.arange(60) % 3


def excess(model, loss, penalty):
    """By how much the objective of a model is above the one a general solver finds."""

    def objective(v):
        return np.mean(loss(X @ v[:-1] + v[-1] - TARGET)) + penalty(v[:-1])

    found = np.append(model.coef_, model.intercept_)
    best = minimize(objective, found, method="Powell", options={"maxiter": 20_000, "xtol": 1e-9, "ftol": 1e-12})
    return objective(found) - best.fun


@pytest.mark.slow
def test_group_lasso():
    model = FederatedGroupLasso(0.3, [0, 0, 1, 1]).fit(X, TARGET, clients=CLIENTS)
    assert model.status_ is fx.Status.OPTIMAL

    def penalty(w):
        return 0.3 * np.sqrt(2) * (np.linalg.norm(w[:2]) + np.linalg.norm(w[2:]))

    assert -1e-9 <= excess(model, lambda u: u**2 / 2, penalty) <= model.gap_ <= 1e-4
    assert np.all(model.coef_[2:] == 0)
    alone = FederatedGroupLasso(0.3, tol=1e-6).fit(X, TARGET, clients=CLIENTS)
    np.testing.assert_allclose(alone.coef_, FederatedLasso(0.3, tol=1e-6).fit(X, TARGET).coef_, atol=1e-2)


@pytest.mark.slow
def test_robust_regression_is_the_median_of_scikit_learn():
    model = FederatedRobustRegression(l1=0.1, tol=1e-3).fit(X, TARGET, clients=CLIENTS)
    assert model.status_ is fx.Status.OPTIMAL
    median = QuantileRegressor(quantile=0.5, alpha=0.05).fit(X, TARGET)  # its pinball loss is half of |u|

    def objective(fitted):
        return np.mean(np.abs(fitted.predict(X) - TARGET)) + 0.1 * np.abs(fitted.coef_).sum()

    assert -1e-9 <= objective(model) - objective(median) <= model.gap_


@pytest.mark.slow
def test_huber_regression_of_one_client_and_of_the_worst():
    def huber(u):
        return np.where(np.abs(u) <= 0.5, u**2 / 2, 0.5 * np.abs(u) - 0.125)

    one = AgnosticRegressor(0.1, loss="huber", delta=0.5, tol=1e-4).fit(X, TARGET)
    assert one.status_ is fx.Status.OPTIMAL
    assert -1e-9 <= excess(one, huber, lambda w: 0.1 * np.abs(w).sum()) <= one.gap_

    def worst(model, who):
        losses = huber(model.predict(X) - TARGET)
        return max(losses[who == m].mean() for m in np.unique(who)) + 0.1 * np.abs(model.coef_).sum()

    who = (X[:, 0] > 3).astype(int)
    fair = AgnosticRegressor(0.1, loss="huber", delta=0.5, tol=1e-3).fit(X, TARGET, clients=CLIENTS, groups=who)
    assert worst(fair, who) <= worst(one, who) + 1e-3


@pytest.mark.slow
def test_multi_task_shrinks_singular_values():
    """With orthonormal columns, rows X sqrt(n), the solution is the least squares one with its singular values shrunk."""
    Q = np.linalg.qr(RNG.normal(size=(60, 3)))[0] * np.sqrt(60)
    Y = Q @ RNG.normal(size=(3, 5)) + RNG.normal(size=(60, 5))
    model = FederatedMultiTask(0.5, fit_intercept=False, tol=1e-6).fit(Q, Y, clients=CLIENTS)
    U, s, V = np.linalg.svd(Y.T @ Q / 60, full_matrices=False)
    np.testing.assert_allclose(model.coef_, U @ np.diag(np.maximum(s - 0.5, 0)) @ V, atol=5e-3)
    assert model.predict(Q).shape == Y.shape
    assert model.intercept_.tolist() == [0.0] * 5


@pytest.mark.slow
def test_one_task_is_a_column():
    model = FederatedMultiTask(0.1, tol=1e-2).fit(X, TARGET, clients=CLIENTS)
    assert model.coef_.shape == (4,)
    assert np.ndim(model.intercept_) == 0
    assert model.predict(X).shape == TARGET.shape
    assert model.score(X, TARGET) > 0.5
