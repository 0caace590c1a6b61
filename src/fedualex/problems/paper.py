"""The two games of the paper's experiments, and the problems that its theorems ask for, from seeds."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..accepted import Number, Whole
from ..arrays import Array
from ..regularizers import L1, AbstractRegularizer, Box, Simplex, Spectral
from ..tree import Saddle
from ..validation import nonnegative, one_of, whole_number
from .bilinear import Bilinear, bilinear, matrix_game
from .general import Problem
from .low_rank import low_rank
from .recipe import built_from
from .sparse_glm import sparse_glm

ROWS, COLUMNS, MATRIX_COLUMNS = 300, 600, 20
LAM, RADIUS = 0.1, 0.05
CLIENTS, CLIENT_ROWS = 64, 128
"""Of the regressions: as in the experiments of Yuan, Zaheer and Reddi (2021)."""


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


@built_from()
def paper_l1_unequal(heterogeneity: Number = 1.0, clients: Whole = 10, seed: Whole = 0) -> Problem:
    """The paper's l1 game whose clients differ: f_m(x, y) = <A_m x - b_m, y> with mean game `paper_l1(seed)`.

    A_m = A + heterogeneity * D_m and b_m = b + heterogeneity * d_m, where the entries of D_m and d_m are uniform on
    [-1, 1], less their means over the clients. So the saddle point does not depend on heterogeneity, and at 1 a
    client's own part is as large as the common one.

    seed: decides A, b and the clients' parts.
    """
    return _unequal(paper_l1(seed), L1(LAM) + Box(RADIUS), heterogeneity, clients, seed)


@built_from()
def paper_nuclear_unequal(heterogeneity: Number = 1.0, clients: Whole = 10, seed: Whole = 0) -> Problem:
    """The paper's nuclear game whose clients differ as in `paper_l1_unequal`: the mean game is `paper_nuclear(seed)`.

    heterogeneity: how large a client's own part is. clients: how many. seed: decides A, B and the clients' parts.
    """
    return _unequal(paper_nuclear(seed), Spectral(L1(LAM) + Box(RADIUS)), heterogeneity, clients, seed)


def _unequal(game: Bilinear, psi: AbstractRegularizer, heterogeneity: Number, clients: Whole, seed: Whole) -> Problem:
    spread, count = float(nonnegative("heterogeneity", heterogeneity)), whole_number("clients", clients)
    rng = np.random.default_rng([1, whole_number("seed", seed, 0)])
    wholes = np.asarray(game.A), np.asarray(game.b)
    parts = [rng.uniform(-1, 1, (count, *whole.shape)) for whole in wholes]
    A, b = (whole + spread * (part - part.mean(0)) for whole, part in zip(wholes, parts, strict=True))
    like = Saddle(np.zeros(np.shape(game.like.x)), np.zeros(np.shape(game.like.y)))
    data = [(A[m : m + 1], b[m : m + 1]) for m in range(count)]
    return Problem(_payoff, x=psi, y=psi, like=like, data=data, by_construction=True)


def _payoff(x: Array, y: Array, game: tuple[Array, Array]) -> Array:
    A, b = game
    return jnp.vdot(A @ x - b, y)


@built_from()
def noisy_matrix_game(size: Whole = 100, geometry: str = "entropic", seed: Whole = 0) -> Bilinear:
    """min max <A x, y> over two simplices; A is size-by-size, with entries uniform on [-1, 1].

    geometry: "entropic" or "euclidean", of both simplices. seed: decides A.
    """
    count, kind = whole_number("size", size), one_of("geometry", geometry, ("entropic", "euclidean"))
    A = np.random.default_rng(whole_number("seed", seed, 0)).uniform(-1, 1, (count, count))
    return matrix_game(A) if kind == "entropic" else bilinear(A, np.zeros(count), x=Simplex(), y=Simplex())


@built_from()
def federated_lasso(features: Whole = 1024, nonzeros: Whole = 64, seed: Whole = 0) -> Problem:
    """Sparse regression of the kind of Yuan, Zaheer and Reddi (2021): 64 clients with 128 rows each, l1 = 0.05.

    Rows are standard normal, answers <w, X_i> + N(0, 1); `nonzeros` of the entries of w are 1, the others 0.

    features: how many entries w has. seed: decides the rows.
    """
    count, active = whole_number("features", features), whole_number("nonzeros", nonzeros)
    rng = np.random.default_rng(whole_number("seed", seed, 0))
    X, clients = _rows(rng, count)
    w = (np.arange(count) < active).astype(float)
    return sparse_glm("squared", X, X @ w + rng.normal(size=len(X)), clients, l1=0.05)


@built_from()
def federated_low_rank(features: Whole = 32, rank: Whole = 16, seed: Whole = 0) -> Problem:
    """Regression of low rank of the same kind: W is features-by-features with `rank` singular values 1, nuclear = 0.1.

    seed: decides the rows, of which 64 clients have 128 each.
    """
    count, ones = whole_number("features", features), whole_number("rank", rank)
    rng = np.random.default_rng(whole_number("seed", seed, 0))
    X, clients = _rows(rng, count)
    W = np.diag((np.arange(count) < ones).astype(float))
    return low_rank(X, X @ W + rng.normal(size=X.shape), clients, nuclear=0.1)


def _rows(rng: np.random.Generator, features: int) -> tuple[Any, Any]:
    """Standard normal rows, and whose they are."""
    clients = np.repeat(np.arange(CLIENTS), CLIENT_ROWS)
    return rng.normal(size=(len(clients), features)), clients
