"""Agnostic federated learning: one classifier for the worst mixture of the clients."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..geometry import EntropicSimplex
from ..regularizers import KL, L1, AbstractRegularizer, Box, L1Ball, L2Ball, SquaredL2
from ..tree import Saddle, Tree
from ..validation import nonnegative, positive, real_array, short
from .general import Problem


def agnostic(
    X: Any, y: Any, clients: Any, *, l1: Any = 0.0, l2: Any = 0.0, kl: Any = 0.0, prior: Any = None, radius: Any = None
) -> Problem:
    """min_x max_y sum_m y_m loss_m(x) + l1 ||w||_1 + l2/2 ||w||^2 - kl KL(y || prior), y on the simplex of clients.

    X: n rows of d features; y: n labels; clients: for each row, whose it is. Entry m of the mixture, and of prior,
        is the m-th of the sorted client ids; without prior= all are alike, and its entries are divided by their sum.
    x = {"weights": w, "bias": b}. With two classes loss_m is the mean of log(1 + exp(-s (<w, row> + b))) over client
        m's rows, s = -1 for the first label in sorted order and +1 for the second; w has shape (d,), b has (). With
        more it is the softmax loss, and w has shape (d, classes), b (classes,).

    Certificates need bounded domains. Let phi(x) be the maximum over y. The losses are >= 0 and phi(0) = log(classes),
    so a solution has l1 ||w||_1 <= log(classes) and l2/2 ||w||^2 <= log(classes): w is kept in the L1Ball or the L2Ball
    that says so, the one of smaller radius, or in L2Ball(radius) if radius= is given. For the bias, weigh each row of
    client m by prior_m / (rows of m), and let s_c be the weight and mu_c the mean of the rows of class c. At y = prior,
    Jensen's inequality and log(1 + e^u) >= u give, for a solution and any class k,
    s_c (b_k - b_c + <w_k - w_c, mu_c>) <= phi(x) <= phi(0) = log(classes), so that no two biases differ by more than

        D = max_c  (the largest |<w_k - w_c, mu_c>| for w in its ball) + log(classes) / s_c.

    With two classes b, which stands for the difference, is in Box(D). Otherwise biases matter up to a common shift
    and are in Box(D / 2), which keeps one shift of every solution. Neither the box nor a derived ball is ever active
    at a solution; a given radius may be. Mohri, Sivek, Suresh, Agnostic Federated Learning, ICML 2019.
    """
    X = real_array("X", X, "a real matrix")
    if X.ndim != 2 or X.size == 0:
        raise ValueError(f"X must be a nonempty matrix with one row for each example, got shape {X.shape}")
    classes, label = _numbered("y", y, len(X))
    count, client = _numbered("clients", clients, len(X))
    if classes < 2:
        raise ValueError(f"y must hold at least two classes, but all its {len(X)} labels are alike")
    l1, l2, kl = nonnegative("l1", l1), nonnegative("l2", l2), nonnegative("kl", kl)
    mixture = _checked_prior(prior, count)
    ball = _weight_ball(float(l1), float(l2), radius, np.log(classes))
    spread = _bias_spread(X, label, (mixture / np.bincount(client))[client], ball)

    weights: AbstractRegularizer = ball if l1 == 0 else L1(l1) + ball
    weights = weights if l2 == 0 else weights + SquaredL2(l2)
    binary = classes == 2
    outputs = () if binary else (classes,)
    target = np.where(label == 1, 1.0, -1.0) if binary else label
    examples = {"row": X, "label": target, "client": client}
    return Problem(
        weighted_logistic if binary else weighted_softmax,
        x={"weights": weights, "bias": Box(spread if binary else spread / 2)},
        y=EntropicSimplex(KL(kl, mixture) if kl > 0 else None),
        like=Saddle({"weights": np.zeros((X.shape[1], *outputs)), "bias": np.zeros(outputs)}, np.zeros(count)),
        data=[{name: array[client == m] for name, array in examples.items()} for m in range(count)],
    )


def weighted_logistic(x: Tree, y: Array, example: Tree) -> Array:
    """M y_m log(1 + exp(-s (<w, row> + b))) of one example of client m with label s = -1 or +1."""
    margin = example["label"] * (example["row"] @ x["weights"] + x["bias"])
    return y.size * y[example["client"]] * jnp.logaddexp(0.0, -margin)


def weighted_softmax(x: Tree, y: Array, example: Tree) -> Array:
    """M y_m (logsumexp(row w + b) - (row w + b)_c) of one example of client m with label c."""
    scores = example["row"] @ x["weights"] + x["bias"]
    return -y.size * y[example["client"]] * jax.nn.log_softmax(scores)[example["label"]]


def _numbered(name: str, values: Any, rows: int) -> tuple[int, NDArray[np.int32]]:
    """How many distinct labels there are, and the number of each row's label in sorted order."""
    try:
        array = np.asarray(values)
        _, number = np.unique(array, return_inverse=True)
    except (TypeError, ValueError):  # ragged, or not to be sorted
        raise TypeError(f"{name} must be {rows} labels that can be sorted, got {short(values)}") from None
    if array.shape != (rows,):
        raise ValueError(f"{name} must hold {rows} labels, one for each row of X, got an array of shape {array.shape}")
    if np.any(array != array):  # nan is the one label that differs from itself
        raise ValueError(f"{name} must not contain nan")
    return int(number.max()) + 1, number.astype(np.int32)  # the index type of both precisions


def _checked_prior(prior: Any, count: int) -> NDArray[Any]:
    p = np.ones(count) if prior is None else real_array("prior", prior, f"{count} numbers > 0")
    if p.shape != (count,) or np.any(p <= 0):
        raise ValueError(f"prior must be {count} numbers > 0, one for each client, got {short(prior)}")
    return p / p.sum()


def _weight_ball(l1: float, l2: float, radius: Any, budget: float) -> L1Ball | L2Ball:
    """The ball of the weights; a solution's penalty is at most the budget."""
    if radius is not None:
        return L2Ball(positive("radius", radius))
    balls: list[L1Ball | L2Ball] = [L1Ball(budget / l1)] if l1 > 0 else []
    balls += [L2Ball(np.sqrt(2 * budget / l2))] if l2 > 0 else []
    if not balls:
        raise ValueError("radius must be given if l1 and l2 are 0: nothing else bounds the weights")
    return min(balls, key=lambda ball: float(ball.radius))


def _bias_spread(X: NDArray[Any], label: NDArray[Any], weight: NDArray[Any], ball: L1Ball | L2Ball) -> float:
    """D of the docstring; two columns in an l2 ball differ by at most sqrt(2) radius, in an l1 ball by the radius."""
    share = np.bincount(label, weight)
    means = (np.eye(share.size)[label] * weight[:, None]).T @ X / share[:, None]
    longest = 1.0 if isinstance(ball, L1Ball) or share.size == 2 else np.sqrt(2)
    size = np.linalg.norm(means, np.inf if isinstance(ball, L1Ball) else 2, axis=1)
    return float(np.max(longest * ball.radius * size + np.log(share.size) / share))
