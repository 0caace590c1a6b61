"""Maximization of the area under the ROC curve, as a saddle point that splits over examples."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..regularizers import Box, SquaredL2
from ..regularizers.rounding import UNIT
from ..tree import Saddle, Tree, cast_like
from ..validation import encode_labels, nonnegative, of_type, rows_of
from .built_from import built_from
from .floor import Floor
from .general import Problem
from .operator_error import Majorized
from .penalties import Ball, largest_product, penalized, weight_ball
from .rows import by_client, matrix, two_classes


@built_from("X", "y", "clients", pooled=True)
def auc(
    X: Any, y: Any, clients: Any, *, l1: Any = 0.0, l2: Any = 0.0, radius: Any = None, saddle: bool = True
) -> Problem:
    """min_w mean over pairs of (1 - <w, row> + <w, row'>)^2 + l1 ||w||_1 + l2/2 ||w||^2, row positive, row' negative.

    X: n rows of d features; y: n labels of two classes, the second in sorted order being the positive one;
        clients: for each row, whose it is. The pairs are all n+ n- pairs, of different clients too. A row's score is
        <w, row>.
    No client can see a pair, but with E+ and E- the means over the rows of a class, m+ and m- the mean scores, the
    mean over pairs is E+ (<w, row> - m+)^2 + E- (<w, row> - m-)^2 + (1 - m+ + m-)^2, which is

        min_{a, b} max_alpha  E+ (<w, row> - a)^2 + E- (<w, row> - b)^2 - 2 (1 + alpha) (m+ - m-) + 1 - alpha^2,

    a mean over rows once the classes' shares of the rows are known: one federated mean. x = {"weights": w, "a": a,
    "b": b}, y = alpha; -alpha^2 is in psi_2. Shifting all rows changes no pair, so rows are taken relative to the
    middle of the two class means mu+ and mu-, which are federated means as well: m+ = -m-.

    Certificates need bounded domains. At a solution w, scaling it by t < 1 does not help: with d = m- - m+ and V the
    two variances, the slope in t at 1 is 2 V + 2 d (1 + d) + l1 ||w||_1 + l2 ||w||^2 <= 0, hence

        -1 <= d <= 0,  a = m+ = -d/2 is in [0, 1/2],  b = m- = d/2 is in [-1/2, 0],  l1 ||w||_1 + l2 ||w||^2 <= 1/2.

    a and b are kept in [0, 1] and [-1, 0]: near a solution d may be below -1. w is kept in L1Ball(1 / (2 l1)) or
    L2Ball((2 l2)^(-1/2)), the one of smaller radius, or in L2Ball(radius) if radius= is given. alpha's best response
    is d: Box(c), c the largest |<w, mu+ - mu->| for w in its ball, has it for every w, so the certificate bounds how
    far the objective over pairs of w is from its minimum.
    At alpha = -min(1, c) the floor of f, which is without -alpha^2, is 1 - 2 (1 + alpha) c, less what rounding may add:
    the squares are >= 0, and m+ - m- = <w, mu+ - mu-> <= c for every w of the ball.

    saddle=False is the same objective without a, b and alpha, for clients that know mu+ and mu- themselves: the plain
    minimization of E+ <w, row - mu+>^2 + E- <w, row - mu->^2 + (1 - <w, mu+ - mu->)^2, in the same ball, floor 0.
    A client with more than d rows keeps d that have the same sum of squares for every w, of a QR decomposition.
    Ying, Wen, Lyu, Stochastic Online AUC Maximization, NeurIPS 2016.
    """
    of_type("saddle", saddle, bool, "True or False")
    X = matrix(X)
    sign = two_classes(y, len(X))
    _, client = encode_labels("clients", clients, len(X))
    l1, l2 = nonnegative("l1", l1), nonnegative("l2", l2)
    ball = weight_ball(float(l1), 2 * float(l2), radius, 0.5)
    up, down = ((sign == s) @ X / np.sum(sign == s) for s in (1, -1))
    weight = np.where(sign > 0, len(X) / np.sum(sign > 0), len(X) / np.sum(sign < 0))
    common: dict[str, Any] = {"weights": "samples", "by_construction": True, "own_weights": True}
    if not saddle:
        own = [_squares(X[rows] - np.where(sign[rows, None] > 0, up, down), weight[rows]) for rows in rows_of(client)]
        return Problem(
            CenteredSquare(up - down),
            x={"weights": penalized(ball, l1, l2)},
            like=Saddle({"weights": np.zeros(X.shape[1])}),
            data=own,
            floor=Floor(None, 0.0, each=True),
            **(common | {"weights": np.bincount(client)}),
        )
    rows, bound = X - (up + down) / 2, largest_product(ball, up - down)[0]
    return Problem(
        PairwiseSquare(),
        x={"weights": penalized(ball, l1, l2), "a": Box(lower=0, upper=1), "b": Box(lower=-1, upper=0)},
        y=SquaredL2(2.0) + Box(bound),
        like=Saddle({"weights": np.zeros(X.shape[1]), "a": np.zeros(()), "b": np.zeros(())}, np.zeros(())),
        data=by_client({"row": rows, "sign": sign, "weight": weight}, client),
        floor=_floor(rows, sign * weight / len(X), ball, float(bound)),
        **common,
    )


def _squares(rows: NDArray[Any], weight: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """At most d rows whose mean of <w, row>^2 is for every w that of weight <w, row>^2 over all rows: a QR factor."""
    rows *= np.sqrt(weight / len(rows))[:, None]
    factor = np.linalg.qr(rows, mode="r") if len(rows) > rows.shape[1] else rows
    return {"row": np.sqrt(len(factor)) * factor}


def _floor(rows: NDArray[Any], factor: NDArray[Any], ball: Ball, bound: float) -> Floor:
    """1 - 2 (1 + alpha) S, S >= the largest m+ - m- = sum_i factor_i <w, row_i> over the ball, as the rows are stored.

    Without the term in S, for bound >= 1, every row obeys it, and so does a client's own f.
    """
    alpha, unit = -min(1.0, bound), (len(rows) + 64) * UNIT
    largest = np.abs(factor @ rows) + unit * (np.abs(factor) @ np.abs(rows))
    most = 2 * (1 + alpha) * float(largest_product(ball, largest)[0])
    return Floor(np.asarray(alpha), 1 - most - unit * (1 + most), each=alpha == -1.0)


class PairwiseSquare(Majorized):
    """((<w, row> - c)^2 - 2 (1 + alpha) sign <w, row>) / (the class's share) + 1, c = a for sign +1 and b for -1."""

    def __call__(self, x: Tree, alpha: Array, example: Tree) -> Array:
        score = example["row"] @ x["weights"]
        center = jnp.where(example["sign"] > 0, x["a"], x["b"])
        return example["weight"] * ((score - center) ** 2 - 2 * (1 + alpha) * example["sign"] * score) + 1

    def majorant(self, x: Tree, alpha: Array, example: Tree) -> Array:
        """The same with a plus everywhere."""
        score = jnp.abs(example["row"]) @ x["weights"]
        center = jnp.where(example["sign"] > 0, x["a"], x["b"])
        return example["weight"] * ((score + center) ** 2 + 2 * (1 + alpha) * score) + 1


class CenteredSquare(Majorized):
    """<w, row>^2 + (1 - <w, difference>)^2, for rows relative to the mean of their class and weighed by it."""

    difference: Any
    """mu+ - mu-."""

    def __call__(self, x: Tree, example: Tree) -> Array:
        w = x["weights"]
        return (example["row"] @ w) ** 2 + (1 - cast_like(self.difference, w) @ w) ** 2

    def majorant(self, x: Tree, example: Tree) -> Array:
        """The same with a plus and absolute values everywhere."""
        w, difference = x["weights"], jnp.abs(cast_like(self.difference, x["weights"]))
        return (jnp.abs(example["row"]) @ w) ** 2 + (1 + difference @ w) ** 2
