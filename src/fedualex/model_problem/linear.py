"""Linear systems of the model problem: x's part is symmetric and positive, the rest is small and is not."""

from collections.abc import Callable

import numpy as np

from .blocks import Floats


def bordered_solver(
    matrix: Floats, borders: Floats, corner: Floats, split: int
) -> Callable[[Floats, Floats], tuple[Floats, Floats]]:
    """Solves [[matrix, borders], [borders', -corner]] by the Cholesky factor of x's part and what is left beside it."""
    import scipy.linalg  # imported where a model is solved: sites never do

    A, rest = matrix[:split, :split], matrix.shape[0] - split
    factor = scipy.linalg.cho_factor(A, lower=True, check_finite=False)
    right = np.hstack([matrix[:split, split:], borders[:split]])
    left = np.vstack([matrix[split:, :split], borders[:split].T])
    through = scipy.linalg.cho_solve(factor, right, check_finite=False) if right.shape[1] else right
    outer = np.zeros((right.shape[1], right.shape[1]))
    outer[:rest, :rest], outer[:rest, rest:], outer[rest:, :rest] = (
        matrix[split:, split:],
        borders[split:],
        borders[split:].T,
    )
    outer[np.arange(rest, len(outer)), np.arange(rest, len(outer))] = -corner
    schur = outer - left @ through
    eliminate = _eliminator(schur) if len(schur) else None

    def solve(rhs: Floats, bottom: Floats) -> tuple[Floats, Floats]:
        top = scipy.linalg.cho_solve(factor, rhs[:split], check_finite=False)
        below = np.concatenate([rhs[split:], bottom])
        if eliminate is not None:
            below = eliminate(below - left @ top)
            top = top - through @ below
        return np.concatenate([top, below[:rest]]), below[rest:]

    return solve


def _eliminator(matrix: Floats) -> Callable[[Floats], Floats]:
    """Solves systems with this matrix by elimination with pivots; a pivot that is 0 is taken for rounding."""
    from scipy.linalg import lapack

    lu, pivots, info = lapack.dgetrf(matrix)
    if info > 0:
        zero = np.flatnonzero(lu.diagonal() == 0)
        lu[zero, zero] = np.finfo(float).eps * np.max(np.abs(lu), initial=1e-300)

    def solve(rhs: Floats) -> Floats:
        found: Floats = lapack.dgetrs(lu, pivots, rhs)[0]
        return found

    return solve


def solve_general(matrix: Floats, rhs: Floats) -> Floats:
    """By elimination alone."""
    return _eliminator(matrix)(rhs)


def solve_monotone(matrix: Floats, rhs: Floats, split: int) -> Floats:
    """By the Cholesky factor of the part before `split`, where it has one."""
    try:
        none = np.zeros((rhs.size, 0))
        return bordered_solver(matrix, none, np.zeros(0), split)(rhs, np.zeros(0))[0]
    except np.linalg.LinAlgError:
        return solve_general(matrix, rhs)
