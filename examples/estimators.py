"""scikit-learn estimators whose rows belong to clients, each with a certificate."""

import numpy as np
from sklearn.model_selection import train_test_split

import fedualex as fx

X, y = fx.data.bundled("breast_cancer")
X, X_test, y, y_test = train_test_split(X, y, random_state=0)
clients = fx.data.dirichlet(y, 5, alpha=0.5, seed=0)
scale = fx.data.Standardizer.fit(X, clients)
X, X_test = scale.transform(X), scale.transform(X_test)

for model in (
    fx.estimators.FederatedLogisticRegression(l1=0.01, tol=1e-3),
    fx.estimators.AgnosticClassifier(l1=0.01, kl=0.1, tol=5e-2, max_rounds=1000),
    fx.estimators.FederatedAUCClassifier(l1=0.01, l2=0.01),
    fx.estimators.NeymanPearsonClassifier(limit=0.05, limited=0, l1=0.005, l2=0.02, tol=2e-2),  # 0 is malignant
):
    model.fit(X, y, clients=clients)
    print(f"{type(model).__name__}: {model.status_}, certified gap {model.gap_:.1e}, {model.n_rounds_} rounds")
    used = np.mean(np.abs(model.coef_) > 1e-5)
    worst = min(model.score(X[clients == m], y[clients == m]) for m in range(5))
    print(f"  test accuracy {model.score(X_test, y_test):.3f}, worst client {worst:.3f}, {used:.0%} of features used")
    missed = np.mean(model.predict(X_test[y_test == 0]) == 1)
    ranked = fx.problems.roc_auc(model.decision_function(X_test), y_test)
    print(f"  test AUC {ranked:.4f}, tumors missed {missed:.3f}")
