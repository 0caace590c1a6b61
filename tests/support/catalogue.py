"""Every problem of the catalogue, small and on badly scaled rows; built when asked for."""

from functools import cache

import numpy as np

import fedualex as fx


def _rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3)) * [1.0, 1e-3, 1e3] + [0.0, 0.0, 1e4]
    score = X @ [1.0, 1e3, 1e-3] - 10 + rng.normal(size=24)
    three, owner = rng.integers(0, 3, 24), rng.integers(0, 3, 24)
    tasks = np.stack([score, 2 * score], axis=1) + rng.normal(size=(24, 2))
    return X, score, (score > 0).astype(int), three, owner, tasks


X, SCORE, TWO, THREE, OWNER, TASKS = _rows()
P = fx.problems

CATALOGUE = {
    "auc": lambda: P.auc(X, TWO, OWNER, l1=0.01),
    "auc, l2": lambda: P.auc(X, TWO, OWNER, l2=0.01),
    "auc, plain": lambda: P.auc(X, TWO, OWNER, l1=0.01, saddle=False),
    "agnostic": lambda: P.agnostic(X, TWO, OWNER, l1=0.01),
    "agnostic, classes, cvar": lambda: P.agnostic(X, THREE, OWNER, l2=0.01, cvar=0.6),
    "agnostic, cvar, spread": lambda: P.agnostic(X, TWO, OWNER, l2=0.01, cvar=0.6, spread=0.1),
    "agnostic, squared": lambda: P.agnostic(X, SCORE, OWNER, loss="squared", l1=0.01),
    "agnostic, huber, kl": lambda: P.agnostic(X, SCORE, OWNER, loss="huber", l2=0.01, kl=0.1),
    "constrained": lambda: P.constrained(X, TWO, OWNER, limits=0.5, l2=0.01, multiplier=3.0),
    "constrained, squared": lambda: P.constrained(X, SCORE, OWNER, limits=5.0, loss="squared", l1=0.01, multiplier=3.0),
    "lasso": lambda: P.sparse_glm("squared", X, SCORE, OWNER, l1=0.01),
    "logistic": lambda: P.sparse_glm("logistic", X, TWO, OWNER, l1=0.1, l2=0.01),
    "softmax": lambda: P.sparse_glm("logistic", X, THREE, OWNER, l1=0.01),
    "low rank": lambda: P.low_rank(X, TASKS, OWNER, nuclear=0.1),
    "robust": lambda: P.robust_regression(X, SCORE, OWNER, l1=0.01),
}


@cache
def catalogue(name):
    """The problem of this name."""
    return CATALOGUE[name]()
