"""Six tasks that share two directions, over three clients: nuclear-norm regression finds the rank."""

import numpy as np

import fedualex as fx

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 8))
true = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 6))
Y = X @ true + 2 * np.random.default_rng(1).normal(size=(60, 6)) + 2
clients = fx.data.by_size(60, [1, 2, 5], seed=0)

problem = fx.problems.low_rank(X, Y, clients, nuclear=0.8)
run = fx.solve(problem, fx.FeDualExCorrected(eta_c=0.1), rounds=500, local_steps=5, tol=1e-4)
print(run)
print(f"rank {run.outputs[run.output].rank[0]} of {min(true.shape)}; the truth has rank 2")

least_squares = np.linalg.lstsq(X - X.mean(axis=0), Y - Y.mean(axis=0), rcond=None)[0]
for name, W in (("nuclear norm", run.z.x["weights"]), ("least squares", least_squares)):
    print(f"{name:14} distance to the truth {np.linalg.norm(W - true):.3f}")
