"""The two games of the paper's experiments, from seeds."""

import numpy as np

from ..regularizers import L1, Box, Spectral
from ..validation import whole_number
from ..validation.accepted import Whole
from .bilinear import Bilinear, bilinear
from .built_from import built_from

ROWS, COLUMNS, MATRIX_COLUMNS = 300, 600, 20
LAM, RADIUS = 0.1, 0.05


@built_from()
def paper_l1(seed: Whole = 0) -> Bilinear:
    """min max <A x - b, y> + 0.1 ||x||_1 - 0.1 ||y||_1, entries of x and y within 0.05 (Section 6).

    A is 300-by-600; the entries of A and b are uniform on [-1, 1].

    seed: decides A and b.
    """
    rng = np.random.default_rng(whole_number("seed", seed, 0))
    psi = L1(LAM) + Box(RADIUS)
    A = rng.uniform(-1, 1, (ROWS, COLUMNS))
    return bilinear(A, rng.uniform(-1, 1, ROWS), x=psi, y=psi)


@built_from()
def paper_nuclear(seed: Whole = 0) -> Bilinear:
    """min max <A X - B, Y> + 0.1 ||X||_* - 0.1 ||Y||_*, singular values within 0.05 (Appendix A).

    A is 300-by-600, X and Y have 20 columns. Ten columns of B are uniform on [-1, 1]; the paper does not say how
    the other ten depend on them: here they are random combinations, which makes the optimal rank 10.

    seed: decides A and B.
    """
    rng = np.random.default_rng(whole_number("seed", seed, 0))
    psi = Spectral(L1(LAM) + Box(RADIUS))
    A = rng.uniform(-1, 1, (ROWS, COLUMNS))
    free = rng.uniform(-1, 1, (ROWS, MATRIX_COLUMNS // 2))
    mixing = rng.uniform(-1, 1, (MATRIX_COLUMNS // 2, MATRIX_COLUMNS // 2))
    return bilinear(A, np.hstack([free, free @ mixing]), x=psi, y=psi)
