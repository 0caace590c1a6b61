"""Methods of others against plain numpy: what they reduce to, and what their papers claim on a problem of their class."""

import numpy as np
import pytest
from support.twin_cases import BOX_X, BOX_Y, L1_BOX, LAM_X, LAM_Y, A, B, close, flat

import fedualex as fx

RNG = np.random.default_rng(3)
ROWS = [(RNG.normal(size=(n, 3)), RNG.normal(size=n)) for n in (4, 6, 5)]
SHARES = np.array([len(rows) for rows, _ in ROWS]) / 15
L1, BOX = 0.2, 0.9


def loss(x, row):
    return 0.5 * (row[0] @ x - row[1]) ** 2


def least_squares(regularizer):
    return fx.Problem(loss, x=regularizer, like=fx.Saddle(np.zeros(3)), data=ROWS, weights=SHARES)


def gradient(m, x):
    rows, target = ROWS[m]
    return rows.T @ (rows @ x - target) / len(target)


def mean_gradient(x):
    return sum(p * gradient(m, x) for m, p in enumerate(SHARES))


def prox(v, weight):
    return np.clip(np.sign(v) * np.maximum(np.abs(v) - weight * L1, 0), -BOX, BOX)


def test_s_dane_is_its_twin():
    eta, eta_c, K = 0.4, 0.1, 3
    run = fx.simulate(
        least_squares(fx.L1(L1) + fx.Box(BOX)), fx.SDANE(eta, eta_c), rounds=4, local_steps=K, dtype="float64"
    )
    v, rho = np.zeros(3), eta_c / (eta + eta_c)
    for _ in range(4):
        answers = []
        for m in range(len(ROWS)):
            x = v
            for _ in range(K - 1):
                g = gradient(m, x) - gradient(m, v) + mean_gradient(v)
                x = prox((1 - rho) * x + rho * v - rho * eta * g, rho * eta)
            answers.append(x)
        x = SHARES @ answers
        v = prox(
            v - eta * sum(p * gradient(m, own) for m, (p, own) in enumerate(zip(SHARES, answers, strict=True))), eta
        )
    close(run.outputs["last"].z.x, x)


def test_s_dane_minimizes_alone():
    with pytest.raises(ValueError, match="SDANE is a method for minimization"):
        fx.solve(fx.problems.bilinear(A, B, **L1_BOX), fx.SDANE(0.1, 0.1), clients=2, rounds=2)


def test_s_dane_converges_on_clients_that_differ():
    """Averaging local steps without correction stops at a point of its own; S-DANE goes on, linearly."""
    problem = least_squares(fx.SquaredL2(0.1) + fx.Box(2.0))
    gaps = [
        fx.solve(problem, method, local_steps=8, rounds=60).outputs["last"].gap
        for method in (fx.SDANE(0.5, 0.1), fx.FedAvg(0.1))
    ]
    assert gaps[0] < 1e-8 < 1e-4 < gaps[1]


def test_scaff_pd_with_one_step_is_chambolle_and_pock_with_y_first():
    tau, sigma = 0.15, 0.2
    game = fx.problems.bilinear(A, B, **L1_BOX)
    run = fx.simulate(game, fx.ScaffPD(tau, sigma, 0.05), clients=3, local_steps=1, rounds=6, dtype="float64")
    x = x_before = np.zeros(4)
    y = np.zeros(5)
    for _ in range(6):
        y = soft(y + sigma * (A @ (2 * x - x_before) - B), sigma * LAM_Y, BOX_Y)
        x, x_before = soft(x - tau * A.T @ y, tau * LAM_X, BOX_X), x
    close(flat(run.outputs["last"].z), np.concatenate([x, y]))


def soft(v, threshold, bound):
    return np.clip(np.sign(v) * np.maximum(np.abs(v) - threshold, 0), -bound, bound)


def test_scaff_pd_and_drfa_serve_the_worst_client():
    """Both descend on a worst-client model; the corrected one ends at the saddle point, the other near it."""
    X, y = (np.concatenate(parts) for parts in zip(*ROWS, strict=True))
    problem = fx.problems.agnostic(X, y, np.repeat([0, 1, 2], [4, 6, 5]), loss="squared", l2=0.1, kl=0.1)
    start = fx.solve(problem, fx.ScaffPD(0.05, 0.05, 0.02), rounds=1).outputs["last"].gap
    pd = fx.solve(problem, fx.ScaffPD(0.05, 0.05, 0.02), local_steps=3, rounds=400).outputs["last"].gap
    drfa = fx.solve(problem, fx.DRFA(0.02, 0.01), local_steps=3, rounds=400).outputs["client_average"].gap
    assert pd < 1e-2 * start
    assert drfa < 0.5 * start


def test_prox_skip_is_the_recursion_of_its_paper():
    """With an exchange after every K-th step and all clients; the papers' own h_m."""
    problem, eta, K = least_squares(fx.Zero()), 0.05, 4
    run = fx.simulate(problem, fx.ProxSkipVIP(eta), rounds=5, local_steps=K, dtype="float64")
    z, h = np.zeros(3), np.zeros((len(ROWS), 3))
    for _ in range(5):
        own = []
        for m in range(len(ROWS)):
            z_m = z
            for _ in range(K):
                z_m = z_m - eta * (gradient(m, z_m) - h[m])
            own.append(z_m)
        z = SHARES @ own
        h += (z - np.array(own)) / (K * eta)
    close(run.outputs["last"].z.x, z)


def test_agnostic_federated_learning_is_local_descent_ascent():
    assert type(fx.AFL(0.1, 0.2)) is fx.LocalSGDA


def test_proximal_newton_solves_an_affine_problem_at_once():
    run = fx.solve(least_squares(fx.L1(L1) + fx.Box(BOX)), fx.ProxNewton(), rounds=2)
    assert run.outputs["last"].gap < 1e-12
    best = fx.solve(least_squares(fx.L1(L1) + fx.Box(BOX)), tol=1e-12)
    np.testing.assert_allclose(run.outputs["last"].z.x, best.z.x, atol=1e-8)
