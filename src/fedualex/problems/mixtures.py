"""Mixtures of clients or groups: a prior, the simplex of mixtures with its regularizer, and the loss of a mixture."""

from typing import Any

import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..geometry import EntropicSimplex
from ..regularizers import KL, CappedSimplex
from ..tree import Tree
from ..validation import nonnegative, positive, real_array, short
from ..validation.accepted import Number
from .losses import Loss, linear_score
from .operator_error import Majorized
from .score_rows import distances, linear_rows
from .smoothness import Smooth, norm_of_blocks


def mixtures(kl: Number, mixture: NDArray[Any], cvar: Number | None, prior: bool) -> EntropicSimplex:
    """The simplex of mixtures, held to one mixture by kl or capped by cvar; prior: whether the mixture was given."""
    kl = nonnegative("kl", kl)
    if cvar is None:
        if prior and kl == 0:
            raise ValueError(
                "prior needs kl > 0, the strength that holds the mixture to it: without kl it has no effect"
            )
        return EntropicSimplex(KL(kl, mixture) if kl > 0 else None)
    share = positive("cvar", cvar)
    if share > 1:
        raise ValueError(f"cvar must be a share of the clients, above 0 and at most 1, got {float(share)!r}")
    if kl > 0 or prior:
        raise ValueError("cvar cannot be given together with kl or prior: that mixture has no closed form")
    return EntropicSimplex(CappedSimplex(min(1.0, 1 / (float(share) * mixture.size))))


def checked_prior(prior: object, count: int, part: str) -> NDArray[Any]:
    """The prior divided by its sum; all alike without one. part: "client" or "group", of which a mixture is made."""
    p = np.ones(count) if prior is None else real_array("prior", prior, f"{count} numbers > 0")
    if p.shape != (count,) or np.any(p <= 0):
        raise ValueError(f"prior must be {count} numbers > 0, one for each {part}, got {short(prior)}")
    return p / p.sum()


class Weighted(Majorized, Smooth):
    """weight y_g loss(<w, row> + b, label) of an example of group g; where clients are the groups, weight is M."""

    loss: Loss

    def __call__(self, x: Tree, y: Array, example: Tree) -> Array:
        factor = example["weight"] * y[example["group"]]
        return factor * self.loss(linear_score(x, example["row"]), example["target"])

    def majorant(self, x: Tree, y: Array, example: Tree) -> Array:
        """The same of the size of the loss."""
        reach = linear_score(x, abs(example["row"]))
        return example["weight"] * y[example["group"]] * self.loss.size(reach, example["target"])

    def jacobian_bound(self, examples: Tree, problem: Any) -> float:
        """Of the blocks xx and xy, y on the simplex with the norm l1, the largest of a group each.

        xx: curvature * the largest eigenvalue of sum_i weight_i r_i r_i^T / n, r = (row, 1), over its rows.
        xy: sum_i weight_i slope_i ||r_i|| / n over its rows, slope_i the largest of the loss in the domain.
        """
        group, weight = examples["group"], examples["weight"] / len(examples["group"])
        rows = linear_rows(examples["row"], problem.like.x, len(group))
        slope = self.loss.steepest(distances(rows, examples["target"], problem.geometry.parts.x))
        curved = [rows.of(own).largest_square(weight[own]) for own in (group == g for g in np.unique(group))]
        return norm_of_blocks(
            self.loss.curvature * max(curved), float(np.bincount(group, weight * slope * rows.norms()).max())
        )
