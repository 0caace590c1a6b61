"""Exact play against exact play, for games whose best responses are isolated."""

import jax.numpy as jnp

from ..geometry import Dual
from ..precision import double
from ..problems import AbstractProblem, Bilinear
from ..regularizers import for_reports
from ..tree import Saddle
from ..validation import of_type, positive, whole_number
from ..validation.accepted import Whole
from .solution import Solution

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
