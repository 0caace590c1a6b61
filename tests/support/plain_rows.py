"""Small problems of every kind on rows of ordinary size, with clients that differ."""

from functools import cache

import numpy as np

import fedualex as fx


def _rows():
    rng = np.random.default_rng(0)
    owner = np.arange(60) % 3
    X = rng.normal(size=(60, 4)) + np.array([[0.0], [1.0], [-1.0]])[owner]
    score = X @ [1.0, -1.0, 0.5, 0.0] + 0.5 * rng.normal(size=60)
    tasks = np.stack([score, -score, X[:, 0]], axis=1) + 0.1 * rng.normal(size=(60, 3))
    return X, score, (score > 0).astype(int), owner, tasks


X, SCORE, TWO, OWNER, TASKS = _rows()
P = fx.problems

ROWS = {
    "auc": lambda: P.auc(X, TWO, OWNER, l1=0.01),
    "agnostic": lambda: P.agnostic(X, TWO, OWNER, l1=0.05),
    "agnostic, kl": lambda: P.agnostic(X, TWO, OWNER, l2=0.1, kl=0.1),
    "constrained": lambda: P.constrained(X, TWO, OWNER, limits=0.6, l2=0.1, multiplier=3.0),
    "lasso": lambda: P.sparse_glm("squared", X, SCORE, OWNER, l1=0.1),
    "logistic": lambda: P.sparse_glm("logistic", X, TWO, OWNER, l1=0.02),
    "low rank": lambda: P.low_rank(X, TASKS, OWNER, nuclear=0.2),
    "robust": lambda: P.robust_regression(X, SCORE, OWNER, l1=0.1),
}


@cache
def rows(name):
    """The problem of this name."""
    return ROWS[name]()
