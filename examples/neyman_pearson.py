"""Detect tumors with the loss on malignant ones kept below a limit, at the least loss on benign ones."""

import numpy as np

import fedualex as fx

X, label = fx.data.bundled("breast_cancer")
y = np.where(label == 0, "malignant", "benign")
clients = fx.data.iid(len(y), 8, seed=0)
X = fx.data.Standardizer.fit(X, clients).transform(X)  # sums per client, never pooled rows

for limit in (0.3, 0.1):
    limits = {"malignant": limit}
    problem = fx.problems.constrained(X, y, clients, groups="classes", limits=limits, l1=0.01, l2=0.05)
    run = fx.solve(problem, fx.FeDualExCorrected(eta_c=0.1), local_steps=10, rounds=300, tol=0.01, record_every=50)
    above = fx.problems.violation(problem, run.z)  # warns if the limit is suspected to be infeasible
    score = X @ run.z.x["weights"] + run.z.x["bias"]
    missed, alarms = np.mean(score[y == "malignant"] < 0), np.mean(score[y == "benign"] > 0)
    print(f"limit {limit}: exceeded by {above[0]:+.4f}, multiplier {run.z.y['multipliers'][0]:.3f}; {run}")
    print(f"  missed tumors {missed:.3f}, false alarms {alarms:.3f}")
