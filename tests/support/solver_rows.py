"""Regularizers for us and for a convex solver that knows nothing of them (cvxpy), and the extreme points of their domains.

Expected values come from the definitions alone: argmin, sup and max are handed to the solver or, over a
polytope, to the finite list of its extreme points.
"""

import functools
import itertools
import math
import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import fedualex as fx

# ----------------------------------------------------------------------------------------------------- solver


def solve(problem: cp.Problem) -> float:
    """The optimal value at the tightest tolerance CLARABEL reaches; +-inf if unbounded."""
    for tolerance in (1e-12, 1e-10, 1e-9, 1e-8):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "solution may be inaccurate": handled by the next tolerance
            try:
                problem.solve(
                    solver=cp.CLARABEL,
                    tol_gap_abs=tolerance,
                    tol_gap_rel=tolerance,
                    tol_feas=tolerance,
                    tol_infeas_abs=1e-9,
                    tol_infeas_rel=1e-9,
                    max_iter=200,
                )
            except cp.SolverError:
                continue
        if problem.status in (cp.OPTIMAL, cp.UNBOUNDED):
            # The value at the solver's x is the better one, except where an entropy meets x = -1e-15.
            value = float(problem.value)
            return value if math.isfinite(value) else float(problem.solution.opt_val)
    raise AssertionError(f"the reference solver failed: {problem.status}")


def worst(constraints: list[cp.Constraint]) -> float:
    """How far the variables' present values are from satisfying the constraints."""
    return max((float(np.max(c.violation())) for c in constraints), default=0.0)


# ----------------------------------------------------------------------------- summands, for us and for cvxpy

Cvx = tuple[Any, list[Any]]


@dataclass(frozen=True)
class Part:
    """One summand: ours, and x -> (penalty, constraints) for cvxpy; `kinks` if it is piecewise linear."""

    psi: Any
    cvx: Callable[[Any], Cvx]
    kinks: bool = True


def zero() -> Part:
    return Part(fx.Zero(), lambda x: (0, []))


def l1(lam: float) -> Part:
    return Part(fx.L1(lam), lambda x: (lam * cp.sum(cp.abs(x)), []))


def squared(lam: float) -> Part:
    return Part(fx.SquaredL2(lam), lambda x: (lam / 2 * cp.sum_squares(x), []), kinks=False)


def elastic(lam1: float, lam2: float) -> Part:
    return Part(
        fx.ElasticNet(lam1, lam2),
        lambda x: (lam1 * cp.sum(cp.abs(x)) + lam2 / 2 * cp.sum_squares(x), []),
        kinks=False,
    )


def group(lam: float, labels: list[int], weights: list[float] | None = None) -> Part:
    each = weights or [1.0] * (max(labels) + 1)
    where = [np.flatnonzero(np.array(labels) == g) for g in range(len(each))]
    psi = fx.GroupL2(lam, np.array(labels), None if weights is None else np.array(weights))

    def cvx(x: Any) -> Cvx:
        return lam * sum(w * cp.norm2(x[i]) for w, i in zip(each, where, strict=True)), []

    return Part(psi, cvx, kinks=False)


def linear(c: Any) -> Part:
    return Part(fx.Linear(c), lambda x: (cp.sum(cp.multiply(np.broadcast_to(c, x.shape), x)), []))


def entropy(lam: float) -> Part:
    return Part(fx.Entropy(lam), lambda x: (-lam * cp.sum(cp.entr(x)), [x >= 0]), kinks=False)


def kl(lam: float, q: Any) -> Part:
    ratio = np.array(q)
    return Part(fx.KL(lam, ratio), lambda x: (lam * cp.sum(cp.rel_entr(x, ratio)), [x >= 0]), kinks=False)


def nonnegative() -> Part:
    return Part(fx.NonNegative(), lambda x: (0, [x >= 0]))


def ball_inf(radius: float) -> Part:
    return Part(fx.Box(radius), lambda x: (0, [x <= radius, x >= -radius]))


def box(lower: Any, upper: Any) -> Part:
    low, high = np.array(lower), np.array(upper)
    return Part(fx.Box(lower=low, upper=high), lambda x: (0, [x >= low, x <= high]))


def ball2(radius: float) -> Part:
    return Part(fx.L2Ball(radius), lambda x: (0, [cp.norm2(cp.vec(x, order="C")) <= radius]))


def ball1(radius: float) -> Part:
    return Part(fx.L1Ball(radius), lambda x: (0, [cp.sum(cp.abs(x)) <= radius]))


def simplex(radius: float = 1.0) -> Part:
    return Part(fx.Simplex(radius), lambda x: (0, [x >= 0, cp.sum(x) == radius]))


def capped(cap: float) -> Part:
    return Part(fx.CappedSimplex(cap), lambda x: (0, [x >= 0, x <= cap, cp.sum(x) == 1]))


def nuclear(lam: float) -> Part:
    return Part(fx.Spectral(fx.L1(lam)), lambda x: (lam * cp.normNuc(x), []), kinks=False)


def nuclear_in_spectral(lam: float, radius: float, route: str = "gram") -> Part:
    psi = fx.Spectral(fx.L1(lam) + fx.Box(radius), route)
    return Part(psi, lambda x: (lam * cp.normNuc(x), [cp.sigma_max(x) <= radius]), kinks=False)


def nuclear_in_frobenius(lam: float, radius: float) -> Part:
    psi = fx.Spectral(fx.L2Ball(radius) + fx.L1(lam))
    return Part(psi, lambda x: (lam * cp.normNuc(x), [cp.norm(x, "fro") <= radius]), kinks=False)


def nuclear_in_nuclear(lam: float, radius: float) -> Part:
    psi = fx.Spectral(fx.L1(lam) + fx.L1Ball(radius), "svd")
    return Part(psi, lambda x: (lam * cp.normNuc(x), [cp.normNuc(x) <= radius]), kinks=False)


def spectral_elastic(lam1: float, lam2: float, radius: float) -> Part:
    psi = fx.Spectral(fx.ElasticNet(lam1, lam2) + fx.Box(radius))
    return Part(
        psi,
        lambda x: (lam1 * cp.normNuc(x) + lam2 / 2 * cp.sum_squares(x), [cp.sigma_max(x) <= radius]),
        kinks=False,
    )


# ------------------------------------------------------------- extreme points, and zero where l1 has its kink

Points = list[np.ndarray]


def corners(lower: Any, upper: Any, shape: tuple[int, ...]) -> Points:
    low, high = np.broadcast_to(lower, shape).ravel(), np.broadcast_to(upper, shape).ravel()
    each = [(a, b, 0.0) if a < 0 < b else (a, b) for a, b in zip(low, high, strict=True)]
    return [np.array(p).reshape(shape) for p in itertools.product(*each)]


def units(radius: float, shape: tuple[int, ...]) -> Points:
    return [radius * e.reshape(shape) for e in np.eye(math.prod(shape))]


def cross(radius: float, shape: tuple[int, ...]) -> Points:
    return [np.zeros(shape), *units(radius, shape), *units(-radius, shape)]


def mixtures(cap: float, size: int) -> Points:
    """The extreme points of the capped simplex: as many entries at the cap as fit, one with the rest."""
    full = math.floor(1 / cap + 1e-12)
    if full == 0 or full >= size:
        return units(1.0, (size,)) if full == 0 or cap >= 1 else [np.full(size, 1 / size)]
    points = []
    for top in itertools.combinations(range(size), full):
        for last in set(range(size)) - set(top):
            x = np.zeros(size)
            x[list(top)], x[last] = cap, 1 - full * cap
            points.append(x)
    return points


# ------------------------------------------------------------------------------------------ the table of rows


@dataclass(frozen=True)
class Row:
    """psi = the sum of `parts` on arrays of `shape`; `points` span C if it is a polytope.

    Where C is bounded but no polytope, `far` is the largest distance from a center to it.
    """

    name: str
    shape: tuple[int, ...]
    parts: tuple[Part, ...]
    points: Points | None = None
    far: Callable[[np.ndarray], float] | None = None
    diameter: float = math.inf

    @property
    def psi(self) -> Any:
        return functools.reduce(operator.add, [part.psi for part in self.parts])

    def cvx(self, x: Any) -> Cvx:
        pieces = [part.cvx(x) for part in self.parts]
        return cp.Constant(0) + sum(p for p, _ in pieces), [c for _, cs in pieces for c in cs]

    def value(self, x: np.ndarray) -> float:
        return float(self.cvx(cp.Constant(x))[0].value)

    @functools.cached_property
    def levels(self) -> list[float]:
        return [self.value(v) for v in self.points or []]

    @property
    def piecewise_linear(self) -> bool:
        return self.points is not None and all(part.kinks for part in self.parts)

    def conjugate(self, s: np.ndarray) -> float:
        """max over C of <s, x> - psi(x): over the listed points if that is exact, else by the solver."""
        if self.piecewise_linear:
            values = zip(self.points, self.levels, strict=True)
            return max(float(np.vdot(s, v)) - level for v, level in values)
        x = cp.Variable(self.shape)
        penalty, constraints = self.cvx(x)
        return solve(cp.Problem(cp.Maximize(cp.sum(cp.multiply(s, x)) - penalty), constraints))


def row(name: str, shape: Any, *parts: Part, **known: Any) -> Row:
    return Row(name, shape if isinstance(shape, tuple) else (shape,), parts, **known)


def around_ball(radius: float) -> dict[str, Any]:
    return {"far": lambda c: radius + float(np.linalg.norm(c)), "diameter": 2 * radius}


def around_spectral_ball(radius: float, rank: int) -> dict[str, Any]:
    """The farthest matrix is -radius U V^T with the center's own singular vectors."""
    return {
        "far": lambda c: float(np.linalg.norm(np.linalg.svd(c, compute_uv=False) + radius)),
        "diameter": 2 * radius * math.sqrt(rank),
    }


def around_nuclear_ball(radius: float) -> dict[str, Any]:
    """The extreme points are radius u v^T, so the farthest one is along the center's first singular pair."""

    def far(c: np.ndarray) -> float:
        return math.sqrt(radius**2 + float(np.sum(c**2)) + 2 * radius * float(np.linalg.norm(c, 2)))

    return {"far": far, "diameter": 2 * radius}


LOW, HIGH = [-0.4, 0.1, -1.0, -0.7], [0.6, 0.5, -0.2, 0.0]
C4 = np.array([0.4, -0.9, 0.1, 0.6])
Q4 = [0.1, 0.2, 0.3, 0.4]
LABELS, SCALES = [0, 1, 0, 2, 2, 1], [1.0, 0.5, 2.0]

ROWS = [
    row("1 none", 4, zero()),
    row("2 l1", 4, l1(0.3)),
    row("3 squared l2", 4, squared(0.7)),
    row("4 elastic net", 4, elastic(0.3, 0.6)),
    row("5 group l2", 6, group(0.4, LABELS, SCALES)),
    row("5 group l2 unweighted", 6, group(0.4, LABELS)),
    row("6 nuclear", (3, 2), nuclear(0.5)),
    row("7 nonnegative", 4, nonnegative()),
    row("8 box", 4, box(LOW, HIGH), points=corners(LOW, HIGH, (4,))),
    row("8 inf ball", 4, ball_inf(0.3), points=corners(-0.3, 0.3, (4,))),
    row("8 one-sided box", 4, box(-np.inf, HIGH)),
    row("9 l2 ball", 4, ball2(0.8), **around_ball(0.8)),
    row("10 l1 ball", 6, ball1(0.8), points=cross(0.8, (6,))),
    row("11 simplex", 6, simplex(), points=units(1.0, (6,))),
    row("11 scaled simplex", 4, simplex(2.5), points=units(2.5, (4,))),
    row("12 l1 + inf ball", 4, l1(0.4), ball_inf(0.3), points=corners(-0.3, 0.3, (4,))),
    row("12 l1 + box without zero", 4, l1(0.4), box(LOW, HIGH), points=corners(LOW, HIGH, (4,))),
    row("12 l1 + one-sided box", 4, l1(0.4), box(LOW, np.inf)),
    row("13 l1 + l2 ball", 4, l1(0.4), ball2(0.7), **around_ball(0.7)),
    row("14 l1 + nonnegative", 4, l1(0.4), nonnegative()),
    row("15 nuclear in spectral ball", (3, 2), nuclear_in_spectral(0.3, 0.5), **around_spectral_ball(0.5, 2)),
    row("15 by svd", (2, 4), nuclear_in_spectral(0.3, 0.5, "svd"), **around_spectral_ball(0.5, 2)),
    row("15 spectral ball", (2, 3), nuclear_in_spectral(0.0, 0.4), **around_spectral_ball(0.4, 2)),
    row("16 nuclear in frobenius ball", (3, 3), nuclear_in_frobenius(0.3, 0.6), **around_ball(0.6)),
    row("17 l1 + l1 ball", 4, l1(0.2), ball1(0.9), points=cross(0.9, (4,))),
    row("17 nuclear in nuclear ball", (2, 3), nuclear_in_nuclear(0.2, 0.9), **around_nuclear_ball(0.9)),
    row("18 elastic net + inf ball", 4, elastic(0.2, 0.5), ball_inf(0.4), points=corners(-0.4, 0.4, (4,))),
    row("18 spectral", (2, 3), spectral_elastic(0.2, 0.5, 0.4), **around_spectral_ball(0.4, 2)),
    row("19 group l2 + l2 ball", 6, group(0.3, LABELS, SCALES), ball2(0.8), **around_ball(0.8)),
    row("20 capped simplex", 6, capped(0.3), points=mixtures(0.3, 6)),
    row("20 cap 1/2", 4, capped(0.5), points=mixtures(0.5, 4)),
    row("20 cap 1/d", 4, capped(0.25), points=mixtures(0.25, 4)),
    row("20 cap over 1", 4, capped(1.7), points=mixtures(1.7, 4)),
    # A linear term moves omega and s, whatever it is added to.
    row("linear", 4, linear(C4)),
    row("linear + l1", 4, linear(C4), l1(0.3)),
    row("linear + squared l2", 4, linear(C4), squared(0.5)),
    row("linear + box", 4, linear(C4), box(LOW, HIGH), points=corners(LOW, HIGH, (4,))),
    row("linear + l1 + box", 4, linear(C4), l1(0.3), box(LOW, HIGH), points=corners(LOW, HIGH, (4,))),
    row("linear + l2 ball", 4, linear(C4), ball2(0.8), **around_ball(0.8)),
    row("linear + l1 + l2 ball", 4, linear(C4), l1(0.3), ball2(0.8), **around_ball(0.8)),
    row("linear + l1 ball", 4, linear(C4), ball1(0.8), points=cross(0.8, (4,))),
    row("linear + l1 + l1 ball", 4, linear(C4), l1(0.2), ball1(0.8), points=cross(0.8, (4,))),
    row("linear + simplex", 4, linear(C4), simplex(1.5), points=units(1.5, (4,))),
    row("linear + capped simplex", 4, linear(C4), capped(0.3), points=mixtures(0.3, 4)),
    row("linear + elastic net + inf ball", 4, linear(C4), elastic(0.2, 0.5), ball_inf(0.4),
        points=corners(-0.4, 0.4, (4,))),
    row("linear + group l2 + l2 ball", 6, linear(np.linspace(-1, 1, 6)), group(0.3, LABELS, SCALES),
        ball2(0.8), **around_ball(0.8)),
    row("linear + nuclear in spectral ball", (2, 3), linear(np.outer([0.3, -0.8], [1, 0.2, -0.4])),
        nuclear_in_spectral(0.3, 0.5), **around_spectral_ball(0.5, 2)),
    row("linear number + capped simplex", 4, linear(0.7), capped(0.4), points=mixtures(0.4, 4)),
    row("linear + entropy", 4, linear(C4), entropy(0.4)),
    row("linear + kl", 4, linear(C4), kl(0.4, Q4)),
    # So does a quadratic term.
    row("squared l2 + simplex", 4, squared(0.8), simplex(1.5), points=units(1.5, (4,))),
    row("squared l2 + capped simplex", 4, squared(0.8), capped(0.3), points=mixtures(0.3, 4)),
    row("squared l2 + l2 ball", 4, squared(0.8), ball2(0.6), **around_ball(0.6)),
    row("squared l2 + l1 + l2 ball", 4, squared(0.8), l1(0.3), ball2(0.6), **around_ball(0.6)),
    row("squared l2 + l1 ball", 4, squared(0.8), ball1(0.6), points=cross(0.6, (4,))),
    row("squared l2 + l1 + box", 4, squared(0.8), l1(0.3), box(LOW, HIGH), points=corners(LOW, HIGH, (4,))),
    row("squared l2 + group l2", 6, squared(0.8), group(0.4, LABELS, SCALES)),
    row("squared l2 + nuclear", (2, 3), squared(0.8), nuclear(0.4)),
    row("squared l2 + nonnegative", 4, squared(0.8), nonnegative()),
    row("squared l2 + linear + simplex", 4, squared(0.8), linear(C4), simplex(), points=units(1.0, (4,))),
    row("squared l2 + kl", 4, squared(0.8), kl(0.4, Q4)),
    # Sums within a family, and the rest.
    row("l1 + simplex", 4, l1(0.4), simplex(2.0), points=units(2.0, (4,))),
    row("l1 + capped simplex", 4, l1(0.4), capped(0.4), points=mixtures(0.4, 4)),
    row("l1 + l1", 4, l1(0.2), l1(0.3)),
    row("box + box", 4, box(LOW, HIGH), ball_inf(0.5), points=corners(np.maximum(LOW, -0.5),
        np.minimum(HIGH, 0.5), (4,))),
    row("squared + squared", 4, squared(0.2), squared(0.3)),
    row("elastic net + elastic net", 4, elastic(0.2, 0.1), elastic(0.1, 0.3)),
    row("entropy", 4, entropy(0.5)),
    row("kl", 4, kl(0.5, Q4)),
    row("zero + kl", 4, zero(), kl(0.5, [2.0, 0.01, 1.0, 5.0])),
    row("matrix l1 + inf ball", (2, 2), l1(0.4), ball_inf(0.3), points=corners(-0.3, 0.3, (2, 2))),
    row("matrix l1 ball", (2, 3), ball1(0.8), points=cross(0.8, (2, 3))),
    row("matrix l2 ball", (2, 3), l1(0.2), ball2(0.8), **around_ball(0.8)),
    row("matrix simplex", (2, 3), simplex(), points=units(1.0, (2, 3))),
]  # fmt: skip
BOUNDED = [r for r in ROWS if r.points is not None or r.far is not None]
POLYHEDRAL = {r.name: r for r in ROWS if r.piecewise_linear}


def by_name(rows: list[Row]) -> Any:
    return pytest.mark.parametrize("row", rows, ids=lambda r: r.name)


def instances(shape: tuple[int, ...], scales: tuple[float, ...], seed: int) -> list[np.ndarray]:
    """A zero array, a tie, and random ones of several sizes."""
    rng = np.random.default_rng([seed, *shape])
    tie = np.where(rng.random(shape) < 0.5, 0.5, -0.5)
    return [np.zeros(shape), tie, *(scale * rng.normal(size=shape) for scale in scales)]


def orders(parts: tuple[Part, ...]) -> list[Any]:
    """The sum of the parts, added in every order."""
    return [functools.reduce(operator.add, [p.psi for p in order]) for order in itertools.permutations(parts)]


def check_minimizer(x: np.ndarray, variable: cp.Variable, problem: cp.Problem) -> float:
    """x is feasible, no worse than the solver's point and, being unique, near it; returns its value."""
    value = solve(problem)
    expected = variable.value.copy()
    scale = 1 + float(np.max(np.abs(expected)))
    np.testing.assert_allclose(x, expected, rtol=0, atol=(2e-6 if problem.is_qp() else 1e-5) * scale)
    variable.value = x
    assert worst(problem.constraints) <= 1e-12 * scale
    assert problem.objective.value <= value + 1e-9 * (1 + abs(value))
    return value


ON_SIMPLEX = Part(None, lambda x: (0, [x >= 0, cp.sum(x) == 1]))


def entropic(row: Row) -> list[Any]:
    """The geometry, with the summands of its regularizer in every order."""
    _, *parts = row.parts  # the first is the simplex itself
    return [fx.EntropicSimplex(psi) for psi in orders(tuple(parts))] if parts else [fx.EntropicSimplex()]
