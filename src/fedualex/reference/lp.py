"""The exact saddle point of a polyhedral bilinear game, by linear programming."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse as sparse

from ..display import rounded_up
from ..geometry import EntropicSimplex, Euclidean
from ..problems import AbstractProblem, Bilinear
from ..regularizers import (
    L1,
    AbstractRegularizer,
    Box,
    CappedSimplex,
    InBall,
    InBox,
    L1Ball,
    Simplex,
    Zero,
    split,
)
from ..tree import Saddle
from ..validation import of_type
from .solution import Solution

POLYHEDRAL = "Zero, L1, Linear, Box, NonNegative, L1Ball, Simplex, CappedSimplex and their sums"


@dataclass(frozen=True)
class Polyhedron:
    """psi(x) = min <cost, v> over low <= v <= high, rows v <= limits, total v = sums, with x = v_1 - v_2.

    v = (v_1, v_2) is the positive and the negative part of x, so |x| = v_1 + v_2 costs what l1 charges for it.
    """

    cost: Any
    low: Any
    high: Any
    rows: Any
    limits: Any
    totals: Any
    sums: Any


def lp(game: AbstractProblem) -> Solution:
    """Solve min_x max_y <A x - b, y> + psi_1(x) - psi_2(y) exactly with HiGHS, for polyhedral psi_1 and psi_2.

    The inner maximum is replaced by its dual: with psi_2 as a `Polyhedron` in v, its value at s = A x - b is the least
    <high - low, t> + <low, w> + <limits, alpha> + <sums, beta> with w = (s, -s) - cost - rows^T alpha - totals^T beta,
    t >= w, t >= 0 and alpha >= 0. The multipliers of t >= w are v - low, which gives y.
    """
    game = of_type("game", game, Bilinear, "a bilinear game")
    x_shape, y_shape = game.like.x.shape, game.like.y.shape
    columns = 1 if len(y_shape) == 1 else y_shape[1]
    A = sparse.kron(sparse.csr_array(game.A), sparse.eye_array(columns), format="csr")
    b = np.ravel(game.b)
    px = polyhedron("x", game.geometry.parts.x, x_shape)
    py = polyhedron("y", game.geometry.parts.y, y_shape)
    split_x = sparse.hstack([sparse.eye_array(A.shape[1]), -sparse.eye_array(A.shape[1])])
    split_y = sparse.hstack([sparse.eye_array(A.shape[0]), -sparse.eye_array(A.shape[0])])

    # w as an affine function of the variables (u, t, alpha, beta), u the split of x.
    t_size, alpha_size, beta_size = py.cost.size, py.limits.size, py.sums.size
    w_matrix = sparse.hstack(
        [split_y.T @ A @ split_x, sparse.csr_array((t_size, t_size)), -py.rows.T, -py.totals.T], format="csr"
    )
    w_constant = -split_y.T @ b - py.cost
    width = np.where(np.isfinite(py.high), py.high - py.low, 0)  # no upper bound: t = 0, so w <= 0
    cost = np.concatenate([px.cost, width, py.limits, py.sums]) + py.low @ w_matrix
    t_matrix = sparse.hstack(
        [
            sparse.csr_array((t_size, px.cost.size)),
            sparse.eye_array(t_size),
            sparse.csr_array((t_size, alpha_size + beta_size)),
        ]
    )

    def on_u(matrix: Any) -> Any:
        return sparse.hstack([matrix, sparse.csr_array((matrix.shape[0], t_size + alpha_size + beta_size))])

    result = scipy.optimize.linprog(
        cost,
        A_ub=sparse.vstack([w_matrix - t_matrix, on_u(px.rows)], format="csr"),
        b_ub=np.concatenate([-w_constant, px.limits]),
        A_eq=on_u(px.totals).tocsr() if px.sums.size else None,
        b_eq=px.sums if px.sums.size else None,
        bounds=np.column_stack(
            [
                np.concatenate([px.low, np.zeros(t_size + alpha_size), np.full(beta_size, -np.inf)]),
                np.concatenate(
                    [
                        px.high,
                        np.where(np.isfinite(py.high), np.inf, 0),
                        np.full(alpha_size + beta_size, np.inf),
                    ]
                ),
            ]
        ),
        method="highs",
    )
    if not result.success:
        raise ValueError(f"the game has no saddle point that HiGHS can find: {' '.join(result.message.split())}")
    x = split_x @ result.x[: px.cost.size]
    y = split_y @ (py.low - result.ineqlin.marginals[:t_size])
    solution = Solution.of(game, Saddle(x.reshape(x_shape), y.reshape(y_shape)))
    # HiGHS works to absolute tolerances: on very small data its answer may not be one, and the certificate tells.
    zero = game.certificate(game.project(game.like)).gap
    if solution.gap is not None and zero is not None and solution.gap > 1e-6 * max(abs(solution.value), zero):
        raise ValueError(
            f"the linear program was not solved accurately: certified gap <= {rounded_up(solution.gap, 3)} at value "
            f"{solution.value:.3g}; rescale A, b and the domains towards 1"
        )
    return solution


def polyhedron(name: str, part: Any, shape: tuple[int, ...]) -> Polyhedron:
    """The regularizer of one block as a `Polyhedron`, or a TypeError that lists what is polyhedral."""
    psi, c = _regularizer(name, part)
    size = int(np.prod(shape))
    lam, domain = _l1_and_domain(name, psi)
    low, high = np.zeros(2 * size), np.full(2 * size, np.inf)
    rows, limits = sparse.csr_array((0, 2 * size)), np.zeros(0)
    totals, sums = sparse.csr_array((0, 2 * size)), np.zeros(0)
    ones = sparse.csr_array(np.ones((1, 2 * size)))
    match domain:
        case Box():
            lower, upper = (np.broadcast_to(bound, shape).ravel() for bound in (domain.lower, domain.upper))
            low = np.concatenate([np.maximum(lower, 0), np.maximum(-upper, 0)])
            high = np.concatenate([np.maximum(upper, 0), np.maximum(-lower, 0)])
        case L1Ball():
            rows, limits = ones, np.atleast_1d(domain.radius)
        case Simplex() | CappedSimplex():
            cap, total = (domain.cap, 1.0) if isinstance(domain, CappedSimplex) else (np.inf, float(domain.radius))
            high = np.concatenate([np.full(size, cap), np.zeros(size)])
            totals, sums = ones, np.array([total])
    c = np.broadcast_to(c, shape).ravel()
    return Polyhedron(np.concatenate([lam + c, lam - c]), low, high, rows, limits, totals, sums)


def _regularizer(name: str, part: Any) -> tuple[AbstractRegularizer, Any]:
    """The core and the linear term of a block's regularizer, with the simplex that an entropic map implies."""
    refusal = TypeError(f"lp: {name}={part!r} is not polyhedral; accepted are {POLYHEDRAL}")
    if not isinstance(part, Euclidean | EntropicSimplex):
        raise refusal
    psi: Any = part.regularizer
    if isinstance(part, EntropicSimplex) and not isinstance(split(psi)[0], CappedSimplex):
        try:
            psi = psi + Simplex()
        except TypeError:  # an entropy
            raise refusal from None
    core, lam, c = split(psi)
    if np.any(lam):
        raise refusal
    return core, c


def _l1_and_domain(name: str, psi: Any) -> tuple[float, Any]:
    match psi:
        case Zero():
            return 0.0, None
        case L1():
            return float(psi.lam), None
        case Box() | L1Ball() | Simplex() | CappedSimplex():
            return 0.0, psi
        case InBox() | InBall() if isinstance(psi.penalty, L1) and isinstance(psi.domain, Box | L1Ball):
            return float(psi.penalty.lam), psi.domain
    raise TypeError(f"lp: {name}={psi!r} is not polyhedral; accepted are {POLYHEDRAL}")
