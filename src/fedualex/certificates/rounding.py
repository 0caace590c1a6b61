"""How far what float64 computed of f may be from the exact numbers: bounds where f is known, else estimates."""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..arrays import Array, xp
from ..regularizers.base import norm
from ..regularizers.fenchel import UNIT
from ..tree import Saddle, Scalar, Tree, Vector

SHAKE = 8 * UNIT
"""By how much inputs are moved, relative to their size, to see what rounding may do to an operator."""

SEEDS = np.arange(4)
"""The seeds of the shakes: in one shake, changes may cancel by chance."""

UNSEEN = 1024
"""How much larger than an operator's largest entry the terms may be that cancelled, where nothing else is known."""


class OperatorError(NamedTuple):
    """How far each entry of an operator may be from the exact one; `estimated` unless that is a bound."""

    size: Saddle
    estimated: bool

    def add(self, sum_error: Scalar) -> "OperatorError":
        """The error where each entry may be off by `sum_error` more."""
        return self._replace(size=jax.tree.map(lambda own: own + sum_error, self.size))


class Majorized(eqx.Module):
    """A loss of one example that knows the size of its own rounding."""

    @abstractmethod
    def majorant(self, *arguments: Any) -> Array:
        """F(x, example) or F(x, y, example) at |x| and |y|: the size of the loss's terms, which measures its rounding.

        With n the length of the longest sum, the loss's computed gradient errs by at most (n + 32) UNIT grad F, entry
        by entry, and its computed value by at most (n + 32) UNIT (F + <grad F, |z|>). For a polynomial F is the loss
        with a plus and absolute values everywhere, its constants included.
        """


def error_of_operator(problem: Any, z: Saddle, g: Saddle) -> OperatorError:
    """How far g, the computed operator of a `Problem` at z, may be from the exact one.

    With a majorant F: (n + 32) UNIT grad F(|z|), n the number of examples and of entries of z. Else estimates: twice
    what shaking all inputs changes, added up over two shakes because one may change little by chance, plus 16 UNIT of
    g; without the data, UNSEEN UNIT of the largest entry of g.
    """
    data = problem.data
    if data is not None and not data.counts.size:
        largest = xp.max(xp.stack([xp.max(xp.abs(leaf)) for leaf in jax.tree.leaves(g)]))
        return OperatorError(jax.tree.map(lambda a: xp.full_like(a, UNSEEN * UNIT * largest), g), estimated=True)
    if isinstance(problem.f, Majorized):
        _, gradient = with_majorant(problem).loss_and_gradient(jax.tree.map(jnp.abs, z))
        return OperatorError(tree.scale((longest_sum(problem, z) + 32) * UNIT, gradient), estimated=False)
    # One after the other, so that the loss is part of the program once.
    shakes = jax.lax.map(lambda seed: jax.tree.map(_spread, _operator_change(problem, z, g, seed)), SEEDS[:2])
    size = jax.tree.map(lambda a, shaken: 16 * UNIT * _spread(a) + 2 * jnp.sum(shaken, axis=0), g, shakes)
    return OperatorError(size, estimated=True)


def with_majorant(problem: Any) -> Any:
    """The problem with the majorant of its f in place of f."""
    return eqx.tree_at(lambda p: p.f, problem, problem.f.majorant)


def longest_sum(problem: Any, z: Saddle) -> int:
    """The number of examples and of entries of z."""
    examples = 0 if problem.data is None else problem.data.shares().size
    return examples + sum(leaf.size for leaf in jax.tree.leaves(z))


def _operator_change(problem: Any, z: Saddle, g: Saddle, seed: Array) -> Saddle:
    """By how much g changes if z and the data are shaken."""
    other, moved = shake_problem(problem, z, seed)
    changes: Saddle = jax.tree.map(lambda a, b: jnp.where(jnp.isfinite(b), a - b, 0), g, other.operator(moved))
    return changes


def shake_problem(problem: Any, z: Saddle, seed: Array) -> tuple[Any, Saddle]:
    """The problem and z with their data and entries moved by SHAKE of their size."""
    data, moved = _shake_tree((problem.data, z), seed)
    return eqx.tree_at(lambda p: p.data, problem, data, is_leaf=lambda node: node is None), moved


def _shake_tree(a: Tree, seed: Array) -> Tree:
    """a with its floating arrays moved by SHAKE of their size, up or down as if at random."""
    leaves, structure = jax.tree.flatten(a)
    starts = np.cumsum([0, *map(np.size, leaves)]).tolist()
    shaken = [_shake_leaf(leaf, seed, first) for leaf, first in zip(leaves, starts, strict=False)]
    return jax.tree.unflatten(structure, shaken)


def _shake_leaf(leaf: Vector, seed: Array, first: int) -> Vector:
    if not tree.is_floating(leaf):
        return leaf
    signs = _signs(seed, first, np.size(leaf)).astype(jnp.result_type(leaf))
    return leaf * (1 + SHAKE * signs.reshape(jnp.shape(leaf)))


def _signs(seed: Array, first: int, count: int) -> Array:
    """The signs number first, first + 1, ... of a seed: a hash of a few operations, where jax.random has hundreds."""
    bits = jax.lax.iota(np.uint32, count) + np.uint32(first % 2**32) + seed.astype(np.uint32) * np.uint32(0x9E3779B9)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        bits = (bits ^ (bits >> shift)) * np.uint32(factor)
    return 1 - 2 * (bits >> 31).astype(np.int32)


def _spread(a: Array) -> Array:
    """|a_i| and the root of the mean square of all: chance may have made an entry small."""
    return jnp.abs(a) + norm(a) / np.sqrt(a.size)


# How far a value of f that float64 computed may be from the exact one: a bound where f is known, else an estimate.


class LossError(NamedTuple):
    """How far a value of f may be from the exact one; `estimated` unless that is a bound."""

    size: Array
    estimated: bool


def unseen_error(z: Saddle, g: Saddle, value: Scalar) -> LossError:
    """UNSEEN UNIT max(|f(z)|, <|g|, |z|>): an estimate where neither the data nor the terms of f are known."""
    return LossError(UNSEEN * UNIT * _size(z, g, value), estimated=True)


def error_of_value(problem: Any, z: Saddle, g: Saddle, value: Scalar) -> LossError:
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
        most, slope = with_majorant(problem).loss_and_gradient(size)
        return LossError((n + 32) * UNIT * (most + tree.dot(slope, size)), estimated=False)
    changes = jax.lax.map(lambda seed: jnp.abs(_value_change(problem, z, value, seed)), SEEDS)
    return LossError(2 * jnp.sum(changes) + (n**0.5 + 16) * UNIT * _size(z, g, value), estimated=True)


def _value_change(problem: Any, z: Saddle, value: Scalar, seed: Array) -> Array:
    """By how much f changes if z and the data are shaken."""
    other, moved = shake_problem(problem, z, seed)
    shaken = other.loss(moved)
    return jnp.where(jnp.isfinite(shaken), value - shaken, 0)


def _size(z: Saddle, g: Saddle, value: Scalar) -> Array:
    return xp.maximum(xp.abs(value), tree.dot(*(jax.tree.map(xp.abs, point) for point in (g, z))))
