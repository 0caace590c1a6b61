"""Methods for clients that differ: what they are in special cases, how far they come, and what they cost."""

import jax.numpy as jnp
import numpy as np
import pytest
from support import twins_one_machine
from support.twin_cases import (
    L1_BOX,
    N_X,
    N_Y,
    SLOW,
    START,
    UNEQUAL,
    case,
    check_against_twin,
    close,
    compile_quickly,  # noqa: F401
    data_operator,
    data_problem,
    flat,
    saddle,
)

import fedualex as fx
from fedualex import tree
from fedualex.compiling import double

P = np.array(UNEQUAL) / np.sum(UNEQUAL)
FREE = {"x": fx.Zero(), "y": fx.Zero()}
MODES = ("extragradient", "optimistic")


def mean_operator(z):
    return sum(p * data_operator(m, z) for m, p in enumerate(P))


def mean_oracle(z, t, s):
    return mean_operator(z)


def test_exchanges_of_a_round():
    """Round trips: the local steps, and every survey before them that cannot travel with the round before."""
    known = [
        (fx.FeDualEx(0.1), 1),
        (fx.FeDualExCorrected(0.1), 2),
        (fx.FeDualExCorrected(0.1, mode="stale"), 1),
        (fx.ScaffoldS(0.1), 2),
        (fx.ScaffoldSMemory(0.1), 1),
        (fx.SynchronousMirrorProx(0.1), 2),
        (fx.FedGDAGT(0.1), 2),
        (fx.LeadSliding(0.1), 3),
        (fx.LeadSliding(0.1, mode="optimistic"), 2),
    ]
    for method, exchanges in known:
        assert method.exchanges == exchanges, method


@pytest.mark.slow
def test_recentered_extrapolation_with_one_step_is_mirror_prox_on_the_mean():
    run = fx.simulate(data_problem(**L1_BOX), fx.FeDualExCorrected(0.1, recenter=True), rounds=6, z0=saddle(START))
    check_against_twin(run, twins_one_machine.coMP(case("data").space, mean_oracle, 6, 0.1, START))
    close(run.state.server.tau, 0.0)


@pytest.mark.slow
def test_tracking_with_one_step_is_composite_mirror_descent_on_the_mean():
    run = fx.simulate(data_problem(**L1_BOX), fx.FedGDAGT(0.1), rounds=6, z0=saddle(START))
    check_against_twin(run, twins_one_machine.compositeMirrorDescent(case("data").space, mean_oracle, 6, 0.1, START))


@pytest.mark.slow
def test_tracking_without_psi_and_domain_is_as_printed():
    """z - eta_c (g_m(z) - g_m(z_r) + g(z_r)), K = 3, and the mean."""
    run = fx.simulate(data_problem(**FREE), fx.FedGDAGT(0.1), rounds=4, local_steps=3, z0=saddle(START))
    z = START
    for _ in range(4):
        ends = [z] * len(P)
        for _ in range(3):
            ends = [
                v - 0.1 * (data_operator(m, v) - data_operator(m, z) + mean_operator(z)) for m, v in enumerate(ends)
            ]
        z = sum(p * v for p, v in zip(P, ends, strict=True))
    close(flat(run.outputs["last"].z), z)


@pytest.mark.parametrize("mode", MODES)
def test_sliding_alone_solves_proximal_problems_of_the_whole_operator(mode):
    """One client has nothing to be corrected by: with rho = 1 and K = 1, u is an extragradient step from z."""
    the, space, eta = case("shared"), case("shared").space, 0.2
    run = fx.simulate(the.problem, fx.LeadSliding(eta, eta, mode=mode), rounds=5, clients=1, z0=saddle(START))
    z = space.project(START)
    for _ in range(5):
        half = space.P(z - eta * the.operator(0, z), eta)
        u = space.P(z - eta * the.operator(0, half), eta)
        z = space.P(z - eta * the.operator(0, u), eta)
    close(flat(run.outputs["last"].z), u)


def test_exact_optimistic_sliding_is_the_core_of_svogs():
    """u <- J(u - eta (2 d(u) - d(u before))), d = g - g_l, J the resolvent of eta g_l; no psi, no domain."""
    eta, lead, size = 0.3, 2, N_X + N_Y
    run = fx.simulate(
        data_problem(**FREE),
        fx.LeadSliding(eta, 0.08, mode="optimistic", lead=lead),
        rounds=6,
        local_steps=400,
        z0=saddle(START),
    )
    offset = data_operator(lead, np.zeros(size))
    matrix = np.stack([data_operator(lead, e) - offset for e in np.eye(size)], axis=1)

    def d(u):
        return mean_operator(u) - data_operator(lead, u)

    def resolvent(v):
        return np.linalg.solve(np.eye(size) + eta * matrix, v - eta * offset)

    before = u = START
    for _ in range(6):
        before, u = u, resolvent(u - eta * (2 * d(u) - d(before)))
    close(flat(run.outputs["last"].z), u, 1e-10)


def similar_game(delta, mu=0.0, size=6, clients=4):
    """<A_m x, y> + <b_m, x> - <c_m, y> with |A_m - A| <= delta and |A| = 1, and mu-strongly convex-concave."""
    rng = np.random.default_rng(3)
    A, E = rng.normal(size=(size, size)), rng.normal(size=(clients, size, size))
    A, E = A / np.linalg.norm(A, 2), E - E.mean(axis=0)
    E *= delta / max(np.linalg.norm(e, 2) for e in E)
    offset = 0.3 * rng.normal(size=(2, clients, size))
    data = [((A + E[m])[None], offset[0, m][None], offset[1, m][None]) for m in range(clients)]

    def loss(x, y, example):
        own, b, c = example
        return y @ (own @ x) + b @ x - c @ y + mu / 2 * (x @ x - y @ y)

    psi = fx.L1(0.05) + fx.Box(2.0)
    start = fx.Saddle(np.ones(size), -np.ones(size))
    return fx.Problem(loss, x=psi, y=psi, like=start, data=data, by_construction=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        fx.FeDualExCorrected(0.25, recenter=True),
        fx.FedGDAGT(0.05),
        fx.LeadSliding(2.5, 0.7),
        fx.LeadSliding(2.5, 0.7, mode="optimistic"),
    ],
    ids=["recentered", "FedGDAGT", *MODES],
)
def test_unequal_clients_find_the_saddle_point_of_all(method):
    run = fx.simulate(similar_game(0.2, mu=0.3), method, rounds=100, local_steps=10)
    assert run.outputs["last"].gap < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("mode", [MODES[0], pytest.param(MODES[1], marks=SLOW)])
def test_sliding_needs_similar_clients_only(mode):
    """gap <= B0 / (sum of eta over surveys), for eta = 4 on a game with beta = 1, where mirror prox may take 1."""
    problem, eta, rounds = similar_game(0.1), 4.0, 20
    run = fx.simulate(problem, fx.LeadSliding(eta, 0.8, mode=mode), rounds=rounds, local_steps=40)
    with double():
        size = float(problem.geometry.B0(tree.cast(problem.like, jnp.float64)))
    assert run.outputs["client_average"].gap <= size / (eta * (rounds - 1))


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        (lambda: fx.LeadSliding(0.1, 0.1, lead=4), {}, "lead must be one of 4 clients, got 4"),
        (lambda: fx.LeadSliding(0.1, 0.1), {"cohort": 2}, "LeadSliding has a lead instead of a cohort: leave out cohort=2"),
        (lambda: fx.LeadSliding(lead=-1), {}, "lead must be a whole number >= 0, got -1"),
        (lambda: fx.FeDualExCorrected(0.1, recenter="yes"), {}, "recenter must be True or False"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(method, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        fx.simulate(data_problem(**L1_BOX), method(), rounds=2, **options)


def test_sliding_finds_its_own_steps():
    """eta from theory, and eta_c = eta / (1 + eta beta), from a given eta as well."""
    assert fx.LeadSliding().theory_steps(0.5, 4.0, 10) == pytest.approx({"eta": 0.5, "eta_c": 0.5 / 3})
    assert fx.LeadSliding(2.0).theory_steps(0.5, 4.0, 10)["eta_c"] == pytest.approx(2 / 9)
