"""The losses of one example by which the area under the ROC curve is maximized."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..tree import Tree, cast_like
from .operator_error import Majorized


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
