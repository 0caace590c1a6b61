"""Exact references: linear programs and best responses, each proved by its certificate."""

import numpy as np
import pytest
import scipy.optimize

import fedualex as fx

RNG = np.random.default_rng(0)
MINIMIZATION = fx.Problem(lambda x: (x**2).sum(), x=fx.Box(1.0), like=fx.Saddle(np.zeros(2)))
A, B = RNG.normal(size=(4, 6)), RNG.normal(size=4)

POLYHEDRAL = {
    "box": fx.Box(0.5),
    "box away from zero": fx.Box(lower=0.2, upper=0.9),
    "box of arrays": lambda d: fx.Box(lower=-np.arange(d), upper=np.linspace(0.1, 1.0, d)),
    "l1 + box": fx.L1(0.1) + fx.Box(0.5),
    "l1 + box away from zero": fx.L1(0.1) + fx.Box(lower=-0.9, upper=-0.2),
    "l1 ball": fx.L1Ball(1.5),
    "l1 + l1 ball": fx.L1(0.1) + fx.L1Ball(1.5),
    "simplex": fx.Simplex(2.0),
    "capped simplex": fx.CappedSimplex(0.4),
    "l1 + simplex": fx.L1(0.1) + fx.Simplex(),
    "linear + box": lambda d: fx.Linear(np.linspace(-1, 1, d)) + fx.Box(0.5),
    "entropic": fx.EntropicSimplex(),
    "entropic linear": lambda d: fx.EntropicSimplex(fx.Linear(np.linspace(-1, 1, d))),
    "entropic cap": fx.EntropicSimplex(fx.CappedSimplex(0.4)),
}


def part(name, size):
    psi = POLYHEDRAL[name]
    return psi(size) if callable(psi) and not hasattr(psi, "prox") and not hasattr(psi, "primal") else psi


@pytest.mark.sampled(28)
@pytest.mark.parametrize("y", POLYHEDRAL)
@pytest.mark.parametrize("x", POLYHEDRAL)
def test_lp_is_exact_for_every_polyhedral_pair(x, y):
    game = fx.problems.bilinear(A, B, x=part(x, 6), y=part(y, 4))
    solution = fx.reference.lp(game)
    assert abs(solution.gap) < 1e-9
    assert solution.value == pytest.approx(game.objective(solution.z), abs=1e-9)


def test_lp_of_an_unbounded_side_with_a_finite_saddle():
    game = fx.problems.bilinear(A, B, x=fx.NonNegative() + fx.Linear(np.full(6, 5.0)), y=fx.Box(0.5))
    solution = fx.reference.lp(game)
    assert solution.gap is None  # not certifiable, and it says so
    assert "not certifiable" in str(solution.certificate)
    assert solution.value == pytest.approx(game.objective(solution.z), abs=1e-9)


def test_lp_on_matrices():
    psi = fx.L1(0.1) + fx.Box(0.5)
    game = fx.problems.bilinear(A, RNG.normal(size=(4, 3)), x=psi, y=psi)
    assert abs(fx.reference.lp(game).gap) < 1e-9


def test_matrix_game_against_the_textbook_program():
    payoff = RNG.normal(size=(5, 7))
    solution = fx.reference.lp(fx.problems.matrix_game(payoff))
    rows, columns = payoff.shape
    textbook = scipy.optimize.linprog(
        np.append(np.zeros(columns), 1.0),
        A_ub=np.hstack([payoff, -np.ones((rows, 1))]),
        b_ub=np.zeros(rows),
        A_eq=[np.append(np.ones(columns), 0.0)],
        b_eq=[1.0],
        bounds=[(0, None)] * columns + [(None, None)],
    )
    assert solution.value == pytest.approx(textbook.fun, abs=1e-9)
    assert abs(solution.gap) < 1e-9


@pytest.mark.slow
def test_paper_l1_saddle_point():
    game = fx.problems.paper_l1(0)
    solution = fx.reference.lp(game)
    assert abs(solution.gap) < 1e-9
    assert abs(game.gap(solution.z)) < 1e-9
    # The saddle value lies between what either side secures alone.
    anywhere = game.project(fx.Saddle(RNG.uniform(-0.05, 0.05, 600), RNG.uniform(-0.05, 0.05, 300)))
    assert game.objective(fx.Saddle(solution.z.x, anywhere.y)) <= solution.value + 1e-9
    assert game.objective(fx.Saddle(anywhere.x, solution.z.y)) >= solution.value - 1e-9


@pytest.mark.slow
def test_paper_nuclear_saddle_point_has_rank_ten():
    game = fx.problems.paper_nuclear(0)
    solution = fx.reference.best_response(game)
    assert solution.gap <= 1e-10
    for block in (solution.z.x, solution.z.y):
        sigma = np.linalg.svd(block, compute_uv=False)
        np.testing.assert_allclose(sigma[:10], 0.05, rtol=1e-9)
        assert np.all(sigma[10:] < 1e-9)


def test_lp_broadcasts_bounds_as_the_game_does():
    game = fx.problems.bilinear(
        A, np.ones((4, 2)), x=fx.Box(lower=-np.ones(2), upper=1.0), y=fx.Linear(np.ones(2)) + fx.Box(1.0)
    )
    assert abs(fx.reference.lp(game).gap) < 1e-9


def test_lp_refuses_data_too_small_for_its_solver():
    with pytest.raises(ValueError, match="not solved accurately"):
        fx.reference.lp(fx.problems.matrix_game(1e-10 * np.random.default_rng(2).normal(size=(4, 5))))


@pytest.mark.slow
def test_best_response_refuses_a_game_where_it_cycles():
    with pytest.raises(RuntimeError, match=r"did not settle.*needs a general solver"):
        fx.reference.best_response(fx.problems.matrix_game([[2.0, -1.0], [-1.0, 1.0]]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: fx.reference.lp(fx.problems.bilinear(A, B, x=fx.L2Ball(1.0), y=fx.Box(1.0))),
            r"x=L2Ball\(1.0\) is not polyhedral",
        ),
        (
            lambda: fx.reference.lp(fx.problems.bilinear(A, B, x=fx.Box(1.0), y=fx.SquaredL2(1.0))),
            "y=.*is not polyhedral",
        ),
        (
            lambda: fx.reference.lp(fx.problems.bilinear(A, B, x=fx.EntropicSimplex(fx.Entropy(1.0)), y=fx.Box(1.0))),
            "x=.*is not polyhedral",
        ),
        (lambda: fx.reference.lp(fx.problems.bilinear(A.T, np.ones(6), x=fx.Zero(), y=fx.Zero())), "no saddle point"),
        (lambda: fx.reference.lp(MINIMIZATION), "game must be a bilinear game, got Problem"),
        (lambda: fx.reference.best_response(MINIMIZATION), "game must be a bilinear game"),
        (
            lambda: fx.reference.best_response(fx.problems.bilinear(A, B, x=fx.L1(1.0), y=fx.Box(1.0))),
            "needs bounded blocks",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises((TypeError, ValueError), match=message) as refused:
        call()
    assert "\n" not in str(refused.value)
