"""The margin form of the ranking loss, max over alpha >= 0 alone, has the solutions of the squares of pairs."""

import numpy as np
import pytest
from scipy.optimize import minimize

import fedualex as fx
from fedualex.problems.readings import roc_auc

TABLES = ("breast_cancer", "wine", "diabetes", "digits", "unequal", "noise")


def drawn(name):
    """Standardized rows with a column more for nothing, and which are positive."""
    rng = np.random.default_rng(0)
    if name in ("unequal", "noise"):
        X, positive = rng.normal(size=(400, 6)), rng.random(400) < 0.1
        X[positive] += 0.0 if name == "noise" else rng.normal(size=6)
    else:
        X, y = fx.data.bundled(name)
        positive = y > np.median(y) if name == "diabetes" else y == y.max()
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), positive


def least(X, positive, l2, margin_form):
    """var+ + var- + (1 - d)^2 + l2/2 ||w||^2, d the difference of mean scores; of the margin form (1 - d)_+^2."""
    parts = X[positive], X[~positive]
    means = [part.mean(axis=0) for part in parts]
    spread = sum(np.cov(part.T, bias=True) for part in parts)
    apart = means[0] - means[1]

    def objective(w):
        short = 1 - apart @ w
        short = max(short, 0.0) if margin_form else short
        return w @ spread @ w + short**2 + l2 / 2 * w @ w, 2 * spread @ w - 2 * short * apart + l2 * w

    start = np.random.default_rng(1).normal(size=X.shape[1])  # d above 1 and below
    options = {"maxiter": 5000, "ftol": 1e-16, "gtol": 1e-11}
    return minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("l2", [1e-3, 0.1])
def test_the_margin_form_is_the_squares(name, l2):
    """Where d > 1, w / d has less variance, a smaller penalty and no (1 - d)^2: no solution of either is there."""
    X, positive = drawn(name)
    train = np.arange(len(X)) % 2 == 0
    one, other = (least(X[train], positive[train], l2, form) for form in (False, True))
    np.testing.assert_allclose(one, other, atol=1e-5 * max(1.0, np.abs(one).max()))
    scores = [roc_auc(X[~train] @ w, positive[~train]) for w in (one, other)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
