"""The exact saddle point of a polyhedral bilinear game, by linear programming."""

from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse as sparse
from numpy.typing import NDArray

from ..display import rounded_up
from ..problems import AbstractProblem, Bilinear
from ..tree import Saddle
from ..validation import of_type
from .polyhedra import Polyhedron, polyhedron
from .solution import Solution


def lp(game: AbstractProblem) -> Solution:
    """Solve min_x max_y <A x - b, y> + psi_1(x) - psi_2(y) exactly with HiGHS, for polyhedral psi_1 and psi_2.

    The inner maximum is replaced by its dual: with psi_2 as a `Polyhedron` in v, its value at s = A x - b is the least
    <high - low, t> + <low, w> + <limits, alpha> + <sums, beta> with w = (s, -s) - cost - rows^T alpha - totals^T beta,
    t >= w, t >= 0 and alpha >= 0. The multipliers of t >= w are v - low, which gives y.

    game: a bilinear problem.
    Returns: a `Solution` with its certificate.
    Raises: a TypeError for a psi that is not polyhedral.
    """
    game = of_type("game", game, Bilinear, "a bilinear game")
    x_shape, y_shape = game.like.x.shape, game.like.y.shape
    columns = 1 if len(y_shape) == 1 else y_shape[1]
    A = sparse.kron(sparse.csr_array(game.A), sparse.eye_array(columns), format="csr")
    px = polyhedron("x", game.geometry.parts.x, x_shape)
    py = polyhedron("y", game.geometry.parts.y, y_shape)
    result = scipy.optimize.linprog(**_program(A, np.ravel(game.b), px, py), method="highs")
    if not result.success:
        raise ValueError(f"the game has no saddle point that HiGHS can find: {' '.join(result.message.split())}")
    x = _joined(A.shape[1]) @ result.x[: px.cost.size]
    y = _joined(A.shape[0]) @ (py.low - result.ineqlin.marginals[: py.cost.size])
    return _accurate(game, Solution.of(game, Saddle(x.reshape(x_shape), y.reshape(y_shape))))


def _joined(size: int) -> Any:
    """The matrix that makes a vector of its positive and its negative parts."""
    return sparse.hstack([sparse.eye_array(size), -sparse.eye_array(size)])


def _program(A: Any, b: NDArray[Any], px: Polyhedron, py: Polyhedron) -> dict[str, Any]:
    """The linear program in (u, t, alpha, beta), u the parts of x: w is an affine function of them."""
    t_size, alpha_size, beta_size = py.cost.size, py.limits.size, py.sums.size
    joined_x, joined_y = _joined(A.shape[1]), _joined(A.shape[0])
    w_matrix = sparse.hstack(
        [joined_y.T @ A @ joined_x, sparse.csr_array((t_size, t_size)), -py.rows.T, -py.totals.T], format="csr"
    )
    w_constant = -joined_y.T @ b - py.cost
    before, after = sparse.csr_array((t_size, px.cost.size)), sparse.csr_array((t_size, alpha_size + beta_size))
    t_matrix = sparse.hstack([before, sparse.eye_array(t_size), after])

    def on_u(matrix: Any) -> Any:
        return sparse.hstack([matrix, sparse.csr_array((matrix.shape[0], t_size + alpha_size + beta_size))])

    bounded = np.isfinite(py.high)  # no upper bound: t = 0, so w <= 0
    least = np.concatenate([px.low, np.zeros(t_size + alpha_size), np.full(beta_size, -np.inf)])
    most = np.concatenate([px.high, np.where(bounded, np.inf, 0), np.full(alpha_size + beta_size, np.inf)])
    width = np.where(bounded, py.high - py.low, 0)
    return {
        "c": np.concatenate([px.cost, width, py.limits, py.sums]) + py.low @ w_matrix,
        "A_ub": sparse.vstack([w_matrix - t_matrix, on_u(px.rows)], format="csr"),
        "b_ub": np.concatenate([-w_constant, px.limits]),
        "A_eq": on_u(px.totals).tocsr() if px.sums.size else None,
        "b_eq": px.sums if px.sums.size else None,
        "bounds": np.column_stack([least, most]),
    }


def _accurate(game: Bilinear, solution: Solution) -> Solution:
    """The solution, unless its certificate says that it is none: the tolerances of HiGHS are absolute."""
    zero = game.certificate(game.project(game.like)).gap
    if solution.gap is not None and zero is not None and solution.gap > 1e-6 * max(abs(solution.value), zero):
        raise ValueError(
            f"the linear program was not solved accurately: certified gap <= {rounded_up(solution.gap, 3)} at value "
            f"{solution.value:.3g}; rescale A, b and the domains towards 1"
        )
    return solution
