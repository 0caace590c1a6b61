"""Sparse generalized linear models: LASSO, l1 logistic regression, elastic net, group lasso."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..regularizers import Box, L2Ball
from ..tree import Saddle, Tree
from ..validation import one_of
from .general import Problem
from .rows import Owners, Penalty, class_labels, matrix, targets

FAMILIES = ("squared", "logistic")


def sparse_glm(
    family: Any,
    X: Any,
    y: Any,
    clients: Any = None,
    *,
    l1: Any = 0.0,
    l2: Any = 0.0,
    group: Any = 0.0,
    groups: Any = None,
    radius: Any = None,
    intercept: bool = True,
    weights: Any = "samples",
) -> Problem:
    """min_{w, b} sum_i p_i loss(<w, X_i> + b, y_i) + l1 ||w||_1 + l2/2 ||w||^2 + group sum_g sqrt(d_g) ||w_g||_2.

    family "squared": loss (score - y)^2 / 2, so that l1 is scikit-learn's alpha of Lasso. "logistic": with two classes
        log(1 + exp(-s score)), s = -1 for the first label in sorted order and +1 for the second, so that l1 is
        1 / (C n); with more the softmax loss, and w has shape (d, classes), b (classes,).
    clients: for each row, whose it is; None is one client. weights: "samples" makes all p_i alike (the pooled problem),
        "clients" makes all clients alike; or one number for each client.
    groups: for each column of X its group, whose entries vanish together; d_g is how many entries w_g has.
    x = {"weights": w, "bias": b}; without intercept x = {"weights": w}. There is no y: plain minimization.

    Bounds, none of them active at a solution. The loss is >= 0, so a solution's penalty is at most F, the loss of the
    best constant score (of score 0 without intercept): w is in a ball that says so (`Penalty`), or in
    L2Ball(radius). Let mu be the mean of the rows, and S(v) = max |<w, v>| over the ball. By Jensen's inequality

        squared:      |b - mean y| <= S(mu) + sqrt(2 F)
        two classes:  -S(mu_+) - F / q_+  <=  b  <=  S(mu_-) + F / q_-
        more:         |b_k - b_c| <= max_c S'(mu_c) + F / q_c =: D, and b in Box(D / 2) keeps a shift of each solution

    with q_c and mu_c the weight and the mean of the rows of class c, S'(v) = max |<w_k - w_c, v>|.
    """
    one_of("family", family, FAMILIES)
    X = matrix(X)
    owners = Owners(clients, weights, len(X))
    if family == "squared":
        target: NDArray[Any] = targets(y, len(X))
        classes, loss = 0, squared_loss
        center = float(owners.mean(target)) if intercept else 0.0
        constant = float(owners.mean((target - center) ** 2) / 2)
    else:
        classes, target = class_labels(y, len(X))
        loss = logistic_loss if classes == 2 else softmax_loss
        q = np.bincount(target, owners.share)
        constant = float(-q @ np.log(q)) if intercept else float(np.log(classes))
    outputs = (classes,) if classes > 2 else ()
    shape = (X.shape[1], *outputs)
    penalty = Penalty(constant, shape, l1, l2, group, groups, radius)
    x: dict[str, Any] = {"weights": penalty.regularizer}
    like: dict[str, Any] = {"weights": np.zeros(shape)}
    if intercept:
        like["bias"] = np.zeros(outputs)
        if family == "squared":
            spread = penalty.largest(owners.mean(X)) + np.sqrt(2 * constant)
            x["bias"] = Box(lower=center - spread, upper=center + spread)
        else:
            x["bias"] = class_bias_box(X, target, owners, penalty, constant)
    signed = np.where(target == 1, 1.0, -1.0) if classes == 2 else target
    return Problem(loss, x=x, like=Saddle(like), data=owners.split(row=X, target=signed), weights=owners.weights)


def class_bias_box(X: NDArray[Any], label: NDArray[Any], owners: Owners, penalty: Penalty, constant: float) -> Box:
    """The box of the bias in the docstring of `sparse_glm`, for classes."""
    q = np.bincount(label, owners.share)
    means = (np.eye(q.size)[label] * owners.share[:, None]).T @ X / q[:, None]
    bounds = np.array([penalty.largest(mean) for mean in means])
    if q.size == 2:
        lower, upper = bounds + constant / q
        return Box(lower=-upper, upper=lower)
    # Two columns differ by at most sqrt(2) radius in an l2 ball, by the radius in an l1 ball.
    longest = np.sqrt(2) if isinstance(penalty.ball, L2Ball) else 1.0
    return Box(float(np.max(longest * bounds + constant / q)) / 2)


def score(x: Tree, row: Array) -> Array:
    """<w, row> + b, or a row of scores where w is a matrix."""
    return row @ x["weights"] + x.get("bias", 0.0)


def squared_loss(x: Tree, example: Tree) -> Array:
    """(score - y)^2 / 2, summed over outputs."""
    return jnp.sum((score(x, example["row"]) - example["target"]) ** 2) / 2


def logistic_loss(x: Tree, example: Tree) -> Array:
    """log(1 + exp(-s score)), s = -1 or +1."""
    return jnp.logaddexp(0.0, -example["target"] * score(x, example["row"]))


def softmax_loss(x: Tree, example: Tree) -> Array:
    """logsumexp(scores) - scores_c of the class c."""
    return -jax.nn.log_softmax(score(x, example["row"]))[example["target"]]
