"""The losses of one example that the catalogue's problems are made of: convex functions of a linear score.

`size(reach, target)` bounds the rounding of a loss: if the score is a sum of n terms of total size `reach`, the loss is
computed to within (n + 16) UNIT size, and its derivative to within (n + 16) UNIT times the derivative of `size`.
`curvature` bounds the second derivatives in the score, and `steepest(far)` the first where |score - target| <= far.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..tree import Tree, cast_like
from ..validation import positive

CLASSIFICATION = ("logistic", "multiclass")
REGRESSION = ("squared", "huber")


class Logistic(eqx.Module):
    """log(1 + exp(-sign score)), sign = -1 or +1."""

    curvature: ClassVar[float] = 1 / 4

    def __call__(self, score: Any, sign: Any) -> Array:
        return jnp.logaddexp(0.0, -sign * score)

    def size(self, reach: Any, sign: Any) -> Array:
        """1 + reach + reach^2 / 8: the slope is at most 1, and its own slope at most 1/4."""
        return jnp.sum(1 + reach + reach**2 / 8)

    def steepest(self, far: Any) -> Any:
        """1."""
        return np.ones_like(far)


class Softmax(eqx.Module):
    """logsumexp(scores) - scores_c, c the number of the class."""

    curvature: ClassVar[float] = 1 / 2

    def __call__(self, scores: Any, c: Any) -> Array:
        return -jax.nn.log_softmax(scores)[c]

    def size(self, reach: Any, c: Any) -> Array:
        """1 + log(classes) + 2 R + R^2, R the sum over the classes."""
        total = jnp.sum(reach)
        return 1 + jnp.log(1.0 * reach.size) + 2 * total + total**2

    def steepest(self, far: Any) -> Any:
        """sqrt(2): the difference of two points of the simplex."""
        return np.full_like(far, np.sqrt(2))


class Squared(eqx.Module):
    """(score - target)^2 / 2."""

    curvature: ClassVar[float] = 1.0

    def __call__(self, score: Any, target: Any) -> Array:
        return (score - target) ** 2 / 2

    def size(self, reach: Any, target: Any) -> Array:
        """(reach + |target|)^2."""
        return jnp.sum((reach + jnp.abs(target)) ** 2)

    def steepest(self, far: Any) -> Any:
        """The distance."""
        return far

    def reach(self, budget: float) -> float:
        """The largest |score - target| whose loss is within the budget."""
        return float(np.sqrt(2 * budget))


class Huber(eqx.Module):
    """u^2 / 2 for u = |score - target| <= delta, delta u - delta^2 / 2 beyond."""

    delta: Any
    curvature: ClassVar[float] = 1.0

    def __init__(self, delta: Any = 1.0):
        self.delta = positive("delta", delta)

    def __call__(self, score: Any, target: Any) -> Array:
        inner = jnp.clip(score - target, -cast_like(self.delta, score), cast_like(self.delta, score))
        return inner * (score - target - inner / 2)

    def size(self, reach: Any, target: Any) -> Array:
        """(reach + |target|)^2: never less than the square's."""
        return Squared().size(reach, target)

    def steepest(self, far: Any) -> Any:
        """The distance, and never more than delta."""
        return np.minimum(far, self.delta)

    def reach(self, budget: float) -> float:
        """The largest |score - target| whose loss is within the budget."""
        delta = float(self.delta)
        return float(np.sqrt(2 * budget)) if 2 * budget <= delta**2 else budget / delta + delta / 2


Loss = Logistic | Softmax | Squared | Huber


def regression_loss(name: str, delta: object) -> Squared | Huber:
    """The loss of this name."""
    return Squared() if name == "squared" else Huber(delta)


def linear_score(x: Tree, row: Any) -> Array:
    """<w, row> + b, or one such number for each class; b = 0 if x has none."""
    return row @ x["weights"] + x.get("bias", 0.0)


def row_weight(example: Tree) -> Any:
    """By how much the example counts more than the mean one of its client; 1 if rows have no weights."""
    return example.get("weight", 1.0)
