"""Exact answers of bilinear games against a convex solver."""

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from support.solver_rows import POLYHEDRAL, Row, row, simplex, solve, units

import fedualex as fx

pytestmark = pytest.mark.slow

VECTORS = [r for r in POLYHEDRAL.values() if len(r.shape) == 1]
MATRIX = POLYHEDRAL["matrix l1 + inf ball"]
PAIRS = [(r, VECTORS[(5 * i + 3) % len(VECTORS)]) for i, r in enumerate(VECTORS)] + [(MATRIX, MATRIX)]


@dataclass(frozen=True)
class Extremes:
    """phi over the finitely many points that decide a polyhedral game."""

    A: np.ndarray
    b: np.ndarray
    x_side: Row
    y_side: Row

    def upper(self, x: np.ndarray) -> float:
        return self.x_side.value(x) + self.y_side.conjugate(self.A @ x - self.b)

    def lower(self, y: np.ndarray) -> float:
        return -self.x_side.conjugate(-self.A.T @ y) - float(np.vdot(self.b, y)) - self.y_side.value(y)

    def value(self) -> float:
        """min_x psi_1(x) + max over the points v of <A x - b, v> - psi_2(v), as a linear program."""
        x, top = cp.Variable(self.x_side.shape), cp.Variable()
        penalty, constraints = self.x_side.cvx(x)
        points = np.array([v.ravel() for v in self.y_side.points])
        s = cp.vec(self.A @ x - self.b, order="C")
        cuts = points @ s - np.array(self.y_side.levels) <= top
        return solve(cp.Problem(cp.Minimize(top + penalty), [*constraints, cuts]))


def random_game(x_side: Row, y_side: Row, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([13, seed])
    return rng.normal(size=(y_side.shape[0], x_side.shape[0])), 0.5 * rng.normal(size=y_side.shape)


def check_game(game: Any, extremes: Extremes, seed: int) -> None:
    solution = fx.reference.lp(game)
    assert solution.value == pytest.approx(extremes.value(), rel=1e-8, abs=1e-8)
    upper, lower = extremes.upper(solution.z.x), extremes.lower(solution.z.y)
    assert upper - lower <= 1e-9
    assert lower - 1e-9 <= solution.value <= upper + 1e-9
    assert solution.gap == pytest.approx(upper - lower, abs=1e-12)
    rng = np.random.default_rng([14, seed])
    for scale in (0.1, 1.0, 10.0):
        x, y = rng.normal(size=game.like.x.shape), rng.normal(size=game.like.y.shape)
        z = game.project(fx.Saddle(scale * x, scale * y))
        gap = game.gap(z)
        assert gap == pytest.approx(game.certificate(z).gap, rel=1e-10)
        assert gap == pytest.approx(extremes.upper(z.x) - extremes.lower(z.y), rel=1e-10)


@pytest.mark.parametrize(("x_side", "y_side"), PAIRS, ids=lambda r: r.name)
def test_lp_and_gap(x_side: Row, y_side: Row) -> None:
    for seed in range(2):
        A, b = random_game(x_side, y_side, seed)
        game = fx.problems.bilinear(A, b, x=x_side.psi, y=y_side.psi)
        check_game(game, Extremes(A, b, x_side, y_side), seed)


@pytest.mark.parametrize("seed", range(3))
def test_lp_and_gap_of_matrix_games(seed: int) -> None:
    x_side, y_side = (row("simplex", n, simplex(), points=units(1.0, (n,))) for n in (5, 4))
    A = np.random.default_rng([15, seed]).normal(size=(4, 5))
    check_game(fx.problems.matrix_game(A), Extremes(A, np.zeros(4), x_side, y_side), seed)
