"""Least absolute deviations as a saddle point."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..regularizers import Box
from ..tree import Saddle, Tree
from ..validation import of_type
from .built_from import built_from
from .floor import Floor
from .general import Problem
from .losses import linear_score
from .operator_error import Majorized
from .penalties import Penalty, bias_box
from .rows import RowClients, matrix, targets


@built_from("X", "y", "clients", pooled=True)
def robust_regression(
    X: Any,
    y: Any,
    clients: Any = None,
    *,
    l1: Any = 0.0,
    l2: Any = 0.0,
    radius: Any = None,
    intercept: bool = True,
    weights: Any = "samples",
) -> Problem:
    """min_{w, b} sum_i p_i |<w, X_i> + b - y_i| + l1 ||w||_1 + l2/2 ||w||^2: regression that outliers cannot pull.

    p |r| = max of u sqrt(p) r over |u| <= sqrt(p), so this is a saddle point, bilinear but for psi, whose certificate
    is its duality gap: x = {"weights": w, "bias": b} (without intercept {"weights": w}) against one u_i for each row,
    in Box(sqrt(p_i)). Entry i of u is that of row i of X. clients and weights as in `sparse_glm`.

    Bounds: with F the loss of the best constant, the weighted median of y (of 0 without intercept), w is in
    L1Ball(F / l1) or L2Ball(sqrt(2 F / l2)), the one of smaller radius, or in L2Ball(radius); by Jensen's inequality
    |b - mean y| <= max |<w, mean X>| over the ball + F. Unless F = 0, no derived bound is active at a solution.
    At u = 0 f is 0 for every x, which is its floor.
    """
    of_type("intercept", intercept, bool, "True or False")
    X = matrix(X)
    target = targets(y, len(X))
    owners = RowClients(clients, weights, len(X))
    if np.any(owners.share <= 0):
        raise ValueError("weights must be > 0 for every client: a row of weight 0 has no sign to find")
    order = np.argsort(target)
    median = target[order][np.searchsorted(np.cumsum(owners.share[order]), 0.5)] if intercept else 0.0
    constant = float(owners.mean(np.abs(target - median)))
    penalty = Penalty(constant, (X.shape[1],), l1, l2, 0.0, None, radius)
    x: dict[str, Any] = {"weights": penalty.regularizer}
    like: dict[str, Any] = {"weights": np.zeros(X.shape[1])}
    if intercept:
        x["bias"] = bias_box(float(owners.mean(target)), owners.mean(X), penalty.ball, constant)
        like["bias"] = np.zeros(())
    root = np.sqrt(owners.share)
    index = np.arange(len(X), dtype=np.int32)
    return Problem(
        SignedResidual(),
        x=x,
        y=Box(lower=-root, upper=root),
        like=Saddle(like, np.zeros(len(X))),
        data=owners.split(row=X, target=target, root=root, index=index),
        weights=owners.weights,
        by_construction=True,
        own_weights=True,
        floor=Floor(np.zeros(len(X)), 0.0, each=True),
    )


class SignedResidual(Majorized):
    """u_i (score - y) / sqrt(p_i); the mean over rows weighs it by p_i."""

    def __call__(self, x: Tree, u: Array, example: Tree) -> Array:
        return u[example["index"]] / example["root"] * (linear_score(x, example["row"]) - example["target"])

    def majorant(self, x: Tree, u: Array, example: Tree) -> Array:
        """The same with a plus."""
        reach = linear_score(x, jnp.abs(example["row"])) + jnp.abs(example["target"])
        return u[example["index"]] / example["root"] * reach
