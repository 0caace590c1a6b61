"""The losses of one example by which the area under the ROC curve is maximized."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..tree import Tree, cast_like
from .losses import row_weight
from .operator_error import Majorized
from .score_rows import score_rows
from .smoothness import Smooth, norm_of_blocks
from .sparse_row import is_sparse


def middle_bias(means: NDArray[Any], weights: Any) -> NDArray[Any]:
    """What is added to <w, row> so that the middle of the class means mu- and mu+ has the score 0."""
    return -np.asarray(np.mean(means, axis=0) @ np.asarray(weights))


class PairwiseSquare(Majorized, Smooth):
    """((<w, row> - c)^2 - 2 (1 + alpha) sign <w, row>) / (the class's share) + 1, c = a for sign +1 and b for -1.

    Rows are relative to the middle of the class means. A sparse row is not, for then it would be full: the score of the
    middle is taken off its own.
    """

    middle: Any

    def __call__(self, x: Tree, alpha: Array, example: Tree) -> Array:
        row, w = example["row"], x["weights"]
        score = row @ w - cast_like(self.middle, w) @ w if is_sparse(row) else row @ w
        center = jnp.where(example["sign"] > 0, x["a"], x["b"])
        return example["weight"] * ((score - center) ** 2 - 2 * (1 + alpha) * example["sign"] * score) + 1

    def majorant(self, x: Tree, alpha: Array, example: Tree) -> Array:
        """The same with a plus everywhere."""
        row, w = abs(example["row"]), x["weights"]
        score = row @ w + jnp.abs(cast_like(self.middle, w)) @ w if is_sparse(row) else row @ w
        center = jnp.where(example["sign"] > 0, x["a"], x["b"])
        return example["weight"] * ((score + center) ** 2 + 2 * (1 + alpha) * score) + 1

    def jacobian_bound(self, examples: Tree, problem: Any) -> float:
        """Of the blocks xx, 2 * the largest eigenvalue of mean_i weight_i r_i r_i^T, r = (row, -1 for its class), and
        xy, 2 ||mean_i weight_i sign_i row_i||.
        """
        sign, row = examples["sign"], examples["row"]
        weight, center = examples["weight"] / len(sign), self.middle if is_sparse(row) else None
        rows = score_rows(row, len(self.middle), np.stack([sign > 0, sign < 0], axis=1), center)
        signed = (weight * sign) @ rows.rows - (0 if center is None else (weight @ sign) * self.middle)
        return norm_of_blocks(2 * rows.largest_square(weight), 2 * float(np.linalg.norm(signed)))


class CenteredSquare(Majorized, Smooth):
    """<w, row>^2 + (1 - <w, mu+ - mu->)^2, for rows relative to the mean of their class and weighed by it.

    A sparse row is neither: it counts as weight (<w, row> - <w, mean>)^2, with the mean of its class.
    """

    difference: Any
    """mu+ - mu-."""
    means: Any
    """mu- and mu+."""

    def __call__(self, x: Tree, example: Tree) -> Array:
        w = x["weights"]
        score = example["row"] @ w
        if is_sparse(example["row"]):
            score = score - (cast_like(self.means, w) @ w)[example["class"]]
        return row_weight(example) * score**2 + (1 - cast_like(self.difference, w) @ w) ** 2

    def majorant(self, x: Tree, example: Tree) -> Array:
        """The same with a plus and absolute values everywhere."""
        w = x["weights"]
        score = abs(example["row"]) @ w
        if is_sparse(example["row"]):
            score = score + (jnp.abs(cast_like(self.means, w)) @ w)[example["class"]]
        difference = jnp.abs(cast_like(self.difference, w))
        return row_weight(example) * score**2 + (1 + difference @ w) ** 2

    def jacobian_bound(self, examples: Tree, problem: Any) -> float:
        """2 (the largest eigenvalue of mean_i weight_i r_i r_i^T + ||mu+ - mu-||^2), of sparse rows one for a class."""
        row, difference = examples["row"], float(np.sum(np.square(self.difference)))
        count = len(row.index if is_sparse(row) else row)
        weight = np.broadcast_to(row_weight(examples), count) / count
        rows = score_rows(row, len(self.difference), np.zeros((count, 0)))
        if not is_sparse(row):
            return 2 * (rows.largest_square(weight) + difference)
        parts = [
            rows._replace(center=mean).largest_square(weight * (examples["class"] == c))
            for c, mean in enumerate(self.means)
        ]
        return 2 * (sum(parts) + difference)
