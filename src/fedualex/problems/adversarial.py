"""Logistic regression against one sparse perturbation of all examples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..regularizers import L1, Box
from ..tree import Saddle, Tree
from ..validation import nonnegative, of_type, positive, real_array
from .built_from import built_from
from .general import Problem
from .losses import Logistic, linear_score
from .penalties import Penalty, class_bias_box
from .rows import RowClients, labels_of_model, matrix, two_classes

NOT_CONCAVE = "the loss is convex, not concave, in the perturbation, so no certificate of a saddle point exists"


@built_from("X", "y", "clients", pooled=True)
def universal_adversarial(
    X: Any,
    y: Any,
    radius: Any,
    lam: Any,
    *,
    clients: Any = None,
    l1: Any = 0.0,
    l2: Any = 1e-3,
    weights: Any = "samples",
) -> Problem:
    """min_{w, b} max_delta sum_i p_i log(1 + exp(-s_i (<w, X_i + delta> + b))) + psi(w) - lam ||delta||_1.

    One perturbation delta, the attack, is added to every row; s_i = -1 for the first of two labels in sorted order and
    +1 for the second; psi(w) = l1 ||w||_1 + l2/2 ||w||^2. x = {"weights": w, "bias": b}, y = delta, entry by entry
    within the radius. The penalty of the attack has a minus sign: with the printed plus it would reward a dense attack.

    The loss is convex in delta, so this is outside the theory: a run ends with the status UNCERTIFIED and claims
    nothing. w and b are bounded as in `sparse_glm`, whose argument holds at delta = 0.
    """
    X = matrix(X)
    radius, lam = positive("radius", radius), nonnegative("lam", lam)
    sign = two_classes(y, len(X))
    if nonnegative("l1", l1) == nonnegative("l2", l2) == 0:
        raise ValueError("l1 or l2 must be > 0: nothing else bounds the weights of the model")
    owners = RowClients(clients, weights, len(X))
    penalty = Penalty(float(np.log(2)), (X.shape[1],), l1, l2, 0.0, None, None)
    bias = class_bias_box(X, (sign > 0).astype(int), owners.share, penalty.ball, float(np.log(2)), binary=True)
    return Problem(
        attacked_loss,
        x={"weights": penalty.regularizer, "bias": bias},
        y=L1(lam) + Box(radius) if lam > 0 else Box(radius),
        like=Saddle({"weights": np.zeros(X.shape[1]), "bias": np.zeros(())}, np.zeros(X.shape[1])),
        data=owners.split(row=X, target=sign),
        weights=owners.weights,
        own_weights=True,
        uncertified=NOT_CONCAVE,
    )


def attacked_loss(x: Tree, delta: Array, example: Tree) -> Array:
    """The logistic loss of one example, moved by delta."""
    return Logistic()(linear_score(x, example["row"] + delta), example["target"])


@dataclass(frozen=True)
class AttackReport:
    """Accuracy without and with the attack, and the share of the attack's entries that are not zero."""

    clean: float
    attacked: float
    density: float


def attack_report(X: Any, y: Any, z: Saddle, *, labels: Any = None, zero: float = 1e-5) -> AttackReport:
    """How a model z.x does on rows X with labels y, as they are and with the attack z.y added to each.

    labels: the two labels of the training data, needed where y has only one of them.
    """
    X = matrix(X)
    label = labels_of_model(y, len(X), labels, 2)
    weights, bias, delta = _model(z, X.shape[1])
    zero = float(nonnegative("zero", zero))

    def accuracy(rows: Any) -> float:
        return float(np.mean((rows @ weights + bias > 0) == (label == 1)))

    return AttackReport(accuracy(X), accuracy(X + delta), float(np.mean(np.abs(delta) > zero)))


def _model(z: Any, features: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Weights, bias and attack of an answer."""
    accepted = f"the answer of `universal_adversarial` for {features} features"
    of_type("z", z, Saddle, accepted)
    of_type("z.x", z.x, Mapping, f"weights and bias, as in {accepted}")
    given = {"weights": z.x.get("weights"), "bias": z.x.get("bias"), "attack": z.y}
    weights, bias, delta = (real_array(f"z: {name}", array) for name, array in given.items())
    if weights.shape != (features,) or delta.shape != (features,) or bias.shape != ():
        raise ValueError(f"z must be {accepted}, got arrays of shapes {weights.shape}, {bias.shape}, {delta.shape}")
    return weights, bias, delta
