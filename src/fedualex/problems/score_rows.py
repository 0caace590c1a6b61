"""Rows as the linear maps from a model to its scores, and how large these maps are."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..regularizers import L1Ball
from ..validation.sparse import issparse
from .active import domain_of
from .sparse_row import is_sparse

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
