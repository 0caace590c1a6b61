"""Sparse generalized linear models: LASSO, l1 logistic regression, elastic net, group lasso."""

from ..validation.accepted import Column, Matrix, Number, Numbers
from .built_from import built_from
from .client_rows import split_rows
from .general import Problem
from .glm_recipe import SparseGlmRecipe
from .recipe import assemble
from .rows import class_column, features, targets


@built_from("X", "y", "clients", recipe=SparseGlmRecipe)
def sparse_glm(
    family: str,
    X: Matrix,
    y: Column,
    clients: Column | None = None,
    *,
    l1: Number = 0.0,
    l2: Number = 0.0,
    group: Number = 0.0,
    groups: Column | None = None,
    radius: Number | None = None,
    intercept: bool = True,
    weights: Numbers | str = "samples",
    sample_weight: Numbers | None = None,
    center: Numbers | None = None,
) -> Problem:
    """min_{w, b} sum_i p_i loss(<w, X_i - c> + b, y_i) + l1 ||w||_1 + l2/2 ||w||^2 + group sum_g sqrt(d_g) ||w_g||_2.

    family "squared": loss (score - y)^2 / 2, so that l1 is scikit-learn's alpha of Lasso. "logistic": with two classes
        log(1 + exp(-s score)), s = -1 for the first label in sorted order and +1 for the second, so that l1 is
        1 / (C n); with more the softmax loss, and w has shape (d, classes), b (classes,).
    clients: for each row, whose it is; None is one client. weights: "samples" makes all p_i alike (the pooled problem),
        "clients" makes all clients alike; or one number for each client. sample_weight: a number >= 0 for each row,
        in proportion to which rows count in every mean over rows; all alike without it.
    center: the row c, 0 if None. With the mean row b hardly depends on w; sparse rows stay sparse.
    groups: for each column of X its group, whose entries vanish together; d_g is how many entries w_g has.
    x = {"weights": w, "bias": b}; without intercept x = {"weights": w}. There is no y: plain minimization.

    Bounds. The loss is >= 0, so a solution's penalty is at most F, the loss of the best constant score (of score 0
    without intercept): w is in a ball that says so (`Penalty`), or in L2Ball(radius). For "squared", with mu the mean
    of X_i - c and S the largest |<w, mu>| for w in the ball, Jensen's inequality gives |b - mean y| <= S + sqrt(2 F);
    for classes see `class_bias_box`. Unless F = 0, no derived bound is active at a solution; a given radius may be.
    As the loss is >= 0, so is f: its floor is 0.
    """
    recipe = SparseGlmRecipe(family, l1, l2, group, groups, radius, intercept, weights, center)
    rows = features(X)
    target = targets(y, rows.shape[0]) if family == "squared" else class_column(y, rows.shape[0])
    return assemble(recipe, split_rows(rows, target, clients, sample_weight))
