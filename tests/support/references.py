"""Small real data, and minima by a convex solver, for the tests of the catalogue."""

import warnings
from contextlib import suppress

import cvxpy as cp
import jax
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

import fedualex as fx
from fedualex.regularizers import InBall, split

SETS = {"cancer": load_breast_cancer, "diabetes": load_diabetes, "wine": load_wine}


def table(name, rows=120, features=6, clients=5, seed=0):
    """Standardized features, labels, and clients of unequal size that hold neighbors in the first feature."""
    X, y = SETS[name](return_X_y=True)
    kept = np.random.default_rng(seed).permutation(len(X))[:rows]
    X, y = X[kept, :features], y[kept]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    if name == "diabetes":
        y = (y - y.mean()) / y.std()
    client = np.searchsorted(np.quantile(X[:, 0], np.linspace(0, 1, clients + 1)[1:-1] ** 1.3), X[:, 0])
    return X, y, client


def digits(rows=450, groups=15):
    """Is a digit 5 or more? Fifteen clients, each with one or two kinds of digits only."""
    X, digit = load_digits(return_X_y=True)
    kept = np.random.default_rng(0).permutation(len(X))[:rows]
    X, digit = X[kept], digit[kept]
    spread = X.std(axis=0)
    X = np.where(spread > 0, (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1), 0)
    group = np.empty(rows, int)
    group[np.argsort(digit, kind="stable")] = np.arange(rows) * groups // rows
    return X, digit >= 5, group


def minimize(objective, constraints=()):
    """The minimum at the tightest tolerance that CLARABEL reaches; the variables keep the solution."""
    task = cp.Problem(cp.Minimize(objective), list(constraints))
    for tolerance in (1e-10, 1e-9, 1e-8):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "may be inaccurate": the next tolerance
            with suppress(cp.error.SolverError):
                task.solve(solver=cp.CLARABEL, tol_gap_abs=tolerance, tol_gap_rel=tolerance, tol_feas=tolerance)
        if task.status == cp.OPTIMAL:
            return float(task.value)
    raise AssertionError(f"the reference solver failed: {task.status}")


def ball_of(problem):
    """The ball of the weights."""
    core, _, _ = split(problem.geometry.parts.x["weights"].regularizer)
    return core.domain if isinstance(core, InBall) else core


def box_of(problem, name):
    """The two ends of a box of x."""
    box = problem.geometry.parts.x[name].regularizer
    return np.asarray(box.lower), np.asarray(box.upper)


def inside(problem, weights, **others):
    """The problem's domain of x, as constraints on cvxpy's variables."""
    ball = ball_of(problem)
    limits = [cp.norm(cp.vec(weights, order="C"), 1 if isinstance(ball, fx.L1Ball) else 2) <= float(ball.radius)]
    for name, variable in others.items():
        lower, upper = box_of(problem, name)
        limits += [variable >= lower, variable <= upper]
    return limits


def random_points(problem, scales=(0.01, 0.3, 3.0)):
    """Feasible points, near the origin and far from it."""
    for seed, scale in enumerate(scales):
        rng = np.random.default_rng(seed)
        yield problem.project(jax.tree.map(lambda leaf: scale * rng.normal(size=np.shape(leaf)), problem.like))  # noqa: B023


def penalty(weights, l1=0.0, l2=0.0, **_):
    """Of numpy or cvxpy weights."""
    if isinstance(weights, cp.Expression):
        return l1 * cp.sum(cp.abs(weights)) + l2 / 2 * cp.sum_squares(weights)
    return l1 * np.abs(weights).sum() + l2 / 2 * np.sum(weights**2)
