"""Agnostic federated learning: one model for the worst mixture of clients or groups, or for the worst share of them."""

from ..validation.accepted import Column, Matrix, Number, Numbers
from .agnostic_recipe import AgnosticRecipe
from .built_from import built_from
from .client_rows import split_rows
from .general import Problem
from .recipe import assemble
from .rows import class_column, features, label_column, targets


@built_from("X", "y", "clients", recipe=AgnosticRecipe)
def agnostic(
    X: Matrix,
    y: Column,
    clients: Column,
    *,
    loss: str | None = None,
    delta: Number = 1.0,
    l1: Number = 0.0,
    l2: Number = 0.0,
    kl: Number = 0.0,
    prior: Numbers | None = None,
    cvar: Number | None = None,
    radius: Number | None = None,
    groups: Column | None = None,
    sample_weight: Numbers | None = None,
) -> Problem:
    """min_x max_y sum_m y_m loss_m(x) + l1 ||w||_1 + l2/2 ||w||^2 - kl KL(y || prior), y on the simplex of clients.

    X: n rows of d features; y: n labels; clients: for each row, whose it is. Entry m of the mixture, and of prior,
        is the m-th of the sorted client ids; without prior= all are alike, and its entries are divided by their sum.
        prior needs kl > 0. sample_weight: a number >= 0 for each row, in proportion to which rows count in every mean.
    groups: for each row, its group: the mixture is then one of groups, and loss_m is a mean over the rows of group m,
        whoever holds them, so that clients that share groups need not know it. Without it each client is a group.
    loss: x = {"weights": w, "bias": b}, and loss_m is a mean over client m's rows. "logistic", for two classes:
        log(1 + exp(-s (<w, row> + b))), s = -1 for the first label in sorted order and +1 for the second; w has shape
        (d,), b has (). "multiclass": the softmax loss, w of shape (d, classes), b (classes,). Without loss= it is
        logistic for two classes, multiclass for more. "squared": u^2 / 2, u = <w, row> + b - y; "huber": u^2 / 2 for
        |u| <= delta, delta |u| - delta^2 / 2 beyond.
    cvar: with M groups, y <= 1 / (cvar M), so that the maximum over y is the mean loss of the worst share `cvar` of
        groups; 1 is the mean, cvar <= 1/M the worst group. Not together with kl or prior.

    Certificates need bounded domains. Let phi(x) be the maximum over y, and B = log(classes) = phi(0) for the first
    two losses. They are >= 0, so a solution has l1 ||w||_1 <= B and l2/2 ||w||^2 <= B: w is kept in the L1Ball or the
    L2Ball that says so, the one of smaller radius, or in L2Ball(radius) if radius= is given. For the bias, weigh each
    row of group m by prior_m / (rows of m): at y = prior the mean loss of a solution is at most B, which bounds b as
    in `class_bias_box`. For "squared" and "huber" let t and mu be the weighted means of labels and rows, and
    B = max_m loss_m >= phi at w = 0, b = t. Jensen's inequality at y = prior puts |b + <w, mu> - t| within the reach of
    B, sqrt(2 B) (for "huber" B / delta + delta / 2 if that is more than delta), so |b - t| <= (the largest |<w, mu>|
    for w in its ball) + reach. Unless B = 0, no derived bound is active at a solution; a given radius may be.
    Losses are >= 0, so f(x, y) >= 0 at any mixture: the floor is 0 at the prior, which no cap excludes.
    Mohri, Sivek, Suresh, Agnostic Federated Learning, ICML 2019.
    """
    recipe = AgnosticRecipe(loss, delta, l1, l2, kl, prior, cvar, radius, groups is not None)
    rows = features(X)
    target = targets(y, rows.shape[0]) if recipe.regression else class_column(y, rows.shape[0])
    group = None if groups is None else label_column("groups", groups, rows.shape[0])
    return assemble(recipe, split_rows(rows, target, clients, sample_weight, group))
