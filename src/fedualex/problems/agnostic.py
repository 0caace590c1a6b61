"""Agnostic federated learning: one model for the worst mixture of the clients, or for the worst share of them."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..regularizers import Box
from ..tree import Saddle, Tree
from ..validation import encode_labels, nonnegative, one_of
from .built_from import built_from
from .floor import Floor
from .general import Problem
from .losses import (
    CLASSIFICATION,
    REGRESSION,
    Huber,
    Logistic,
    Loss,
    Softmax,
    Squared,
    each_loss,
    linear_score,
    regression_loss,
)
from .mixtures import checked_prior, mixtures
from .operator_error import Majorized
from .penalties import Ball, bias_box, class_bias_box, penalized, weight_ball
from .rows import by_client, class_labels, matrix, targets


@built_from("X", "y", "clients", pooled=True)
def agnostic(
    X: Any,
    y: Any,
    clients: Any,
    *,
    loss: Any = None,
    delta: Any = 1.0,
    l1: Any = 0.0,
    l2: Any = 0.0,
    kl: Any = 0.0,
    prior: Any = None,
    cvar: Any = None,
    radius: Any = None,
) -> Problem:
    """min_x max_y sum_m y_m loss_m(x) + l1 ||w||_1 + l2/2 ||w||^2 - kl KL(y || prior), y on the simplex of clients.

    X: n rows of d features; y: n labels; clients: for each row, whose it is. Entry m of the mixture, and of prior,
        is the m-th of the sorted client ids; without prior= all are alike, and its entries are divided by their sum.
        prior needs kl > 0.
    loss: x = {"weights": w, "bias": b}, and loss_m is a mean over client m's rows. "logistic", for two classes:
        log(1 + exp(-s (<w, row> + b))), s = -1 for the first label in sorted order and +1 for the second; w has shape
        (d,), b has (). "multiclass": the softmax loss, w of shape (d, classes), b (classes,). Without loss= it is
        logistic for two classes, multiclass for more. "squared": u^2 / 2, u = <w, row> + b - y; "huber": u^2 / 2 for
        |u| <= delta, delta |u| - delta^2 / 2 beyond.
    cvar: with M clients, y <= 1 / (cvar M), so that the maximum over y is the mean loss of the worst share `cvar` of
        clients; 1 is the mean, cvar <= 1/M the worst client. Not together with kl or prior.

    Certificates need bounded domains. Let phi(x) be the maximum over y, and B = log(classes) = phi(0) for the first
    two losses. They are >= 0, so a solution has l1 ||w||_1 <= B and l2/2 ||w||^2 <= B: w is kept in the L1Ball or the
    L2Ball that says so, the one of smaller radius, or in L2Ball(radius) if radius= is given. For the bias, weigh each
    row of client m by prior_m / (rows of m): at y = prior the mean loss of a solution is at most B, which bounds b as
    in `class_bias_box`. For "squared" and "huber" let t and mu be the weighted means of labels and rows, and
    B = max_m loss_m >= phi at w = 0, b = t. Jensen's inequality at y = prior puts |b + <w, mu> - t| within the reach of
    B, sqrt(2 B) (for "huber" B / delta + delta / 2 if that is more than delta), so |b - t| <= (the largest |<w, mu>|
    for w in its ball) + reach. Unless B = 0, no derived bound is active at a solution; a given radius may be.
    Losses are >= 0, so f(x, y) >= 0 at any mixture: the floor is 0 at the prior, which no cap excludes.
    Mohri, Sivek, Suresh, Agnostic Federated Learning, ICML 2019.
    """
    X = matrix(X)
    if loss is not None:
        one_of("loss", loss, CLASSIFICATION + REGRESSION)
    names, client = encode_labels("clients", clients, len(X))
    l1, l2, kl = nonnegative("l1", l1), nonnegative("l2", l2), nonnegative("kl", kl)
    mixture = checked_prior(prior, len(names))
    share = (mixture / np.bincount(client))[client]
    penalty = (float(l1), float(l2), radius)
    if loss in REGRESSION:
        model = _regression(X, y, client, share, regression_loss(loss, delta), penalty)
    else:
        model = _classification(X, y, share, loss, penalty)
    outputs = (len(np.unique(model.target)),) if isinstance(model.loss, Softmax) else ()
    return Problem(
        Weighted(model.loss),
        x={"weights": penalized(model.ball, l1, l2), "bias": model.bias},
        y=mixtures(kl, mixture, cvar, prior is not None),
        like=Saddle({"weights": np.zeros((X.shape[1], *outputs)), "bias": np.zeros(outputs)}, np.zeros(len(names))),
        data=by_client({"row": X, "target": model.target, "client": client}, client),
        by_construction=True,
        own_weights=True,
        floor=Floor(mixture, 0.0, each=True),
    )


class Weighted(Majorized):
    """M y_m loss(<w, row> + b, label) of one example of client m."""

    loss: Loss

    def __call__(self, x: Tree, y: Array, example: Tree) -> Array:
        return y.size * y[example["client"]] * self.loss(linear_score(x, example["row"]), example["target"])

    def majorant(self, x: Tree, y: Array, example: Tree) -> Array:
        """M y_m times the size of the loss."""
        reach = linear_score(x, jnp.abs(example["row"]))
        return y.size * y[example["client"]] * self.loss.size(reach, example["target"])


class _Model(NamedTuple):
    loss: Loss
    target: NDArray[Any]
    ball: Ball
    bias: Box


def _classification(
    X: NDArray[Any], y: Any, share: NDArray[Any], loss: str | None, penalty: tuple[float, float, Any]
) -> _Model:
    count, label = class_labels(y, len(X))
    if loss == "logistic" and count > 2:
        raise ValueError(f"loss must be 'multiclass' for more than two classes, and y holds {count}")
    binary = count == 2 and loss != "multiclass"
    ball = weight_ball(*penalty, np.log(count))
    bias = class_bias_box(X, label, share, ball, float(np.log(count)), binary)
    target = np.where(label == 1, 1.0, -1.0) if binary else label
    return _Model(Logistic() if binary else Softmax(), target, ball, bias)


def _regression(
    X: NDArray[Any],
    y: Any,
    client: NDArray[Any],
    share: NDArray[Any],
    loss: Squared | Huber,
    penalty: tuple[float, float, Any],
) -> _Model:
    target = targets(y, len(X))
    middle = share @ target
    budget = np.max(np.bincount(client, each_loss(loss, middle, target)) / np.bincount(client))
    ball = weight_ball(*penalty, float(budget))
    return _Model(loss, target, ball, bias_box(middle, share @ X, ball, loss.reach(float(budget))))
