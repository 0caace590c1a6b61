"""Methods against each other: equivalences and invariances.

T11, T12, ... and E3, E4, ... are the numbers of the property tests and of the errata in the mathematical specification.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from support import twins_one_machine, twins_shared
from support.twin_cases import (
    BOTH,
    BOX_X,
    BOX_Y,
    ETA_C,
    ETA_S,
    EXAMPLES,
    L1_BOX,
    N_X,
    N_Y,
    ORACLES,
    ROUNDS,
    SEED,
    SIMPLEX_START,
    SLOW,
    START,
    UNEQUAL,
    UNEVEN,
    WAVE,
    A,
    B,
    bilinear_operator,
    case,
    check_against_twin,
    close,
    cohorts_of,
    compile_quickly,  # noqa: F401
    data_problem,
    differ,
    flat,
    named,
    noise_table,
    outputs,
    saddle,
    same_run,
)

import fedualex as fx
from fedualex import tree
from fedualex.compiling import double


@pytest.mark.parametrize("K", [4, pytest.param(1, marks=SLOW), pytest.param(12, marks=SLOW)])
def test_one_client_is_algorithm_3_for_every_split(K):
    """T12, noise included; without noise, equal clients are one client."""
    the, noise = case("shared"), noise_table("shared", "wave")
    options = {"rounds": 12 // K, "local_steps": K, "z0": saddle(START), "seed": SEED}
    run = fx.simulate(the.problem, fx.FeDualEx(0.2), clients=1, noise=WAVE, **options)

    def g(z, t, s):
        return the.operator(0, z) + noise[t // K, 0, t % K, s]

    twin = twins_one_machine.stochasticDualExtrapolation(the.space, g, 12, 0.2, START)
    check_against_twin(run, twin)
    close(outputs(run, "client_average"), twin["ergodic"])
    exact = twins_one_machine.compositeDualExtrapolation(the.space, lambda z, t, s: the.operator(0, z), 12, 0.2, START)
    check_against_twin(fx.simulate(the.problem, fx.FeDualEx(0.2), clients=3, **options), exact)


@pytest.mark.slow
def test_without_psi_and_domain_extrapolation_is_extragradient():
    """T13: z - eta g(z - eta g(z)), with noise."""
    the, noise = case("shared free"), noise_table("shared free", "wave")
    methods = (
        fx.StochasticDualExtrapolation(0.1),
        fx.CoMP(0.1),
        fx.ExtraStepLocalSGD(0.1),
        fx.NesterovDualExtrapolation(0.1),
    )
    runs = [fx.simulate(the.problem, m, steps=8, noise=WAVE, seed=SEED, z0=saddle(START)) for m in methods]
    z, halves = START, []
    for t in range(8):
        halves.append(z - 0.1 * (the.operator(0, z) + noise[t, 0, 0, 0]))
        z = z - 0.1 * (the.operator(0, halves[-1]) + noise[t, 0, 0, 1])
    for run in runs:
        close(outputs(run), np.concatenate([z, np.mean(halves, axis=0), np.mean(halves, axis=0)]))
        assert run.status is fx.Status.UNCERTIFIED


@SLOW
def test_without_psi_and_domain_descent_methods_are_one():
    """T13: FedDualAvg = FedMiD = FedAvgS with noise, K = 3 and a partial cohort; last points."""
    options = {"rounds": 4, "clients": 5, "cohort": 3, "local_steps": 3, "noise": WAVE, "seed": SEED}
    methods = (fx.FedAvgS(*BOTH), fx.FedDualAvg(*BOTH), fx.FedMiD(*BOTH))
    runs = [fx.simulate(case("shared free").problem, m, z0=saddle(START), **options) for m in methods]
    same_run(runs[1], runs[0], "last")  # its probe is the pair before the step
    same_run(runs[2], runs[0])


@pytest.mark.slow
def test_mirror_prox_on_the_server_of_one_client():
    """T14: FedMiP = mirror prox if there is only C; with l1 the printed server rule differs (E4), "project" is CoMP."""
    options = {"steps": 10, "z0": saddle(START)}
    box, l1 = case("shared box").problem, case("shared").problem
    plain = fx.simulate(box, fx.MirrorProx(0.15), **options)
    for rule in ("paper", "project"):
        same_run(fx.simulate(box, fx.FedMiP(0.15, server_prox=rule), **options), plain)
    composite = fx.simulate(l1, fx.CoMP(0.15), **options)
    same_run(fx.simulate(l1, fx.FedMiP(0.15, server_prox="project"), **options), composite)
    differ(outputs(fx.simulate(l1, fx.FedMiP(0.15), **options), "last"), outputs(composite, "last"))


@pytest.mark.slow
def test_equal_clients_with_one_step_are_one_machine():
    """T15: K = 1, eta_s = 1, no noise: FedDualAvg = RDA, FedMiD(project) = composite mirror descent."""
    problem, z0 = case("shared").problem, saddle(START)
    pairs = [(fx.FedDualAvg, fx.DualAveraging, {}), (fx.FedMiD, fx.CompositeMirrorDescent, {"server_prox": "project"})]
    for federated, alone, extra in pairs:
        many = fx.simulate(problem, federated(0.15, **extra), rounds=10, clients=3, z0=z0)
        same_run(many, fx.simulate(problem, alone(0.15), steps=10, z0=z0))


DRIFTING = (fx.FeDualExCorrected(*BOTH), fx.FeDualEx(*BOTH), fx.FedMiP(*BOTH))


@pytest.mark.slow
@pytest.mark.parametrize("method", DRIFTING, ids=named)
def test_twice_the_clients_and_scaled_weights_change_nothing(method):
    """T19, without noise."""
    options = {"rounds": 4, "local_steps": 2, "z0": saddle(START)}
    once = fx.simulate(data_problem(**L1_BOX), method, **options)
    same_run(fx.simulate(data_problem(**L1_BOX, weights=7 * np.array(UNEQUAL)), method, **options), once)
    twice = data_problem(**L1_BOX, weights=UNEQUAL * 2, data=EXAMPLES * 2)
    same_run(fx.simulate(twice, method, **options), once)


def test_entropic_dual_is_defined_up_to_a_constant():
    """T19: log(3 y0) = log y0 + log 3."""
    the, start = case("shared entropic"), saddle(SIMPLEX_START)
    runs = [
        fx.simulate(the.problem, fx.FeDualEx(0.1), steps=10, z0=fx.Saddle(start.x, scale * start.y), init="paper")
        for scale in (1.0, 3.0)
    ]
    same_run(*runs)
    close(runs[1].state.server.omega.y - runs[0].state.server.omega.y, np.full(N_Y, np.log(3)))


SWAPPED = (fx.FeDualEx(*BOTH), fx.FedMiP(*BOTH, server_prox="project"), fx.FedDualAvg(*BOTH))


@pytest.mark.slow
@pytest.mark.parametrize("method", SWAPPED, ids=named)
def test_players_can_be_swapped(method):
    """T19: <A x - b, y> becomes <-A^T x', y'> + <b, x'>; the linear term moves from the operator into psi."""
    options = {"rounds": 4, "clients": 2, "local_steps": 3}
    run = fx.simulate(case("shared").problem, method, z0=saddle(START), **options)
    other = fx.problems.bilinear(-A.T, np.zeros(N_X), x=L1_BOX["y"] + fx.Linear(B), y=L1_BOX["x"])
    swapped = fx.simulate(other, method, z0=fx.Saddle(START[N_X:], START[:N_X]), **options)
    for name in ("last", "client_average", "ergodic"):
        close(swapped.outputs[name].z.y, run.outputs[name].z.x)
        close(swapped.outputs[name].z.x, run.outputs[name].z.y)
        assert swapped.outputs[name].gap == pytest.approx(run.outputs[name].gap, abs=1e-12)


@pytest.mark.slow
def test_clock():
    """T20: tau = eta_s eta_c K R, or eta_s eta_c sum_r sum_m a_m K_m, whoever takes part."""
    the = case("data")
    options = {"rounds": ROUNDS, "cohort": 3, "noise": WAVE, "seed": SEED, "z0": saddle(START)}
    run = fx.simulate(the.problem, fx.FedDualAvg(*BOTH), local_steps=2, **options)
    close(run.state.server.tau, ETA_S * ETA_C * 2 * ROUNDS)
    run = fx.simulate(the.problem, fx.FeDualEx(*BOTH), local_steps=np.array(UNEVEN), **options)
    shares = [twins_shared.cohort_weights(the.weights, cohort) for cohort in cohorts_of(the, 3)]
    close(run.state.server.tau, ETA_S * ETA_C * sum(a[m] * UNEVEN[m] for a in shares for m in a))


@pytest.mark.parametrize("method", [fx.CoMP(0.2), fx.CompositeDualExtrapolation(0.2)], ids=named)
def test_saddle_point_is_a_fixed_point(method):
    """T22: P_{t eta}(z* - t eta g(z*)) = z*. HiGHS is exact to about 1e-9."""
    problem = case("shared").problem
    solution = fx.reference.lp(problem)
    run = fx.simulate(problem, method, steps=50, z0=solution.z)
    close(outputs(run), np.tile(flat(solution.z), 3), 1e-8)


def test_start_outside_the_domain():
    """T23: both starts have the same first point; "paper" keeps the excess in omega, and its B0 is larger (E5)."""
    outside = 4 * START
    problem, T, eta = case("shared").problem, 20, 1 / np.linalg.norm(A, 2)
    inside = problem.project(saddle(outside))
    with double():
        sizes = {
            "project": float(problem.geometry.B0(tree.cast(inside, jnp.float64))),
            "paper": float(problem.geometry.B0(tree.cast(saddle(outside), jnp.float64))),
        }
    bounds = np.repeat([BOX_X, BOX_Y], [N_X, N_Y])
    close(sizes["project"], np.sum((bounds + np.abs(flat(inside))) ** 2) / 2)
    excess = np.sum((outside - flat(inside)) ** 2) / 2
    close(sizes["paper"], np.sum((bounds + np.abs(outside)) ** 2) / 2 - excess)
    assert sizes["paper"] > 1.5 * sizes["project"]
    first = {}
    for init, size in sizes.items():
        method = fx.CompositeDualExtrapolation(eta)
        run = fx.simulate(problem, method, steps=T, z0=saddle(outside), init=init, record_every=1)
        gaps, first[init] = run.history["gap_ergodic"][1:], run.history["gap_last"][0]
        assert np.all(gaps <= size / (eta * np.arange(1, T + 1)) * (1 + 1e-9))
        twin = twins_one_machine.compositeDualExtrapolation(
            case("shared").space, lambda z, t, s: bilinear_operator(0, z), T, eta, outside, init
        )
        check_against_twin(run, twin)
    assert first["paper"] == pytest.approx(first["project"], abs=1e-12)


def test_primal_methods_start_inside_the_domain_always():
    """They keep no dual: both values of init start at the projection, so no operator is asked for outside C."""
    runs = [
        fx.simulate(case("shared").problem, fx.FedMiP(0.1), steps=5, z0=saddle(4 * START), init=init)
        for init in ("project", "paper")
    ]
    same_run(*runs)


@pytest.mark.slow
def test_ergodic_is_clients_where_the_map_is_affine():
    """T27: for one client, and for a squared norm without domain; not for l1 in a box with noise."""
    options = {"seed": SEED, "z0": saddle(START), "rounds": 3}
    many = {"clients": 5, "cohort": 3, "local_steps": 3, "noise": ORACLES["gauss"], "dtype": "float64"}
    l1, affine = case("shared").problem, fx.problems.bilinear(A, B, x=fx.SquaredL2(0.4), y=fx.SquaredL2(0.3))
    run = fx.simulate(l1, fx.FeDualEx(*BOTH), clients=1, local_steps=4, noise=WAVE, **options)
    close(outputs(run, "ergodic"), outputs(run, "client_average"))
    run = fx.simulate(affine, fx.FeDualEx(*BOTH), **many, **options)
    close(outputs(run, "ergodic"), outputs(run, "client_average"))
    run = fx.simulate(l1, fx.FeDualEx(*BOTH), **many, **options)
    differ(outputs(run, "ergodic"), outputs(run, "client_average"))
