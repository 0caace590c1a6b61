"""LASSO over four clients that may not pool their patients, against scikit-learn on the pooled data."""

import numpy as np
from sklearn.linear_model import Lasso

import fedualex as fx

X, y = fx.data.bundled("diabetes")
clients = np.argsort(np.argsort(X[:, 2])) * 4 // len(y)  # by body mass index: no two clients are alike
X = fx.data.Standardizer.fit(X, clients).transform(X)  # sums per client, never pooled rows

problem = fx.problems.sparse_glm("squared", X, y, clients, l1=2.0)
run = fx.solve(problem, fx.FeDualExCorrected(eta_c=0.2), rounds=1500, local_steps=5, tol=1e-4)
print(run)

pooled = Lasso(alpha=2.0, tol=1e-10).fit(X, y)
print("weights       ", np.round(run.z.x["weights"], 3))
print("pooled weights", np.round(pooled.coef_, 3))
print(f"largest difference {np.abs(run.z.x['weights'] - pooled.coef_).max():.1e}")
