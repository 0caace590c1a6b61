"""Above the seam: the simulator's iterates, and exactly the listed arrays on the wire."""

import jax
import numpy as np
import pytest
from scipy.sparse import csr_array
from support.deploying import (  # noqa: F401
    DATA,
    NAMES,
    NOISE,
    OPTIONS,
    UP,
    Stop,
    assert_close,
    assert_same_run,
    loss_of_example,
    patience,
    serve,
)
from support.games import GAME, PSI

import fedualex as fx
from fedualex.compiling import double
from fedualex.deploy import run as rehearse
from fedualex.deploy.task import POLISH
from fedualex.deploy.wire import size_of
from fedualex.runtime.outputs import Evaluator, exact_problem

# --- the simulator's iterates --------------------------------------------------------------------------------------

FRESH = {"method": fx.FeDualExCorrected(0.2, 0.9), "local_steps": 4, "noise": fx.Minibatch(2)}
CASES = {
    "game": {"problem": GAME, "local_steps": 4},
    "game float32": {"problem": GAME, "local_steps": (1, 4, 2), "dtype": "float32"},
    "data fresh": {"problem": DATA, **FRESH},
    "data stale": {
        "problem": DATA,
        "method": fx.FeDualExCorrected(0.2, mode="stale"),
        "local_steps": (1, 4, 2),
        "cohort": 2,
    },
}
SPARSE = fx.problems.sparse_glm(
    "squared", csr_array(np.tri(12, 9) * (np.arange(9) % 3 == 0)), np.arange(12.0) % 5, np.arange(12) // 4, l1=0.1
)
"""Three clients whose fullest rows differ."""
LONG = (
    *("game float32", "data stale", "data lead", "data lead, two surveys", "data recentered"),
    "sparse rows",
)
LEAD = {"method": fx.LeadSliding(0.4, 0.15, mode="optimistic", lead=1), "local_steps": (1, 4, 2)}
CASES |= {
    "data lead": {"problem": DATA, **LEAD, "noise": fx.Minibatch(2)},
    "data lead, two surveys": {"problem": DATA, "method": fx.LeadSliding(0.4, 0.15, lead=2), "local_steps": 3},
    "data tracked": {"problem": DATA, "method": fx.FedGDAGT(0.1), "local_steps": 3},
    "sparse rows": {"problem": SPARSE, **FRESH},
    "data recentered": {"problem": DATA, "method": fx.FeDualExCorrected(0.1, recenter=True), "local_steps": 3},
}
METHODS = [
    fx.FeDualEx(0.2, 0.9),
    fx.FeDualExCorrected(0.2),
    fx.FeDualExCorrected(0.2, mode="stale"),
    fx.FedDualAvg(0.2),
    fx.FedMiP(0.2),
]


def assert_equals_simulator(problem, dtype="float64", **changes):
    options = OPTIONS | {"rounds": 6, "record_every": 3, "local_steps": 1, "dtype": dtype} | changes
    method = options.pop("method")
    run = rehearse(problem, method, sites=3, ergodic=True, **options)
    expected = fx.simulate(problem, method, clients=None if problem.clients else 3, output="client_average", **options)
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    names = (
        ("last", "client_average", "ergodic") if problem.clients else ("last", "client_average", "ergodic", "polished")
    )
    assert {leaf.dtype for leaf in jax.tree.leaves(run.state)} == {
        leaf.dtype for leaf in jax.tree.leaves(expected.state)
    }
    assert_same_run(run, expected, tolerance, names)
    assert run.history.keys() == expected.history.keys()
    for name in names:
        np.testing.assert_allclose(run.history[f"gap_{name}"], expected.history[f"gap_{name}"], tolerance, tolerance)
    if problem.clients:  # a server that has no data does not know beta, so its grid is another one
        with double():
            grid = np.asarray(POLISH) * float(method.eta_c)
            polished = Evaluator(exact_problem(problem)).polish(expected.outputs["client_average"], grid)
        assert_close((run.outputs["polished"].z, run.outputs["polished"].gap), (polished.z, polished.gap), tolerance)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    "case",
    [pytest.param(CASES[name], id=name, marks=pytest.mark.slow if name in LONG else []) for name in CASES],
)
def test_same_iterates_as_the_simulator(case):
    assert_equals_simulator(**case)


@pytest.mark.slow
@pytest.mark.parametrize("local_steps", [1, 4, (2, 1, 4)], ids=["K=1", "K=4", "unequal K"])
@pytest.mark.parametrize("cohort", [None, 2])
@pytest.mark.parametrize("problem", [GAME, DATA], ids=["game", "data"])
@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{type(m).__name__} {m.survey}")
def test_same_iterates_for_all_of_them(method, problem, cohort, local_steps):
    noise = NOISE if problem is GAME or cohort else fx.Minibatch(2)
    assert_equals_simulator(problem, method=method, cohort=cohort, local_steps=local_steps, noise=noise)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{type(m).__name__} {m.survey}")
def test_same_iterates_in_float32(method):
    assert_equals_simulator(DATA, method=method, local_steps=4, dtype="float32")


def test_the_server_has_nobodys_data():
    view = DATA.without_data()
    assert not any(np.size(leaf) for leaf in jax.tree.leaves((view.data, view.weights)))
    with pytest.raises(TypeError, match="the data of this problem is elsewhere"):
        view.operator(view.like)
    with pytest.raises(ValueError, match="weights='samples' of clients elsewhere: they belong to the deployment"):
        fx.Problem(loss_of_example, x=PSI, y=PSI, like=view.like, data="elsewhere", weights="samples")
    held = DATA.of_client(1).data
    np.testing.assert_array_equal(held.examples["a"], DATA.data.examples["a"][1:2])
    assert held.counts.tolist() == [5]


@pytest.mark.slow
def test_who_is_dead_is_not_in_the_mean(tmp_path):
    """Sites one and two of three, alone, are two clients of the simulator."""

    def fault(request):
        raise RuntimeError("gone")

    run, _ = serve(tmp_path, fault=fault, min_replies=2)
    expected = fx.simulate(GAME, clients=2, **OPTIONS)
    assert_close(run.state.server, expected.state.server)
    assert_close(run.state.sums.points["client_average"], expected.state.sums.points["client_average"])


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["extragradient", "optimistic"])
def test_the_lead_alone_works_and_every_round_trip_is_counted(tmp_path, mode):
    """Its own surveys are at one point, as is that of the record of the start; later records are at two or more."""
    method = fx.LeadSliding(0.4, 0.15, mode=mode, lead=1)
    options = {"rounds": 3, "record_every": 3, "local_steps": 2}
    run, engine = serve(tmp_path, DATA, method=method, noise=None, weights=(3, 5, 2), **options)
    assert_close(run.state.server, fx.simulate(DATA, method, **options).state.server)
    assert [engine.asked(name) for name in NAMES] == [[], [0, 1, 2], []]
    surveys = [sites for request, sites in engine.requests if len(request.arrays.get("points.x", ())) == 1]
    assert len(surveys) - 1 + 3 == 3 * method.exchanges
    assert set(surveys) == {NAMES}


# --- what travels --------------------------------------------------------------------------------------------------

DOWN = {"server.omega.x": (5,), "server.omega.y": (4,), "server.tau": ()}
SURVEY = {"survey.[0].x": (5,), "survey.[0].y": (4,), "survey.[1].x": (5,), "survey.[1].y": (4,)}
PROBES = {"probes.omega.x": (2, 5), "probes.omega.y": (2, 4), "probes.tau": (2,), "probe_weights": (2,), "shares": (2,)}


def shapes(arrays, dtype="float64"):
    assert all(type(array) is np.ndarray and array.dtype == dtype for array in arrays.values())
    return {name: array.shape for name, array in arrays.items()}


def stacked(name, count):
    return {f"{name}.x": (count, 5), f"{name}.y": (count, 4)}


@pytest.mark.parametrize(
    ("problem", "changes", "down", "up", "points"),
    [
        (GAME, {}, DOWN, UP, 2),
        (GAME, {"ergodic": True}, DOWN, UP | PROBES, 3),
        (DATA, FRESH, DOWN | SURVEY, UP, 2),
        pytest.param(DATA, FRESH | {"dtype": "float32"}, DOWN | SURVEY, UP, 2, marks=pytest.mark.slow),
    ],
    ids=["plain", "ergodic", "data and survey", "float32"],
)
def test_exactly_the_listed_arrays_travel(tmp_path, problem, changes, down, up, points):
    kind = changes.get("dtype", "float64")
    run, engine = serve(tmp_path, problem, rounds=2, record_every=2, **changes)
    assert run.stop is Stop.MAX_ROUNDS
    counts = set()
    for (request, _), replies in zip(engine.requests, engine.replies, strict=True):
        assert len(replies) == 3
        for reply in replies:
            if request.task == "round":
                assert (shapes(request.arrays, kind), shapes(reply.arrays, kind)) == (down, up)
                numbers = sum(int(np.prod(shape)) for shape in up.values())
                assert size_of(reply.arrays) == numbers * np.dtype(kind).itemsize
            else:
                count = request.arrays["points.x"].shape[0]
                counts.add((count, request.arrays["points.x"].dtype.name))
                assert request.arrays.keys() == stacked("points", count).keys()
                found = shapes(reply.arrays, request.arrays["points.x"].dtype)
                assert found == stacked("operators", count) | {"values": (count,)}
                itemsize = request.arrays["points.x"].itemsize
                assert (size_of(request.arrays), size_of(reply.arrays)) == (9 * count * itemsize, 10 * count * itemsize)
    # The start, the averages, the grid of `polished`; a method's own survey is one point, in its precision.
    own = {(1, kind)} if "method" in changes else set()
    assert counts == {(1, "float64"), (points, "float64"), (len(POLISH), "float64")} | own


def test_a_plain_reply_is_two_vectors_and_two_numbers(tmp_path):
    _, engine = serve(tmp_path, rounds=1)
    (replies,) = [r for (q, _), r in zip(engine.requests, engine.replies, strict=True) if q.task == "round"]
    assert [size_of(reply.arrays) for reply in replies] == [8 * (2 * 9 + 2)] * 3


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"method": fx.FeDualExCorrected(0.2)}], ids=["plain", "survey"])
def test_bytes_of_the_history_are_those_that_were_seen(tmp_path, changes):
    """A record counts all that was sent before it; its own survey is in the next one."""
    run, engine = serve(tmp_path, **changes)
    up, down, totals = 0, 0, []
    for (request, _), replies in zip(engine.requests, engine.replies, strict=True):
        # A record begins with a survey at two points, `last` and `clients`; the first one has its start alone.
        if not totals or len(request.arrays.get("points.x", ())) == 2:
            totals.append((up, down))
        up += sum(size_of(reply.arrays) for reply in replies)
        down += 3 * size_of(request.arrays)
    assert len(totals) == 5  # four records, and the outputs of the end
    assert list(zip(run.history["bytes_up"], run.history["bytes_down"], strict=True)) == totals[:4]
    assert np.all(np.diff(run.history["bytes_up"]) > 0)


@pytest.mark.slow
def test_theory_chooses_the_steps_of_the_simulator_from_what_sites_tell():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2)), np.arange(12) % 2
    problem = fx.problems.sparse_glm("logistic", X, y, np.arange(12) % 3, l2=0.1)
    options = {"rounds": 4, "local_steps": 2}
    run = rehearse(problem, fx.FeDualEx(), **options)
    assert run.steps == fx.solve(problem, fx.FeDualEx(), **options).steps
    assert "proposition B" in run.steps
    with pytest.raises(ValueError, match="give eta_c: theory needs the data of all sites"):
        rehearse(problem, fx.FeDualEx(), noise=fx.Minibatch(2), **options)
