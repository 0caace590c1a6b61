"""Least absolute deviations over clients, one of which sends broken targets."""

import numpy as np
from sklearn.linear_model import LinearRegression

import fedualex as fx

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 5))
true = np.array([2.0, -1.0, 0.0, 0.0, 0.5])
y = X @ true + 1 + 0.1 * rng.normal(size=60)
clients = fx.data.iid(60, 6, seed=0)
y[clients == 3] += 30  # a broken sensor

problem = fx.problems.robust_regression(X, y, clients, l1=0.01)
run = fx.solve(problem, fx.SynchronousMirrorProx(0.5), rounds=1500, tol=5e-2)
print(run)
print("truth                    ", np.round([*true, 1.0], 2))
print("least absolute deviations", np.round([*run.z.x["weights"], run.z.x["bias"]], 2))
squares = LinearRegression().fit(X, y)
print("least squares            ", np.round([*squares.coef_, squares.intercept_], 2))
