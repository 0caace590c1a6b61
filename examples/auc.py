"""Rank one digit above all others: AUC maximization over 20 clients, 10% positive examples."""

import numpy as np

import fedualex as fx

X, digit = fx.data.bundled("digits")
order = np.random.default_rng(0).permutation(len(X))
X, y = X[order] / 16, digit[order] == 8
train, test = slice(0, 1000), slice(1000, None)
clients = np.arange(1000) % 20

problem = fx.problems.auc(X[train], y[train], clients, l1=1e-3, l2=1e-2)
method = fx.FeDualExCorrected(eta_c=0.05)
run = fx.solve(problem, method, local_steps=10, rounds=200, tol=0.01, record_every=20)

weights = run.z.x["weights"]
print(run)
print(f"test AUC {fx.problems.roc_auc(X[test] @ weights, y[test]):.4f}")
print(f"{np.count_nonzero(weights)} of {weights.size} weights are not zero")
print("active bounds:", fx.problems.active_bounds(problem, run.z) or "none")
