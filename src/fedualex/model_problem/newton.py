"""Newton's method on the fixed point of the prox, inside the proximal point method that makes it reach a solution."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .blocks import Block, Floats, Slope


@dataclass(frozen=True)
class Model:
    """0 in F(n) + d psi(n), F(n) = g + J (n - c), the blocks' quadratic and linear terms inside g and J."""

    blocks: list[Block]
    ends: list[int]
    g: Floats
    J: Floats
    c: Floats
    t: Floats
    """The step of each entry: the metric that residuals are measured in."""
    split: int
    """How many of the entries are x's."""

    def operator(self, n: Floats) -> Floats:
        """F(n)."""
        return self.g + self.J @ (n - self.c)

    def parts(self) -> list[tuple[Block, slice]]:
        """The blocks with their places."""
        starts = [0, *self.ends[:-1]]
        return [(block, slice(a, b)) for block, a, b in zip(self.blocks, starts, self.ends, strict=True)]

    def prox(self, v: Floats) -> Floats:
        """All blocks' prox, in the metric."""
        return np.concatenate([block.prox(v[at], self.t[at]) for block, at in self.parts()] or [v])

    def residual(self, n: Floats, far: float = np.inf) -> float:
        """|n - prox(n - T F(n))| in the metric, relative to n and T F(n), or to `far` times the same at c."""
        step = self.t * self.operator(n)
        length = length_of(n - self.prox(n - step), self.t)
        size = length_of(n, self.t) + length_of(step, self.t)
        size = min(size, far * (length_of(self.c, self.t) + length_of(self.t * self.g, self.t)) or size)
        return length / size if size > 0 else length


def length_of(v: Floats, t: Floats) -> float:
    """|v| in the metric 1/t."""
    return float(np.linalg.norm(v / np.sqrt(t)))


@dataclass
class Walk:
    """Where the method is, and how much it has done."""

    point: Floats
    residual: float
    steps: int = 0


INNER = 12
"""The most Newton steps of one proximal point."""
FIRST, LEAST, MOST = 1e-9, 1e-12, 1e3
"""The weight of the proximal term, as a share of the metric."""
PACE, NEAR = 5.0, 1e-11
"""By what the weight falls while that is easy, and the residual at which no weight is needed."""
ACCURACY = 1e-14


def forward_backward(model: Model, n: Floats) -> Floats:
    """prox(n - T F(n)): a point of the domain, with the zeros that the slope at n asks for."""
    return model.prox(n - model.t * model.operator(n))


def polish(model: Model, start: Floats, steps: int, first: float = FIRST) -> Walk:
    """Proximal points z <- solution of 0 in F(n) + rho (n - z) / T + d psi(n), rho adapted to what Newton can do."""
    center = forward_backward(model, start)
    best = Walk(center, model.residual(center))
    rho, used, stalls = first, 0, 0
    while used < steps and best.residual > ACCURACY and stalls < 3 and rho <= MOST:
        point, took, converged = _proximal_point(model, center, rho)
        used += took
        residual = model.residual(point)
        stalls = stalls + 1 if converged and residual > 0.5 * best.residual and rho <= FIRST else 0
        if residual < best.residual:
            best = Walk(point, residual)
        center, rho = (point, max(rho / 100, LEAST)) if converged else (center, max(rho * 100, 1e-4))
    return Walk(best.point, best.residual, used)


def accelerate(model: Model, start: Floats, steps: int) -> Floats:
    """Accelerated steps of the prox, begun anew where they turn back: for a symmetric J, a point with few directions.

    They cost a product with J each; Newton's method from far away would factorize for many directions that vanish.
    """
    x = forward_backward(model, start)
    t = model.t / (1.01 * _largest(model) + np.finfo(float).tiny)
    scaled = replace(model, t=t)
    before, momentum = x, 1.0
    for _ in range(steps):
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = x + (momentum - 1) / grown * (x - before)
        before, x, momentum = x, forward_backward(scaled, ahead), grown
        if (ahead - x) @ ((x - before) / t) > 0:
            momentum = 1.0
    return x


def _largest(model: Model) -> float:
    """The largest eigenvalue of T^1/2 J T^1/2, by the power method; a little too small at most."""
    root, v, size = np.sqrt(model.t), np.ones(model.t.size), 1.0
    v = v + np.cos(np.arange(v.size))
    for _ in range(30):
        v = root * (model.J @ (root * (v / np.linalg.norm(v))))
        size = float(np.linalg.norm(v))
        if size == 0:
            break
    return 1.1 * size


def approach(model: Model, start: Floats, steps: int) -> Walk:
    """Proximal points with a weight that falls as fast as Newton's method can follow, then a polish.

    Slower than an interior point method, but all that it asks of psi is its prox.
    """
    center, rho, pace, used = forward_backward(model, start), 1.0, PACE, 0
    best = Walk(center, model.residual(center))
    while used < steps and best.residual > NEAR and FIRST < rho <= MOST:
        point, took, converged = _proximal_point(model, center, rho)
        used += max(took, 1)
        if not converged:
            rho, pace = rho * pace * pace, max(pace**0.5, 1.2)
            continue
        center, residual = point, model.residual(point)
        if residual < best.residual:
            best = Walk(point, residual)
        rho = rho / pace if took <= INNER // 2 else rho
    return _finish(model, best, used)


def _finish(model: Model, walk: Walk, used: int) -> Walk:
    last = polish(model, walk.point, 2 * INNER)
    chosen = last if last.residual < walk.residual else walk
    return Walk(chosen.point, chosen.residual, used + last.steps)


def _proximal_point(model: Model, center: Floats, rho: float) -> tuple[Floats, int, bool]:
    """Newton steps on n = prox(n - T (F(n) + rho (n - center) / T)), and whether they arrived."""
    n, last = center, np.inf
    best, least = center, np.inf
    for k in range(INNER + 1):
        v = n - model.t * model.operator(n) - rho * (n - center)
        fixed = model.prox(v)
        R = n - fixed
        length, size = length_of(R, model.t), length_of(v, model.t) + length_of(n, model.t)
        if length < least:
            best, least = fixed, length
        if length <= 4e-16 * size or (length <= 1e-13 * size and length > 0.1 * last):
            return fixed, k, True
        if k == INNER:
            break
        n = n + _newton_step(model, v, R, rho)
        last = length
    return best, INNER, False


def _newton_step(model: Model, v: Floats, R: Floats, rho: float) -> Floats:
    """The solution of (1 - P + P T J) d = -R, among the directions where P is not 0."""
    slopes = [(block.slope(v[at], model.t[at]), at) for block, at in model.parts()]
    kept, matrix, onto, back = _keep_directions(model, slopes)
    inside, t = onto(R), model.t[kept]
    d = back(inside) - R
    if not kept.size:
        return d
    matrix[np.diag_indices_from(matrix)] += rho / t
    rhs = -(inside / t + onto(model.J @ d))
    for slope, rows in _find_bent(slopes):
        # P (T J - 1) + 1 in these rows, and the same for what the others' part of d leaves.
        at = np.arange(rows.start, rows.stop)
        matrix[rows] *= t[rows, None]
        matrix[at, at] -= 1
        matrix[rows] = slope.apply(matrix[rows])
        matrix[at, at] += 1
        across = t[rows] * rhs[rows] + inside[rows]
        rhs[rows] = slope.apply(across[:, None])[:, 0] - inside[rows]
    plain = all(slope.plain for slope, at in slopes if at.start < model.split)
    split = sum(slope.kept.size for slope, at in slopes if at.start < model.split)
    return d + back(solve_monotone(matrix, rhs, split) if plain else solve_general(matrix, rhs))


Map = Callable[[Floats], Floats]


def _keep_directions(model: Model, slopes: list[tuple[Slope, slice]]) -> tuple[NDArray[np.intp], Floats, Map, Map]:
    """A row of each direction that is kept, a copy of J among them, and the maps onto them and back."""
    if all(slope.basis is None for slope, _ in slopes):
        kept = np.concatenate([slope.kept + at.start for slope, at in slopes]).astype(np.intp)

        def back(part: Floats) -> Floats:
            whole = np.zeros(model.g.size)
            whole[kept] = part
            return whole

        return kept, model.J[np.ix_(kept, kept)], lambda whole: whole[kept], back
    columns = [_columns(model.g.size, slope, at) for slope, at in slopes]
    basis = np.hstack(columns)
    # Within a block that has a basis all steps are the same.
    rows = [at.start + (slope.kept if slope.basis is None else 0 * slope.kept) for slope, at in slopes]
    return np.concatenate(rows), basis.T @ (model.J @ basis), lambda whole: basis.T @ whole, lambda part: basis @ part


def _columns(size: int, slope: Slope, at: slice) -> Floats:
    columns = np.zeros((size, slope.kept.size))
    if slope.basis is None:
        columns[slope.kept + at.start, np.arange(slope.kept.size)] = 1.0
    else:
        columns[at] = slope.basis
    return columns


def _find_bent(slopes: list[tuple[Slope, slice]]) -> list[tuple[Slope, slice]]:
    """The derivatives that are not 1, with their rows among those that are kept."""
    ends = np.cumsum([0, *(slope.kept.size for slope, _ in slopes)]).tolist()
    rows = [slice(a, b) for a, b in pairwise(ends)]
    return [(slope, row) for (slope, _), row in zip(slopes, rows, strict=True) if slope.kept.size and not slope.plain]


# Linear systems of the model problem: x's part is symmetric and positive, the rest is small and is not.


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
        solution: Floats = lapack.dgetrs(lu, pivots, rhs)[0]
        return solution

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
