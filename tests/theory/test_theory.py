"""Theory: the numbers of the paper's games, the errata's arithmetic, units, and bounds that hold on small runs."""

import contextlib
import io
import itertools
import math
import re
import runpy
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedualex as fx
from fedualex import theory, tree
from fedualex.compiling import double

RUN = {"clients": 100, "local_steps": 1, "rounds": 5000}
NAMES = {field.name for field in fields(theory.Constants)} - {"how"}
A = np.random.default_rng(1).normal(size=(7, 5))
B = np.random.default_rng(2).normal(size=7)
UNIT = theory.Constants(beta=1.0, sigma=0.01, grad_bound=50.0, B=1.0, B0=1.0, diameter=math.sqrt(2))

GAMES = {
    "two boxes": (fx.Box(1.0), fx.L1(0.1) + fx.Box(0.5), np.linalg.norm(A, 2)),
    "two simplices": (fx.EntropicSimplex(), fx.EntropicSimplex(), np.abs(A).max()),
    "x entropic": (fx.EntropicSimplex(), fx.L2Ball(1.0), np.linalg.norm(A, axis=0).max()),
    "y entropic": (fx.Box(1.0), fx.EntropicSimplex(), np.linalg.norm(A, axis=1).max()),
    "x in the p-norm": (fx.PNorm(1.5), fx.EntropicSimplex(), np.linalg.norm(A, 3, axis=1).max()),
}


NARROW = {
    "capped simplices": (fx.EntropicSimplex(fx.CappedSimplex(0.25)), fx.EntropicSimplex(fx.CappedSimplex(0.2)), (7, 5)),
    "a capped simplex of one point": (fx.EntropicSimplex(fx.CappedSimplex(0.2)), fx.EntropicSimplex(), (7, 5)),
    "one entry against a simplex": (fx.EntropicSimplex(), fx.EntropicSimplex(), (7, 1)),
    "one entry against a box": (fx.EntropicSimplex(), fx.Box(0.1), (7, 1)),
    "a capped simplex against a box": (fx.EntropicSimplex(fx.CappedSimplex(0.3)), fx.Box(lower=1.0, upper=2.0), (7, 5)),
    "a simplex of radius 3": (fx.Simplex(3.0), fx.EntropicSimplex(fx.L1(0.1)), (7, 5)),
}


@pytest.fixture(scope="module")
def l1():
    return theory.constants(fx.problems.paper_l1(0), fx.GaussianNoise(0.1))


def game(name):
    x, y, _ = GAMES[name]
    return fx.problems.bilinear(A, B, x=x, y=y)


def as_general(name):
    """The same game through autodiff, so that nothing is known in closed form."""
    x, y, _ = GAMES[name]
    return fx.Problem(lambda x, y: jnp.vdot(A @ x - B, y), x=x, y=y, like=fx.Saddle(np.zeros(5), np.zeros(7)))


def coupled(x, y, example):
    feature, target = example
    return (feature @ x - target) ** 2 / 2 + (feature @ x) * jnp.sum(y) - jnp.sum(y**2) / 2


def coupled_problem():
    rng = np.random.default_rng(3)
    data = [(rng.normal(size=(n, 3)), rng.normal(size=n)) for n in (4, 1, 6)]
    return fx.Problem(coupled, x=fx.Box(1.0), y=fx.L2Ball(1.0), like=fx.Saddle(np.zeros(3), np.zeros(2)), data=data)


def random_points(problem, count, seed=0):
    rng = np.random.default_rng(seed)
    return [
        problem.validate_point(problem.project(jax.tree.map(lambda u: 3 * rng.normal(size=np.shape(u)), problem.like)))
        for _ in range(count)
    ]


# --- the paper's games ---------------------------------------------------------------------------------------------


def test_constants_of_the_l1_game(l1):
    assert 23.7 < l1.beta < 24.2
    assert pytest.approx(4.5) == l1.B
    assert pytest.approx(1.125) == l1.B0
    assert l1.diameter == pytest.approx(3)
    assert l1.sigma == pytest.approx(3)
    assert math.sqrt(l1.grad_bound**2 - l1.sigma**2) == pytest.approx(46, rel=0.03)
    assert l1.kappa == 1
    assert l1.how == dict.fromkeys(NAMES, "exact") | {"grad_bound": "bound"}


def test_start_of_the_l1_game(l1):
    problem = fx.problems.paper_l1(0)
    rng = np.random.default_rng(0)
    inside = jax.tree.map(lambda u: rng.uniform(-0.05, 0.05, np.shape(u)), problem.like)
    outside = jax.tree.map(lambda u: np.full(np.shape(u), 7.0), problem.like)
    start = theory.constants(problem, fx.GaussianNoise(0.1), inside)
    assert pytest.approx(2.65, rel=0.02) == start.B0
    assert pytest.approx(4.5) == theory.constants(problem, None, outside).B0  # projected to a corner first
    # Section 6 of the notes prints Proposition B for this random start, not for B0 = 1.125.
    bound = theory.proposition_b(start, **RUN)
    assert bound.best_step == pytest.approx(0.0044, rel=0.02)
    assert bound.total(bound.best_step) == pytest.approx(0.24, rel=0.02)
    from_zero = theory.proposition_b(l1, **RUN)
    assert from_zero.best_step == pytest.approx(math.sqrt(1.125 / (3 * 9 * 5000)))
    assert from_zero.total(from_zero.best_step) == pytest.approx(0.1559, rel=1e-3)
    assert from_zero.strong.total(from_zero.best_step) == pytest.approx(0.234, rel=1e-2)


def test_theorem_1_on_the_l1_game(l1):
    # The notes evaluate it with B in the place of B0.
    bound = theory.theorem1(replace(l1, B0=l1.B), **RUN).corrected
    expected = {"smoothness": 0.0187, "drift_squared": 0.0025, "noise": 0.045, "drift": 3.7e-4}
    assert bound.candidates == pytest.approx(expected, rel=0.02)
    assert bound.best_step == bound.candidates["drift"]
    assert bound.total(bound.best_step) == pytest.approx(4.9, rel=0.03)
    from_zero = theory.theorem1(l1, **RUN).corrected
    assert from_zero.total(from_zero.best_step) == pytest.approx(2.41, rel=0.01)
    assert theory.theorem1(l1, **RUN).printed.step_limit == pytest.approx(3.5e-4, rel=0.02)


def test_constants_of_the_nuclear_game():
    c = theory.constants(fx.problems.paper_nuclear(0), fx.GaussianNoise(0.1))
    assert pytest.approx((0.2, 0.05)) == (c.B, c.B0)
    assert c.diameter == pytest.approx(0.632, rel=1e-3)
    assert c.sigma == pytest.approx(13.4, rel=2e-3)
    assert c.beta == pytest.approx(theory.constants(fx.problems.paper_l1(0)).beta)


@pytest.mark.slow
def test_document_shows_what_its_code_prints():
    text = (Path(__file__).parents[2] / "docs" / "theory.md").read_text()
    (shown,) = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(Path(__file__).parents[2] / "examples" / "bounds.py"))
    assert printed.getvalue() == shown


# --- the theorems --------------------------------------------------------------------------------------------------


def test_rate_counts_every_term():
    """E8: the bound at the chosen step lies above the printed sum and below the corrected one."""
    theorem = theory.theorem1(UNIT, clients=100, local_steps=10, rounds=100)
    bound = theorem.corrected
    assert bound.total(bound.best_step) == pytest.approx(2.38, abs=5e-3)
    assert sum(theorem.printed.rate.values()) == pytest.approx(1.46, abs=5e-3)
    assert sum(bound.rate.values()) == pytest.approx(2.91, abs=5e-3)


def test_terms_are_the_printed_formulas():
    c = theory.Constants(beta=0.7, sigma=0.3, grad_bound=5.0, B=2.0, B0=0.9, diameter=1.6, kappa=3.0)
    M, K, R, eta = 11, 4, 9, 0.01
    run = {"clients": M, "local_steps": K, "rounds": R}
    first, second = theory.theorem1(c, **run), theory.theorem2(c, **run, eta_s=0.5)
    squares = 20 * 0.7**2 * eta**3 * K**2 * 25
    assert first.printed.terms(eta) == pytest.approx(
        {
            "start": 2 / (eta * R * K),
            "drift_squared": squares,
            "noise": 5 * 0.09 * eta / M,
            "drift": 2**1.5 * 0.7 * eta * K * 5 * 2,
        }
    )
    assert first.corrected.terms(eta) == pytest.approx(
        {
            "start": 0.9 / (eta * R * K),
            "drift_squared": squares,
            "noise": 5 * 3 * 0.09 * eta / M,
            "drift": 2 * 0.7 * eta * K * 5 * 1.6,
        }
    )
    assert first.corrected.strong.total(eta) - first.corrected.total(eta) == pytest.approx(
        0.9 / (eta * R * K) + 3 * 0.09 * eta / (2 * M)
    )
    assert second.printed.terms(eta)["drift"] == pytest.approx(2 * 0.7 * eta**3 * K**2 * 25)
    assert second.corrected.terms(eta)["drift"] == pytest.approx(2 * 0.7 * eta**2 * K**2 * 25)
    assert second.corrected.terms(eta)["start"] == pytest.approx(0.9 / (0.5 * eta * R * K))
    assert second.corrected.strong.total(eta) == second.corrected.total(eta)
    third, fourth = theory.theorem3(c, steps=50), theory.theorem4(c, steps=50)
    assert third.printed.total(eta) == pytest.approx(2 / (eta * 50) + 3 * 0.09 * eta)
    assert third.corrected.strong.total(eta) == pytest.approx(2 * 0.9 / (eta * 50) + 3.5 * 0.09 * eta)
    assert fourth.printed.total(eta) == pytest.approx(0.7 * 2 / 50)
    assert fourth.corrected.total(eta) == pytest.approx(0.9 / (eta * 50))
    own = theory.proposition_b(c, **run)
    assert own.strong.total(eta) == pytest.approx(2 * 0.9 / (eta * R * K) + (3 + 3 / (2 * M)) * 0.09 * eta)


def test_steps_and_rates_are_the_printed_ones():
    beta, sigma, G, size, M, K, R = 1.3, 0.4, 6.0, 2.5, 7, 3, 40
    c = theory.Constants(beta=beta, sigma=sigma, grad_bound=G, B=size, B0=size, diameter=math.sqrt(2 * size))
    run = {"clients": M, "local_steps": K, "rounds": R}
    first, second = theory.theorem1(c, **run), theory.theorem2(c, **run)
    squares = size**0.25 / (20**0.25 * math.sqrt(beta * G) * K**0.75 * R**0.25)
    noise = math.sqrt(size * M / (5 * R * K)) / sigma
    drift = 1 / (2**0.75 * math.sqrt(beta * G) * K * math.sqrt(R))
    convex = (size / (2 * beta * G**2 * K**3 * R)) ** (1 / 3)
    common = {"drift_squared": squares, "noise": noise}
    old, new = {"smoothness": 1 / (5 * beta**2)}, {"smoothness": 1 / (math.sqrt(5) * beta)}
    assert first.printed.candidates == pytest.approx(old | common | {"drift": drift})
    assert first.corrected.candidates == pytest.approx(new | common | {"drift": drift * size**0.25})
    assert second.printed.candidates == pytest.approx(old | common | {"drift": convex})
    assert second.corrected.candidates == pytest.approx(new | common | {"drift": convex})
    rate = {
        "smoothness": 5 * beta**2 * size / (R * K),
        "drift_squared": 20**0.25 * math.sqrt(beta * G) * size**0.75 / (K**0.25 * R**0.75),
        "noise": math.sqrt(5 * size / (M * R * K)) * sigma,
        "drift": 2**0.75 * math.sqrt(beta * G) * size / math.sqrt(R),
    }
    assert first.printed.rate == pytest.approx(rate)
    corrected = {name: 2 * value for name, value in rate.items()}
    corrected |= {"smoothness": math.sqrt(5) * beta * size / (R * K), "drift": 2 * rate["drift"] / size**0.25}
    assert first.corrected.rate == pytest.approx(corrected)
    last = 2 ** (1 / 3) * beta ** (1 / 3) * G ** (2 / 3) * size ** (2 / 3) / R ** (2 / 3)
    assert (second.printed.rate["drift"], second.corrected.rate["drift"]) == pytest.approx((last, 2 * last))
    third = theory.theorem3(c, steps=R)
    assert third.printed.best_step == pytest.approx(min(1 / (3 * beta**2), math.sqrt(size / (3 * R)) / sigma))
    expected = {"smoothness": math.sqrt(3) * beta * size / R, "noise": 2 * math.sqrt(3 * size / R) * sigma}
    assert third.corrected.rate == pytest.approx(expected)


@pytest.mark.parametrize("sigma", [0.0, 0.3, 20.0])
def test_corrected_rate_bounds_the_bound(sigma):
    c = replace(UNIT, sigma=sigma)
    for bound in (
        theory.theorem1(c, clients=3, local_steps=5, rounds=20).corrected,
        theory.theorem2(c, clients=3, local_steps=5, rounds=20).corrected,
        theory.theorem3(c, steps=100).corrected,
        theory.theorem4(c, steps=100).corrected,
        theory.proposition_b(c, clients=3, local_steps=5, rounds=20),
    ):
        assert bound.best_step <= bound.step_limit
        assert bound.total(bound.best_step) <= sum(bound.rate.values()) * (1 + 1e-12)
        assert bound.strong.total(bound.best_step) >= bound.total(bound.best_step)


def test_default_step():
    c = theory.Constants(beta=2.0, sigma=0.5, grad_bound=9.0, B=4.0, B0=1.0, diameter=2.0)
    run = {"clients": 10, "local_steps": 5, "rounds": 20}
    noisy = theory.proposition_b(c, **run)
    assert noisy.best_step == pytest.approx(min(1 / (math.sqrt(3) * 2), math.sqrt(1 / (3 * 0.25 * 100))))
    assert noisy.step_limit == pytest.approx(1 / (math.sqrt(3) * 2))
    assert theory.proposition_b(c, **run, eta_s=0.25).best_step == pytest.approx(2 * noisy.best_step)
    exact = replace(c, sigma=0.0)
    assert theory.proposition_b(exact, **run).best_step == 0.5
    assert theory.theorem3(exact, steps=100).corrected.best_step == 0.5
    assert theory.theorem4(c, steps=100).corrected.best_step == 0.5
    assert theory.theorem3(c, steps=100).corrected.best_step == pytest.approx(noisy.best_step)


def test_nothing_is_promised_above_the_limit_nor_for_the_unknown():
    bound = theory.theorem3(UNIT, steps=10).corrected
    assert bound.total(1.01 * bound.step_limit) == math.inf
    assert bound.total(bound.step_limit) < math.inf
    assert theory.proposition_b(UNIT, clients=2, local_steps=2, rounds=2, eta_s=0.5).strong is None
    noiseless = theory.proposition_b(replace(UNIT, sigma=0.0), clients=2, local_steps=2, rounds=2, eta_s=0.5)
    assert noiseless.strong.total(0.5) == noiseless.total(0.5) == pytest.approx(1 / (0.5 * 0.5 * 4))


def test_printed_bound_is_void_for_the_entropy():
    c = theory.constants(fx.problems.matrix_game(A), fx.GaussianNoise(0.1))
    assert math.inf == c.B
    theorem = theory.theorem1(c, clients=10, local_steps=2, rounds=50)
    assert theorem.printed.total(theorem.printed.best_step) == math.inf
    assert sum(theorem.printed.rate.values()) == math.inf
    assert theorem.corrected.total(theorem.corrected.best_step) < math.inf
    assert theory.theorem4(c, steps=10).printed.total(0.01) == math.inf


def test_unbounded_and_degenerate_constants_give_no_nan():
    endless = {"grad_bound": math.inf, "B": math.inf, "B0": math.inf, "diameter": math.inf}
    for c in (
        theory.Constants(beta=1.0, sigma=1.0, **endless),
        theory.Constants(beta=0.0, sigma=0.0, **endless),
        theory.Constants(beta=0.0, sigma=1.0, **endless),
        theory.Constants(beta=1.0, sigma=1.0, grad_bound=1.0, B=0.0, B0=0.0, diameter=0.0),
        theory.Constants(beta=0.0, sigma=0.0, grad_bound=1.0, B=1.0, B0=1.0, diameter=1.0),
    ):
        run = {"clients": 2, "local_steps": 2, "rounds": 2}
        theorems = [theory.theorem1(c, **run), theory.theorem2(c, **run), theory.theorem3(c, steps=4)]
        theorems.append(theory.theorem4(c, steps=4))
        bounds = [bound for t in theorems for bound in (t.printed, t.corrected)] + [theory.proposition_b(c, **run)]
        for bound in bounds:
            numbers = [bound.best_step, bound.total(0.1), *bound.terms(0.1).values(), *bound.rate.values()]
            assert not np.any(np.isnan(numbers)), bound
            assert bound.best_step > 0


# --- units ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0.01, 30.0])
def test_units(factor):
    """Scaling f by c scales beta, sigma and G by c, steps by 1/c and bounds by c; the printed steps do not."""
    psi = fx.Box(1.0)
    c = theory.constants(fx.problems.bilinear(A, B, x=psi, y=psi), fx.GaussianNoise(0.1))
    scaled = theory.constants(
        fx.problems.bilinear(factor * A, factor * B, x=psi, y=psi), fx.GaussianNoise(0.1 * factor)
    )
    for name in ("beta", "sigma", "grad_bound"):
        assert getattr(scaled, name) == pytest.approx(factor * getattr(c, name))
    assert (scaled.B, scaled.B0, scaled.diameter) == (c.B, c.B0, c.diameter)
    run = {"clients": 5, "local_steps": 3, "rounds": 7}
    for make in (
        lambda c: theory.theorem1(c, **run).corrected,
        lambda c: theory.theorem2(c, **run).corrected,
        lambda c: theory.theorem3(c, steps=9).corrected,
        lambda c: theory.theorem4(c, steps=9).corrected,
        lambda c: theory.proposition_b(c, **run),
    ):
        before, after = make(c), make(scaled)
        assert after.candidates == pytest.approx({k: v / factor for k, v in before.candidates.items()})
        assert after.rate == pytest.approx({k: v * factor for k, v in before.rate.items()})
        assert after.total(after.best_step) == pytest.approx(factor * before.total(before.best_step))
    limits = [theory.theorem1(k, **run).printed.step_limit for k in (c, scaled)]
    assert limits[1] / limits[0] == pytest.approx(factor**-2)


# --- constants against what they mean ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [n if n in ("two boxes", "y entropic") else pytest.param(n, marks=pytest.mark.slow) for n in GAMES]
)
def test_beta_of_a_game(name):
    c = theory.constants(game(name))
    assert c.beta == pytest.approx(GAMES[name][2])
    assert c.how["beta"] == "exact"
    estimate = theory.constants(as_general(name), samples=4)
    assert estimate.how["beta"] == estimate.how["grad_bound"] == "estimate"
    assert estimate.beta == pytest.approx(c.beta, rel=1e-4)
    assert estimate.beta <= c.beta * (1 + 1e-9)


@pytest.mark.parametrize("name", GAMES)
def test_lipschitz_and_size(name):
    problem, c = game(name), theory.constants(game(name))
    with double():
        points = random_points(problem, 20)
        for z, other in itertools.pairwise(points):
            change = tree.subtract(problem.operator(z), problem.operator(other))
            step = problem.geometry.norm(tree.subtract(z, other))
            assert float(problem.geometry.dual_norm(change)) <= c.beta * float(step) * (1 + 1e-12)
            assert float(problem.geometry.dual_norm(problem.operator(z))) <= c.grad_bound
            assert float(step) <= c.diameter * (1 + 1e-12)


def test_game_in_two_p_norms_is_estimated():
    problem = fx.problems.bilinear(A, B, x=fx.PNorm(1.5), y=fx.PNorm(1.3))
    c = theory.constants(problem, fx.GaussianNoise(0.1), samples=3)
    assert c.how["beta"] == c.how["sigma"] == c.how["grad_bound"] == "estimate"
    assert c.kappa == pytest.approx(1 / 0.3)
    assert math.inf == c.B0
    assert c.beta >= np.abs(A).max() * (1 - 1e-9)


@pytest.mark.slow
def test_beta_of_a_smooth_problem():
    """g_m is affine here, so every Jacobian is known; the largest client counts."""
    problem = coupled_problem()
    jacobians = []
    for m in range(3):
        count = problem.data.counts[m]
        F = problem.data.examples[0][m, :count]
        coupling = np.outer(F.mean(axis=0), np.ones(2))
        jacobians.append(np.block([[F.T @ F / count, coupling], [-coupling.T, np.eye(2)]]))
    c = theory.constants(problem, samples=2)
    assert c.beta == pytest.approx(max(np.linalg.norm(J, 2) for J in jacobians), rel=1e-6)


def test_convex_problem_of_one_block():
    problem = fx.Problem(lambda x: jnp.sum((A @ x - B) ** 2) / 2, x=fx.Box(1.0), like=fx.Saddle(np.zeros(5)))
    c = theory.constants(problem, fx.GaussianNoise(0.2), samples=3)
    assert c.beta == pytest.approx(np.linalg.norm(A, 2) ** 2, rel=1e-6)
    assert c.sigma == pytest.approx(0.2 * math.sqrt(5))


@pytest.mark.slow
def test_minibatch_noise_is_estimated():
    problem = coupled_problem()
    c = theory.constants(problem, fx.Minibatch(1), samples=3)
    half = theory.constants(problem, fx.Minibatch(4), samples=3)
    assert c.how["sigma"] == "estimate"
    assert 0 < half.sigma < c.sigma
    assert half.sigma == pytest.approx(c.sigma / 2, rel=0.5)


def test_gaussian_noise_in_the_max_norm():
    c = theory.constants(fx.problems.matrix_game(A), fx.GaussianNoise(0.1))
    draws = 0.1 * np.random.default_rng(0).normal(size=(200_000, 12))
    power = np.max(draws[:, :5] ** 2, axis=1) + np.max(draws[:, 5:] ** 2, axis=1)
    assert c.sigma == pytest.approx(math.sqrt(power.mean()), rel=5e-3)
    one = theory.constants(fx.problems.matrix_game([[2.0]]), fx.GaussianNoise(1.0))
    assert one.sigma == pytest.approx(math.sqrt(2), rel=1e-6)
    assert one.kappa == 1
    assert one.how["diameter"] == "bound"


def test_kappa_covers_random_signs():
    """E10: the mean of M sign vectors is not 1/M as large in the max norm, but kappa/M covers it."""
    d, M = 1000, 100
    c = theory.constants(fx.problems.matrix_game(np.ones((2, d))))
    assert c.kappa == pytest.approx(math.e * (2 * math.log(d) - 1))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(20, M, d))
    ratio = M * np.mean(np.max(np.abs(signs.mean(axis=1)), axis=1) ** 2)
    assert ratio == pytest.approx(11.4, rel=0.1)
    assert 1 < ratio <= c.kappa


def test_capped_simplex_has_a_bound_on_its_diameter():
    problem = fx.problems.bilinear(A, B, x=fx.CappedSimplex(0.3), y=fx.Box(1.0))
    assert theory.constants(problem).how["diameter"] == "bound"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["two boxes", "two simplices", "x entropic", "y entropic"])
def test_theorem_4_holds_at_every_step(name):
    problem = game(name)
    c = theory.constants(problem)
    eta = theory.theorem4(c, steps=1).corrected.best_step
    with double():
        geometry = problem.geometry
        zero = jax.tree.map(jnp.zeros_like, problem.validate_point(problem.like))
        dual = geometry.dual(geometry.project(zero))
        total = zero
        for t in range(1, 31):
            half = geometry.primal(dual.descend(eta, problem.operator(geometry.primal(dual))))
            dual = dual.descend(eta, problem.operator(half))
            total = tree.add(total, half)
            gap = problem.gap(problem.project(tree.scale(1 / t, total)))
            assert gap <= theory.theorem4(c, steps=t).corrected.total(eta) * (1 + 1e-9)


@pytest.mark.slow
def test_same_seed_same_constants_and_caller_keeps_its_precision():
    first, second = (theory.constants(coupled_problem(), fx.Minibatch(2), seed=5) for _ in range(2))
    assert first == second
    assert not jax.config.read("jax_enable_x64")
    with pytest.raises(FrozenInstanceError):
        first.beta = 1.0


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: theory.constants("game"), TypeError, "problem must be a problem"),
        (lambda: theory.constants(game("two boxes"), 0.1), TypeError, "oracle must be an oracle"),
        (lambda: theory.constants(game("two boxes"), None, np.zeros(5)), TypeError, "z0 must be fx.Saddle"),
        (lambda: theory.constants(game("two boxes"), samples=0), ValueError, "samples must be a whole number >= 1"),
        (lambda: theory.constants(game("two boxes"), fx.Minibatch(2)), TypeError, "no examples"),
        (lambda: replace(UNIT, beta=-1.0), ValueError, "beta must be a finite number >= 0, got -1.0"),
        (lambda: replace(UNIT, sigma=math.inf), ValueError, "sigma must be a finite number"),
        (lambda: replace(UNIT, B0=math.nan), ValueError, "B0 must not contain nan"),
        (lambda: replace(UNIT, kappa=0.5), ValueError, "kappa must be a finite number >= 1"),
        (lambda: theory.theorem3(UNIT, steps=0), ValueError, "steps must be a whole number >= 1, got 0"),
        (lambda: theory.theorem4(UNIT, steps=-3), ValueError, "steps must be a whole number"),
        (lambda: theory.theorem1(UNIT, clients=True, local_steps=1, rounds=1), ValueError, "clients must be"),
        (lambda: theory.theorem1(UNIT, clients=1, local_steps=0, rounds=1), ValueError, "local_steps must be"),
        (lambda: theory.theorem2(UNIT, clients=1, local_steps=1, rounds=-1), ValueError, "rounds must be"),
        (lambda: theory.proposition_b(UNIT, clients=1, local_steps=1, rounds=1, eta_s=2.0), ValueError, "eta_s must"),
        (lambda: theory.theorem3(UNIT, steps=3).corrected.total(0.0), ValueError, "eta must be a number > 0"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def noisy_mean_square(problem, z, sigma, samples=400):
    """E||g(z) + noise||_*^2 in the geometry's dual norm, and how far it may be off, from normal noise in every entry."""
    rng = np.random.default_rng(5)
    with double():
        g, geometry = problem.operator(problem.validate_point(z)), problem.geometry
        noisy = [jax.tree.map(lambda leaf: leaf + sigma * rng.normal(size=leaf.shape), g) for _ in range(samples)]
        squares = np.array([float(geometry.dual_norm(one)) for one in noisy]) ** 2
    return squares.mean(), squares.std() / math.sqrt(samples)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (fx.EntropicSimplex(), fx.EntropicSimplex()),
        (fx.EntropicSimplex(), fx.L2Ball(0.1)),
        (fx.Box(0.1), fx.Box(0.1)),
    ],
    ids=["entropic", "mixed", "Euclidean"],
)
def test_grad_bound_holds_for_noisy_gradients_in_every_norm(x, y):
    """E11: the squares of size and noise add up in Hilbert norms alone; the largest of many noisy entries is larger."""
    sigma, problem = 0.1, fx.problems.bilinear(np.ones((200, 200)), np.zeros(200), x=x, y=y)
    c = theory.constants(problem, fx.GaussianNoise(sigma))
    corner = problem.project(jax.tree.map(lambda leaf: 100.0 * np.ones(leaf.shape), problem.like))
    measured, error = noisy_mean_square(problem, corner, sigma)
    assert measured <= c.grad_bound**2 + 4 * error
    assert c.how["grad_bound"] == "bound"


def test_squares_of_size_and_noise_do_not_add_up_on_simplices():
    """E11 as printed: 2.18 where the mean square is 3.25."""
    problem = fx.problems.matrix_game(np.ones((200, 200)))
    c = theory.constants(problem, fx.GaussianNoise(0.1))
    measured, error = noisy_mean_square(problem, problem.project(problem.like), 0.1)
    assert c.sigma**2 + 2 == pytest.approx(2.18, abs=0.01)  # |g|_* is 1 in each block
    assert measured == pytest.approx(3.25, abs=0.05)
    assert measured > c.sigma**2 + 2 + 4 * error


@pytest.mark.parametrize("p", [1.1, 1.5])
def test_a_noisy_gradient_in_the_p_norm_is_below_the_sum_of_size_and_noise(p):
    """The domain has no bound there, and G is an estimate, so the size is that at the point."""
    problem = fx.problems.bilinear(np.ones((40, 40)), np.zeros(40), x=fx.PNorm(p), y=fx.PNorm(p))
    z = jax.tree.map(lambda leaf: np.full(leaf.shape, 0.1), problem.like)
    zero = jax.tree.map(np.zeros_like, problem.like)
    assert theory.constants(problem, fx.GaussianNoise(0.5)).how["grad_bound"] == "estimate"
    measured, error = noisy_mean_square(problem, z, 0.5)
    noise, _ = noisy_mean_square(problem, zero, 0.5)
    with double():
        size = float(problem.geometry.dual_norm(problem.operator(problem.validate_point(z))))
    assert measured <= (size + math.sqrt(noise)) ** 2 + 4 * error


@pytest.mark.slow
@pytest.mark.parametrize("name", NARROW)
def test_no_feasible_point_has_an_operator_beyond_grad_bound(name):
    """A capped simplex has a small diameter, and one entry none, but their points have norm 1."""
    x, y, shape = NARROW[name]
    rng = np.random.default_rng(0)
    for matrix in (np.ones(shape), rng.normal(size=shape)):
        problem = fx.problems.bilinear(matrix, -np.ones(shape[0]), x=x, y=y)
        claimed = theory.constants(problem).grad_bound
        for _ in range(30):  # far outside, so that corners are among the projections
            z = problem.project(jax.tree.map(lambda leaf: 100 * rng.normal(size=leaf.shape), problem.like))
            with double():
                reached = float(problem.geometry.dual_norm(problem.operator(problem.validate_point(z))))
            assert reached <= claimed * (1 + 1e-12)
