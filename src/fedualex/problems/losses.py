"""The losses of one example that the catalogue's problems are made of: convex functions of a linear score.

`size(reach, target)` bounds the rounding of a loss: if the score is a sum of n terms of total size `reach`, the loss is
computed to within (n + 16) UNIT size, and its derivative to within (n + 16) UNIT times the derivative of `size`.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..precision import double
from ..tree import Tree, cast_like
from ..validation import positive
from .operator_error import Majorized

CLASSIFICATION = ("logistic", "multiclass")
REGRESSION = ("squared", "huber")
BLOCK = 4096
"""How many rows are scored at a time by all constant scores."""


class Logistic(eqx.Module):
    """log(1 + exp(-sign score)), sign = -1 or +1."""

    def __call__(self, score: Any, sign: Any) -> Array:
        return jnp.logaddexp(0.0, -sign * score)

    def size(self, reach: Any, sign: Any) -> Array:
        """1 + reach + reach^2 / 8: the slope is at most 1, and its own slope at most 1/4."""
        return jnp.sum(1 + reach + reach**2 / 8)


class Softmax(eqx.Module):
    """logsumexp(scores) - scores_c, c the number of the class."""

    def __call__(self, scores: Any, c: Any) -> Array:
        return -jax.nn.log_softmax(scores)[c]

    def size(self, reach: Any, c: Any) -> Array:
        """1 + log(classes) + 2 R + R^2, R the sum over the classes."""
        total = jnp.sum(reach)
        return 1 + jnp.log(1.0 * reach.size) + 2 * total + total**2


class Squared(eqx.Module):
    """(score - target)^2 / 2."""

    def __call__(self, score: Any, target: Any) -> Array:
        return (score - target) ** 2 / 2

    def size(self, reach: Any, target: Any) -> Array:
        """(reach + |target|)^2."""
        return jnp.sum((reach + jnp.abs(target)) ** 2)

    def reach(self, budget: float) -> float:
        """The largest |score - target| whose loss is within the budget."""
        return float(np.sqrt(2 * budget))


class Huber(eqx.Module):
    """u^2 / 2 for u = |score - target| <= delta, delta u - delta^2 / 2 beyond."""

    delta: Any

    def __init__(self, delta: Any = 1.0):
        self.delta = positive("delta", delta)

    def __call__(self, score: Any, target: Any) -> Array:
        inner = jnp.clip(score - target, -cast_like(self.delta, score), cast_like(self.delta, score))
        return inner * (score - target - inner / 2)

    def size(self, reach: Any, target: Any) -> Array:
        """(reach + |target|)^2: never less than the square's."""
        return Squared().size(reach, target)

    def reach(self, budget: float) -> float:
        """The largest |score - target| whose loss is within the budget."""
        delta = float(self.delta)
        return float(np.sqrt(2 * budget)) if 2 * budget <= delta**2 else budget / delta + delta / 2


Loss = Logistic | Softmax | Squared | Huber


def regression_loss(name: str, delta: Any) -> Squared | Huber:
    """The loss of this name."""
    return Squared() if name == "squared" else Huber(delta)


def linear_score(x: Tree, row: Any) -> Array:
    """<w, row> + b, or one such number for each class; b = 0 if x has none."""
    return row @ x["weights"] + x.get("bias", 0.0)


def row_weight(example: Tree) -> Any:
    """By how much the example counts more than the mean one of its client; 1 if rows have no weights."""
    return example.get("weight", 1.0)


class OfScore(Majorized):
    """loss(<w, row> + b, target) of one example, summed over outputs, times the weight of the row."""

    loss: Loss

    def __call__(self, x: Tree, example: Tree) -> Array:
        return row_weight(example) * jnp.sum(self.loss(linear_score(x, example["row"]), example["target"]))

    def majorant(self, x: Tree, example: Tree) -> Array:
        """The size of the loss."""
        return row_weight(example) * self.loss.size(linear_score(x, abs(example["row"])), example["target"])


def each_loss(loss: Loss, scores: Any, targets: Any) -> NDArray[Any]:
    """The loss of each row, in float64; one score may stand for all rows."""
    with double():
        scores, targets = jnp.asarray(scores, float), jnp.asarray(targets)
        return np.asarray(jax.vmap(loss)(jnp.broadcast_to(scores, (len(targets), *scores.shape[1:])), targets))


def constant_losses(
    loss: Logistic | Squared | Huber, constants: NDArray[Any], target: NDArray[Any], masses: NDArray[Any]
) -> NDArray[Any]:
    """For each constant score (row), the sums of the losses with each row of the weights `masses` (column).

    In numpy, as jax would compile once for each client's number of rows, and by blocks, which bounds the memory.
    """
    total = np.zeros((len(constants), len(masses)))
    some = masses.any(axis=1)  # a client has rows of few groups
    for start in range(0, len(target), BLOCK):
        part = slice(start, start + BLOCK)
        total[:, some] += plain_losses(loss, constants[:, None], target[part]) @ masses[some, part].T
    return total


def plain_losses(loss: Logistic | Squared | Huber, score: Any, target: NDArray[Any]) -> NDArray[Any]:
    """The loss of each row at one score, by numpy; of several scores in a column, a row of losses for each."""
    if isinstance(loss, Logistic):
        return np.asarray(np.logaddexp(0.0, -target * score))
    apart = score - target
    inner = np.clip(apart, -loss.delta, loss.delta) if isinstance(loss, Huber) else apart
    return np.asarray(inner * (apart - inner / 2))
