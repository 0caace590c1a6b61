"""A whole path of squares with l1 from sums: the points of scikit-learn, with gaps that hold, where columns are hard too."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, Lasso

from fedualex.model_problem.lasso import Squares, solve_lasso_path


def squares_of(X, y, l2=0.0, intercept=True, error=0.0):
    """Half the mean square of y - X w - b, the bias first."""
    rows = np.concatenate([np.ones((len(X), int(intercept))), X], axis=1)
    second = rows.T @ rows / len(y)
    own = slice(int(intercept), rows.shape[1])
    second[own, own] += l2 * np.eye(X.shape[1])
    return Squares(float(y @ y) / 2 / len(y), -rows.T @ y / len(y), second, 0.0, own, len(y) + 64, error)


def made(rows, columns, seed=0, twins=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns)) @ (np.eye(columns) + 0.3 * rng.normal(size=(columns, columns)))
    if twins:
        X[:, 1], X[:, 2] = X[:, 0], -X[:, 0]
    return X, X[:, :4].sum(axis=1) + rng.normal(size=rows) + 3


def strengths_of(X, y, share=1e-2):
    largest = np.max(np.abs((X - X.mean(axis=0)).T @ (y - y.mean()))) / len(y)
    return largest * share ** (np.arange(12) / 11)


def penalized(X, y, z, l1, l2=0.0):
    return np.mean((y - X @ z[1:] - z[0]) ** 2) / 2 + l1 * np.abs(z[1:]).sum() + l2 / 2 * np.sum(z[1:] ** 2)


@pytest.mark.parametrize("shape", [(200, 12), (40, 30), (25, 40), (60, 60)])
def test_points_are_those_of_coordinate_descent(shape):
    X, y = made(*shape)
    strengths = strengths_of(X, y)
    found = solve_lasso_path(squares_of(X, y), strengths)
    assert max(found.gaps) <= 1e-9
    for l1, z, value in zip(strengths, found.points, found.values, strict=True):
        model = Lasso(alpha=l1, tol=1e-13, max_iter=10**6).fit(X, y)
        other = np.append(model.intercept_, model.coef_)
        assert penalized(X, y, z, l1) <= penalized(X, y, other, l1) + 1e-10
        assert value == pytest.approx(penalized(X, y, z, l1), abs=1e-9)


def test_a_ridge_beside_it():
    X, y = made(80, 6)
    strengths, l2 = strengths_of(X, y), 0.3
    found = solve_lasso_path(squares_of(X, y, l2), strengths)
    for l1, z in zip(strengths, found.points, strict=True):
        model = ElasticNet(alpha=l1 + l2, l1_ratio=l1 / (l1 + l2), tol=1e-13, max_iter=10**6).fit(X, y)
        np.testing.assert_allclose(z[1:], model.coef_, atol=1e-7)


def test_equal_columns_have_a_path_too():
    X, y = made(60, 8, twins=True)
    found = solve_lasso_path(squares_of(X, y), strengths_of(X, y))
    for l1, z, gap in zip(strengths_of(X, y), found.points, found.gaps, strict=True):
        model = Lasso(alpha=l1, tol=1e-13, max_iter=10**6).fit(X, y)
        assert penalized(X, y, z, l1) <= penalized(X, y, np.append(model.intercept_, model.coef_), l1) + gap
    assert max(found.gaps) <= 1e-6 * np.var(y)


def test_without_a_best_value_of_the_free_entries_there_is_no_path():
    X, y = made(20, 3)
    squares = squares_of(X, y)
    squares.second[0] = squares.second[:, 0] = 0.0
    assert solve_lasso_path(squares, [0.1]) is None


@pytest.mark.parametrize("seed", range(5))
def test_no_gap_is_below_the_exact_one(seed):
    """Of whole numbers of which sums are exact, at points that float64 rounds: the exact gap by rational numbers."""
    rng = np.random.default_rng(seed)
    X, y = rng.integers(-9, 10, (32, 3)).astype(float), rng.integers(-9, 10, 32).astype(float)
    squares = squares_of(X, y, intercept=False)
    for l1 in (8.0, 1.0, 0.125):
        found = solve_lasso_path(squares, [l1])
        exact = exact_least(X, y, l1)
        value = exact_value(X, y, l1, [Fraction(float(entry)) for entry in found.points[0]])
        assert value - exact <= Fraction(float(found.gaps[0]))
        assert value <= Fraction(float(found.values[0]))


def exact_value(X, y, l1, w):
    rows = [[Fraction(float(entry)) for entry in row] for row in X]
    errors = [
        sum(a * b for a, b in zip(row, w, strict=True)) - Fraction(float(t)) for row, t in zip(rows, y, strict=True)
    ]
    return sum(e * e for e in errors) / (2 * len(y)) + Fraction(l1) * sum(map(abs, w))


def exact_least(X, y, l1):
    """The least value, over all signs of the three weights, by Cramer's rule."""
    count, best = len(y), None
    second = [[Fraction(int(X[:, i] @ X[:, j]), count) for j in range(3)] for i in range(3)]
    slope = [Fraction(-int(X[:, i] @ y), count) for i in range(3)]
    for number in range(27):
        signs = [number // 3**i % 3 - 1 for i in range(3)]
        active = [i for i in range(3) if signs[i]]
        w = [Fraction(0)] * 3
        solution = solve_exactly(
            [[second[i][j] for j in active] for i in active], [-(slope[i] + Fraction(l1) * signs[i]) for i in active]
        )
        for i, entry in zip(active, solution, strict=True):
            w[i] = entry
        value = exact_value(X, y, l1, w)
        best = value if best is None else min(best, value)
    return best


def solve_exactly(matrix, right):
    rows = [[*row, last] for row, last in zip(matrix, right, strict=True)]
    for i in range(len(rows)):
        pivot = next(k for k in range(i, len(rows)) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [entry / rows[i][i] for entry in rows[i]]
        for k in range(len(rows)):
            if k != i:
                rows[k] = [a - rows[k][i] * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]
