"""The losses of many rows at once, outside of any compiled program."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..precision import double
from .losses import Huber, Logistic, Loss, Squared

BLOCK = 4096
"""How many rows are scored at a time by all constant scores."""


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
