"""Methods: against their slow twins, against each other, and against the bounds, identities and lemmas of the theory.

T11, T12, ... and E3, E4, ... are the numbers of the property tests and of the errata in the mathematical specification.
"""

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import rows, twins_federated, twins_one_machine, twins_shared

import fedualex as fx
from fedualex import tree
from fedualex.precision import double
from fedualex.problems import AbstractOracle
from fedualex.runtime.rounds import draw_cohort
from fedualex.runtime.state import Setup

SLOW = pytest.mark.slow
SEED, ETA_C, ETA_S = 5, 0.1, 0.7
ROUNDS, MOST_STEPS = 4, 3
N_X, N_Y = 4, 5
LAM_X, LAM_Y, BOX_X, BOX_Y = 0.3, 0.2, 1.0, 0.7
L1_BOX = {"x": fx.L1(LAM_X) + fx.Box(BOX_X), "y": fx.L1(LAM_Y) + fx.Box(BOX_Y)}
KL_PRIOR = np.array([0.1, 0.2, 0.3, 0.25, 0.15])


class Wave(AbstractOracle):
    """g_m(z) plus a wave whose phase the key alone decides: another one for every sample, and quick to compile."""

    def __call__(self, problem, client, z, key):
        phase = jax.random.key_data(key)[0] % 997

        def disturb(g):
            return g + 0.3 * jnp.sin(phase.astype(g.dtype) + jnp.arange(g.size, dtype=g.dtype))

        return jax.tree.map(disturb, problem.client_operator(client, z))


@pytest.fixture(autouse=True, scope="module")
def compile_quickly():
    """Most of the time here is XLA's; the programs are tiny."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


ORACLES = {"wave": Wave(), "gauss": fx.GaussianNoise(0.3), "exact": fx.Exact()}
WAVE = ORACLES["wave"]

# --- each problem twice: for the library, and as numpy for the twins ------------------------------------------------


@dataclass(frozen=True, eq=False)
class Case:
    """`operator(m, z)` is g_m in numpy, on vectors that hold x, then y."""

    problem: Any
    space: Any
    operator: Any
    clients: int
    weights: Any
    z0: np.ndarray


def flat(z):
    return np.concatenate([np.ravel(z.x), np.ravel(z.y)])


def saddle(v):
    return fx.Saddle(v[:N_X], v[N_X:])


RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(N_Y, N_X)), RNG.normal(size=N_Y)
START = RNG.uniform(-0.6, 0.6, N_X + N_Y)
SIMPLEX_START = np.concatenate([START[:N_X], RNG.dirichlet(np.ones(N_Y))])
EXAMPLES = [
    (RNG.normal(size=(n, N_X)), RNG.normal(size=(n, N_Y)), RNG.normal(size=n)) for n in (3, 1, 5, 2)
]  # unequal clients
UNEQUAL = (1.0, 2.0, 0.5, 1.5)


def bilinear_operator(m, z):
    return np.concatenate([A.T @ z[N_X:], B - A @ z[:N_X]])


def example_loss(x, y, example):
    """Least squares in x, coupled to y, strongly concave in y: convex-concave."""
    a, c, target = example
    return (a @ x - target) ** 2 / 2 + (a @ x) * (c @ y) - jnp.sum(y**2) / 2


def data_operator(m, z):
    """The mean over client m's examples of (a (a.x - target + c.y), y - (a.x) c)."""
    x, y, total = z[:N_X], z[N_X:], np.zeros(N_X + N_Y)
    for a, c, target in zip(*EXAMPLES[m], strict=True):
        total += np.concatenate([a * (a @ x - target + c @ y), y - (a @ x) * c])
    return total / len(EXAMPLES[m][0])


def data_problem(x, y, weights=UNEQUAL, data=EXAMPLES):
    return fx.Problem(example_loss, x=x, y=y, like=saddle(np.zeros(N_X + N_Y)), data=data, weights=weights)


@cache
def case(name):
    box = twins_shared.L1Box(N_X, N_Y, LAM_X, LAM_Y, (-BOX_X, BOX_X), (-BOX_Y, BOX_Y))
    only_box = twins_shared.L1Box(N_X, N_Y, 0.0, 0.0, (-BOX_X, BOX_X), (-BOX_Y, BOX_Y))
    kl = twins_shared.L1BoxEntropy(N_X, N_Y, LAM_X, (-BOX_X, BOX_X), 0.4, KL_PRIOR)
    free = twins_shared.Free(N_X, N_Y)
    boxes, zeros = {"x": fx.Box(BOX_X), "y": fx.Box(BOX_Y)}, {"x": fx.Zero(), "y": fx.Zero()}
    entropic = {"x": L1_BOX["x"], "y": fx.EntropicSimplex(fx.KL(0.4, KL_PRIOR))}
    game, alike, p = fx.problems.bilinear, np.ones(5), np.array(UNEQUAL)
    return {
        "shared": lambda: Case(game(A, B, **L1_BOX), box, bilinear_operator, 5, alike, START),
        "shared box": lambda: Case(game(A, B, **boxes), only_box, bilinear_operator, 5, alike, START),
        "shared free": lambda: Case(game(A, B, **zeros), free, bilinear_operator, 5, alike, START),
        "shared entropic": lambda: Case(game(A, B, **entropic), kl, bilinear_operator, 5, alike, SIMPLEX_START),
        "data": lambda: Case(data_problem(**L1_BOX), box, data_operator, 4, p, START),
        "data alike": lambda: Case(data_problem(**L1_BOX, weights="clients"), box, data_operator, 4, p * 0 + 1, START),
        "data entropic": lambda: Case(data_problem(**entropic), kl, data_operator, 4, p, SIMPLEX_START),
    }[name]()


@cache
def noise_table(name, kind):
    """noise[r, m, k, s]: what the oracle adds in round r on client m, at sample s of local step k."""
    the, oracle, sizes = case(name), ORACLES[kind], (12, case(name).clients, 12, 2)
    with double():
        problem, z = the.problem, tree.cast(saddle(the.z0), jnp.float64)

        @jax.jit
        @jax.vmap
        def sample(r, m, k, s):
            key = jax.random.key(SEED)
            for counter in (r, m + 1, k, s):
                key = jax.random.fold_in(key, counter)
            client = jax.tree.map(lambda leaf: jnp.asarray(leaf)[m], problem.data)
            return tree.subtract(oracle(problem, client, z, key), problem.client_operator(client, z))

        noise = sample(*(jnp.ravel(jnp.asarray(index)) for index in np.indices(sizes)))
        return np.concatenate([noise.x, noise.y], axis=1).reshape(*sizes, N_X + N_Y)


def cohorts_of(the, size, rounds=ROUNDS):
    """The cohorts that the library draws, and the twins' weights for them."""
    with double():
        setup = Setup(
            problem=the.problem,
            method=fx.FedAvgS(1.0),
            oracle=fx.Exact(),
            weights=jnp.asarray(the.weights / np.sum(the.weights)),
            steps=jnp.ones(the.clients, int),
            key=jax.random.key(SEED),
            clients=the.clients,
            cohort=size,
            local_steps=1,
            chunk=size,
            equal_steps=True,
        )
        drawn = [draw_cohort(setup, jnp.asarray(r)) for r in range(rounds)]
    for ids, a in drawn:
        close(a, list(twins_shared.cohort_weights(the.weights, np.asarray(ids)).values()))
    return [np.asarray(ids) for ids, _ in drawn]


def close(ours, theirs, tolerance=1e-12):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * max(1.0, float(np.max(np.abs(theirs)))))


def differ(ours, theirs, least=1e-3):
    assert np.max(np.abs(np.asarray(ours) - np.asarray(theirs))) > least


def outputs(run, *names):
    return np.concatenate([flat(run.outputs[name].z) for name in names or ("last", "clients", "ergodic")])


def same_run(left, right, *names):
    close(outputs(left, *names), outputs(right, *names))


def check_against_twin(run, twin, entropic=False):
    """Every output that the twin defines, and the server's dual pair; an entropic omega up to a constant."""
    for name in ("last", "clients", "ergodic"):
        if name in twin:
            close(flat(run.outputs[name].z), twin[name])
    server = run.state.server
    if "omega" in twin:
        ours, theirs = flat(server.omega), np.array(twin["omega"])
        if entropic:
            ours[N_X:] -= np.mean(ours[N_X:])
            theirs[N_X:] -= np.mean(theirs[N_X:])
        close(ours, theirs)
        close(server.tau, twin["theta"])


# --- 1. every method against its twin --------------------------------------------------------------------------------

BOTH = (ETA_C, ETA_S)
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
    "FedDualAvg": (fx.FedDualAvg(*BOTH), twins_federated.fedDualAvg, BOTH, {}),
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
    "ScaffoldS": (fx.ScaffoldS(*BOTH), twins_federated.scaffoldS, BOTH, {"option": "I"}),
    "ScaffoldSMemory": (fx.ScaffoldSMemory(*BOTH), twins_federated.scaffoldS, BOTH, {"option": "II"}),
}
SURVEYED = (twins_federated.feDualExCorrected, twins_federated.scaffoldS)
MIRRORED = [name for name in FEDERATED if name.startswith(("FeDualEx", "FedDualAvg", "FedMi"))]

UNEVEN = (1, 3, 2, 2)  # local steps


def compare(name, case_name, local_steps, noise, cohort=3, **options):
    method, twin, steps, extra = FEDERATED[name]
    the = case(case_name)
    added = noise_table(case_name, noise)

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
        **options,
    )
    survey = (the.operator,) if twin in SURVEYED else ()
    cohorts = cohorts_of(the, cohort)
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
    ("FedDualAvg", "data", 2, "wave"),
    ("FedMiP paper", "data", UNEVEN, "wave"),
    ("FedMiD project", "data entropic", 2, "wave"),
    ("FedAvgS", "data", UNEVEN, "wave"),
    pytest.param("LocalSGDA", "data", 2, "wave", marks=SLOW),
    ("ExtraStepLocalSGD", "data", 2, "wave"),
    ("ScaffoldS", "data", 2, "wave"),
]
ELSEWHERE = {
    "ChambollePock",
    "TsengAPG",
    "SynchronousMirrorProx",
    "BacktrackingCoMP",
    "BacktrackingDualExtrapolation",
}  # or no twin


def test_no_method_is_missing():
    methods = [method for method, *_ in (*FEDERATED.values(), *SEQUENTIAL.values())]
    public = {name for name in fx.algorithms.__all__ if isinstance(getattr(fx.algorithms, name), type)}
    assert public - {type(method).__name__ for method in methods} - ELSEWHERE == {"AbstractMethod"}
    fast = {getattr(row, "values", row)[0].split()[0] for row in FAST}
    assert fast | {"FedAvg", "ScaffoldSMemory"} == {name.split()[0] for name in FEDERATED}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "case_name", "local_steps", "noise"), FAST)
def test_federated_methods_are_their_twins(name, case_name, local_steps, noise):
    """Noise, a partial cohort, eta_s = 0.7; with data: unequal clients and weights; in part: unequal local steps."""
    compare(name, case_name, local_steps, noise)


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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("noise", ["exact", pytest.param("wave", marks=SLOW)])
@pytest.mark.parametrize("name", SEQUENTIAL)
def test_one_machine_methods_are_their_twins(name, noise):
    method, twin, subgradient = SEQUENTIAL[name]
    the, added, T = case("shared"), noise_table("shared", noise), 10
    operator = with_subgradient(the) if subgradient else lambda z: the.operator(0, z)
    run = fx.simulate(the.problem, method, steps=T, noise=ORACLES[noise], seed=SEED, z0=saddle(the.z0))
    expected = twin(the.space, lambda z, t, s: operator(z) + added[t, 0, 0, s], T, 0.2, the.z0)
    check_against_twin(run, expected)
    close(outputs(run, "clients"), expected["ergodic"])


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


def named(method):
    return type(method).__name__


# --- 2. equivalences and invariances ----------------------------------------------------------------------------------


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
    close(outputs(run, "clients"), twin["ergodic"])
    exact = twins_one_machine.compositeDualExtrapolation(the.space, lambda z, t, s: the.operator(0, z), 12, 0.2, START)
    check_against_twin(fx.simulate(the.problem, fx.FeDualEx(0.2), clients=3, **options), exact)


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
    for name in ("last", "clients", "ergodic"):
        close(swapped.outputs[name].z.y, run.outputs[name].z.x)
        close(swapped.outputs[name].z.x, run.outputs[name].z.y)
        assert swapped.outputs[name].gap == pytest.approx(run.outputs[name].gap, abs=1e-12)


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


def test_ergodic_is_clients_where_the_map_is_affine():
    """T27: for one client, and for a squared norm without domain; not for l1 in a box with noise."""
    options = {"seed": SEED, "z0": saddle(START), "rounds": 3}
    many = {"clients": 5, "cohort": 3, "local_steps": 3, "noise": ORACLES["gauss"]}
    l1, affine = case("shared").problem, fx.problems.bilinear(A, B, x=fx.SquaredL2(0.4), y=fx.SquaredL2(0.3))
    run = fx.simulate(l1, fx.FeDualEx(*BOTH), clients=1, local_steps=4, noise=WAVE, **options)
    close(outputs(run, "ergodic"), outputs(run, "clients"))
    run = fx.simulate(affine, fx.FeDualEx(*BOTH), **many, **options)
    close(outputs(run, "ergodic"), outputs(run, "clients"))
    run = fx.simulate(l1, fx.FeDualEx(*BOTH), **many, **options)
    differ(outputs(run, "ergodic"), outputs(run, "clients"))


# --- 3. bounds, at every T --------------------------------------------------------------------------------------------

BOUNDED = {
    name: part
    for name, (part, like) in rows.GEOMETRIES.items()
    if np.shape(like) == rows.VECTOR.shape and isinstance(part, fx.Euclidean | fx.EntropicSimplex)
    if part.finite_conjugate and np.isfinite(float(part.diameter(rows.VECTOR)))
}
PAIRS = [
    ("8 box of arrays", "9 l2 ball"),
    ("10 l1 ball", "entropic"),
    ("entropic", "entropic"),
    ("13 l1 + l2 ball", "entropic cap"),
    ("19 group l2 + l2 ball", "12 box of arrays + l1"),
    ("20 capped simplex", "18 elastic net + box"),
    ("entropic kl + linear", "11 simplex of radius 3"),
]
DEGENERATE = ("of radius 0", "of one point", "of strength 0", "cap above 1", "of one entry", "whole")
EVERY_T = 12


def gaps_at_every_T(problem, method, z0):
    """The certificate of the ergodic mean after 1, 2, ..., EVERY_T steps on one machine; not compiled, so quick."""
    geometry, total, weight, gaps = problem.geometry, tree.scale(0.0, z0), 0.0, []
    state = method.start(geometry.dual(z0), geometry)
    for _ in range(EVERY_T):
        state, probe, w = method.local_step(state, lambda z, s: problem.operator(z), geometry)
        total, weight = tree.add(total, tree.scale(w, method.read(probe, geometry))), weight + w
        mean = tree.scale(1 / weight, total)
        gaps.append(float(tree.total(geometry.fenchel_gaps(mean, problem.operator(mean)))))
    return np.array(gaps)


def sampled_beta(problem, samples=500):
    """The largest ||g(z) - g(z')||_* / ||z - z'|| seen, in numpy: l1 and max norms on entropic blocks, else l2."""
    orders = [
        1 if isinstance(part, fx.EntropicSimplex) else 2
        for part in (problem.geometry.parts.x, problem.geometry.parts.y)
    ]
    rng, largest = np.random.default_rng(1), 0.0
    for _ in range(samples):
        kept = rng.uniform(size=10) < rng.uniform()  # sparse directions too: l1 balls have corners
        d = rng.normal(size=10) * np.where(kept.any(), kept, 1)
        g = np.concatenate([problem.A.T @ d[5:], problem.A @ d[:5]])
        duals = [np.inf if order == 1 else 2 for order in orders]
        size = np.hypot(*(np.linalg.norm(v, order) for v, order in zip((d[:5], d[5:]), orders, strict=True)))
        largest = max(
            largest,
            np.hypot(*(np.linalg.norm(v, order) for v, order in zip((g[:5], g[5:]), duals, strict=True))) / size,
        )
    return largest


def check_bounds(x, y):
    rng = np.random.default_rng(2)
    problem = fx.problems.bilinear(rng.normal(size=(5, 5)), rng.normal(size=5), x=BOUNDED[x], y=BOUNDED[y])
    z0 = problem.project(fx.Saddle(*np.abs(rng.normal(size=(2, 5)))))
    constants = fx.theory.constants(problem, z0=z0)
    assert 0.5 * constants.beta <= sampled_beta(problem) <= constants.beta * (1 + 1e-12)
    bound = constants.beta * constants.B0 / np.arange(1, EVERY_T + 1)
    methods = (fx.CompositeDualExtrapolation, 1), (fx.CoMP, 1), (fx.OptimisticMirrorDescent, 2)
    with double():
        for method, factor in methods:
            gaps = gaps_at_every_T(problem, method(1 / (factor * constants.beta)), problem.admit(z0))
            assert np.all(gaps <= factor * bound * (1 + 1e-9) + 1e-13)
            assert np.all(gaps >= -1e-12)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_gap_is_below_the_bound_at_every_T(x, y):
    """T16, T18: gap <= B0 / (eta T): Theorem 4 and CoMP with eta = 1/beta, optimistic with eta = 1/(2 beta)."""
    check_bounds(x, y)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("x", BOUNDED)
def test_gap_is_below_the_bound_on_all_pairs(x):
    for y in BOUNDED:
        if not any(word in name for word in DEGENERATE for name in (x, y)) or x == y:
            check_bounds(x, y)


def test_recorded_gaps_are_below_the_bound():
    """T16 through `simulate`, in the mixed geometry; the records are the certificates of `ergodic`."""
    problem, z0 = case("shared entropic").problem, saddle(SIMPLEX_START)
    constants = fx.theory.constants(problem, z0=z0)
    close(constants.beta, np.max(np.linalg.norm(A, axis=1)))
    close(constants.B0, np.sum((BOX_X + np.abs(z0.x)) ** 2) / 2 - np.log(np.min(z0.y)))
    run = fx.simulate(problem, fx.CompositeDualExtrapolation(1 / constants.beta), steps=40, z0=z0, record_every=1)
    gaps = run.history["gap_ergodic"][1:]
    assert np.all(gaps <= constants.beta * constants.B0 / np.arange(1, 41) * (1 + 1e-9))
    assert gaps[-1] == pytest.approx(problem.gap(run.outputs["ergodic"].z), abs=1e-12)


def test_counterexample_to_the_printed_half_step():
    """E3: f = 0.1 x y, |x| and |y| on [-1, 1]^2: with ell_t in the half step T gap = 1 > beta B = 0.4."""
    psi, beta, T = fx.L1(1.0) + fx.Box(1.0), 0.1, 20
    problem, z0 = fx.problems.bilinear([[beta]], [0.0], x=psi, y=psi), fx.Saddle(np.array([0.5]), np.array([0.5]))
    run = fx.simulate(problem, fx.CompositeDualExtrapolation(1 / beta), steps=T, z0=z0, record_every=1)
    assert np.max(run.history["gap_ergodic"][1:]) <= 1e-12
    space = twins_shared.L1Box(1, 1, 1.0, 1.0, (-1.0, 1.0), (-1.0, 1.0))

    def g(z, t, s):
        return beta * np.array([z[1], -z[0]])

    for t in range(1, T + 1):
        x, y = twins_one_machine.compositeDualExtrapolation(space, g, t, 1 / beta, np.array([0.5, 0.5]), printed=True)[
            "ergodic"
        ]
        assert t * problem.gap(fx.Saddle(np.array([x]), np.array([y]))) > 0.9


EUCLIDEAN_PAIRS = [
    ("12 l1 + box", "9 l2 ball"),
    pytest.param("17 l1 + l1 ball", "11 simplex", marks=SLOW),
]


@pytest.mark.parametrize(("x", "y"), EUCLIDEAN_PAIRS)
def test_chambolle_pock_and_tseng_are_below_their_bounds(x, y):
    """T18: 2 beta B0 / N at tau = 1/beta; 4 beta sqrt(Bx By) / (T + 1) with mu = 2 beta sqrt(Bx/By) / (T + 1)."""
    rng = np.random.default_rng(3)
    problem = fx.problems.bilinear(rng.normal(size=(5, 5)), rng.normal(size=5), x=BOUNDED[x], y=BOUNDED[y])
    constants = fx.theory.constants(problem)
    beta, start = constants.beta, problem.project(problem.like)
    run = fx.simulate(problem, fx.ChambollePock(1 / beta, 1 / beta), steps=40, record_every=1)
    gaps = run.history["gap_ergodic"][1:]
    assert np.all(gaps <= 2 * beta * constants.B0 / np.arange(1, 41) * (1 + 1e-9))
    with double():
        b_x, b_y = (
            float(part.regularizer.farthest(jnp.asarray(at))) ** 2 / 2
            for part, at in ((BOUNDED[x], start.x), (BOUNDED[y], np.zeros(5)))
        )
    for T in (1, 2, 3, 5, 8, 13, 40):
        mu = 2 * beta * np.sqrt(b_x / b_y) / (T + 1)
        run = fx.simulate(problem, fx.TsengAPG(mu, beta**2 / mu), steps=T)
        assert run.outputs["last"].gap <= 4 * beta * np.sqrt(b_x * b_y) / (T + 1) * (1 + 1e-9)


# --- 4. and 5. identities and lemmas along a run with noise -----------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One local step of one client: its pairs (omega, tau), points and oracle values, at 0, half and 1."""

    r: int
    k: int
    m: int
    a: float
    pairs: tuple
    points: tuple
    values: tuple


@cache
def recorded(case_name, eta_s, cohorts, K=3):
    """FeDualEx by hand, through its own functions and a recording oracle with Gaussian noise; omega_0 at the end."""
    the, method = case(case_name), fx.FeDualEx(ETA_C, eta_s)
    geometry, rng, steps = the.problem.geometry, np.random.default_rng(7), []
    with double():
        first = server = method.start(geometry.dual(tree.cast(saddle(the.z0), jnp.float64)), geometry)
        for r, cohort in enumerate(cohorts):
            a, messages = twins_shared.cohort_weights(the.weights, cohort), []
            for m in cohort:
                local = method.local_init(server, None)
                for k in range(K):
                    seen = []

                    def oracle(z, s, m=m, seen=seen):
                        assert s == len(seen)
                        g = the.operator(m, flat(z)) + 0.3 * rng.normal(size=N_X + N_Y)
                        seen.append((z, tree.cast(saddle(g), jnp.float64)))
                        return seen[-1][1]

                    following, half, weight = method.local_step(local, oracle, geometry)
                    assert weight == ETA_C
                    points = (seen[0][0], seen[1][0], geometry.primal(following))
                    values = (seen[0][1], seen[1][1])
                    steps.append(Step(r, k, m, a[m], (local, half, following), points, values))
                    local = following
                message, _ = method.local_final(local, server, None)
                messages.append(tree.scale(a[m], message))
            mean = messages[0] if len(messages) == 1 else jax.tree.map(lambda *leaves: sum(leaves), *messages)
            server = method.server_step(server, mean, geometry, len(cohort) / the.clients)
    return steps, first, server


EVERYONE, PARTIAL = ((0, 1, 2, 3),) * 3, ((0, 2), (1, 2, 3), (3,))
GEOMETRIES = pytest.mark.parametrize("case_name", ["data entropic", "data"])


def candidates(geometry, count=2):
    rng = np.random.default_rng(8)
    return [geometry.project(saddle(jnp.asarray(rng.normal(size=N_X + N_Y)))) for _ in range(count)]


def progress(geometry, eta, pairs, points, values, u):
    """The right side of the identity of T11 and of Lemma 1, without <g1, u - z_half>; and the size of its terms."""
    (start, half, following), (_, z_half, z_next), (g0, g1) = pairs, points, values
    terms = [
        geometry.generalized_divergence(u, start),
        -geometry.generalized_divergence(u, following),
        -geometry.generalized_divergence(z_half, start),
        -geometry.generalized_divergence(z_next, half),
        eta * tree.dot(tree.subtract(g1, g0), tree.subtract(z_half, z_next)),
    ]
    return float(sum(terms)), float(max(map(abs, terms)))


@pytest.mark.slow
@GEOMETRIES
def test_identity_of_one_step(case_name):
    """T11, for every u in C and whatever the oracle says:

    eta [psi(z_half) - psi(u) + <g1, z_half - u>] = V_omega(u) - V_omega+(u) - V_omega(z_half) - V_half(z+)
                                                    + eta <g1 - g0, z_half - z+>, V the generalized divergence.
    """
    steps, _, _ = recorded(case_name, 0.7, PARTIAL)
    geometry = case(case_name).problem.geometry
    with double():
        for u in candidates(geometry):
            for step in steps:
                assert step.pairs[1].tau == step.pairs[2].tau == step.pairs[0].tau + ETA_C
                z_half, g1 = step.points[1], step.values[1]
                linear = tree.dot(g1, tree.subtract(z_half, u))
                left = ETA_C * float(geometry.psi(z_half) - geometry.psi(u) + linear)
                right, size = progress(geometry, ETA_C, step.pairs, step.points, step.values, u)
                assert abs(left - right) <= 1e-12 * max(1.0, size)


@pytest.mark.sampled(2)
@GEOMETRIES
@pytest.mark.parametrize(("eta_s", "cohorts"), [(1.0, EVERYONE), (0.7, PARTIAL)], ids=["everyone", "partial"])
def test_proposition_b_on_every_path(case_name, eta_s, cohorts):
    """T17, for every u in C, any clients, noise, cohorts and 0 < eta_s <= 1:

    sum_r sum_m a_m sum_k eta [<g1, z_half - u> + psi(z_half) - psi(u)]
        <= V_omega_0(u) / eta_s - V_omega_R(u) / eta_s + sum_r sum_m a_m sum_k [eta^2/2 |g1 - g0|_*^2 - |z - z_half|^2/2].
    """
    steps, first, last = recorded(case_name, eta_s, cohorts)
    geometry = case(case_name).problem.geometry
    with double():
        for u in candidates(geometry):
            left = sum(
                s.a
                * ETA_C
                * (tree.dot(s.values[1], tree.subtract(s.points[1], u)) + geometry.psi(s.points[1]) - geometry.psi(u))
                for s in steps
            )
            errors = sum(
                s.a * (ETA_C**2 / 2) * geometry.dual_norm(tree.subtract(s.values[1], s.values[0])) ** 2
                - s.a * geometry.norm(tree.subtract(s.points[0], s.points[1])) ** 2 / 2
                for s in steps
            )
            travelled = geometry.generalized_divergence(u, first) - geometry.generalized_divergence(u, last)
            assert float(left) <= float(travelled) / eta_s + float(errors) + 1e-12


def averages(steps, geometry):
    """The shadow sequences: for every (r, k) the mean pairs, the points they stand for, the mean oracle values."""
    for r, k in sorted({(step.r, step.k) for step in steps}):
        group = [step for step in steps if (step.r, step.k) == (r, k)]

        def mean(items, group=group):
            scaled = [tree.scale(step.a, item) for step, item in zip(group, items, strict=True)]
            return jax.tree.map(lambda *leaves: sum(leaves), *scaled)

        pairs = tuple(mean([step.pairs[i] for step in group]) for i in range(3))
        values = tuple(mean([step.values[i] for step in group]) for i in range(2))
        yield k, group, pairs, tuple(map(geometry.primal, pairs)), values


@pytest.mark.slow
@GEOMETRIES
def test_lemmas_1_and_2(case_name):
    """Along the shadow sequences, for every u in C:

    Lemma 1: eta [psi(z_hat_half) - psi(u)] = V_k(u) - V_{k+1}(u) - V_k(z_hat_half) - V_half(z_hat_{k+1})
             + eta <g_half - g_k, z_hat_half - z_hat_{k+1}> + eta <g_half, u - z_hat_half>
    Lemma 2 (with the third term of the appendix, E14): <g(z_hat), z_hat - u> = <g_half, z_hat - u>
             + <mean g_m(z^m) - g_half, z_hat - u> + <mean [g_m(z_hat) - g_m(z^m)], z_hat - u>,  z_hat = z_hat_half
    """
    the = case(case_name)
    geometry = the.problem.geometry
    steps, _, _ = recorded(case_name, 1.0, EVERYONE)
    with double():
        for _, group, pairs, points, values in averages(steps, geometry):
            z_hat, g_half = flat(points[1]), flat(values[1])
            exact = sum(s.a * the.operator(s.m, flat(s.points[1])) for s in group)
            drift = sum(s.a * (the.operator(s.m, z_hat) - the.operator(s.m, flat(s.points[1]))) for s in group)
            for u in candidates(geometry):
                right, size = progress(geometry, ETA_C, pairs, points, values, u)
                right += ETA_C * g_half @ (flat(u) - z_hat)
                left = ETA_C * float(geometry.psi(points[1]) - geometry.psi(u))
                assert abs(left - right) <= 1e-12 * max(1.0, size)
                away = z_hat - flat(u)
                split = g_half @ away + (exact - g_half) @ away + drift @ away
                close(flat(the.problem.operator(points[1])) @ away, split)


@GEOMETRIES
@pytest.mark.parametrize(("eta_s", "cohorts"), [(1.0, EVERYONE), (0.7, PARTIAL)], ids=["everyone", "partial"])
def test_clients_drift_no_further_than_the_lemma_says(case_name, eta_s, cohorts):
    """||z_hat_{k+1/2} - z^m_{k+1/2}|| <= 2 eta (k + 1) G and ||z_hat_k - z^m_k|| <= 2 eta k G, G = max ||g||_*; and
    before it ||P(omega) - P(omega')|| <= ||omega - omega'||_* at equal weights."""
    geometry = case(case_name).problem.geometry
    steps, _, _ = recorded(case_name, eta_s, cohorts)
    with double():
        G = max(float(geometry.dual_norm(g)) for step in steps for g in step.values)
        for k, group, pairs, points, _ in averages(steps, geometry):
            for step in group:
                for at, lead in ((0, k), (1, k + 1)):
                    away = float(geometry.norm(tree.subtract(points[at], step.points[at])))
                    dual = float(geometry.dual_norm(tree.subtract(pairs[at].omega, step.pairs[at].omega)))
                    assert away <= dual + 1e-13
                    assert away <= 2 * ETA_C * lead * G + 1e-13
