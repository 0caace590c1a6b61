"""Every closed form against a convex solver that knows nothing of it (cvxpy with CLARABEL), on small sizes.

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
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedualex as fx
from fedualex.precision import double

pytestmark = pytest.mark.slow

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


# ------------------------------------------------------------------------------ 1. Euclidean: prox, conjugate


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


@by_name(ROWS)
def test_prox(row: Row) -> None:
    x, omega, weight = cp.Variable(row.shape), cp.Parameter(row.shape), cp.Parameter(nonneg=True)
    penalty, constraints = row.cvx(x)
    ell = cp.sum_squares(x) / 2 - cp.sum(cp.multiply(omega, x))
    projection = cp.Problem(cp.Minimize(ell), constraints)
    weighted = cp.Problem(cp.Minimize(ell + weight * penalty), constraints)
    for omega.value in instances(row.shape, (1.0, 30.0), 1):
        for weight.value in (0.0, 1.5):
            tau = float(weight.value)
            with double():
                ours = np.asarray(row.psi.prox(omega.value, tau))
                potential = float(fx.Euclidean(row.psi).potential(fx.Dual(omega.value, tau)))
                value = float(row.psi.value(ours))
            assert value == pytest.approx(row.value(ours), rel=1e-12, abs=1e-12)
            optimum = check_minimizer(ours, x, weighted if tau else projection)
            assert potential == pytest.approx(-optimum, rel=1e-8, abs=1e-8)


@by_name(ROWS)
def test_conjugate(row: Row) -> None:
    tolerance = 1e-12 if row.piecewise_linear else 1e-7
    for s in instances(row.shape, (0.05, 0.5, 3.0), 2):
        with double():
            ours = float(row.psi.conjugate(s))
        assert ours == pytest.approx(row.conjugate(s), rel=tolerance, abs=tolerance)


@by_name([r for r in ROWS if len(r.parts) > 1])
def test_sums_do_not_depend_on_the_order(row: Row) -> None:
    omega, s = np.random.default_rng(3).normal(size=(2, *row.shape))
    with double():
        for psi in orders(row.parts):
            np.testing.assert_allclose(psi.prox(omega, 0.6), row.psi.prox(omega, 0.6), rtol=0, atol=1e-14)
            assert float(psi.conjugate(s)) == pytest.approx(float(row.psi.conjugate(s)), rel=1e-13, abs=1e-14)


@pytest.mark.parametrize("size", [3, 8])
def test_capped_simplex_for_every_whole_number_of_full_entries(size: int) -> None:
    rng = np.random.default_rng(size)
    for full in range(1, size + 1):
        for cap in (1 / full, 1 / (full - 0.5)):
            psi, points, s = fx.CappedSimplex(cap), mixtures(cap, size), rng.normal(size=size)
            with double():
                assert float(psi.conjugate(s)) == pytest.approx(max(float(s @ v) for v in points), rel=1e-13)
                x = np.asarray(psi.prox(s, 1.0))
            assert abs(x.sum() - 1) < 1e-14
            assert np.all((x >= 0) & (x <= cap * (1 + 1e-15)))
            # At the projection every direction into C makes an obtuse angle with s - x.
            assert max(float((s - x) @ (v - x)) for v in points) < 1e-13


# ---------------------------------------------------------------------------------------- 2. other geometries

VERTICES, MIXTURES = units(1.0, (4,)), mixtures(0.3, 4)
ON_SIMPLEX = Part(None, lambda x: (0, [x >= 0, cp.sum(x) == 1]))
ENTROPIC = [
    row("none", 4, ON_SIMPLEX, points=VERTICES),
    row("linear", 4, ON_SIMPLEX, linear(C4), points=VERTICES),
    row("l1", 4, ON_SIMPLEX, l1(0.4), points=VERTICES),
    row("entropy", 4, ON_SIMPLEX, entropy(0.6), points=VERTICES),
    row("kl", 4, ON_SIMPLEX, kl(0.6, Q4), points=VERTICES),
    row("capped simplex", 4, ON_SIMPLEX, capped(0.3), points=MIXTURES),
    row("cap 1/2", 4, ON_SIMPLEX, capped(0.5), points=mixtures(0.5, 4)),
    row("cap 1/d", 4, ON_SIMPLEX, capped(0.25), points=mixtures(0.25, 4)),
    row("linear + entropy", 4, ON_SIMPLEX, linear(C4), entropy(0.6), points=VERTICES),
    row("linear + kl", 4, ON_SIMPLEX, linear(C4), kl(0.6, Q4), points=VERTICES),
    row("linear + l1", 4, ON_SIMPLEX, linear(C4), l1(0.4), points=VERTICES),
    row("linear + capped simplex", 4, ON_SIMPLEX, linear(C4), capped(0.3), points=MIXTURES),
]


def entropic(row: Row) -> list[Any]:
    """The geometry, with the summands of its regularizer in every order."""
    _, *parts = row.parts  # the first is the simplex itself
    return [fx.EntropicSimplex(psi) for psi in orders(tuple(parts))] if parts else [fx.EntropicSimplex()]


@by_name(ENTROPIC)
def test_entropic_primal(row: Row) -> None:
    x, omega = cp.Variable(row.shape), cp.Parameter(row.shape)
    penalty, constraints = row.cvx(x)
    for tau in (0.0, 0.7, 5.0):
        objective = -cp.sum(cp.entr(x)) + tau * penalty - omega @ x
        problem = cp.Problem(cp.Minimize(objective), constraints)
        for omega.value in instances(row.shape, (0.5, 3.0), 3):
            for geometry in entropic(row):
                with double():
                    ours = np.asarray(geometry.primal(fx.Dual(omega.value, tau)))
                    potential = float(geometry.potential(fx.Dual(omega.value, tau)))
                value = check_minimizer(ours, x, problem)
                assert potential == pytest.approx(-value, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("apart", [1e3, 1e6, 1e9])
def test_entropic_cap_with_free_entries_far_below_the_full_ones(apart: float) -> None:
    """One entry is full, whatever the distance; the others share the rest as softmax says.

    A sum that is off by more than 1e-12 is a point outside the domain, and its certificate infinite.
    """
    with double():
        geometry = fx.EntropicSimplex(fx.CappedSimplex(0.5))
        x = np.asarray(geometry.primal(fx.Dual(np.array([0.0, -apart, -apart - 0.75]), 0.0)))
        assert float(geometry.violation(x)) <= 1e-12
    share = 0.5 / (1 + math.exp(-0.75))
    np.testing.assert_allclose(x, [0.5, share, 0.5 - share], rtol=1e-12)


@by_name(ENTROPIC)
def test_entropic_conjugate(row: Row) -> None:
    tolerance = 1e-12 if row.piecewise_linear else 1e-7
    for s in instances(row.shape, (0.5, 5.0), 4):
        expected = row.conjugate(s)
        for geometry in entropic(row):
            with double():
                ours = float(geometry.psi_conjugate(s))
            assert ours == pytest.approx(expected, rel=tolerance, abs=tolerance)


def negative_entropy(u: np.ndarray) -> float:
    return float(np.sum(u[u > 0] * np.log(u[u > 0])))


@by_name(ENTROPIC)
def test_entropic_B0_and_diameter(row: Row) -> None:
    x, omega = cp.Variable(row.shape), cp.Parameter(row.shape)
    problem = cp.Problem(cp.Minimize(-cp.sum(cp.entr(x)) - omega @ x), row.cvx(x)[1])
    mixing = np.random.default_rng(5).dirichlet(np.full(len(row.points), 0.2), size=200)
    inside = mixing @ np.array(row.points)
    (geometry, *_) = entropic(row)
    for omega.value in instances(row.shape, (0.5, 3.0, 20.0), 6):
        conjugate = -solve(problem)
        with double():
            ours = float(geometry.B0(omega.value))

        def fenchel_gap(u: np.ndarray, omega0: np.ndarray = omega.value, top: float = conjugate) -> float:
            return negative_entropy(u) + top - float(omega0 @ u)

        assert ours == pytest.approx(max(map(fenchel_gap, row.points)), rel=1e-7, abs=1e-7)
        assert ours >= max(map(fenchel_gap, inside)) - 1e-7
    with double():
        diameter = float(geometry.diameter(np.zeros(row.shape)))
    widest = max(float(np.abs(u - v).sum()) for u in row.points for v in row.points)
    assert diameter == pytest.approx(widest) if widest == pytest.approx(2.0) else diameter >= widest


@pytest.mark.parametrize("p", [1.25, 1.5, 2.0])
@pytest.mark.parametrize("lam", [None, 0.3])
def test_p_norm_primal(p: float, lam: float | None) -> None:
    geometry = fx.PNorm(p) if lam is None else fx.PNorm(p, fx.L1(lam))
    x, omega = cp.Variable(4), cp.Parameter(4)
    for tau in (0.0, 1.0, 4.0):
        objective = cp.square(cp.pnorm(x, p)) / (2 * (p - 1)) + tau * (lam or 0.0) * cp.norm1(x) - omega @ x
        problem = cp.Problem(cp.Minimize(objective))
        for omega.value in instances((4,), (0.5, 3.0), 7):
            with double():
                ours = np.asarray(geometry.primal(fx.Dual(omega.value, tau)))
                potential = float(geometry.potential(fx.Dual(omega.value, tau)))
            assert potential == pytest.approx(-check_minimizer(ours, x, problem), rel=1e-8, abs=1e-8)


# ------------------------------------------------------------------------------ 3. Euclidean: B0 and diameter


@by_name(BOUNDED)
def test_euclidean_B0_and_diameter(row: Row) -> None:
    geometry = fx.Euclidean(row.psi)
    x, omega = cp.Variable(row.shape), cp.Parameter(row.shape)
    distance = cp.Problem(cp.Minimize(cp.sum_squares(x) / 2 - cp.sum(cp.multiply(omega, x))), row.cvx(x)[1])
    rng = np.random.default_rng(8)
    with double():
        inside = [np.asarray(row.psi.prox(5 * rng.normal(size=row.shape), 0.0)) for _ in range(12)]
    for omega.value in instances(row.shape, (0.3, 1.0, 4.0), 9):
        with double():
            ours = float(geometry.B0(omega.value))

        conjugate = -solve(distance)

        def fenchel_gap(u: np.ndarray, omega0: np.ndarray = omega.value, top: float = conjugate) -> float:
            return float(np.sum(u**2)) / 2 + top - float(np.vdot(omega0, u))

        if row.points is not None:
            exact = max(map(fenchel_gap, row.points))
        else:  # sup 1/2 |u|^2 - <omega, u> = 1/2 far^2 - 1/2 |omega|^2
            exact = (row.far(omega.value) ** 2 - float(np.sum(omega.value**2))) / 2 + conjugate
        assert ours == pytest.approx(exact, rel=1e-8, abs=1e-8)
        assert ours >= max(map(fenchel_gap, inside)) - 1e-8
    with double():
        diameter = float(geometry.diameter(np.zeros(row.shape)))
    points = inside if row.points is None else row.points
    widest = max(float(np.linalg.norm(u - v)) for u, v in itertools.product(points, points))
    assert diameter >= widest * (1 - 1e-12)
    if row.points is None:
        assert diameter == pytest.approx(row.diameter, rel=1e-12)
    elif "cap" not in row.name:  # there it is a bound, unless supports can be disjoint
        assert diameter == pytest.approx(widest, rel=1e-12)


@pytest.mark.parametrize(("cap", "size"), [(1.0, 3), (0.5, 4), (0.5, 5), (0.3, 8), (0.25, 8), (0.7, 4)])
def test_capped_simplex_diameter_is_attained_by_disjoint_mixtures(cap: float, size: int) -> None:
    points = mixtures(cap, size)
    with double():
        diameter = float(fx.CappedSimplex(cap).diameter(np.zeros(size)))
    assert diameter == pytest.approx(max(float(np.linalg.norm(points[0] - v)) for v in points), rel=1e-12)


@by_name([r for r in ROWS if r not in BOUNDED])
def test_unbounded_domains_have_no_finite_size(row: Row) -> None:
    with double():
        assert float(fx.Euclidean(row.psi).B0(np.ones(row.shape))) == math.inf
        assert float(fx.Euclidean(row.psi).diameter(np.ones(row.shape))) == math.inf


# ----------------------------------------------------- 4. the certificate is never below the true duality gap


class Numpy:
    """The elementary functions of the losses; one loss text serves numpy, jax and cvxpy."""

    square, multiply, exp = np.square, np.multiply, np.exp
    logistic = staticmethod(lambda t: np.logaddexp(0.0, t))


class Jax:
    square, multiply, exp = jnp.square, jnp.multiply, jnp.exp
    logistic = staticmethod(jax.nn.softplus)


class Cvxpy:
    square, multiply, exp, logistic = cp.square, cp.multiply, cp.exp, cp.logistic


def bilinear_loss(on: Any, x: Any, y: Any, e: Any) -> Any:
    return on.multiply(e["a"] @ x - e["b"], e["c"] @ y)


def least_squares(on: Any, x: Any, y: Any, e: Any) -> Any:
    fit, weight = e["a"] @ x, e["c"] @ y
    return on.square(fit - e["b"]) / 2 + on.multiply(fit, weight) - 0.4 * on.square(weight)


def logistic(on: Any, x: Any, y: Any, e: Any) -> Any:
    fit, weight = e["a"] @ x, e["c"] @ y
    return on.logistic(-on.multiply(e["b"], fit)) + 0.5 * on.multiply(fit, weight) - 0.2 * on.square(weight)


def exponential(on: Any, x: Any, y: Any, e: Any) -> Any:
    fit, weight = e["a"] @ x, e["c"] @ y
    return on.exp(0.5 * fit) + on.multiply(fit, weight) - on.exp(0.3 * weight)


def agnostic(on: Any, x: Any, y: Any, e: Any) -> Any:
    """Mixtures y of groups, weighing the losses of their examples; needs y >= 0."""
    return on.multiply(e["group"] @ y, on.logistic(-on.multiply(e["b"], e["a"] @ x)))


MIXTURE = [0.2, 0.5, 0.3]
X_SIDES = [
    row("l1 + l2 ball", 4, l1(0.1), ball2(1.5)),
    row("l1 + box", 4, l1(0.2), box(LOW, HIGH), points=corners(LOW, HIGH, (4,))),
    row("elastic net + inf ball", 4, elastic(0.1, 0.5), ball_inf(1.0), points=corners(-1.0, 1.0, (4,))),
    row("l1 + l1 ball", 4, l1(0.1), ball1(2.0), points=cross(2.0, (4,))),
    row("squared l2", 4, squared(0.8)),
    row("linear + simplex", 4, linear(C4), simplex(2.0), points=units(2.0, (4,))),
    row("group l2 + l2 ball", 4, group(0.2, [0, 1, 1, 0]), ball2(1.0)),
]
Y_SIDES = [
    row("simplex", 3, simplex(), points=units(1.0, (3,))),
    row("capped simplex", 3, capped(0.45), points=mixtures(0.45, 3)),
    row("squared l2 + simplex", 3, squared(0.5), simplex(), points=units(1.0, (3,))),
    row("entropic: kl", 3, ON_SIMPLEX, kl(0.5, MIXTURE), points=units(1.0, (3,))),
    row("entropic: none", 3, ON_SIMPLEX, points=units(1.0, (3,))),
    row("entropic: linear + cap", 3, ON_SIMPLEX, linear(C4[:3]), capped(0.6), points=mixtures(0.6, 3)),
    row("kl", 3, kl(0.5, MIXTURE)),
    # The first seven lie in the orthant, as `agnostic` asks for.
    row("l1 + inf ball", 3, l1(0.2), ball_inf(1.0), points=corners(-1.0, 1.0, (3,))),
    row("l2 ball", 3, ball2(1.2)),
    row("squared l2", 3, squared(0.6)),
    row("box", 3, box(LOW[:3], HIGH[:3]), points=corners(LOW[:3], HIGH[:3], (3,))),
]
LOSSES = [bilinear_loss, least_squares, logistic, exponential, agnostic]


def given(row: Row) -> Any:
    return entropic(row)[0] if row.name.startswith("entropic") else row.psi


def clients(rng: np.random.Generator) -> list[dict[str, np.ndarray]]:
    return [
        {
            "a": rng.normal(size=(n, 4)),
            "b": rng.choice([-1.0, 1.0], size=n),
            "c": rng.normal(size=(n, 3)),
            "group": 3 * np.eye(3)[rng.integers(3, size=n)],
        }
        for n in rng.permutation([1, 3, 5])
    ]


def weighing(kind: int, data: list[Any], rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """What is passed as weights=, and the p it should mean."""
    counts = np.array([len(e["b"]) for e in data])
    array = rng.uniform(0.5, 3.0, size=len(data))
    return [
        ("clients", np.full(len(data), 1 / len(data))),
        ("samples", counts / counts.sum()),
        (array, array / array.sum()),
    ][kind % 3]


def slopes(f: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    step = 1e-5
    return np.array([(f(at + step * e) - f(at - step * e)) / (2 * step) for e in np.eye(len(at))])


@pytest.mark.parametrize("seed", range(25))
def test_certificate_is_its_definition_and_bounds_the_true_gap(seed: int) -> None:
    rng = np.random.default_rng([10, seed])
    loss = LOSSES[seed % 5]
    x_side = X_SIDES[seed % 7]
    y_side = Y_SIDES[seed % 7] if loss is agnostic else Y_SIDES[seed % 11]
    data = clients(rng)
    weights, p = weighing(seed, data, rng)
    problem = fx.Problem(
        functools.partial(loss, Jax),
        x=given(x_side),
        y=given(y_side),
        like=fx.Saddle(np.zeros(4), np.zeros(3)),
        data=data,
        weights=weights,
    )

    def f(on: Any, x: Any, y: Any) -> Any:
        total = np.sum if on is Numpy else cp.sum
        return sum(p_m * total(loss(on, x, y, e)) / len(e["b"]) for p_m, e in zip(p, data, strict=True))

    for scale in (0.5, 3.0):
        z = problem.project(fx.Saddle(scale * rng.normal(size=4), scale * rng.normal(size=3)))
        assert z.x.dtype == z.y.dtype == np.float64
        psi_x, psi_y = x_side.value(z.x), y_side.value(z.y)
        phi = float(f(Numpy, z.x, z.y)) + psi_x - psi_y
        assert problem.objective(z) == pytest.approx(phi, rel=1e-12, abs=1e-12)

        x, y = cp.Variable(4), cp.Variable(3)
        penalty_x, x_in_domain = x_side.cvx(x)
        penalty_y, y_in_domain = y_side.cvx(y)
        upper = solve(cp.Problem(cp.Maximize(f(Cvxpy, z.x, y) - penalty_y), y_in_domain)) + psi_x
        lower = solve(cp.Problem(cp.Minimize(f(Cvxpy, x, z.y) + penalty_x), x_in_domain)) - psi_y
        certificate = problem.certificate(z)
        assert certificate.gap >= upper - lower - 1e-7 * (1 + abs(upper) + abs(lower))
        if loss is bilinear_loss:
            assert certificate.gap == pytest.approx(upper - lower, rel=1e-7, abs=1e-7)

        g_x = slopes(lambda x, y=z.y: float(f(Numpy, x, y)), z.x)
        g_y = -slopes(lambda y, x=z.x: float(f(Numpy, x, y)), z.y)
        x_part = float(g_x @ z.x) + psi_x + x_side.conjugate(-g_x)
        y_part = float(g_y @ z.y) + psi_y + y_side.conjugate(-g_y)
        assert certificate.x == pytest.approx(x_part, rel=1e-6, abs=1e-6)
        assert certificate.y == pytest.approx(y_part, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_certificate_of_plain_minimization(seed: int) -> None:
    rng = np.random.default_rng([11, seed])
    loss, side, data = (least_squares, logistic)[seed % 2], X_SIDES[seed % 7], clients(rng)
    weights, p = weighing(seed, data, rng)
    still = np.zeros(3)  # y = 0 leaves the part of the loss that is convex in x
    problem = fx.Problem(
        lambda x, e: loss(Jax, x, still, e),
        x=given(side),
        like=fx.Saddle(np.zeros(4)),
        data=data,
        weights=weights,
    )

    def f(on: Any, x: Any) -> Any:
        total = np.sum if on is Numpy else cp.sum
        return sum(p_m * total(loss(on, x, still, e)) / len(e["b"]) for p_m, e in zip(p, data, strict=True))

    x = cp.Variable(4)
    penalty, constraints = side.cvx(x)
    best = solve(cp.Problem(cp.Minimize(f(Cvxpy, x) + penalty), constraints))
    for start in (rng.normal(size=4), 5 * rng.normal(size=4), x.value):
        z = problem.project(fx.Saddle(start))
        phi = float(f(Numpy, z.x)) + side.value(z.x)
        assert problem.objective(z) == pytest.approx(phi, rel=1e-12, abs=1e-12)
        assert problem.certificate(z).gap >= phi - best - 1e-8 * (1 + abs(phi))
    assert problem.certificate(z).gap <= 1e-3  # at the solver's own minimizer the bound closes


@pytest.mark.parametrize("seed", range(4))
def test_certificate_of_a_pytree(seed: int) -> None:
    """x = {weights, bias} with a regularizer each, y a mixture of three groups."""
    rng = np.random.default_rng([12, seed])
    data = clients(rng)
    w_side, b_side, y_side = (
        X_SIDES[0],
        row("bias", 1, ball_inf(0.7), points=corners(-0.7, 0.7, (1,))),
        Y_SIDES[3],
    )
    problem = fx.Problem(
        lambda x, y, e: Jax.logistic(-e["b"] * (e["a"] @ x["w"] + x["b"][0])) * (e["group"] @ y),
        x={"w": given(w_side), "b": given(b_side)},
        y=given(y_side),
        like=fx.Saddle({"w": np.zeros(4), "b": np.zeros(1)}, np.zeros(3)),
        data=data,
        weights="samples",
    )
    a, b, groups = (np.concatenate([e[key] for e in data]) for key in ("a", "b", "group"))
    start = {"w": rng.normal(size=4), "b": rng.normal(size=1)}
    z = problem.project(fx.Saddle(start, rng.normal(size=3)))
    w, bias, y = cp.Variable(4), cp.Variable(1), cp.Variable(3)
    (penalty, in_w), (_, in_b), (penalty_y, in_y) = w_side.cvx(w), b_side.cvx(bias), y_side.cvx(y)
    losses = np.logaddexp(0.0, -b * (a @ z.x["w"] + z.x["b"]))
    by_group = losses @ groups / len(b)
    upper = solve(cp.Problem(cp.Maximize(by_group @ y - penalty_y), in_y)) + w_side.value(z.x["w"])
    mixed = (groups @ z.y) @ cp.logistic(-cp.multiply(b, a @ w + bias)) / len(b)
    lower = solve(cp.Problem(cp.Minimize(mixed + penalty), in_w + in_b)) - y_side.value(z.y)
    phi = float(by_group @ z.y) + w_side.value(z.x["w"]) - y_side.value(z.y)
    assert problem.objective(z) == pytest.approx(phi, rel=1e-12)
    assert problem.certificate(z).gap >= upper - lower - 1e-8


@pytest.mark.parametrize("psi", [fx.L1(0.3), fx.NonNegative(), fx.Zero()], ids=str)
def test_no_number_where_the_conjugate_is_not_finite(psi: Any) -> None:
    problem = fx.Problem(lambda x: jnp.sum((x - 1.0) ** 2), x=psi, like=fx.Saddle(np.zeros(4)))
    certificate = problem.certificate(problem.project(fx.Saddle(np.ones(4))))
    assert certificate.gap is None
    assert certificate.reason


# ------------------------------------------------------------------------- 5. exact answers of bilinear games

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
