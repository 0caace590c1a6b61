"""Exact optima with their certificates: by linear programming, and by best responses."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.sparse as sparse
from numpy.typing import NDArray

from ..accepted import Whole
from ..arrays import Reals
from ..compiling import double
from ..display import round_up
from ..geometry import AbstractGeometry, Dual
from ..problems import AbstractProblem, Bilinear, Certificate
from ..regularizers import for_reports
from ..regularizers.base import ModelForm
from ..tree import Saddle
from ..validation import of_type, positive, whole_number


@dataclass(frozen=True)
class Solution:
    """A saddle point z of a game, the value phi(z), and its certificate: the proof, where all domains are bounded."""

    z: Saddle
    value: float
    certificate: Certificate

    @property
    def gap(self) -> float | None:
        """The certified duality gap of z, rounding away from 0; None where a domain is unbounded."""
        return self.certificate.gap

    @staticmethod
    def of(game: Bilinear, z: Saddle) -> "Solution":
        """z projected onto the domain, with its value and its certificate."""
        projected, certificate = game.certify(z)
        return Solution(projected, game.objective(projected), certificate)


# Exact play against exact play, for games whose best responses are isolated.


SHARPNESS = 1e9
"""The prox of SHARPNESS s with weight SHARPNESS maximizes <s, .> - psi, up to 1 / SHARPNESS of the domain's size."""


def best_response(game: AbstractProblem, *, sweeps: Whole = 50, tol: float = 1e-10) -> Solution:
    """Alternate x <- argmin phi(., y) and y <- argmax phi(x, .) until the certified gap is at most tol.

    Not a general solver: it settles where best responses are isolated, as in the paper's nuclear game, where every
    singular value that survives sits at its bound. The certificate of the answer is the proof; without one below
    tol there is no answer but an error.

    game: a bilinear problem. sweeps: the most that are tried.
    Raises: a RuntimeError, if the gap stays above tol.
    """
    game = of_type("game", game, Bilinear, "a bilinear game")
    sweeps, tol = whole_number("sweeps", sweeps), float(positive("tol", tol))
    if not game.geometry.finite_conjugate:
        raise ValueError(f"best_response needs bounded blocks: {game.why_uncertifiable()}")
    with double():
        parts = for_reports(game.geometry).parts
        y = jnp.zeros(game.like.y.shape)
        for _ in range(sweeps):
            x = parts.x.primal(Dual(-SHARPNESS * (jnp.asarray(game.A).T @ y), SHARPNESS))
            y = parts.y.primal(Dual(SHARPNESS * (game.A @ x - game.b), SHARPNESS))
            solution = Solution.of(game, Saddle(x, y))
            if solution.gap is not None and solution.gap <= tol:
                return solution
    raise RuntimeError(
        f"best responses did not settle: certified gap {solution.gap} > tol={tol} after {sweeps} sweeps; "
        "this game needs a general solver"
    )


# Polyhedral regularizers as the rows and columns of a linear program.


POLYHEDRAL = "Zero, L1, Linear, Box, NonNegative, L1Ball, Simplex, CappedSimplex and their sums"


@dataclass(frozen=True)
class Polyhedron:
    """psi(x) = min <cost, v> over low <= v <= high, rows v <= limits, total v = sums, with x = v_1 - v_2.

    v = (v_1, v_2) is the positive and the negative part of x, so |x| = v_1 + v_2 costs what l1 charges for it.
    """

    cost: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    rows: sparse.csr_array
    limits: NDArray[np.float64]
    totals: sparse.csr_array
    sums: NDArray[np.float64]


def polyhedron(name: str, part: AbstractGeometry, shape: tuple[int, ...]) -> Polyhedron:
    """What one block declares as a `Polyhedron`, or a TypeError that lists what is polyhedral."""
    form = _linear_form(part)
    if form is None:
        shown = getattr(part, "regularizer", part) if part.power == 2 else part
        raise TypeError(f"lp: {name}={shown!r} is not polyhedral; accepted are {POLYHEDRAL}")
    lower, upper, c = (np.broadcast_to(p, shape).ravel() for p in (form.lower, form.upper, form.linear))
    everything, nothing = sparse.csr_array(np.ones((1, 2 * c.size))), sparse.csr_array((0, 2 * c.size))
    in_ball, has_sum = form.coupling == "l1" and bool(np.isfinite(form.radius)), form.coupling == "sum"
    return Polyhedron(
        cost=np.concatenate([form.l1 + c, form.l1 - c]),
        low=np.concatenate([np.maximum(lower, 0), np.maximum(-upper, 0)]),
        high=np.concatenate([np.maximum(upper, 0), np.maximum(-lower, 0)]),
        rows=everything if in_ball else nothing,
        limits=np.atleast_1d(form.radius) if in_ball else np.zeros(0),
        totals=everything if has_sum else nothing,
        sums=np.atleast_1d(form.radius) if has_sum else np.zeros(0),
    )


def _linear_form(part: AbstractGeometry) -> ModelForm | None:
    """What a block declares, if a linear program can hold it."""
    try:
        form = part.model_form()
    except TypeError:
        return None
    return form if form.is_polyhedral else None


# The exact saddle point of a polyhedral bilinear game, by linear programming.


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
    x = _join_parts(A.shape[1]) @ result.x[: px.cost.size]
    y = _join_parts(A.shape[0]) @ (py.low - result.ineqlin.marginals[: py.cost.size])
    return _accurate(game, Solution.of(game, Saddle(x.reshape(x_shape), y.reshape(y_shape))))


def _join_parts(size: int) -> Any:
    """The matrix that makes a vector of its positive and its negative parts."""
    return sparse.hstack([sparse.eye_array(size), -sparse.eye_array(size)])


def _program(A: Any, b: Reals, px: Polyhedron, py: Polyhedron) -> dict[str, Any]:
    """The linear program in (u, t, alpha, beta), u the parts of x: w is an affine function of them."""
    t_size, alpha_size, beta_size = py.cost.size, py.limits.size, py.sums.size
    joined_x, joined_y = _join_parts(A.shape[1]), _join_parts(A.shape[0])
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
            f"the linear program was not solved accurately: certified gap <= {round_up(solution.gap, 3)} at value "
            f"{solution.value:.3g}; rescale A, b and the domains towards 1"
        )
    return solution
