"""Every method against its slow twin."""

import itertools

import jax
import numpy as np
import pytest
from support import twins_federated, twins_one_machine, twins_shared
from support.twin_cases import (
    BOTH,
    BOX_X,
    BOX_Y,
    ETA_S,
    EXAMPLES,
    L1_BOX,
    LAM_X,
    LAM_Y,
    N_X,
    N_Y,
    ORACLES,
    ROUNDS,
    SEED,
    SLOW,
    START,
    UNEQUAL,
    UNEVEN,
    A,
    B,
    case,
    check_against_twin,
    close,
    cohorts_of,
    compile_quickly,  # noqa: F401
    data_operator,
    data_problem,
    flat,
    noise_table,
    outputs,
    saddle,
    same_run,
)

import fedualex as fx
from fedualex.runs.settings import PROTOCOL

SLIDING = (0.4, 0.15)
PRIMAL_DUAL = (0.2, 0.3, 0.05, 0.8)

# name: (method, twin, the steps that the twin takes, its other options)
FEDERATED = {
    "FeDualEx": (fx.FeDualEx(*BOTH), twins_federated.feDualEx, BOTH, {}),
    "FeDualExCorrected fresh": (
        fx.FeDualExCorrected(*BOTH),
        twins_federated.feDualExCorrected,
        BOTH,
        {"mode": "fresh"},
    ),
    "FeDualExCorrected stale": (
        fx.FeDualExCorrected(*BOTH, mode="stale"),
        twins_federated.feDualExCorrected,
        BOTH,
        {"mode": "stale"},
    ),
    "FeDualExCorrected recentered": (
        fx.FeDualExCorrected(*BOTH, recenter=True),
        twins_federated.feDualExCorrected,
        BOTH,
        {"recenter": True},
    ),
    "FedGDAGT": (fx.FedGDAGT(*BOTH), twins_federated.fedGDAGT, BOTH, {}),
    **{
        f"LeadSliding {mode}": (
            fx.LeadSliding(*SLIDING, mode=mode, lead=1),
            twins_federated.leadSliding,
            SLIDING,
            {"mode": mode, "lead": 1},
        )
        for mode in ("extragradient", "optimistic")
    },
    "FedDualAvg": (fx.FedDualAvg(*BOTH), twins_federated.fedDualAvg, BOTH, {}),
    "FedDualAvg after": (
        fx.FedDualAvg(*BOTH, average="after"),
        twins_federated.fedDualAvg,
        BOTH,
        {"average": "after"},
    ),
    **{
        f"{name} {rule}": (method(*BOTH, server_prox=rule), twin, BOTH, {"server_prox": rule})
        for name, method, twin in (
            ("FedMiP", fx.FedMiP, twins_federated.fedMiP),
            ("FedMiD", fx.FedMiD, twins_federated.fedMiD),
        )
        for rule in ("paper", "project", "none")
    },
    "FedAvgS": (fx.FedAvgS(*BOTH), twins_federated.fedAvgS, BOTH, {}),
    "FedAvg": (fx.FedAvg(*BOTH), twins_federated.fedAvgS, BOTH, {}),
    "LocalSGDA": (fx.LocalSGDA(0.1, 0.07, ETA_S), twins_federated.localSGDA, (0.1, 0.07, ETA_S), {}),
    "ExtraStepLocalSGD": (fx.ExtraStepLocalSGD(*BOTH), twins_federated.extraStepLocalSGD, BOTH, {}),
    "DRFA": (fx.DRFA(0.1, 0.07, ETA_S), twins_federated.dRFA, (0.1, 0.07, ETA_S), {}),
    "ScaffPD": (fx.ScaffPD(*PRIMAL_DUAL), twins_federated.scaffPD, PRIMAL_DUAL, {}),
    "ScaffoldS": (fx.ScaffoldS(*BOTH), twins_federated.scaffoldS, BOTH, {"option": "I"}),
    "ScaffoldSMemory": (fx.ScaffoldSMemory(*BOTH), twins_federated.scaffoldS, BOTH, {"option": "II"}),
}
SURVEYED = (
    twins_federated.feDualExCorrected,
    twins_federated.fedGDAGT,
    twins_federated.leadSliding,
    twins_federated.scaffPD,
    twins_federated.scaffoldS,
)
MIRRORED = [
    name for name in FEDERATED if name.startswith(("FeDualEx", "FedDualAvg", "FedGDAGT", "FedMi", "LeadSliding"))
]


def compare(name, case_name, local_steps, noise, cohort=3, **options):
    method, twin, steps, extra = FEDERATED[name]
    the = case(case_name)
    added = noise_table(case_name, noise)
    cohort = cohort if method.lead is None else None

    def g(m, z, r, k, s):
        return the.operator(m, z) + added[r, m, k, s]

    run = fx.simulate(
        the.problem,
        method,
        rounds=ROUNDS,
        local_steps=np.array(local_steps) if isinstance(local_steps, tuple) else local_steps,
        clients=the.clients,
        cohort=cohort,
        noise=ORACLES[noise],
        seed=SEED,
        z0=saddle(the.z0),
        dtype="float64",
        **options,
    )
    survey = (the.operator,) if twin in SURVEYED else ()
    cohorts = [[method.lead]] * ROUNDS if cohort is None else cohorts_of(the, cohort)
    expected = twin(
        the.space, g, *survey, the.clients, local_steps, ROUNDS, cohorts, the.weights, *steps, the.z0, **extra
    )
    check_against_twin(run, expected, entropic="entropic" in case_name)
    return run


FAST = [
    ("FeDualEx", "shared", 3, "gauss"),
    ("FeDualEx", "data", UNEVEN, "wave"),
    ("FeDualExCorrected fresh", "data", 2, "wave"),
    ("FeDualExCorrected stale", "data entropic", 2, "wave"),
    ("FeDualExCorrected recentered", "data", 2, "wave"),
    ("FedGDAGT", "data", UNEVEN, "wave"),
    ("LeadSliding extragradient", "data", UNEVEN, "wave"),
    ("LeadSliding optimistic", "data entropic", 2, "wave"),
    ("FedDualAvg", "data", 2, "wave"),
    ("FedDualAvg after", "data", UNEVEN, "wave"),
    ("FedMiP paper", "data", UNEVEN, "wave"),
    ("FedMiD project", "data entropic", 2, "wave"),
    ("FedAvgS", "data", UNEVEN, "wave"),
    pytest.param("LocalSGDA", "data", 2, "wave", marks=SLOW),
    ("ExtraStepLocalSGD", "data", 2, "wave"),
    ("ScaffoldS", "data", 2, "wave"),
    ("DRFA", "data", UNEVEN, "wave"),
    ("ScaffPD", "data", UNEVEN, "wave"),
]
ELSEWHERE = {
    "ChambollePock",
    "TsengAPG",
    "SynchronousMirrorProx",
    "FeDualSlide",
    "FeDualCuts",
    "FeDualNewton",
    "ProxNewton",
    "SDANE",
    "BacktrackingCoMP",
    "BacktrackingDualExtrapolation",
}  # or no twin


def test_no_method_is_missing():
    methods = [method for method, *_ in (*FEDERATED.values(), *SEQUENTIAL.values())]
    public = {name for name in fx.algorithms.__all__ if isinstance(getattr(fx.algorithms, name), type)}
    assert public - {type(method).__name__ for method in methods} - ELSEWHERE == set(PROTOCOL)
    fast = {getattr(row, "values", row)[0].split()[0] for row in FAST}
    assert fast | {"FedAvg", "ScaffoldSMemory"} == {name.split()[0] for name in FEDERATED}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("name", "case_name", "local_steps", "noise"), FAST)
def test_federated_methods_are_their_twins(name, case_name, local_steps, noise):
    """Noise, a partial cohort, eta_s = 0.7; with data: unequal clients and weights; in part: unequal local steps."""
    compare(name, case_name, local_steps, noise)


@pytest.mark.slow
def test_a_method_with_memory_is_its_twin_in_chunks_with_padding():
    """The twin's c is the plain mean of the c_m, so here the clients weigh alike."""
    compare("ScaffoldSMemory", "data alike", 2, "wave", chunk=2)


def everywhere():
    """All pairs of method, case and local steps that have a twin."""
    for name, case_name, local_steps in itertools.product(
        FEDERATED, ("shared", "data", "data entropic"), (1, 3, UNEVEN)
    ):
        if "entropic" in case_name and name not in MIRRORED:
            continue  # the twin projects; in the entropic geometry the library takes a mirror step
        if name == "ScaffoldSMemory" and local_steps == UNEVEN:
            continue  # refused: see test_scaffold_memory_needs_equal_steps
        if name == "ScaffoldSMemory" and case_name == "data":
            case_name = "data alike"  # the twin's c is the plain mean
        yield name, case_name, (*UNEVEN, 1) if case_name == "shared" and local_steps == UNEVEN else local_steps


@pytest.mark.slow
@pytest.mark.parametrize(("name", "case_name", "local_steps"), list(everywhere()))
def test_federated_methods_are_their_twins_everywhere(name, case_name, local_steps):
    compare(name, case_name, local_steps, "gauss")


def test_scaffold_memory_keeps_the_mean_of_the_controls():
    """c = sum_m p_m c_m with all clients: the corrections c - c_m cancel in the objective's mean."""
    problem = data_problem(**L1_BOX, weights=UNEQUAL)
    run = fx.simulate(problem, fx.ScaffoldSMemory(*BOTH), rounds=ROUNDS, local_steps=2, z0=saddle(START))
    mean = jax.tree.map(lambda c: np.tensordot(problem.weights, c, 1), run.state.memory)
    close(flat(run.state.server.control), flat(mean))


def test_scaffold_memory_needs_equal_steps():
    """A change of the control variate is not an increment over steps, so it cannot be normalized by them."""
    problem = data_problem(**L1_BOX, weights=UNEQUAL)
    with pytest.raises(ValueError, match="ScaffoldSMemory takes the same number of local_steps on all clients"):
        fx.simulate(problem, fx.ScaffoldSMemory(*BOTH), rounds=ROUNDS, local_steps=np.array(UNEVEN))


def with_subgradient(the):
    """Methods for psi = 0 meet a psi through its subgradient: the twin's operator has it added."""
    return lambda z: the.operator(0, z) + the.space.subgradient(z)


# name: (method, twin, whether psi enters through its subgradient)
SEQUENTIAL = {
    "StochasticDualExtrapolation": (
        fx.StochasticDualExtrapolation(0.2),
        twins_one_machine.stochasticDualExtrapolation,
        False,
    ),
    "NesterovDualExtrapolation": (fx.NesterovDualExtrapolation(0.2), twins_one_machine.nesterovDualExtrapolation, True),
    "MirrorDescent": (fx.MirrorDescent(0.2), twins_one_machine.mirrorDescent, True),
    "CompositeMirrorDescent": (fx.CompositeMirrorDescent(0.2), twins_one_machine.compositeMirrorDescent, False),
    "DualAveraging": (fx.DualAveraging(0.2), twins_one_machine.dualAveraging, False),
    "MirrorProx": (fx.MirrorProx(0.2), twins_one_machine.mirrorProx, True),
    "StochasticMirrorProx": (fx.StochasticMirrorProx(0.2), twins_one_machine.stochasticMirrorProx, False),
    "OptimisticMirrorDescent": (fx.OptimisticMirrorDescent(0.2), twins_one_machine.optimisticMirrorDescent, False),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("noise", ["exact", pytest.param("wave", marks=SLOW)])
@pytest.mark.parametrize("name", SEQUENTIAL)
def test_one_machine_methods_are_their_twins(name, noise):
    method, twin, subgradient = SEQUENTIAL[name]
    the, added, T = case("shared"), noise_table("shared", noise), 10
    operator = with_subgradient(the) if subgradient else lambda z: the.operator(0, z)
    run = fx.simulate(the.problem, method, steps=T, noise=ORACLES[noise], seed=SEED, z0=saddle(the.z0))
    expected = twin(the.space, lambda z, t, s: operator(z) + added[t, 0, 0, s], T, 0.2, the.z0)
    check_against_twin(run, expected)
    close(outputs(run, "client_average"), expected["ergodic"])


def prox(lam, radius):
    return lambda v, tau: np.clip(twins_shared.soft(v, tau * lam), -radius, radius)


def test_chambolle_pock_is_its_twin():
    run = fx.simulate(case("shared").problem, fx.ChambollePock(0.3, 0.2), steps=10, z0=saddle(START))
    twin = twins_one_machine.chambollePock(A, B, prox(LAM_X, BOX_X), prox(LAM_Y, BOX_Y), 0.3, 0.2, 10, START)
    check_against_twin(run, twin)


@pytest.mark.parametrize("T", [1, 10])
def test_tseng_is_its_twin(T):
    beta = np.linalg.norm(A, 2)
    mu = 2 * beta * np.sqrt(np.sum((BOX_X + np.abs(START[:N_X])) ** 2) / (N_Y * BOX_Y**2)) / (T + 1)
    run = fx.simulate(case("shared").problem, fx.TsengAPG(mu, beta**2 / mu), steps=T, z0=saddle(START))
    twin = twins_one_machine.tsengAPG(A, B, LAM_X, BOX_X, LAM_Y, BOX_Y, T, beta, START[:N_X])
    close(outputs(run, "last"), twin["last"])


@pytest.mark.slow
def test_synchronous_methods_are_one_machine_with_the_mean_operator():
    """On unequal clients: K = 1, no noise. Mirror prox, dual extrapolation, and one client that holds all examples."""
    sizes, options = np.array([len(client[2]) for client in EXAMPLES]), {"rounds": 10, "z0": saddle(START)}
    problem, space = data_problem(**L1_BOX, weights="samples"), case("data").space

    def mean_operator(z, t, s):
        return sum(n * data_operator(m, z) for m, n in enumerate(sizes)) / sum(sizes)

    prox = fx.simulate(problem, fx.SynchronousMirrorProx(0.2), **options)
    check_against_twin(prox, twins_one_machine.coMP(space, mean_operator, 10, 0.2, START))
    dual = fx.simulate(problem, fx.SynchronousDualExtrapolation(0.2), **options)
    check_against_twin(dual, twins_one_machine.compositeDualExtrapolation(space, mean_operator, 10, 0.2, START))
    same_run(fx.simulate(problem, fx.FeDualExCorrected(0.2), **options), dual)
    pooled = [tuple(np.concatenate(leaves) for leaves in zip(*EXAMPLES, strict=True))]
    alone = data_problem(**L1_BOX, data=pooled, weights="samples")
    same_run(fx.simulate(alone, fx.CompositeDualExtrapolation(0.2), **options), dual)


def test_equal_clients_need_no_correction():
    shared, z0 = case("shared").problem, saddle(START)
    corrected = fx.simulate(shared, fx.FeDualExCorrected(0.2), clients=3, rounds=10, z0=z0)
    same_run(corrected, fx.simulate(shared, fx.CompositeDualExtrapolation(0.2), steps=10, z0=z0))
