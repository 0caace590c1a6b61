"""Logistic regression against one sparse perturbation of every example; the run claims nothing."""

import fedualex as fx

X, y = fx.data.bundled("breast_cancer")
clients = fx.data.dirichlet(y, 5, alpha=1.0, seed=0)
X = fx.data.Standardizer.fit(X, clients).transform(X)

plain = fx.problems.sparse_glm("logistic", X, y, clients, l2=1e-3)
plain_run = fx.solve(plain, fx.FeDualExCorrected(eta_c=0.3), rounds=200, local_steps=5)

problem = fx.problems.universal_adversarial(X, y, radius=0.5, lam=0.005, clients=clients)
run = fx.solve(problem, fx.FeDualExCorrected(eta_c=0.3), rounds=200, local_steps=5)
print(f"{run.status}: {run.status.value}")
print(problem.certificate(run.z))

for name, x in (("plain", plain_run.z.x), ("hardened", run.z.x)):
    report = fx.problems.attack_report(X, y, fx.Saddle(x, run.z.y))
    print(
        f"{name:8} clean {report.clean:.3f}, attacked {report.attacked:.3f}, density of the attack {report.density:.2f}"
    )
