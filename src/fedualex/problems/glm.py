"""Sparse generalized linear models: LASSO, l1 logistic regression, elastic net, group lasso."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tree import Saddle
from ..validation import of_type, one_of
from .built_from import built_from
from .floor import Floor
from .general import Problem
from .losses import Logistic, Loss, OfScore, Softmax, Squared
from .penalties import Penalty, bias_box, class_bias_box, class_shares
from .rows import RowClients, class_labels, matrix, targets

FAMILIES = ("squared", "logistic")


@built_from("X", "y", "clients", pooled=True)
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

    Bounds. The loss is >= 0, so a solution's penalty is at most F, the loss of the best constant score (of score 0
    without intercept): w is in a ball that says so (`Penalty`), or in L2Ball(radius). For "squared", with mu the mean
    of the rows and S the largest |<w, mu>| for w in the ball, Jensen's inequality gives |b - mean y| <= S + sqrt(2 F);
    for classes see `class_bias_box`. Unless F = 0, no derived bound is active at a solution; a given radius may be.
    As the loss is >= 0, so is f: its floor is 0.
    """
    of_type("intercept", intercept, bool, "True or False")
    one_of("family", family, FAMILIES)
    X = matrix(X)
    owners = RowClients(clients, weights, len(X))
    rule: Loss
    if family == "squared":
        target: NDArray[Any] = targets(y, len(X))
        classes, rule = 0, Squared()
        center = float(owners.mean(target)) if intercept else 0.0
        constant = float(owners.mean((target - center) ** 2) / 2)
    else:
        classes, target = class_labels(y, len(X))
        rule = Logistic() if classes == 2 else Softmax()
        q = class_shares(target, owners.share)
        constant = float(-q @ np.log(q)) if intercept else float(np.log(classes))
    outputs = (classes,) if classes > 2 else ()
    shape = (X.shape[1], *outputs)
    penalty = Penalty(constant, shape, l1, l2, group, groups, radius)
    x: dict[str, Any] = {"weights": penalty.regularizer}
    like: dict[str, Any] = {"weights": np.zeros(shape)}
    if intercept:
        like["bias"] = np.zeros(outputs)
        if family == "squared":
            x["bias"] = bias_box(center, owners.mean(X), penalty.ball, Squared().reach(constant))
        else:
            x["bias"] = class_bias_box(X, target, owners.share, penalty.ball, constant, binary=classes == 2)
    signed = np.where(target == 1, 1.0, -1.0) if classes == 2 else target
    return Problem(
        OfScore(rule),
        x=x,
        like=Saddle(like),
        data=owners.split(row=X, target=signed),
        weights=owners.weights,
        by_construction=True,
        own_weights=True,
        floor=Floor(None, 0.0, each=True),
    )
