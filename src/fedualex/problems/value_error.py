"""How far a value of f that float64 computed may be from the exact one: a bound where f is known, else an estimate."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .. import tree
from ..regularizers.rounding import UNIT
from ..tree import Saddle
from .operator_error import SEEDS, UNSEEN, Majorized, longest_sum, majorized, shaken_problem
from .user_loss import loss_and_gradient


class LossError(NamedTuple):
    """How far a value of f may be from the exact one; `estimated` unless that is a bound."""

    size: Array
    estimated: bool


def unseen_error(z: Saddle, g: Saddle, value: Array) -> LossError:
    """UNSEEN UNIT max(|f(z)|, <|g|, |z|>): an estimate where neither the data nor the terms of f are known."""
    return LossError(UNSEEN * UNIT * _size(z, g, value), estimated=True)


def error_of_value(problem: Any, z: Saddle, g: Saddle, value: Array) -> LossError:
    """How far `value`, the computed f of a `Problem` at z, may be from the exact one; g is its operator there.

    With a majorant F: (n + 32) UNIT (F + <grad F, |z|>) at |z|, n the number of examples and of entries of z. The
    second term is there because an error in a score counts as often as its power: a square of a sum of n terms errs by
    2 n UNIT of its size. Else estimates: twice what shaking all inputs changes, added up over the SEEDS, plus
    (sqrt(n) + 16) UNIT max(|f(z)|, <|g|, |z|>); without the data `unseen_error`.
    """
    data = problem.data
    if data is not None and not data.counts.size:
        return unseen_error(z, g, value)
    n = longest_sum(problem, z)
    if isinstance(problem.f, Majorized):
        size = jax.tree.map(jnp.abs, z)
        most, slope = loss_and_gradient(majorized(problem), size)
        return LossError((n + 32) * UNIT * (most + tree.dot(slope, size)), estimated=False)
    changes = jax.lax.map(lambda seed: jnp.abs(_change(problem, z, value, seed)), SEEDS)
    return LossError(2 * jnp.sum(changes) + (n**0.5 + 16) * UNIT * _size(z, g, value), estimated=True)


def _change(problem: Any, z: Saddle, value: Array, seed: Array) -> Array:
    """By how much f changes if z and the data are shaken."""
    other, moved = shaken_problem(problem, z, seed)
    shaken = other.loss(moved)
    return jnp.where(jnp.isfinite(shaken), value - shaken, 0)


def _size(z: Saddle, g: Saddle, value: Array) -> Array:
    return jnp.maximum(jnp.abs(value), tree.dot(*(jax.tree.map(jnp.abs, point) for point in (g, z))))
