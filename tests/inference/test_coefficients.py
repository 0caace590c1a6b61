"""Bounds, zeros and signs of penalized coefficients: no false claim beside exact solutions."""

import mpmath
import numpy as np
import pytest
from support.effects import draw_rows, draw_target, family_named

from fedualex.inference.coefficients import Point, bound_coefficients

SEEDS = [range(10), pytest.param(range(10, 125), marks=pytest.mark.slow)]
SMOOTH = {"logistic": 0.25, "squared": 1.0, "poisson": np.inf, "huber": 1.0}


class Penalized:
    """A mean of losses with an intercept, l1 and l2, solved by proximal Newton steps to rounding."""

    def __init__(self, name, rng, rows, columns, correlation, l1, l2):
        X = draw_rows(rng, rows, columns, correlation)
        truth = rng.normal(size=columns) * (rng.random(columns) < 0.4)
        self.name, self.family, self.X = name, family_named(name), np.column_stack([np.ones(rows), X])
        self.target = draw_target(rng, name, 0.5 * X @ truth - 0.2)
        self.l1, self.l2 = np.full(columns + 1, l1), np.full(columns + 1, l2)
        self.l1[0] = self.l2[0] = 0.0

    def slope(self, w):
        return self.X.T @ self.family.slope(self.X @ w, self.target) / len(self.X)

    def second(self, w):
        bend = self.family.second(self.X @ w, self.target)
        return self.X.T @ (bend[:, None] * self.X) / len(self.X)

    def objective(self, w):
        return np.mean(self.family.loss(self.X @ w, self.target)) + self.l1 @ np.abs(w) + self.l2 @ w**2 / 2

    def newton_step(self, w, sweeps=400):
        """The minimum of the quadratic model with the penalties, by coordinate descent, with steps halved."""
        slope, second = self.slope(w), self.second(w) + 1e-9 * np.eye(len(w))
        n = w.copy()
        for _ in range(sweeps):
            old = n.copy()
            for j in range(len(w)):
                pull = slope[j] + second[j] @ (n - w) - second[j, j] * n[j]
                n[j] = -np.sign(pull) * max(abs(pull) - self.l1[j], 0.0) / (second[j, j] + self.l2[j])
            if np.max(np.abs(n - old)) < 1e-16:
                break
        share = 1.0
        while self.objective(w + share * (n - w)) > self.objective(w) + 1e-15 and share > 1e-4:
            share /= 2
        return w + share * (n - w) if share < 1 else n

    def iterates(self, steps=30):
        """From 0, the last of them the solution to rounding."""
        points = [np.zeros(self.X.shape[1])]
        for _ in range(steps):
            points.append(self.newton_step(points[-1]))
            if np.max(np.abs(points[-1] - points[-2])) < 1e-15:
                break
        return points

    def point(self, w, gap):
        constant = {"squared": 0.0, "huber": np.inf}.get(self.name, np.max(np.linalg.norm(self.X, axis=1)))
        rounding = np.full(len(w), 1e-15)
        squares = np.mean(self.X**2, axis=0)
        return Point(w, self.slope(w), self.second(w), rounding, gap, squares, SMOOTH[self.name], constant)


def drawn(name, seed, rows=60, columns=12):
    rng = np.random.default_rng(seed)
    l1, l2 = rng.choice([0.01, 0.05, 0.1]), rng.choice([0.0, 0.01, 0.1])
    wide = seed % 5 == 0 and l2 == 0
    return Penalized(name, rng, 10 if wide and name != "poisson" else rows, columns, rng.choice([0.0, 0.8]), l1, l2)


def check(problem, points, solution, claims):
    least = problem.objective(solution)
    nonzero = np.abs(solution) > 1e-9
    unique = np.linalg.eigvalsh(problem.second(solution)[np.ix_(nonzero, nonzero)] + 1e-300)[0] > 1e-6
    for w in points:
        gap = max(problem.objective(w) - least, 0.0) + 1e-14
        proved = bound_coefficients(problem.point(w, gap), problem.l1, problem.l2)
        assert not np.any(proved.zero & nonzero)
        if unique:
            assert np.all(np.abs(w - solution) <= proved.bounds + 1e-9)
            assert np.all((proved.sign == 0) | (proved.sign == np.sign(solution)) & nonzero)
        claims += [proved.zero.sum(), np.sum(proved.sign != 0), np.sum(np.isfinite(proved.bounds))]


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("name", SMOOTH)
def test_no_false_claim(name, seeds):
    """Of 125 random problems of each family, at every iterate of a proximal Newton method."""
    claims = np.zeros(3, int)
    for seed in seeds:
        problem = drawn(name, seed)
        *points, solution = problem.iterates()
        check(problem, [*points, solution], solution, claims)
    assert np.all(claims[: 1 if name == "huber" else 3] > 4 * len(seeds))


@pytest.mark.parametrize("name", ["logistic", "squared", "poisson"])
def test_at_the_solution_all_is_proved(name):
    """What is not zero has a sign, and what is zero is proved to be so, but for slopes within rounding of l1."""
    open_ones = 0
    for seed in range(1, 20):
        problem = drawn(name, seed, rows=120, columns=6)
        solution = problem.iterates()[-1]
        proved = bound_coefficients(problem.point(solution, 1e-15), problem.l1, problem.l2)
        open_ones += np.sum(~proved.zero & (proved.sign == 0))
        assert np.max(proved.bounds) < 1e-6
    assert open_ones <= 1


def exact_solution(problem, start):
    """By Newton's method of 50 digits on the support, after which the conditions of optimality are checked."""
    mp = mpmath.mp
    support = np.flatnonzero(start)
    X = mpmath.matrix(problem.X[:, support].tolist())
    y, signs = mpmath.matrix(problem.target.tolist()), np.sign(start[support])
    l1, l2 = (mpmath.matrix(part[support].tolist()) for part in (problem.l1, problem.l2))
    w = mpmath.matrix(start[support].tolist())
    rows = len(problem.X)
    for _ in range(8):
        share = [1 / (1 + mp.exp(y[i] * sum(X[i, j] * w[j] for j in range(len(w))))) for i in range(rows)]
        slope = mpmath.matrix(
            [
                sum(-y[i] * share[i] * X[i, j] for i in range(rows)) / rows + l1[j] * int(signs[j]) + l2[j] * w[j]
                for j in range(len(w))
            ]
        )
        second = mpmath.matrix(len(w), len(w))
        for j in range(len(w)):
            for k in range(len(w)):
                second[j, k] = sum(X[i, j] * X[i, k] * share[i] * (1 - share[i]) for i in range(rows)) / rows
            second[j, j] += l2[j]
        w = w - mpmath.lu_solve(second, slope)
    assert max(abs(entry) for entry in slope) < mp.mpf(10) ** -40
    for j in range(problem.X.shape[1]):
        if j not in support:
            pull = sum(-y[i] * share[i] * mp.mpf(problem.X[i, j]) for i in range(rows)) / rows
            assert abs(pull) < problem.l1[j]
    assert all(w[j] * int(signs[j]) > 0 for j in range(len(w)))
    return support, w


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_false_claim_beside_fifty_digits(seed):
    with mpmath.workdps(50):
        problem = drawn("logistic", seed, rows=40, columns=5)
        points = problem.iterates()
        support, exact = exact_solution(problem, points[-1])
        whole = [mpmath.mpf(0)] * problem.X.shape[1]
        for j, value in zip(support, exact, strict=True):
            whole[j] = value
        least = problem.objective(points[-1]) - 1e-13
        for w in points:
            gap = problem.objective(w) - least
            proved = bound_coefficients(problem.point(w, gap), problem.l1, problem.l2)
            for j, value in enumerate(whole):
                assert abs(mpmath.mpf(w[j]) - value) <= proved.bounds[j]
                assert not proved.zero[j] or value == 0
                assert proved.sign[j] in (0, int(mpmath.sign(value)))
