"""The loss of one example of a linear model, from the loss of its score."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..tree import Tree, cast_like
from .losses import Loss, linear_score, row_weight
from .operator_error import Majorized
from .score_rows import linear_rows
from .smoothness import Smooth


class OfScore(Majorized, Smooth):
    """loss(<w, row - center> + b, target) of one example, summed over outputs, times the weight of the row.

    center: None for 0. Its score is taken off that of the row, so that a sparse row stays as it is.
    """

    loss: Loss
    center: Any = None

    def __call__(self, x: Tree, example: Tree) -> Array:
        score = linear_score(x, example["row"])
        if self.center is not None:
            score = score - cast_like(self.center, x["weights"]) @ x["weights"]
        return row_weight(example) * jnp.sum(self.loss(score, example["target"]))

    def majorant(self, x: Tree, example: Tree) -> Array:
        """The size of the loss."""
        reach = linear_score(x, abs(example["row"]))
        if self.center is not None:
            reach = reach + jnp.abs(cast_like(self.center, x["weights"])) @ x["weights"]
        return row_weight(example) * self.loss.size(reach, example["target"])

    def jacobian_bound(self, examples: Any, problem: Any) -> float:
        """curvature * the largest eigenvalue of mean_i weight_i r_i r_i^T, r = (row - center, 1)."""
        weight = np.broadcast_to(row_weight(examples), len(examples["target"]))
        rows = linear_rows(examples["row"], problem.like.x, len(weight), self.center)
        return self.loss.curvature * rows.largest_square(weight / len(weight))
