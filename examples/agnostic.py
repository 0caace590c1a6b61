"""One model for six groups of patients: good on average, or good for the group it serves worst."""

import numpy as np

import fedualex as fx

X, y = fx.data.bundled("diabetes")
age, sex = X[:, 0], X[:, 1] > 0
group = 3 * sex + np.searchsorted(np.quantile(age, [1 / 3, 2 / 3]), age)
X = fx.data.Standardizer.fit(X, group).transform(X)  # sums per client, never pooled rows
y = fx.data.Standardizer.fit(y[:, None], group).transform(y[:, None])[:, 0]

# cvar=1 is the mean over clients, cvar=0.5 the worst half of them, None the worst client.
for cvar in (1.0, 0.5, None):
    problem = fx.problems.agnostic(X, y, group, loss="squared", l1=0.01, l2=0.01, cvar=cvar)
    run = fx.solve(problem, fx.FeDualExCorrected(eta_c=0.1), local_steps=10, rounds=150, record_every=50)
    metrics = fx.problems.client_metrics(run.z.x, X, y, group, loss="squared")
    print(f"cvar={cvar}: mean loss {metrics.mean_loss:.4f}, worst {metrics.worst_loss:.4f}; {run}")
