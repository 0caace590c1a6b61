"""The same convex problem in CVXPY, where all rows are in one place, and here, where five clients keep theirs.

python benchmarks/beside_cvxpy.py prints the rows of docs/why_not.md.
"""

import time

import cvxpy as cp
import numpy as np

import fedualex as fx

CLIENTS, L1, L2, TOL = 5, 1e-3, 2e-3, 1e-3


def table():
    """Breast cancer, standardized, and five clients by the mean area, so that they differ."""
    X, y = fx.data.bundled("breast_cancer")
    owners = fx.data.by_column(np.argsort(np.argsort(X[:, 3])) * CLIENTS // len(y))
    return fx.data.Standardizer.fit(X, owners).transform(X), np.where(y == y.max(), 1.0, -1.0), owners


def pooled(X, sign, owners):
    """Seconds, and the least loss of the client that is served worst, from all rows at once."""
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    losses = cp.logistic(cp.multiply(-sign, X @ w + b))
    means = [cp.sum(losses[np.flatnonzero(owners == c)]) / np.sum(owners == c) for c in np.unique(owners)]
    penalty = L1 * cp.norm1(w) + L2 / 2 * cp.sum_squares(w)
    began = time.perf_counter()
    value = cp.Problem(cp.Minimize(cp.max(cp.hstack(means)) + penalty)).solve(solver=cp.CLARABEL)
    return time.perf_counter() - began, float(value)


def federated(X, sign, owners):
    """Seconds and the run, by exchanges with five clients."""
    problem = fx.problems.agnostic(X, np.where(sign > 0, "yes", "no"), owners, l1=L1, l2=L2)
    began = time.perf_counter()
    run = fx.solve(problem, rounds=1000, tol=TOL, record_every=1)
    return time.perf_counter() - began, run


def worst(x, X, sign, owners):
    """The loss of the client that a model serves worst, with its penalty, in plain numpy."""
    w, b = np.asarray(x["weights"]), float(x["bias"])
    losses = np.logaddexp(0, -sign * (X @ w + b))
    largest = max(losses[owners == c].mean() for c in np.unique(owners))
    return largest + L1 * np.abs(w).sum() + L2 / 2 * w @ w


def main():
    """Each once to compile, once to measure."""
    rows = table()
    pooled(*rows), federated(*rows)
    seconds, best = pooled(*rows)
    print(f"CVXPY (Clarabel), pooled rows: {seconds:.2f} s, worst client's loss with penalty {best:.6f}")
    seconds, run = federated(*rows)
    print(f"fedualex: {seconds:.2f} s, worst client's loss with penalty {worst(run.z.x, *rows):.6f}, {run}")


if __name__ == "__main__":
    main()
