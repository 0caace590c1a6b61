"""Multi-task regression of low rank."""

from typing import Any

import numpy as np

from ..regularizers import L1, Box, L1Ball, Spectral
from ..tree import Saddle
from ..validation import of_type, positive
from .built_from import built_from
from .floor import Floor
from .general import Problem
from .losses import OfScore, Squared
from .rows import RowClients, matrix


@built_from("X", "Y", "clients", pooled=True)
def low_rank(
    X: Any, Y: Any, clients: Any = None, *, nuclear: Any, intercept: bool = True, weights: Any = "samples"
) -> Problem:
    """min_{W, b} sum_i p_i ||W^T X_i + b - Y_i||^2 / 2 + nuclear ||W||_*: many tasks that share few directions.

    X: n rows of d features; Y: n rows of t targets; W has shape (d, t), b (t,). clients and weights as in `sparse_glm`.
    x = {"weights": W, "bias": b}; without intercept x = {"weights": W}. There is no y: plain minimization.

    Bounds, none of them active at a solution: with F the loss of the best constant answer (of 0 without intercept),
    the singular values of W are in L1Ball(F / nuclear), and with mu and c the means of X and Y, Jensen's inequality
    gives |b - c| <= (F / nuclear) ||mu|| + sqrt(2 F), entry by entry.
    f is a mean of squares, so its floor is 0.
    """
    of_type("intercept", intercept, bool, "True or False")
    X, Y = matrix(X), matrix(Y, "Y")
    if len(Y) != len(X):
        raise ValueError(f"Y must have {len(X)} rows, as many as X, got {len(Y)}")
    nuclear = positive("nuclear", nuclear)
    owners = RowClients(clients, weights, len(X))
    center = owners.mean(Y) if intercept else np.zeros(Y.shape[1])
    constant = float(np.sum(owners.mean((Y - center) ** 2)) / 2)
    radius = constant / float(nuclear)
    x: dict[str, Any] = {"weights": Spectral(L1(nuclear) + L1Ball(radius))}
    like = {"weights": np.zeros((X.shape[1], Y.shape[1]))}
    if intercept:
        spread = radius * np.linalg.norm(owners.mean(X)) + np.sqrt(2 * constant)
        x["bias"] = Box(lower=center - spread, upper=center + spread)
        like["bias"] = np.zeros(Y.shape[1])
    return Problem(
        OfScore(Squared()),
        x=x,
        like=Saddle(like),
        data=owners.split(row=X, target=Y),
        weights=owners.weights,
        by_construction=True,
        own_weights=True,
        floor=Floor(None, 0.0, each=True),
    )
