"""Linear scores <w, row> + b: rows as linear maps, the ranges of scores, and losses of one example."""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, RealMatrix, Reals
from ..certificates.rounding import Majorized
from ..regularizers import AbstractRegularizer, Box, L1Ball, L2Ball, Spectral
from ..tree import Saddle, Tree, cast_like
from ..validation import issparse
from .active import domain_of
from .base import AbstractProblem
from .families import Family
from .known import Smooth
from .rows import SparseRow
from .stored import RowSource, slices

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator


def linear_score(x: Tree, row: object) -> Array:
    """<w, row> + b, or one such number for each class; b = 0 if x has none."""
    return row @ x["weights"] + x.get("bias", 0.0)


def row_weight(example: Tree) -> Array | float:
    """By how much the example counts more than the mean one of its client; 1 if rows have no weights."""
    return example.get("weight", 1.0)


# Rows as linear maps from a model to scores, and the ranges of these.


SMALL = 1000
"""Rows or columns up to which a whole decomposition is quick."""
FEW = 2**20
"""Entries of a sparse matrix that a full one may have."""


class ScoreRows(NamedTuple):
    """The rows (row_i - center, beside_i): a score is such a row times all of x.

    rows: a matrix, or a sparse one of scipy. beside: the columns that belong to a bias and its like. center: 0 if None.
    """

    rows: RealMatrix
    beside: Reals
    center: Array | None = None

    def of(self, chosen: NDArray[np.bool_] | slice) -> "ScoreRows":
        """Some of them, in memory and in float64."""
        rows = self.rows[chosen]
        return ScoreRows(rows if issparse(rows) else np.asarray(rows, float), self.beside[chosen], self.center)

    def largest_square(self, weight: Reals) -> float:
        """The largest eigenvalue of sum_i weight_i r_i r_i^T."""
        root = np.sqrt(weight)[:, None]
        center = np.zeros(self.rows.shape[1]) if self.center is None else np.asarray(self.center, float)
        if issparse(self.rows) and np.prod(self.rows.shape) > FEW and weight.any():
            return _by_lanczos(_center_rows(self, root, center)) ** 2
        rows = self.rows.toarray() if issparse(self.rows) else self.rows
        return spectral_norm(root * np.hstack([rows - center, self.beside])) ** 2

    def norms(self) -> Reals:
        """The Euclidean norm of each (row, beside), without a center."""
        return np.hypot(_row_norms(self.rows, 2), np.linalg.norm(self.beside, axis=1))

    def reach(self, ball: AbstractRegularizer) -> Reals:
        """The largest |<w, row_i - center>| for w in the ball; of a matrix w, of any of its columns."""
        kind = np.inf if isinstance(ball, L1Ball) else 2
        own = domain_of(ball.psi) if isinstance(ball, Spectral) else ball  # of singular values
        assert isinstance(own, L1Ball | L2Ball)
        center = 0.0 if self.center is None else float(np.linalg.norm(self.center, kind))
        return np.asarray(own.radius) * (_row_norms(self.rows, kind) + center)


def score_rows(row: Reals | SparseRow, features: int, beside: Reals, center: Array | None = None) -> ScoreRows:
    """The rows of examples. beside: a column for each number of the model that is added to scores."""
    if isinstance(row, SparseRow):
        from scipy.sparse import csr_array  # imported where rows are sparse

        index, value = np.asarray(row.index), np.asarray(row.value, float)
        number = np.repeat(np.arange(len(index)), index.shape[1])
        rows = csr_array((value.ravel(), (number, index.ravel())), shape=(len(index), features))
        return ScoreRows(rows, np.asarray(beside, float), center)
    # In the precision that they have: the blocks that are computed with are in float64.
    kept = issparse(row) or isinstance(row, RowSource)
    return ScoreRows(row if kept else np.asarray(row), np.asarray(beside, float), center)


def linear_rows(row: Reals | SparseRow, x: Tree, count: int, center: Array | None = None) -> ScoreRows:
    """The rows by which x = {"weights": w, "bias": b} becomes scores, (row, 1), or (row) where there is no bias."""
    return score_rows(row, len(x["weights"]), np.broadcast_to(1.0, (count, int("bias" in x))), center)


class ScoreSum(NamedTuple):
    """f of one client as sum_i c_i(y) loss(score_i, target_i) + <level, y>, c_i(y) = fixed_i + <mixed_i, y> >= 0."""

    rows: ScoreRows
    family: Family
    target: Reals
    fixed: Reals
    """(rows,)."""
    mixed: Any = None
    """(rows, entries of y), full or sparse; None without y."""
    level: Reals | None = None
    """What y is multiplied by beside the rows, (entries of y,)."""

    def of(self, part: slice) -> "ScoreSum":
        """Some of the rows, in memory."""
        mixed = None if self.mixed is None else self.mixed[part]
        rows, target, fixed = self.rows.of(part), self.target[part], self.fixed[part]
        return self._replace(rows=rows, target=target, fixed=fixed, mixed=mixed)

    def coefficients(self, y: Reals) -> Reals:
        """c_i(y)."""
        return self.fixed if self.mixed is None else self.fixed + np.asarray(self.mixed @ y)


class Scored(NamedTuple):
    """Rows with their targets, and the least and the largest score that each can have in the domain of x."""

    rows: ScoreRows
    target: Reals
    lower: Reals
    upper: Reals

    def steepest(self, family: Family) -> Reals:
        """The largest norm of the slope of each row's loss."""
        return np.asarray(family.steepest(self.lower, self.upper, self.target))

    def largest_second(self, family: Family, weight: Reals) -> float:
        """A bound of the largest eigenvalue of sum_i weight_i phi_i'' r_i r_i^T over the domain."""
        bound = np.broadcast_to(family.curvature(self.lower, self.upper, self.target), weight.shape)
        largest = float(np.max(bound, initial=0.0))
        return largest * self.rows.largest_square(weight * (bound / largest)) if largest > 0 else 0.0

    def of(self, chosen: NDArray[np.bool_]) -> "Scored":
        """Some of them."""
        return Scored(self.rows.of(chosen), self.target[chosen], self.lower[chosen], self.upper[chosen])


def score_examples(examples: Tree, problem: AbstractProblem, center: Array | None = None) -> Scored:
    """The rows of one client's examples {"row": ..., "target": ...}, for w in its ball and b in its box."""
    sets, target = problem.geometry.parts.x, examples["target"]
    rows = linear_rows(examples["row"], problem.like.x, len(target), center)
    reach, box = rows.reach(domain_of(sets["weights"].regularizer)), getattr(sets.get("bias"), "regularizer", Box(0.0))
    return Scored(rows, target, float(np.min(box.lower)) - reach, float(np.max(box.upper)) + reach)


def spectral_norm(A: Reals) -> float:
    """The largest singular value, from A A^T; of a large matrix by Lanczos iteration, to rounding."""
    if min(A.shape) <= SMALL:
        unit = float(np.max(np.abs(A)))
        if not 0 < unit < np.inf:
            return unit
        rows = (A if len(A) <= len(A.T) else A.T) / unit
        return unit * float(np.sqrt(np.linalg.eigvalsh(rows @ rows.T)[-1]))
    return _by_lanczos(A)


def _by_lanczos(A: "RealMatrix | LinearOperator") -> float:
    from scipy.sparse.linalg import svds  # a tenth of a second to import, for large matrices alone

    start = np.random.default_rng(0).normal(size=min(A.shape))
    return float(svds(A, k=1, v0=start, return_singular_vectors=False)[0])


def _center_rows(all_rows: ScoreRows, root: Reals, center: Reals) -> "LinearOperator":
    """root (rows - center, beside) of sparse rows as a linear map, because the differences would fill the memory."""
    from scipy.sparse import csr_array, hstack
    from scipy.sparse.linalg import LinearOperator

    whole = hstack([all_rows.rows, csr_array(all_rows.beside)], format="csr")
    scale, shift = root.ravel(), np.concatenate([center, np.zeros(all_rows.beside.shape[1])])

    def forward(v: Reals) -> Reals:
        return np.asarray(scale * (whole @ v.ravel() - shift @ v.ravel()))

    def backward(u: Reals) -> Reals:
        return np.asarray(whole.T @ (scale * u.ravel()) - shift * (scale @ u.ravel()))

    return LinearOperator(whole.shape, matvec=forward, rmatvec=backward, dtype=float)


def _row_norms(rows: RealMatrix, kind: float) -> Reals:
    if not issparse(rows):
        each = [
            np.linalg.norm(np.asarray(part, float), kind, axis=1) for part in map(rows.__getitem__, slices(len(rows)))
        ]
        return np.concatenate([np.zeros(0), *each])
    largest = abs(rows).max(axis=1)
    dense = np.asarray(largest.todense() if issparse(largest) else largest).ravel()
    return dense if kind == np.inf else np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())


# The loss of one example of a linear model, from the loss of its score.


class OfScore(Majorized, Smooth):
    """A family's loss(<w, row - center> + b, target), summed over outputs, times the weight of the row.

    center: None for 0. Its score is taken off that of the row, so that a sparse row stays as it is.
    """

    family: Family
    center: Array | None = None

    @property
    def affine(self) -> bool:
        """Whether second derivatives are the same everywhere, as where the family's slope is affine."""
        return self.family.exact_second

    def __call__(self, x: Tree, example: Tree) -> Array:
        score = linear_score(x, example["row"])
        if self.center is not None:
            score = score - cast_like(self.center, x["weights"]) @ x["weights"]
        return row_weight(example) * jnp.sum(self.family.loss(score, example["target"]))

    def majorant(self, x: Tree, example: Tree) -> Array:
        """The size of the loss."""
        reach = linear_score(x, abs(example["row"]))
        if self.center is not None:
            reach = reach + jnp.abs(cast_like(self.center, x["weights"])) @ x["weights"]
        return row_weight(example) * jnp.sum(self.family.size(reach, example["target"]))

    def jacobian_bound(self, examples: Tree, problem: AbstractProblem) -> float:
        """A bound of the largest eigenvalue of mean_i weight_i phi_i'' r_i r_i^T, r = (row - center, 1)."""
        weight = np.broadcast_to(row_weight(examples), len(examples["target"]))
        return score_examples(examples, problem, self.center).largest_second(self.family, weight / len(weight))

    def score_sum(self, examples: Tree, like: Saddle) -> ScoreSum:
        """The weight of each row times its loss."""
        target = np.asarray(examples["target"])
        rows = linear_rows(examples["row"], like.x, len(target), self.center)
        weight = np.asarray(row_weight(examples), float) / len(target)
        return ScoreSum(rows, self.family, target, np.broadcast_to(weight, len(target)))
