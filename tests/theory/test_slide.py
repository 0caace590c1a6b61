"""FeDualSlide's theory: its identity, its bound at every round, its step, and where the method without a pull fails."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from support.sliding import Entropic, Flat, certificate, descend, local_point, rounds

import fedualex as fx
from fedualex import theory, tree
from fedualex.algorithms.dual import extrapolate
from fedualex.compiling import double
from fedualex.geometry import Dual

PARTS = {
    "l1 + box": fx.Euclidean(fx.L1(0.1) + fx.Box(0.5)),
    "entropic": fx.EntropicSimplex(),
    "ball": fx.Euclidean(fx.L2Ball(0.7)),
}
KINDS = ["hilbert", "any"]


def pulled_step(local, pair, rho, eta, oracle, geometry):
    """The local step of FeDualSlide: dual extrapolation from the pair pulled back to the round's."""
    base = jax.tree.map(lambda a, b: (1 - rho) * a + rho * b, local, pair)
    half = base.descend(eta, oracle(geometry.primal(local), 0))
    return base.descend(eta, oracle(geometry.primal(half), 1)), half, eta


def random_pair(rng, tau=1.0):
    return Dual(jnp.asarray(rng.normal(size=5)), jnp.asarray(tau * rng.uniform()))


@pytest.mark.parametrize("name", PARTS)
def test_identity_of_a_pulled_step(name):
    """Lemma 2 (i), for any vectors F and all v in C."""
    geometry, rng = PARTS[name], np.random.default_rng(0)
    with double():
        V = geometry.generalized_divergence
        for _ in range(4):
            pair, local, eta, rho = random_pair(rng), random_pair(rng), rng.uniform(0.1, 2), rng.uniform()
            F = [jnp.asarray(rng.normal(size=5)) for _ in range(2)]
            after, half, _ = pulled_step(local, pair, rho, eta, lambda z, s, F=F: F[s], geometry)
            h, z, v = geometry.primal(half), geometry.primal(after), geometry.project(jnp.asarray(rng.normal(size=5)))
            N = (1 - rho) * V(h, local) + V(z, half) - eta * jnp.vdot(F[1] - F[0], h - z)
            bracket = geometry.psi(h) - geometry.psi(v) + jnp.vdot(F[1], h - v)
            right = (1 - rho) * V(v, local) + rho * V(v, pair) - eta * bracket - N - rho * V(h, pair)
            assert float(V(v, after)) == pytest.approx(float(right), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", PARTS)
def test_without_a_pull_it_is_the_local_step_of_fedualex(name):
    geometry, rng = PARTS[name], np.random.default_rng(1)
    with double():
        A = jnp.asarray(rng.normal(size=(5, 5)))
        pair, local = random_pair(rng), random_pair(rng)
        for ours, theirs in zip(
            pulled_step(local, pair, 0.0, 0.3, lambda z, s: A @ z, geometry),
            extrapolate(local, 0.3, lambda z, s: A @ z, geometry),
            strict=True,
        ):
            assert tree.dot(*[jax.tree.map(lambda a, b: a - b, ours, theirs)] * 2) == 0


def affine_game(seed, clients, n, spread, quadratic):
    """Jacobians J_m and offsets b_m of monotone saddle operators on R^n x R^n, and weights."""
    rng = np.random.default_rng(seed)

    def blocks(scale):
        A, P, Q = (scale * rng.normal(size=(n, n)) for _ in range(3))
        zero = np.zeros((n, n))
        return np.block([[P @ P.T if quadratic else zero, A], [-A.T, Q @ Q.T if quadratic else zero]])

    shared = blocks(1.0)
    J = np.stack([shared + blocks(spread) for _ in range(clients)])
    a = rng.uniform(0.5, 1.5, clients)
    return J, rng.normal(size=(clients, 2 * n)), a / a.sum()


def of_size(beta, B0):
    """Constants of which FeDualSlide's bound uses these two."""
    return theory.Constants(beta=float(beta), sigma=0.0, grad_bound=0.0, B=float(B0), B0=float(B0), diameter=1.0)


def check_rounds(geometry, J, b, a, z0, beta, delta, reference, norm, sigma, K, recenter, R=12):
    B0 = geometry.B(z0)
    bound = theory.slide(of_size(beta, B0), delta, local_steps=K, rounds=R, reference=reference, norm=norm, sigma=sigma)
    T, cuts, errors = bound.best_step, [], 0.0
    for u, g, error in rounds(geometry, J, b, a, z0, bound, T, R, K, reference == "optimistic", recenter):
        cuts.append((u, g))
        errors = errors + error if reference == "optimistic" else error
        assert errors <= 1e-12 * max(1, B0)
        value = certificate(geometry, cuts, np.ones(len(cuts)))
        assert -1e-12 <= value <= B0 / (T * len(cuts)) * (1 + 1e-12)
    assert bound.total(T) == pytest.approx(B0 / (T * R))
    assert bound.total(T) <= sum(bound.rate.values()) * (1 + 1e-12)


@pytest.mark.parametrize("reference", ["fresh", "optimistic"])
@pytest.mark.parametrize("quadratic", [False, True], ids=["bilinear", "quadratic"])
def test_theorem_2_at_every_round(reference, quadratic):
    for seed, (K, spread) in enumerate([(1, 0.1), (2, 0.5), (5, 0.02), (10, 0.1), (30, 0.3)]):
        J, b, a = affine_game(seed, 3, 3, spread, quadratic)
        D = J - np.tensordot(a, J, 1)
        beta = max(np.linalg.norm(j, 2) for j in J)
        delta = np.linalg.eigvalsh(sum(w * d.T @ d for w, d in zip(a, D, strict=True)))[-1] ** 0.5
        z0 = np.random.default_rng(seed).uniform(-1, 1, 6)
        for sigma, recenter in [(None, False), (0.5, True)]:
            for scale in (1.0, 2.0):  # a Lipschitz constant may be an upper bound: then the step is smaller
                check_rounds(Flat(), J, b, a, z0, scale * beta, scale * delta, reference, "hilbert", sigma, K, recenter)


@pytest.mark.parametrize("reference", ["fresh", "optimistic"])
def test_theorem_2_in_the_entropic_norm(reference):
    for seed, (K, spread) in enumerate([(1, 0.1), (4, 0.5), (20, 0.05)]):
        J, b, a = affine_game(seed, 3, 3, spread, False)
        D = J - np.tensordot(a, J, 1)
        beta, delta = np.abs(J).max(), (a @ np.abs(D).max((1, 2)) ** 2) ** 0.5
        z0 = Entropic().P((np.random.default_rng(seed).normal(size=6), 0.0))
        for sigma in (None, 0.5):
            check_rounds(Entropic(), J, b, a, z0, beta, delta, reference, "any", sigma, K, False)


def test_theorem_2_on_many_tiny_games():
    """The proved limits of gamma delta are never exceeded by Err > 0, with sigma from almost 0 to almost 1."""
    rng = np.random.default_rng(5)
    for seed in range(40):
        J, b, a = affine_game(seed, 2, 1, rng.choice([0.3, 1.0, 3.0]), bool(seed % 2))
        D = J - np.tensordot(a, J, 1)
        beta = max(np.linalg.norm(j, 2) for j in J)
        delta = np.linalg.eigvalsh(sum(w * d.T @ d for w, d in zip(a, D, strict=True)))[-1] ** 0.5
        sigma, K = rng.choice([0.05, 0.5, 0.95]), int(rng.choice([1, 3, 40]))
        for reference in ("fresh", "optimistic"):
            check_rounds(Flat(0.0), J, b, a, rng.uniform(-1, 1, 2), beta, delta, reference, "hilbert", sigma, K, False)


def test_theorem_4_with_memory():
    """Cert(c) <= a + (B_c - a sum gamma)/S at every round, with weights improved by a descent method."""
    geometry = Flat()
    J, b, weights = affine_game(3, 3, 3, 0.3, True)
    G, offset = np.tensordot(weights, J, 1), weights @ b
    T = 1 / np.linalg.norm(G, 2)  # at which Err(T) <= 0, whatever the state
    center, level, cuts, c, mass = (np.zeros(6), 0.0), 0.05, [], np.zeros(0), 0.0

    def state(c):
        return (center[0] - sum((w * g for w, (_, g) in zip(c, cuts, strict=True)), np.zeros(6)), center[1] + sum(c))

    def Q(c):
        values = np.array([g @ u + geometry.psi(u) for u, g in cuts])
        return geometry.pot(state(c)) - geometry.pot(center) + c @ values - level * sum(c)

    for _ in range(15):
        if len(c):
            better = minimize(Q, c, bounds=[(0, None)] * len(c), method="L-BFGS-B", options={"maxiter": 5}).x
            c = better if Q(better) <= Q(c) else c
        pair = state(c)
        w = geometry.P(pair)
        u = geometry.P(descend(pair, T, G @ w + offset))
        g = G @ u + offset
        assert geometry.pot(descend(pair, T, g)) - geometry.pot(pair) + T * (g @ u + geometry.psi(u)) <= 1e-12
        cuts, c, mass = [*cuts, (u, g)], np.append(c, T), mass + T
        assert Q(c) <= -level * mass + 1e-12
        value, S = certificate(geometry, cuts, c), c.sum()
        assert value <= level + (geometry.B(center[0]) - level * mass) / S + 1e-12


def test_pulled_steps_approach_the_proximal_point():
    """Lemma 2 (iv): V_{L_k}(u*) falls by 1-rho a step, so that many steps find u* = P(omega - gamma F(u*), gamma)."""
    geometry = Flat()
    J, b, _ = affine_game(0, 1, 3, 0.0, True)
    beta, gamma = np.linalg.norm(J[0], 2), 2.0
    rho = 2 / (1 + np.sqrt(1 + 4 * (gamma * beta) ** 2))
    pair = (np.full(6, 0.2), 0.5)
    u = local_point(geometry, lambda z: J[0] @ z + b[0], pair, rho, rho * gamma, 3000)
    assert u == pytest.approx(geometry.P(descend(pair, gamma, J[0] @ u + b[0])), abs=1e-10)


# --- the functions of the library -----------------------------------------------------------------------------------


def quadratic_problem(weights="clients", **parts):
    J, b, _ = affine_game(7, 4, 2, 0.4, True)
    data = [(j[None], v[None]) for j, v in zip(J, b, strict=True)]

    def f(x, y, example):
        j, v = example
        return x @ j[:2, :2] @ x / 2 - y @ j[2:, 2:] @ y / 2 + x @ j[:2, 2:] @ y + v[:2] @ x - v[2:] @ y

    parts = {"x": fx.L1(0.1) + fx.Box(1.0), "y": fx.L2Ball(1.0)} | parts
    return J, fx.Problem(f, **parts, like=fx.Saddle(np.zeros(2), np.zeros(2)), data=data, weights=weights)


@pytest.mark.parametrize("weights", ["clients", [1, 2, 3, 4]])
def test_similarity_is_an_eigenvalue(weights):
    J, problem = quadratic_problem(weights)
    p = np.full(4, 0.25) if weights == "clients" else np.array(weights) / 10
    D = J - np.tensordot(p, J, 1)
    found = theory.similarity(problem)
    assert found.how == "exact"
    assert found.delta == pytest.approx(
        np.linalg.eigvalsh(sum(w * d.T @ d for w, d in zip(p, D, strict=True)))[-1] ** 0.5
    )


def test_similarity_by_lanczos_iteration(monkeypatch):
    _, problem = quadratic_problem()
    whole = theory.similarity(problem).delta
    monkeypatch.setitem(theory.similarity.__globals__, "SMALL", 0)
    assert theory.similarity(problem).delta == pytest.approx(whole)


def test_similarity_in_the_entropic_norm():
    """Two simplices: the map of the l1 balls; no more than the root mean square of the largest entries."""
    J, problem = quadratic_problem(x=fx.EntropicSimplex(), y=fx.EntropicSimplex())
    D = J - J.mean(0)
    found, rng = theory.similarity(problem, samples=1), np.random.default_rng(0)
    assert found.how == "estimate"

    def norms(v, order):
        return np.hypot(*(np.linalg.norm(part, order, axis=-1) for part in (v[..., :2], v[..., 2:])))

    V = np.concatenate([rng.normal(size=(2000, 4)) * (rng.uniform(size=(2000, 4)) < 0.5), np.eye(4)]) + 1e-9
    seen = np.sqrt(np.mean(norms(np.einsum("mij,vj->mvi", D, V), np.inf) ** 2, axis=0)) / norms(V, 1)
    assert 0.8 * seen.max() <= found.delta
    assert found.delta <= 1.05 * seen.max()


def test_similarity_of_losses_that_are_not_affine():
    rng = np.random.default_rng(4)
    data = [(rng.normal(size=(6, 3)), np.sign(rng.normal(size=6))) for _ in range(3)]
    problem = fx.Problem(
        lambda x, e: jnp.logaddexp(0.0, -e[1] * (e[0] @ x)), x=fx.Box(0.5), like=fx.Saddle(np.zeros(3)), data=data
    )
    found = theory.similarity(problem)
    assert found.how == "estimate"
    hessians = np.stack([X.T @ X / 24 for X, _ in data])  # at 0, the first of the sampled points
    D = hessians - hessians.mean(0)
    least = np.linalg.eigvalsh(np.mean([d @ d for d in D], axis=0))[-1] ** 0.5
    assert least * (1 - 1e-9) <= found.delta <= 2 * least


def test_clients_that_share_f_are_alike():
    game = fx.problems.bilinear(np.eye(2), np.zeros(2), x=fx.Box(1.0), y=fx.Box(1.0))
    assert theory.similarity(game) == theory.Similarity(0.0, "exact")
    c = theory.constants(game)
    bound = theory.slide(c, 0.0, local_steps=7, rounds=5)
    assert (bound.rho, bound.sigma, bound.length) == (0.0, 0.0, 7.0)
    assert bound.total(bound.best_step) == pytest.approx(c.beta * c.B0 / 35)  # Theorem 4, proposition B


def test_the_best_pull_is_the_best():
    c = of_size(3.0, 2.0)
    for reference in ("fresh", "optimistic"):
        for norm in KINDS:
            run = {"local_steps": 6, "rounds": 9, "reference": reference, "norm": norm}
            best = theory.slide(c, 0.4, **run)
            for sigma in np.linspace(0.01, 0.99, 50):
                other = theory.slide(c, 0.4, **run, sigma=sigma)
                assert other.best_step <= best.best_step * (1 + 1e-9)
                assert other.local_step(other.best_step) * c.beta <= np.sqrt(1 - other.rho) * (1 + 1e-12)
            assert best.strong.total(best.best_step) == best.total(best.best_step)
    assert theory.slide(replace(c, beta=0.0), 0.0, local_steps=1, rounds=1).best_step == np.inf


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"delta": -1.0}, "delta must be a finite number >= 0"),
        ({"sigma": 1.0}, "sigma must be a number with 0 < sigma < 1"),
        ({"reference": "old"}, "reference"),
        ({"norm": "l1"}, "norm"),
        ({"local_steps": 0}, "local_steps"),
        ({"constants": 3}, "constants"),
    ],
)
def test_bad_input_is_named(change, said):
    c = of_size(1.0, 1.0)
    run = {"constants": c, "delta": 1.0, "local_steps": 2, "rounds": 3} | change
    with pytest.raises((ValueError, TypeError), match=said):
        theory.slide(run.pop("constants"), run.pop("delta"), **run)


# --- where drift correction without a pull fails ----------------------------------------------------------------------


def factor(slopes, eta, K):
    """mu: one round of FeDualExCorrected multiplies z = x + i y by it on f_m = a_m x y."""
    a = np.asarray(slopes, float)
    E = 1 - 1j * eta * a - (eta * a) ** 2
    terms = np.divide(1 - E**K, a, out=np.full(a.shape, 1j * eta * K), where=a != 0)
    return 1 - a.mean() * terms.mean()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slopes", "T", "K", "diverges"),
    [
        ([2.0, 0.0], 1.8, 10, True),
        ([2.0, 0.0], 1.6, 10, False),
        ([2.1, -0.9, -0.9], 0.21, 10, True),
        ([2.1, -0.9, -0.9], 0.2, 10, False),
        ([2.1, -0.9, -0.9], 0.08, 100, True),
    ],
)
def test_drift_correction_alone_diverges(slopes, T, K, diverges):
    mu, R = factor(slopes, T / K, K), 5
    assert (abs(mu) > 1) == diverges
    problem = fx.Problem(
        lambda x, y, a: a * x[0] * y[0],
        x=fx.Box(1e6),
        y=fx.Box(1e6),
        like=fx.Saddle(np.zeros(1), np.zeros(1)),
        data=[np.array([a]) for a in slopes],
    )
    method, start = fx.FeDualExCorrected(eta_c=T / K), fx.Saddle(np.ones(1), np.full(1, 2.0))
    run = fx.simulate(problem, method, rounds=R, local_steps=K, z0=start, seed=0, convexity="trust")
    last = run.outputs["last"].z
    moved = (last.x[0] + 1j * last.y[0]) / (1 + 2j)
    assert abs(moved) == pytest.approx(abs(mu) ** R, rel=1e-9)
