"""Least absolute deviations as a saddle point."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from ..accepted import Column, Matrix, Number, Numbers
from ..arrays import Array, Reals
from ..certificates.rounding import Majorized
from ..regularizers import AbstractRegularizer, Box
from ..summaries import Known, Summary
from ..tree import Saddle, Tree
from ..validation import of_type
from .base import AbstractProblem
from .general import Problem
from .known import Floor, Penalty, Smooth, bias_box, mean_of, sums_of_means, total_mass
from .readings import NumberReading, Reading
from .recipe import AbstractRecipe, assemble, built_from
from .rows import Data, Rows, checked_weights, features, split_rows, targets
from .scores import linear_rows, linear_score, row_weight


@dataclass(frozen=True, eq=False)
class RobustRecipe(AbstractRecipe):
    """`robust_regression` without data, in two exchanges: sums of targets and rows, then deviations of the targets.

    The dual variable has one entry for each row of each client: it is no summary, and deployments
    refuse it.

    l1, l2, radius, intercept, weights: as for `fx.problems.robust_regression`.
    """

    l1: Number = 0.0
    l2: Number = 0.0
    radius: Number | None = None
    intercept: bool = True
    weights: Numbers | str = "samples"
    exchanges: ClassVar[int] = 2
    row_duals: ClassVar[bool] = True

    def __post_init__(self) -> None:
        of_type("intercept", self.intercept, bool, "True or False")
        Penalty(self.l1, self.l2, self.radius)
        if np.any(checked_weights(self.weights) <= 0):
            raise ValueError("weights must be > 0 for every client: a row of weight 0 has no sign to find")

    @property
    def reading(self) -> Reading:
        return NumberReading()

    def summarize(self, rows: Rows, known: Sequence[Known], client: int) -> Summary:
        """Sums around 0, then absolute values around the mean."""
        masses = rows.masses(self.weights, client)
        if not known:
            return self.opening(rows, client, sums=sums_of_means(rows, masses))
        return Summary(sums={"deviations": np.asarray(masses @ np.abs(rows.y - self._center(known)))})

    def examples(self, rows: Rows, known: Sequence[Known], client: int) -> dict[str, object]:
        """Rows with their targets, their entries of u and the sizes of these, 1 for a client without weight."""
        count = len(rows.y)
        index = int(known[0]["rows"][:client].sum()) + np.arange(count, dtype=np.int32)
        size = self._sizes(known)[client]
        return rows.weighed(
            row=rows.features, target=rows.y, root=np.full(count, size if size > 0 else 1.0), index=index
        )

    def problem(self, known: Sequence[Known], data: Data) -> Problem:
        """The bounds of `robust_regression`."""
        total, penalty = total_mass(known), Penalty(self.l1, self.l2, self.radius)
        constant, mean = float(mean_of(known[1], "deviations", total)), mean_of(known[0], "row_sum", total)
        ball = penalty.ball(constant)
        x: dict[str, AbstractRegularizer] = {"weights": penalty.regularizer(ball, mean.shape)}
        like: dict[str, Reals] = {"weights": np.zeros(mean.size)}
        if self.intercept:
            x["bias"] = bias_box(self._center(known), mean, ball, constant)
            like["bias"] = np.zeros(())
        root = np.repeat(self._sizes(known), known[0]["rows"])
        floor = Floor(np.zeros(root.size), 0.0, each=True)
        y, point = Box(lower=-root, upper=root), Saddle(like, np.zeros(root.size))
        return self.built(SignedResidual(), known, data, x=x, y=y, like=point, floor=floor, by_construction=True)

    def _center(self, known: Sequence[Known]) -> Reals | float:
        return mean_of(known[0], "target_sum", total_mass(known)) if self.intercept else 0.0

    def _sizes(self, known: Sequence[Known]) -> Reals:
        """s of each client."""
        return np.sqrt(self.client_weights(known) / known[0]["rows"])


@built_from("X", "y", "clients", recipe=RobustRecipe)
def robust_regression(
    X: Matrix,
    y: Column,
    clients: Column | None = None,
    *,
    l1: Number = 0.0,
    l2: Number = 0.0,
    radius: Number | None = None,
    intercept: bool = True,
    weights: Numbers | str = "samples",
    sample_weight: Numbers | None = None,
) -> Problem:
    """min_{w, b} sum_i p_i |<w, X_i> + b - y_i| + l1 ||w||_1 + l2/2 ||w||^2: regression that outliers cannot pull.

    p |r| = max of u (p / s) r over |u| <= s, so this is a saddle point, bilinear but for psi, whose certificate is its
    duality gap: x = {"weights": w, "bias": b} (without intercept {"weights": w}) against one u_i for each row, in
    Box(s_i), s_i^2 the mean p of the rows of its client: sqrt(p_i) without sample_weight. The entries of u are those of
    the rows of X sorted by client. clients, weights and sample_weight as in `sparse_glm`.

    Bounds: with F the loss of the constant t = mean y (of 0 without intercept), w is in L1Ball(F / l1) or
    L2Ball(sqrt(2 F / l2)), the one of smaller radius, or in L2Ball(radius); by Jensen's inequality
    |b - mean y| <= max |<w, mean X>| over the ball + F. The best constant is the median, which no sum gives; but F is
    at most twice its loss, as |t - median| is at most that. Unless F = 0, no derived bound is active at a solution.
    At u = 0 f is 0 for every x, which is its floor.
    """
    recipe = RobustRecipe(l1, l2, radius, intercept, weights)
    rows = features(X)
    return assemble(recipe, split_rows(rows, targets(y, rows.shape[0]), clients, sample_weight))


class SignedResidual(Majorized, Smooth):
    """u_i (score - y) / s_i; the mean over rows weighs it by s_i^2, and by the weight of the row where it has one."""

    y_is_a_sign: ClassVar[bool] = True
    """Of the residual: at an end of its interval, unless the residual is 0."""

    def __call__(self, x: Tree, u: Array, example: Tree) -> Array:
        u_i = row_weight(example) * u[example["index"]] / example["root"]
        return u_i * (linear_score(x, example["row"]) - example["target"])

    def majorant(self, x: Tree, u: Array, example: Tree) -> Array:
        """The same with a plus."""
        reach = linear_score(x, abs(example["row"])) + jnp.abs(example["target"])
        return row_weight(example) * u[example["index"]] / example["root"] * reach

    def jacobian_bound(self, examples: Tree, problem: AbstractProblem) -> float:
        """The largest singular value of the rows weight_i (row_i, 1) / (n s_i): f is bilinear."""
        factor = row_weight(examples) / (examples["root"] * len(examples["root"]))
        rows = linear_rows(examples["row"], problem.like.x, len(factor))
        return float(np.sqrt(rows.largest_square(factor**2)))
