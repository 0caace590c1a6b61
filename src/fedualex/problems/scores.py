"""Losses of a linear score <w, row>: the losses, their sums over rows, and what bounds them."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from ..certificates.rounding import Majorized
from ..precision import double
from ..regularizers import L1Ball
from ..tree import Tree, cast_like
from ..validation import issparse, positive
from .active import domain_of
from .known import Smooth
from .rows import is_sparse

# The losses of one example that the catalogue's problems are made of: convex functions of a linear score.
#
# `size(reach, target)` bounds the rounding of a loss: if the score is a sum of n terms of total size `reach`, the loss
# is computed to within (n + 16) UNIT size, and its derivative to within (n + 16) UNIT times the derivative of `size`.
# `curvature` bounds the second derivatives in the score, and `steepest(far)` the first where |score - target| <= far.


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

    def loss(self, s, t):
        return np.logaddexp(0.0, -t * s)

    def slope(self, s, t):
        from scipy.special import expit

        return -t * expit(-t * s)

    def second(self, s, t):
        from scipy.special import expit

        return expit(s) * expit(-s)

    def conjugate(self, a, t):
        from scipy.special import xlog1py, xlogy

        p = -t * a
        return xlogy(p, p) + xlog1py(1 - p, -p)

    def clipped(self, a, t):
        return -t * np.clip(-t * a, 0, 1)


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

    def loss(self, s, t):
        return np.logaddexp.reduce(s, axis=1) - s[np.arange(len(s)), t]

    def slope(self, s, t):
        from scipy.special import softmax

        p = softmax(s, axis=1)
        p[np.arange(len(s)), t] -= 1
        return p

    def second(self, s, t):
        from scipy.special import softmax

        p = softmax(s, axis=1)
        return np.eye(s.shape[1]) * p[:, :, None] - p[:, :, None] * p[:, None, :]

    def conjugate(self, a, t):
        from scipy.special import xlogy

        p = a.copy()
        p[np.arange(len(a)), t] += 1
        p = np.maximum(p, 0)
        return xlogy(p, p).sum(axis=1)

    def clipped(self, a, t):
        p = a.copy()
        p[np.arange(len(a)), t] += 1
        u = -np.sort(-p, axis=1)
        c = (np.cumsum(u, axis=1) - 1) / np.arange(1, p.shape[1] + 1)
        k = (u > c).sum(axis=1) - 1
        p = np.maximum(p - c[np.arange(len(a)), k][:, None], 0)
        p[np.arange(len(a)), t] -= 1
        return p


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

    def loss(self, s, t):
        return (s - t) ** 2 / 2

    def slope(self, s, t):
        return s - t

    def second(self, s, t):
        return np.ones_like(s)

    def conjugate(self, a, t):
        return a**2 / 2 + a * t

    def clipped(self, a, t):
        return a

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

    def loss(self, s, t):
        d = float(self.delta)
        i = np.clip(s - t, -d, d)
        return i * (s - t - i / 2)

    def slope(self, s, t):
        return np.clip(s - t, -float(self.delta), float(self.delta))

    def second(self, s, t):
        return 1.0 * (np.abs(s - t) <= float(self.delta))

    def conjugate(self, a, t):
        return a**2 / 2 + a * t

    def clipped(self, a, t):
        return np.clip(a, -float(self.delta), float(self.delta))

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


# The losses of many rows at once, outside of any compiled program.


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


SMALL = 1000
"""Rows or columns up to which a whole decomposition is quick."""
FEW = 2**20
"""Entries of a sparse matrix that a full one may have."""


class ScoreRows(NamedTuple):
    """The rows (row_i - center, beside_i): a score is such a row times all of x.

    rows: a matrix, or a sparse one of scipy. beside: the columns that belong to a bias and its like. center: 0 if None.
    """

    rows: Any
    beside: NDArray[Any]
    center: NDArray[Any] | None = None

    def of(self, chosen: NDArray[np.bool_]) -> "ScoreRows":
        """Some of them."""
        return ScoreRows(self.rows[chosen], self.beside[chosen], self.center)

    def largest_square(self, weight: NDArray[Any]) -> float:
        """The largest eigenvalue of sum_i weight_i r_i r_i^T."""
        root = np.sqrt(weight)[:, None]
        center = np.zeros(self.rows.shape[1]) if self.center is None else np.asarray(self.center, float)
        if issparse(self.rows) and np.prod(self.rows.shape) > FEW and weight.any():
            return _by_lanczos(_centered(self, root, center)) ** 2
        rows = self.rows.toarray() if issparse(self.rows) else self.rows
        return spectral_norm(root * np.hstack([rows - center, self.beside])) ** 2

    def norms(self) -> NDArray[Any]:
        """The Euclidean norm of each (row, beside), without a center."""
        return np.hypot(_row_norms(self.rows, 2), np.linalg.norm(self.beside, axis=1))

    def reach(self, ball: Any) -> NDArray[Any]:
        """The largest |<w, row_i>| for w in the ball, without a center."""
        return np.asarray(ball.radius * _row_norms(self.rows, np.inf if isinstance(ball, L1Ball) else 2))


def score_rows(row: Any, features: int, beside: Any, center: Any = None) -> ScoreRows:
    """The rows of examples. beside: a column for each number of the model that is added to scores."""
    if is_sparse(row):
        from scipy.sparse import csr_array  # imported where rows are sparse

        index, value = np.asarray(row.index), np.asarray(row.value, float)
        number = np.repeat(np.arange(len(index)), index.shape[1])
        row = csr_array((value.ravel(), (number, index.ravel())), shape=(len(index), features))
    return ScoreRows(row if issparse(row) else np.asarray(row, float), np.asarray(beside, float), center)


def linear_rows(row: Any, x: Any, count: int, center: Any = None) -> ScoreRows:
    """The rows by which x = {"weights": w, "bias": b} becomes scores, (row, 1), or (row) where there is no bias."""
    return score_rows(row, len(x["weights"]), np.ones((count, int("bias" in x))), center)


def distances(rows: ScoreRows, target: NDArray[Any], sets: Any) -> NDArray[Any]:
    """The largest |score - target| of each row for w in its ball and b in its box; sets: {"weights": ..., "bias": ...}.

    Of classes, whose losses do not ask for it, it means nothing.
    """
    box = sets["bias"].regularizer
    lower, upper = float(np.min(box.lower)), float(np.max(box.upper))
    return rows.reach(domain_of(sets["weights"].regularizer)) + np.maximum(
        np.abs(upper - target), np.abs(target - lower)
    )


def spectral_norm(A: NDArray[Any]) -> float:
    """The largest singular value, from A A^T; of a large matrix by Lanczos iteration, to rounding."""
    if min(A.shape) <= SMALL:
        unit = float(np.max(np.abs(A)))
        if not 0 < unit < np.inf:
            return unit
        rows = (A if len(A) <= len(A.T) else A.T) / unit
        return unit * float(np.sqrt(np.linalg.eigvalsh(rows @ rows.T)[-1]))
    return _by_lanczos(A)


def _by_lanczos(A: Any) -> float:
    from scipy.sparse.linalg import svds  # a tenth of a second to import, for large matrices alone

    start = np.random.default_rng(0).normal(size=min(A.shape))
    return float(svds(A, k=1, v0=start, return_singular_vectors=False)[0])


def _centered(all_rows: ScoreRows, root: NDArray[Any], center: NDArray[Any]) -> Any:
    """root (rows - center, beside) of sparse rows as a linear map, because the differences would fill the memory."""
    from scipy.sparse import csr_array, hstack
    from scipy.sparse.linalg import LinearOperator

    whole = hstack([all_rows.rows, csr_array(all_rows.beside)], format="csr")
    scale, shift = root.ravel(), np.concatenate([center, np.zeros(all_rows.beside.shape[1])])

    def forward(v: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(scale * (whole @ v.ravel() - shift @ v.ravel()))

    def backward(u: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(whole.T @ (scale * u.ravel()) - shift * (scale @ u.ravel()))

    return LinearOperator(whole.shape, matvec=forward, rmatvec=backward, dtype=float)


def _row_norms(rows: Any, kind: Any) -> NDArray[Any]:
    if not issparse(rows):
        return np.asarray(np.linalg.norm(rows, kind, axis=1))
    largest = abs(rows).max(axis=1)
    dense = np.asarray(largest.todense() if issparse(largest) else largest).ravel()
    return dense if kind == np.inf else np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())


class Scored(NamedTuple):
    """The losses of a client as sum_i c_i(y) loss(score_i, target_i) + <level, y>, c_i(y) = fixed_i + <mixed_i, y> >= 0.

    A mean over its rows is taken later.
    """

    rows: ScoreRows
    family: Any
    target: NDArray[Any]
    fixed: NDArray[Any]
    """(rows,)."""
    mixed: Any = None
    """(rows, entries of y), full or sparse; None without y."""
    level: NDArray[Any] | None = None
    """What y is multiplied by beside the rows, (entries of y,)."""

    def coefficients(self, y: NDArray[Any]) -> NDArray[Any]:
        """c_i(y)."""
        return self.fixed if self.mixed is None else self.fixed + np.asarray(self.mixed @ y)


# The loss of one example of a linear model, from the loss of its score.


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

    def scored(self, examples: Tree, like: Any) -> Scored:
        """The weight of each row times its loss."""
        fixed = np.broadcast_to(np.asarray(row_weight(examples), float), len(examples["target"]))
        return Scored(
            linear_rows(examples["row"], like.x, len(fixed), self.center), self.loss, examples["target"], fixed
        )
