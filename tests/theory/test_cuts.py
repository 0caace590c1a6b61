"""Certificates from surveys: weights for the two players apart, against best responses found by a solver."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

N, RIDGE = 3, (0.2, 0.5)
RNG = np.random.default_rng(0)
A, B, Q, E = RNG.normal(size=(N, N)), RNG.normal(size=(4, N)), RNG.normal(size=(N, N)), RNG.normal(size=N)


def f(x, y):
    """Convex in x and concave in y, and linear in neither."""
    return np.logaddexp(0, B @ x).sum() + x @ A @ y - np.sum((Q @ y) ** 4) / 4 + E @ y


def grads(x, y):
    gx = B.T @ (1 / (1 + np.exp(-B @ x))) + A @ y
    return gx, -(A.T @ x - Q.T @ (Q @ y) ** 3 + E)


def psi(k, v):
    return RIDGE[k] / 2 * v @ v


def conjugate(k, s):
    """Of RIDGE/2 |.|^2 on the box [-1, 1]."""
    v = np.clip(s / RIDGE[k], -1, 1)
    return s @ v - psi(k, v)


def surveys(count, seed):
    rng = np.random.default_rng(seed)
    points = [(rng.uniform(-1, 1, N), rng.uniform(-1, 1, N)) for _ in range(count)]
    return [(x, y, *grads(x, y), f(x, y)) for x, y in points]


def mean(weights, cuts, k):
    return sum(w * cut[k] for w, cut in zip(weights, cuts, strict=True))


def upper(mu, cuts):
    values = sum(w * (v + gy @ y) for w, (_, y, _, gy, v) in zip(mu, cuts, strict=True))
    return values + psi(0, mean(mu, cuts, 0)) + conjugate(1, -mean(mu, cuts, 3))


def lower(lam, cuts):
    values = sum(w * (v - gx @ x) for w, (x, _, gx, _, v) in zip(lam, cuts, strict=True))
    return values - conjugate(0, -mean(lam, cuts, 2)) - psi(1, mean(lam, cuts, 1))


def least(function, gradient):
    result = minimize(function, np.zeros(N), jac=gradient, bounds=[(-1, 1)] * N, options={"ftol": 1e-15, "gtol": 1e-12})
    return result.fun


def P(x):
    def loss(y):
        return -(f(x, y) + psi(0, x) - psi(1, y))

    return -least(loss, lambda y: grads(x, y)[1] + RIDGE[1] * y)


def D(y):
    def loss(x):
        return f(x, y) + psi(0, x) - psi(1, y)

    return least(loss, lambda x: grads(x, y)[0] + RIDGE[0] * x)


@pytest.mark.parametrize("seed", range(5))
def test_both_players_have_weights_of_their_own(seed):
    cuts, rng = surveys(4, seed), np.random.default_rng(100 + seed)
    for _ in range(5):
        mu, lam = rng.dirichlet(np.full(4, 0.5)), rng.dirichlet(np.full(4, 0.5))
        assert P(mean(mu, cuts, 0)) <= upper(mu, cuts) + 1e-7
        assert D(mean(lam, cuts, 1)) >= lower(lam, cuts) - 1e-7


def test_equal_weights_are_at_most_the_certificate_of_a_mean():
    cuts = surveys(4, 9)
    weights = np.random.default_rng(1).dirichlet(np.ones(4))
    gap = upper(weights, cuts) - lower(weights, cuts)
    linear = sum(w * (gx @ x + gy @ y) for w, (x, y, gx, gy, _) in zip(weights, cuts, strict=True))
    rest = conjugate(0, -mean(weights, cuts, 2)) + conjugate(1, -mean(weights, cuts, 3))
    own = sum(w * (psi(0, x) + psi(1, y)) for w, (x, y, *_) in zip(weights, cuts, strict=True))
    point = psi(0, mean(weights, cuts, 0)) + psi(1, mean(weights, cuts, 1))
    assert gap == pytest.approx(linear + rest + point, rel=1e-12)
    assert gap < linear + rest + own
    true = P(mean(weights, cuts, 0)) - D(mean(weights, cuts, 1))
    assert true <= gap + 1e-7


def test_one_survey_is_its_own_certificate():
    x, y, gx, gy, value = surveys(1, 3)[0]
    fenchel = gx @ x + psi(0, x) + conjugate(0, -gx) + gy @ y + psi(1, y) + conjugate(1, -gy)
    cuts = [(x, y, gx, gy, value)]
    assert upper([1.0], cuts) - lower([1.0], cuts) == pytest.approx(fenchel, rel=1e-12)


def test_a_known_bound_is_a_cut():
    """f(., y0) >= v: here for y0 = 0, where f is a sum of softplus, so v = 0."""
    cuts = surveys(3, 5)
    known = (np.zeros(N), np.zeros(N), np.zeros(N), np.zeros(N), 0.0)
    for seed in range(5):
        lam = np.random.default_rng(seed).dirichlet(np.ones(4))
        assert D(mean(lam, [*cuts, known], 1)) >= lower(lam, [*cuts, known]) - 1e-7


def test_the_best_lower_bound_is_the_bundle_model():
    """psi_2 = 0, psi_1 = the box: max_lam L(lam) = min_x max(v, max_i cut_i(x)), whose dual weights attain it."""
    cuts = surveys(5, 2)
    rows = [(gx, v - gx @ x) for x, _, gx, _, v in cuts] + [(np.zeros(N), 0.0)]
    matrix = np.array([[*g, -1.0] for g, _ in rows])
    solution = linprog([0] * N + [1], A_ub=matrix, b_ub=[-v for _, v in rows], bounds=[(-1, 1)] * N + [(None, None)])
    lam = -solution.ineqlin.marginals
    assert lam.sum() == pytest.approx(1)
    value = sum(w * v for w, (_, v) in zip(lam, rows, strict=True))
    value -= np.abs(sum(w * g for w, (g, _) in zip(lam, rows, strict=True))).sum()
    assert value == pytest.approx(solution.fun)


# --- plain minimization: the classical gap of a scaled dual point -----------------------------------------------------


def entropy(p):
    return -sum(q * np.log(np.maximum(q, 1e-300)) for q in (p, 1 - p))


@pytest.mark.parametrize("seed", range(3))
def test_the_classical_dual_value_is_never_below_and_at_most_an_entropy_above(seed):
    """Mean logistic loss F(Xx) with l1: D(s grad F) = mean H(s p), and the cuts (s, 1-s) give s mean H(p)."""
    rng = np.random.default_rng(seed)
    X, x = rng.normal(size=(20, N)), rng.normal(size=N)
    p = 1 / (1 + np.exp(X @ x))
    value, g = np.logaddexp(0, -X @ x).mean(), -X.T @ p / 20
    assert value - g @ x == pytest.approx(entropy(p).mean())
    for s in rng.uniform(size=10):
        ours, classical = s * (value - g @ x), entropy(s * p).mean()
        assert ours <= classical <= ours + entropy(s)


def test_the_classical_gap_may_be_smaller_by_any_factor():
    """At x = 0 with lam = s |g|_inf the classical gap is log 2 - H(s/2) < (1-s)^2 log 2, ours (1-s) log 2."""
    for s in (0.9, 0.99, 0.999):
        classical, ours = np.log(2) - entropy(s / 2), (1 - s) * np.log(2)
        assert classical <= (1 - s) ** 2 * np.log(2)
        assert ours / classical >= 1 / (1 - s)
        assert ours / classical == pytest.approx(2 * np.log(2) / (1 - s), rel=(1 - s) ** 2)


def test_of_all_bounds_from_surveys_alone_it_is_the_best():
    """The largest of the cuts and the known bound is itself a convex function with the same surveys."""
    rng = np.random.default_rng(1)
    X, points = rng.normal(size=(20, N)), rng.normal(size=(4, N))
    cuts = [(np.logaddexp(0, -X @ x).mean(), -X.T @ (1 / (1 + np.exp(X @ x))) / 20, x) for x in points]

    def model(x):
        return max(0.0, *(v + g @ (x - at) for v, g, at in cuts))

    assert [model(x) for x in points] == pytest.approx([v for v, _, _ in cuts])
