"""Poisson problems of the catalogue: exact solutions by scipy, certificates, the worst client, limits."""

import numpy as np
import pytest
from scipy.optimize import minimize

import fedualex as fx
from fedualex.problems.families import Poisson

FAMILY = Poisson()


def drawn(seed):
    """Rows of three clients, counts, exposures, and penalties."""
    rng = np.random.default_rng(seed)
    rows, features = int(rng.integers(20, 120)), int(rng.integers(1, 8))
    X = rng.normal(size=(rows, features)) * rng.choice([0.3, 1.0, 3.0], features)
    clients = np.concatenate([[0, 1, 2], rng.integers(0, 3, rows - 3)])
    exposure = rng.uniform(0.2, 5.0, rows)
    score = X @ (rng.normal(size=features) * 0.4) + rng.choice([-1.0, 1.0, 3.0]) + 0.4 * (clients == 2)
    y = rng.poisson(exposure * np.exp(np.minimum(score, 6.0))).astype(float)
    y[0] += 1
    penalty = {"l1": float(rng.choice([0.01, 0.1])), "l2": float(rng.choice([0.0, 0.1]))}
    return X, y, clients, exposure, penalty


def least(X, rate, share, l1, l2):
    """The minimum by scipy, with w = p - q for p, q >= 0 so that all is smooth."""
    d = X.shape[1]

    def objective(v):
        w = v[:d] - v[d : 2 * d]
        score = X @ w + v[-1]
        slope = share * FAMILY.slope(score, rate)
        g = X.T @ slope + l2 * w
        value = share @ FAMILY.loss(score, rate) + l1 * v[: 2 * d].sum() + l2 * w @ w / 2
        return value, np.concatenate([g + l1, l1 - g, [slope.sum()]])

    start = np.concatenate([np.zeros(2 * d), [np.log(share @ rate)]])
    bounds = [(0, None)] * (2 * d) + [(None, None)]
    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-15, "gtol": 1e-11}
    return minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 100), marks=pytest.mark.slow)])
def test_certificates_hold_beside_scipy(seeds):
    """The claimed lower bound is never above the least value that scipy finds, and the claimed gap is small."""
    for seed in seeds:
        X, y, clients, exposure, penalty = drawn(seed)
        problem = fx.problems.sparse_glm("poisson", X, y / exposure, clients, sample_weight=exposure, **penalty)
        run = fx.solve(problem, tol=1e-7, rounds=60)
        w, b = np.asarray(run.z.x["weights"]), float(run.z.x["bias"])
        share = exposure / exposure.sum()
        own = share @ FAMILY.loss(X @ w + b, y / exposure)
        own += penalty["l1"] * np.abs(w).sum() + penalty["l2"] / 2 * w @ w
        other = float(least(X, y / exposure, share, **penalty).fun)
        assert run.gap <= 1e-7 * max(1.0, y.mean()), (seed, run.gap)
        assert own - other <= run.gap + 1e-12 * max(1.0, other), seed
        assert fx.problems.active_bounds(problem, run.z) == [], seed


def test_the_worst_client_is_served_better_and_its_loss_can_be_limited():
    X, y, clients, _, _ = drawn(1)
    ordinary = fx.solve(fx.problems.sparse_glm("poisson", X, y, clients, l2=0.05), tol=1e-7)
    fair = fx.solve(fx.problems.agnostic(X, y, clients, loss="poisson", l2=0.05), tol=1e-6, rounds=60)
    losses = [fx.problems.client_metrics(run.z.x, X, y, clients, loss="poisson") for run in (ordinary, fair)]
    assert fair.gap <= 1e-6
    assert losses[1].worst_loss < losses[0].worst_loss - 1e-4
    limit = (losses[0].worst_loss + losses[1].worst_loss) / 2
    worst = int(
        np.argmax(
            [
                np.mean(FAMILY.loss(X[clients == m] @ w + b, y[clients == m]))
                for m in range(3)
                for w, b in [(ordinary.z.x["weights"], ordinary.z.x["bias"])]
            ]
        )
    )
    problem = fx.problems.constrained(X, y, clients, limits={worst: limit}, loss="poisson", l2=0.05, multiplier=100.0)
    run = fx.solve(problem, tol=1e-5, rounds=100)
    assert run.gap <= 1e-5
    assert fx.problems.violation(problem, run.z).max() <= 1e-4


def test_it_obeys_the_laws_of_problems():
    X, y, clients, exposure, _ = drawn(3)
    problem = fx.problems.sparse_glm("poisson", X, y / exposure, clients, sample_weight=exposure, l2=0.2)
    fx.testing.check_problem(problem, samples=2)
