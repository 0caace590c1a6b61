"""Deployment: the simulator's iterates above the seam, exactly the listed arrays on the wire, and every fault."""

import errno
import gc
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

import fedualex as fx
from fedualex.deploy import DeploymentOptions, LocalEngine, Reply, Request, RunHooks, Task, clients, exchange
from fedualex.deploy import run as rehearse
from fedualex.deploy.clients import UNANSWERED
from fedualex.deploy.fence import FencedError
from fedualex.deploy.task import POLISH
from fedualex.deploy.wire import from_bytes, pack, size_of, to_bytes
from fedualex.precision import double
from fedualex.runtime.outputs import Evaluator, exact_problem
from fedualex.runtime.records import Records

PSI = fx.L1(0.1) + fx.Box(0.5)
NAMES = ("amsterdam", "berlin", "cork")
DEAD = NAMES[2]
Status, Stop = fx.Status, fx.Stop


def game():
    rng = np.random.default_rng(0)
    return fx.problems.bilinear(rng.uniform(-1, 1, (4, 5)), rng.uniform(-1, 1, 4), x=PSI, y=PSI)


def loss_of_example(x, y, e):
    return (e["a"] @ x - e["b"]) * (e["c"] @ y) + 0.5 * (e["a"] @ x) ** 2 - 0.5 * (e["c"] @ y) ** 2


def unequal():
    """Three clients with 3, 5 and 2 examples of their own, weighted by that."""
    rng = np.random.default_rng(1)
    data = [{"a": rng.normal(size=(n, 5)), "b": rng.normal(size=n), "c": rng.normal(size=(n, 4))} for n in (3, 5, 2)]
    like = fx.Saddle(np.zeros(5), np.zeros(4))
    return fx.Problem(loss_of_example, x=PSI, y=PSI, like=like, data=data, weights="samples")


GAME, DATA = game(), unequal()
NOISE = fx.GaussianNoise(0.1)
OPTIONS = {"method": fx.FeDualEx(0.3), "rounds": 12, "local_steps": 2, "noise": NOISE, "record_every": 4}


def task_of(**changes):
    chosen = OPTIONS | {"sites": NAMES, "timeout": 60.0} | changes
    method, sites = chosen.pop("method"), chosen.pop("sites")
    return Task(method, sites, DeploymentOptions(**chosen))


def works_of(task, problem=GAME):
    return {name: task.site(problem.of_client(m), name).work for m, name in enumerate(task.sites)}


class Wrapped:
    """The local engine with a hook before each request, which may return another timeout for it, and one that sees
    and changes all replies; keeps count."""

    def __init__(self, works, before=None, after=None):
        self.inner, self.before, self.after = LocalEngine(works), before, after
        self.requests, self.replies = [], []

    def sites(self):
        return self.inner.sites()

    def broadcast(self, request, sites, timeout):
        timeout = (self.before and self.before(request)) or timeout
        self.requests.append((request, tuple(sites)))
        replies = self.inner.broadcast(request, sites, timeout)
        replies = self.after(request, replies) if self.after else replies
        self.replies.append(replies)
        return replies

    def stopped(self):
        return self.inner.stopped()

    def close(self):
        self.inner.close()

    def asked(self, site, task="round"):
        """The rounds in which a site was asked."""
        return [request.round for request, sites in self.requests if request.task == task and site in sites]


def serve(folder, problem=GAME, before=None, after=None, callback=None, fault=None, **changes):
    """A deployed run; fault(request) is what goes wrong at the dead site. Gives the run and the engine."""
    task = task_of(**changes)
    works = works_of(task, problem)
    if fault:
        healthy = works[DEAD]

        def work(request):
            answer = fault(request)
            return healthy(request) if answer is None else answer

        works[DEAD] = work
    engine = Wrapped(works, before, after)
    journal = RunHooks() if callback is None else RunHooks(append=callback)
    return task.serve(engine, problem.without_data(), Path(folder) / "checkpoint.npz", journal), engine


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(clients, "PAUSE", 0.0)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return serve(tmp_path_factory.mktemp("undisturbed"))[0]


def assert_close(one, other, tolerance=1e-12):
    """Two pytrees of the same structure and numbers."""
    one, other = jax.tree.leaves(one), jax.tree.leaves(other)
    assert len(one) == len(other) > 0
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def assert_same_run(run, expected, tolerance=1e-12, outputs=("last", "clients", "polished")):
    assert run.rounds == expected.rounds
    assert_close(run.state, expected.state, tolerance)
    for name in outputs:
        assert_close(run.outputs[name].z, expected.outputs[name].z, tolerance)
        assert_close(run.outputs[name].gap, expected.outputs[name].gap, tolerance)


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
    expected = fx.simulate(problem, method, clients=None if problem.clients else 3, output="clients", **options)
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    names = ("last", "clients", "ergodic") if problem.clients else ("last", "clients", "ergodic", "polished")
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
            polished = Evaluator(exact_problem(problem)).polished(expected.outputs["clients"], grid)
        assert_close((run.outputs["polished"].z, run.outputs["polished"].gap), (polished.z, polished.gap), tolerance)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(CASES[name], id=name, marks=pytest.mark.slow if name in ("game float32", "data stale") else [])
        for name in CASES
    ],
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


def test_who_is_dead_is_not_in_the_mean(tmp_path):
    """Sites one and two of three, alone, are two clients of the simulator."""

    def fault(request):
        raise RuntimeError("gone")

    run, _ = serve(tmp_path, fault=fault, min_replies=2)
    expected = fx.simulate(GAME, clients=2, **OPTIONS)
    assert_close(run.state.server, expected.state.server)
    assert_close(run.state.sums.points["clients"], expected.state.sums.points["clients"])


# --- what travels --------------------------------------------------------------------------------------------------

DOWN = {"server.omega.x": (5,), "server.omega.y": (4,), "server.tau": ()}
UP = {"message.omega.x": (5,), "message.omega.y": (4,), "message.tau": ()}
UP |= {"points.x": (5,), "points.y": (4,), "point_weight": ()}
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
                assert shapes(reply.arrays, request.arrays["points.x"].dtype) == stacked("operators", count)
                assert (
                    size_of(reply.arrays) == size_of(request.arrays) == 9 * count * request.arrays["points.x"].itemsize
                )
    # The start, the averages, the grid of `polished`; a method's own survey is one point, in its precision.
    own = {(1, kind)} if "method" in changes else set()
    assert counts == {(1, "float64"), (points, "float64"), (len(POLISH), "float64")} | own


def test_a_plain_reply_is_two_vectors_and_two_numbers(tmp_path):
    _, engine = serve(tmp_path, rounds=1)
    (replies,) = [r for (q, _), r in zip(engine.requests, engine.replies, strict=True) if q.task == "round"]
    assert [size_of(reply.arrays) for reply in replies] == [8 * (2 * 9 + 2)] * 3


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


# --- faults of sites -----------------------------------------------------------------------------------------------


def at_round(number, act):
    """A fault in one round, once."""
    left = [1]

    def fault(request):
        if request.task == "round" and request.round == number and left:
            left.clear()
            return act(request)
        return None

    return fault


def raises(request):
    raise RuntimeError("this text may quote data")


def changed(change):
    """A valid reply with something changed."""

    def act(request):
        return change(works_of(task_of())[DEAD](request))

    return act


def without(arrays, key):
    return {name: array for name, array in arrays.items() if name != key}


REPLIES = {
    "nan": lambda a: a | {"message.omega.x": np.full(5, np.nan)},
    "one infinity": lambda a: a | {"point_weight": np.asarray(np.inf)},
    "shape": lambda a: a | {"message.omega.x": np.zeros((5, 1))},
    "broadcastable shape": lambda a: a | {"message.omega.x": np.zeros(())},
    "missing key": lambda a: without(a, "message.tau"),
    "renamed key": lambda a: without(a, "message.tau") | {"message.Tau": np.zeros(())},
    "extra key": lambda a: a | {"data": np.zeros(3)},
    "float32": lambda a: a | {"message.omega.x": np.zeros(5, np.float32)},
    "integers": lambda a: a | {"message.omega.x": np.zeros(5, int)},
    "complex": lambda a: a | {"message.omega.x": np.zeros(5, complex)},
    "big endian": lambda a: a | {"message.omega.x": np.zeros(5, ">f8")},
    "bfloat16 of an engine": lambda a: a | {"message.omega.x": np.zeros(5, "V2")},
    "objects": lambda a: a | {"message.omega.x": np.array([None] * 5)},
    "nothing": lambda a: {},
}
ACTS = {"raises": raises} | {name: changed(change) for name, change in REPLIES.items()}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_bad_reply_costs_a_round_and_changes_nothing(tmp_path, act, undisturbed, caplog):
    run, engine = serve(tmp_path, fault=at_round(5, act))
    assert_same_run(run, undisturbed)
    assert run.stop is Stop.MAX_ROUNDS
    assert engine.asked(DEAD) == engine.asked(NAMES[0]) == [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 11]
    assert f"nothing from {DEAD}" in caplog.text
    assert "may quote data" not in caplog.text


def tampered(change):
    """Replies of round 5, once, changed on their way."""
    left = [1]

    def after(request, replies):
        if request.task == "round" and request.round == 5 and left:
            left.clear()
            return change(request, list(replies))
        return replies

    return after


def replaced(replies, reply):
    return [reply if r.site == reply.site else r for r in replies]


def garbage(request, **changes):
    arrays = {name: np.zeros(shape) for name, shape in UP.items()}
    return Reply(**{"site": DEAD, "round": request.round, "run_id": request.run_id, "arrays": arrays} | changes)


WAYS = {
    "an old round": lambda q, rs: replaced(rs, garbage(q, round=4)),
    "another run": lambda q, rs: replaced(rs, garbage(q, run_id="another")),
    "neither arrays nor error": lambda q, rs: replaced(rs, garbage(q, arrays=None)),
    "an error beside arrays": lambda q, rs: replaced(rs, garbage(q, error="full")),
    "no reply at all": lambda q, rs: [r for r in rs if r.site != DEAD],
    "nobody": lambda q, rs: [],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_reply_lost_on_its_way_costs_a_round_and_changes_nothing(tmp_path, way, undisturbed):
    run, engine = serve(tmp_path, after=tampered(way))
    assert_same_run(run, undisturbed)
    assert engine.asked(DEAD).count(5) == 2


def test_order_of_replies_does_not_matter_to_the_last_bit(tmp_path, undisturbed):
    run, _ = serve(tmp_path, after=lambda request, replies: replies[::-1])
    for a, b in zip(jax.tree.leaves(run.state), jax.tree.leaves(undisturbed.state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_site_that_was_not_asked_is_not_heard_and_not_blamed(tmp_path):
    """In a cohort of two the third is silent; what comes under its name, or a stranger's, is dropped."""

    def intrude(request, replies):
        missing = set(NAMES) - {reply.site for reply in replies}
        return [*replies, *(garbage(request, site=site) for site in (*missing, "stranger") if request.task == "round")]

    run, engine = serve(tmp_path / "a", after=intrude, cohort=2, min_replies=1)
    expected, quiet = serve(tmp_path / "b", cohort=2, min_replies=1)
    assert_same_run(run, expected)
    assert [engine.asked(site) for site in NAMES] == [quiet.asked(site) for site in NAMES]


def test_an_old_surveys_reply_is_dropped(tmp_path):
    """Surveys of one shape follow each other round by round: each has its own number."""
    kept = []

    def swap(request, replies):
        if request.task == "survey" and request.arrays["points.x"].shape[0] == 1:
            kept.append(replies[-1])
            if len(kept) == 5:
                return [*replies[:-1], kept[3]]
        return replies

    method = fx.FeDualExCorrected(0.2)
    run, _ = serve(tmp_path / "a", after=swap, method=method)
    assert len(kept) > 5
    assert_same_run(run, serve(tmp_path / "b", method=method)[0])


def test_a_silent_site_and_a_straggler_cost_their_timeout(tmp_path, undisturbed, monkeypatch):
    """With all needed, a straggler's round is done again; its late answer disturbs nobody."""
    release = threading.Event()
    impatient = at_round(5, lambda request: 0.5)
    try:
        run, engine = serve(tmp_path, before=impatient, fault=at_round(5, lambda request: release.wait(60) and None))
    finally:
        release.set()
    assert_same_run(run, undisturbed)
    timeouts = [reply.site for replies in engine.replies for reply in replies if reply.error == "timeout"]
    assert timeouts.count(DEAD) >= 1


def test_messages_are_read_in_many_threads_at_once():
    """On Python 3.11 numpy's reader fails about once in a hundred reads here if threads do not take turns."""
    content = to_bytes({name: np.ones(3) for name in "abcdefgh"})
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as threads:
            read = list(threads.map(from_bytes, [content] * 1000))
    finally:
        sys.setswitchinterval(interval)
    assert all(sorted(arrays) == list("abcdefgh") for arrays in read)


def test_a_site_that_hangs_for_good_does_not_starve_the_others():
    """More requests than a site has threads: they wait for each other, and for nobody else."""
    release = threading.Event()

    def hang(request):
        release.wait(60)
        return {}

    engine = LocalEngine({"fine": lambda request: request.arrays, "hangs": hang})
    try:
        requests = [Request("round", r, "run", {"a": np.ones(2)}) for r in range(12)]
        for request in requests[:-1]:
            [hangs] = engine.broadcast(request, ["hangs"], 0.05)
            assert hangs.error == "timeout"
        fine, hangs = engine.broadcast(requests[-1], ["fine", "hangs"], 3.0)
        assert (fine.error, hangs.error) == (None, "timeout")
        np.testing.assert_array_equal(fine.arrays["a"], np.ones(2))
    finally:
        release.set()
        engine.close()


def test_with_fewer_needed_a_dead_site_is_left_alone_and_comes_back(tmp_path):
    """Asked after 1, 2, 4, 8 and 16 exchanges, and again in every round when it is back."""
    dead = range(3, 40)

    def fault(request):
        if request.task == "round" and request.round in dead:
            raise ConnectionError
        return

    run, engine = serve(tmp_path, fault=fault, min_replies=2, rounds=80, record_every=80)
    asked = engine.asked(DEAD)
    assert engine.asked(NAMES[0]) == list(range(80))  # no round was lost
    assert len([r for r in asked if r in dead]) <= 6
    assert set(range(75, 80)) <= set(asked)
    assert run.stop is Stop.MAX_ROUNDS
    assert run.gap is not None


def test_a_dead_site_is_never_left_alone_for_long(tmp_path):
    def fault(request):
        raise ConnectionError

    run, engine = serve(tmp_path, fault=fault, min_replies=2, rounds=150, record_every=150)
    gaps = np.diff(engine.asked(DEAD))
    assert len(gaps) < 20
    assert max(gaps) <= exchange.LONGEST_SKIP + 1
    assert run.rounds == 150
    assert run.status is Status.UNCERTIFIED


@pytest.mark.parametrize("method", [fx.FeDualEx(0.3), fx.FeDualExCorrected(0.2)], ids=["plain", "survey"])
def test_too_few_replies_end_loudly_and_the_checkpoint_goes_on(tmp_path, method):
    """A client that always raises, from round 6 on; with a survey, all sites are needed whatever min_replies says."""
    fewer = 2 if method.survey == "fresh" else None

    def fault(request):
        if request.round >= 6 and (request.task == "round") != (method.survey == "fresh"):
            raise RuntimeError
        return

    lost, engine = serve(tmp_path / "a", fault=fault, attempts=3, method=method, min_replies=fewer)
    assert lost.stop is Stop.CLIENTS_LOST
    if method.survey == "none":
        assert lost.rounds == 6
        assert engine.asked(NAMES[0]) == [0, 1, 2, 3, 4, 5, 6, 6, 6]
    run, _ = serve(tmp_path / "a", attempts=3, method=method, min_replies=fewer)
    assert run.stop is Stop.MAX_ROUNDS
    assert_same_run(run, serve(tmp_path / "b", method=method)[0])


def test_a_lost_run_may_go_on_with_other_patience(tmp_path):
    def fault(request):
        raise RuntimeError

    lost, _ = serve(tmp_path, fault=fault, attempts=1)
    assert (lost.stop, lost.rounds) == (Stop.CLIENTS_LOST, 0)
    run, _ = serve(tmp_path, fault=fault, attempts=2, min_replies=2, timeout=30.0, max_seconds=500.0)
    assert (run.status, run.rounds) == (Status.UNCERTIFIED, 12)


# --- certificates that cannot be had -------------------------------------------------------------------------------


def silent_surveys(numbers):
    def fault(request):
        if request.task == "survey" and request.round in numbers:
            raise TimeoutError
        return

    return fault


def test_a_record_without_all_sites_is_left_out(tmp_path, undisturbed):
    """Survey 1 is the start's, 2 and 3 are of round 4: averages, then the grid of `polished`."""
    run, engine = serve(tmp_path, fault=silent_surveys({2}))
    assert run.history["round"].tolist() == [0, 8, 12]
    assert engine.asked(DEAD, "survey").count(2) == exchange.TRIES
    assert_same_run(run, undisturbed)


def test_a_run_whose_first_records_fail_still_stops_at_its_tol_and_resumes(tmp_path):
    options = {"rounds": 200, "noise": None, "tol": 0.02}
    healthy, _ = serve(tmp_path / "a", **options)
    assert healthy.status is Status.OPTIMAL

    part, _ = serve(tmp_path / "b", fault=silent_surveys(range(100)), max_seconds=1e-9, **options)
    assert (part.status, part.history, part.best) == (Status.UNCERTIFIED, {}, None)
    run, _ = serve(tmp_path / "b", fault=silent_surveys({1, 2}), **options)
    assert (run.status, run.rounds) == (Status.OPTIMAL, healthy.rounds)
    assert_close(run.state, healthy.state)
    assert run.best.gap == pytest.approx(healthy.best.gap, abs=1e-12)


def test_the_best_point_waits_for_its_certificate(tmp_path):
    """Resumed while a site is silent: the best so far cannot be certified at once, but later it is again."""
    part, _ = serve(tmp_path / "a", max_seconds=1e-9, record_every=1, rounds=6)
    assert (part.stop, part.rounds) == (Stop.MAX_TIME, 1)
    run, _ = serve(tmp_path / "a", fault=silent_surveys({1}), record_every=1, rounds=6)
    expected, _ = serve(tmp_path / "b", record_every=1, rounds=6)
    assert_same_run(run, expected)
    assert run.best.gap == pytest.approx(expected.best.gap, abs=1e-12)


def test_without_an_answer_in_the_end_nothing_is_claimed(tmp_path, undisturbed):
    run, _ = serve(tmp_path, fault=silent_surveys(range(6, 100)), tol=1e-9)
    assert_close(run.state, undisturbed.state)
    for name in ("last", "clients", "polished"):
        output = run.outputs[name]
        assert (output.status, output.gap, output.operator) == (Status.UNCERTIFIED, None, None)
        assert output.certificate.reason == UNANSWERED
    assert run.output == "best"  # what was certified on the way stays certified
    assert run.gap == run.best.gap is not None


def test_a_tol_that_was_met_is_not_claimed_of_points_without_certificate(tmp_path):
    met = []
    options = {"rounds": 200, "noise": None, "tol": 0.02}

    def fault(request):
        if met and request.task == "survey":
            raise TimeoutError
        return

    def watch(record):
        met.extend([record["round"]] * (min(v for k, v in record.items() if k.startswith("gap_")) <= 0.02))

    run, _ = serve(tmp_path, fault=fault, callback=watch, **options)
    assert run.rounds == met[0] < 200
    assert {run.outputs[name].status for name in ("last", "clients", "polished")} == {Status.UNCERTIFIED}
    assert (run.status, run.output, run.best.gap <= 0.02) == (Status.OPTIMAL, "best", True)
    again, engine = serve(tmp_path, **options)  # with all sites there, the same point is what it is
    assert (again.status, again.rounds) == (Status.OPTIMAL, run.rounds)
    assert engine.asked(DEAD) == []


# --- faults of the server ------------------------------------------------------------------------------------------


def test_a_stopped_run_goes_on(tmp_path, undisturbed):
    task = task_of()
    engine = LocalEngine(works_of(task))

    def stop(record):
        if record["round"] == 4:
            engine.stop()

    part = task.serve(engine, GAME, tmp_path / "checkpoint.npz", RunHooks(append=stop))
    assert (part.stop, part.rounds) == (Stop.INTERRUPTED, 4)
    run, second = serve(tmp_path)
    assert second.asked(DEAD) == list(range(4, 12))
    assert run.stop is Stop.MAX_ROUNDS
    assert_same_run(run, undisturbed)
    for name, column in undisturbed.history.items():
        if name != "seconds" and column.dtype != object:
            np.testing.assert_array_equal(run.history[name], column)


def test_a_finished_run_is_read_back(tmp_path, undisturbed):
    serve(tmp_path)
    run, engine = serve(tmp_path)
    assert engine.asked(DEAD) == []
    assert_same_run(run, undisturbed)


def test_a_full_disk_is_loud_and_the_checkpoint_goes_on(tmp_path, undisturbed, monkeypatch):
    file, kept, sync = tmp_path / "checkpoint.npz", [], os.fsync

    def full(handle):
        if kept:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    def fill(request):
        if request.task == "round" and request.round == 6:
            kept.append(file.read_bytes())

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left on device"):
            serve(tmp_path, before=fill)
    assert file.read_bytes() == kept[0]
    run, engine = serve(tmp_path)
    assert engine.asked(DEAD) == list(range(6, 12))
    assert_same_run(run, undisturbed)


def test_of_two_servers_the_older_writes_nothing_more(tmp_path, undisturbed):
    """The newer one comes while the older waits for its round 5, and goes to the end."""
    newer = []

    def take_over(request):
        if request.task == "round" and request.round == 5:
            newer.append(serve(tmp_path))
            newer.append((tmp_path / "checkpoint.npz").read_bytes())

    told = []
    task = task_of()
    journal = RunHooks(append=told.append, finish=told.append)
    with pytest.raises(FencedError, match="another server has taken over the run"):
        task.serve(Wrapped(works_of(task), before=take_over), GAME.without_data(), tmp_path / "checkpoint.npz", journal)
    assert [record["round"] for record in told] == [0, 4]
    (run, engine), written = newer
    assert engine.asked(DEAD) == list(range(5, 12))
    assert (tmp_path / "checkpoint.npz").read_bytes() == written
    assert_same_run(run, undisturbed)


def test_a_server_that_cannot_go_on_leaves_the_other_one_alone(tmp_path, undisturbed):
    def intrude(request):
        if request.task == "round" and request.round == 5:
            with pytest.raises(ValueError, match="belongs to another run"):
                serve(tmp_path, seed=99)

    assert_same_run(serve(tmp_path, before=intrude)[0], undisturbed)


def test_a_server_that_gives_up_late_tells_nothing(tmp_path):
    """The newer one ends while the older still waits for sites; the older one's status is not the run's."""
    told = []

    def take_over(request):
        if request.task == "round" and request.round == 5 and not told:
            told.append(serve(tmp_path)[0].stop)

    def fault(request):
        if request.round >= 5 and told:
            raise RuntimeError("gone")

    with pytest.raises(FencedError):
        serve(tmp_path, before=take_over, fault=fault, attempts=2)
    assert told == [Stop.MAX_ROUNDS]


CHILD = """
import sys, time
sys.path.insert(0, {tests!r})
from test_deploy import serve
serve({folder!r}, rounds=40, before=lambda request: time.sleep(0.05))
"""


@pytest.mark.slow
def test_a_killed_server_is_resumed_to_identical_iterates(tmp_path):
    """kill -9 in the middle of its rounds."""
    file = tmp_path / "a" / "checkpoint.npz"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(tests=str(Path(__file__).parent), folder=str(file.parent))]
    )
    try:
        while child.poll() is None and last_record(file) < 8:
            time.sleep(0.01)
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()
    run, engine = serve(file.parent, rounds=40)
    assert 8 <= engine.asked(DEAD)[0] < 40
    expected, _ = serve(tmp_path / "b", rounds=40)
    for a, b in zip(jax.tree.leaves(run.state), jax.tree.leaves(expected.state), strict=True):
        np.testing.assert_array_equal(a, b)
    assert_same_run(run, expected)


def last_record(file):
    if not file.exists():
        return -1
    with np.load(file, allow_pickle=False) as content:
        history = json.loads(bytes(content["header"]).decode())["history"]
    return history[-1]["round"] if history else -1


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    serve(tmp_path, rounds=1)
    for changes in ({"seed": 1}, {"sites": NAMES[::-1]}, {"weights": (1.0, 1.0, 2.0)}, {"rounds": 2}, {"tol": 0.1}):
        with pytest.raises(ValueError, match="belongs to another run"):
            serve(tmp_path, **{"rounds": 1} | changes)


def test_a_numerical_error_leaves_the_last_good_state(tmp_path, monkeypatch):
    def overflow(self, state, seconds):
        if int(state.round) == 8:
            raise FloatingPointError
        return record(self, state, seconds)

    record = Records.record
    monkeypatch.setattr(Records, "record", overflow)
    run, _ = serve(tmp_path)
    assert (run.stop, run.rounds) == (Stop.NUMERICAL_ERROR, 7)


def test_a_certificate_that_overflows_at_the_end_is_a_status_and_not_an_exception(tmp_path):
    """Steps far too large for psi*(g) = |g|^2 / 2 lambda; the state of the round before overflows there as well."""
    psi = fx.SquaredL2(0.01)
    problem = fx.problems.bilinear(GAME.A, GAME.b, x=psi, y=psi)
    run, _ = serve(tmp_path, problem, method=fx.FeDualEx(1e5), rounds=130, record_every=130, local_steps=1)
    assert (run.stop, run.rounds, run.outputs["last"].gap) == (Stop.NUMERICAL_ERROR, 129, None)
    assert "beyond float64" in run.outputs["last"].certificate.reason
    assert run.gap == run.best.gap < 100


@pytest.mark.parametrize("task", ["round", "survey"])
def test_an_overflow_at_every_site_is_the_methods_and_ends_at_once(tmp_path, task):
    def overflow(request, replies):
        if request.task != task or request.round < 4:
            return replies
        return [replace(reply, arrays=infinite(reply.arrays)) for reply in replies]

    def infinite(arrays):
        return {name: np.full_like(array, np.inf) for name, array in arrays.items()}

    changes = {"method": fx.FeDualExCorrected(0.2, 1.0)} if task == "survey" else {}
    run, engine = serve(tmp_path, after=overflow, **changes)
    assert run.stop is Stop.NUMERICAL_ERROR
    assert run.rounds <= 4
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(run.state))
    if task == "round":
        assert engine.asked(DEAD).count(4) == 1


def nan_at(site, when):
    """Replies in which one site's numbers are all nan."""

    def change(request, replies):
        bad = [when(request) and reply.site == site for reply in replies]
        return [
            replace(reply, arrays={name: np.full_like(a, np.nan) for name, a in reply.arrays.items()}) if b else reply
            for b, reply in zip(bad, replies, strict=True)
        ]

    return change


def test_one_sites_infinities_are_its_own_and_not_the_methods(tmp_path, undisturbed):
    run, _ = serve(tmp_path / "a", after=nan_at(DEAD, lambda request: request.task == "survey"))
    assert (run.status, run.rounds) == (Status.UNCERTIFIED, 12)
    assert_close(run.state, undisturbed.state)
    again, _ = serve(tmp_path / "a")  # it is back: the outputs of the last state are certified
    assert_close(again.outputs["polished"].gap, undisturbed.outputs["polished"].gap)

    once = iter([True])
    run, _ = serve(tmp_path / "b", cohort=1, after=nan_at(NAMES[0], lambda r: r.task == "round" and next(once, False)))
    assert_same_run(run, serve(tmp_path / "c", cohort=1)[0])


def test_numbers_that_are_never_finite_end_the_run_and_its_checkpoint_can_be_read(tmp_path):
    def infinite(request, replies):
        return [replace(r, arrays={k: np.full_like(a, np.inf) for k, a in r.arrays.items()}) for r in replies]

    for _ in range(2):
        run, _ = serve(tmp_path, after=infinite)
        assert (run.stop, run.rounds, run.gap) == (Stop.NUMERICAL_ERROR, 0, None)
    run, _ = serve(tmp_path)
    assert run.stop is Stop.MAX_ROUNDS


def test_a_site_that_was_told_another_task_is_not_listened_to(tmp_path, caplog):
    for changes in ({"method": fx.FeDualEx(0.1)}, {"seed": 9}, {"noise": None}, {"local_steps": 3}):
        task = task_of(attempts=1)
        works = works_of(task) | {DEAD: works_of(task_of(**changes))[DEAD]}
        run = task.serve(Wrapped(works), GAME.without_data(), tmp_path / f"{next(iter(changes))}.npz")
        assert (run.stop, run.rounds) == (Stop.CLIENTS_LOST, 0)
        assert "the site raised DisagreementError" in caplog.text
        caplog.clear()


def test_checkpoints_of_one_folder_do_not_fence_each_other(tmp_path):
    def other(record):
        if record["round"] == 4:
            task = task_of(seed=3)
            task.serve(Wrapped(works_of(task)), GAME.without_data(), tmp_path / "other.npz")

    run, _ = serve(tmp_path, callback=other)
    assert run.stop is Stop.MAX_ROUNDS


@pytest.mark.parametrize("when", [8, 12])
def test_a_stop_during_a_certificate_loses_nothing(tmp_path, undisturbed, when):
    rounds = []

    def stop(request):
        rounds.extend([request.round] * (request.task == "round"))
        if request.task == "survey" and rounds and rounds[-1] == when - 1:
            engine.stop()

    task = task_of()
    wrapped = Wrapped(works_of(task), before=stop)
    engine = wrapped.inner
    part = task.serve(wrapped, GAME.without_data(), tmp_path / "checkpoint.npz")
    assert (part.stop, part.rounds) == (Stop.INTERRUPTED, when - 1)
    run, _ = serve(tmp_path)
    assert run.history["round"].tolist() == undisturbed.history["round"].tolist()
    assert_same_run(run, undisturbed)


def test_an_interrupt_during_a_certificate_is_a_status(tmp_path, undisturbed):
    surveys = []

    def interrupt(request):
        surveys.extend([1] * (request.task == "survey"))
        if len(surveys) == 3:
            raise KeyboardInterrupt

    part, _ = serve(tmp_path, before=interrupt)
    assert part.stop is Stop.INTERRUPTED
    assert_same_run(serve(tmp_path)[0], undisturbed)


# --- stopping and outputs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [0.05, 0.005])
def test_stops_where_solve_stops(tol):
    options = OPTIONS | {"rounds": 400, "noise": None, "tol": tol}
    method = options.pop("method")
    run = rehearse(GAME, method, sites=3, ergodic=True, **options)
    expected = fx.solve(GAME, method, clients=3, **options)
    assert run.status is expected.status is Status.OPTIMAL
    assert 0 < run.rounds == expected.rounds < 400
    assert run.output == expected.output
    assert_same_run(run, expected, outputs=run.outputs)
    assert run.best.gap == pytest.approx(expected.best.gap, abs=1e-12)


def test_time_is_a_limit_and_may_be_extended(tmp_path, undisturbed):
    part, _ = serve(tmp_path, max_seconds=1e-9)
    assert (part.stop, part.rounds) == (Stop.MAX_TIME, 1)
    run, _ = serve(tmp_path)
    assert_same_run(run, undisturbed)


def test_which_output_is_the_answer(tmp_path, undisturbed):
    assert undisturbed.output == "polished"
    assert list(undisturbed.outputs) == ["last", "clients", "polished"]
    last, _ = serve(tmp_path / "a", output="last")
    assert last.output == "last"
    assert last.gap == undisturbed.outputs["last"].gap
    ergodic, _ = serve(tmp_path / "b", output="ergodic", ergodic=True)
    assert ergodic.output == "ergodic"
    strict, _ = serve(tmp_path / "c", tol=1e-9)
    assert strict.output == "polished"
    loose, _ = serve(tmp_path / "d", tol=5.0)
    good = [output for output in loose.outputs.values() if output.gap <= 5.0]
    assert loose.status is Status.OPTIMAL
    assert loose.outputs[loose.output].structure == min(output.structure for output in good)


def test_without_certificate_by_its_domain(tmp_path):
    problem = fx.problems.bilinear(np.eye(2), np.zeros(2), x=fx.L1(0.1), y=fx.L1(0.1))
    run, _ = serve(tmp_path, problem)
    assert (run.status, run.gap, run.best, run.rounds) == (Status.UNCERTIFIED, None, None, 12)
    assert "unbounded" in run.outputs["last"].certificate.reason


@pytest.mark.parametrize("code", [0, 3])
def test_a_straggler_inside_jax_ends_with_the_process_and_not_it_with_the_straggler(code):
    """However long its work is: this one never ends, as if the machine were infinitely busy."""
    program = f"""
import itertools, sys
import jax, jax.numpy as jnp, numpy as np
from fedualex.deploy import LocalEngine, Request
def work(request):
    for n in itertools.count(1):
        jax.jit(lambda x: jnp.sort(jnp.linalg.qr(jnp.outer(x, x))[0] @ x))(jnp.ones(n % 8 + 1))
engine = LocalEngine({{"slow": work}})
[reply] = engine.broadcast(Request("round", 0, "run", {{"x": np.ones(1)}}), ["slow"], 0.5)
print(reply.error)
sys.exit({code})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=250, check=False)
    assert (done.returncode, done.stdout) == (code, "timeout\n"), done.stderr


def test_a_site_that_hangs_does_not_keep_the_process_from_ending():
    program = """
import threading, numpy as np
from fedualex.deploy import local
local.LEAVE_SECONDS = 1.0
from fedualex.deploy import LocalEngine, Request
engine = LocalEngine({"hangs": lambda request: threading.Event().wait()})
[reply] = engine.broadcast(Request("round", 0, "run", {"x": np.ones(1)}), ["hangs"], 0.2)
engine.close()
print(reply.error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=250, check=True)
    assert done.stdout == "timeout\n"


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"method": fx.ScaffoldSMemory(0.1)}, "keeps a memory at its clients"),
        ({"method": fx.OptimisticMirrorDescent(0.1)}, "is a method for one machine"),
        ({"problem": DATA, "method": fx.OptimisticMirrorDescent(0.1)}, "is a method for one machine"),
        ({"problem": DATA, "method": fx.FeDualEx()}, "give eta_c: theory needs the data of all sites"),
        ({"output": "ergodic"}, "output='ergodic' needs ergodic=True"),
        ({"output": "best"}, "output must be one of"),
        ({"min_replies": 0}, "min_replies must be a whole number >= 1, got 0"),
        ({"min_replies": True}, "min_replies must be a whole number >= 1, got True"),
        ({"min_replies": 4}, "min_replies must be at most the sites of a round, 3, got 4"),
        ({"min_replies": 3, "cohort": 2}, "min_replies must be at most the sites of a round, 2, got 3"),
        ({"attempts": 0}, "attempts must be a whole number >= 1, got 0"),
        ({"timeout": 0.0}, "timeout must be a number > 0"),
        ({"timeout": -1.0}, "timeout must be a number > 0"),
        ({"timeout": float("nan")}, "timeout must not contain nan"),
        ({"max_seconds": -1.0}, "max_seconds must be a number > 0"),
        ({"tol": 0.0}, "tol must be a number > 0"),
        ({"weights": (1.0, 1.0)}, "weights must be 3 numbers >= 0 with a positive sum"),
        ({"weights": (1.0, -1.0, 1.0)}, "weights must be 3 numbers >= 0 with a positive sum"),
        ({"weights": (0.0, 0.0, 0.0)}, "weights must be 3 numbers >= 0 with a positive sum"),
        ({"weights": (1.0, float("inf"), 1.0)}, "weights must be finite"),
        ({"weights": (1.0, 0.0, 1.0), "cohort": 3, "min_replies": 2}, "weights must be > 0 where some of the sites"),
        ({"sites": 0}, "sites must be"),
        ({"sites": -1}, "sites must be"),
        ({"problem": DATA, "sites": 2}, "sites must be 3, as many as the problem's data has, got 2"),
        ({"rounds": 0}, "rounds must be a whole number >= 1, got 0"),
        ({"local_steps": (1, 2)}, "local_steps must be a whole number >= 1, or one for each of 3 clients"),
        ({"problem": DATA, "local_steps": (1, 2)}, "local_steps must be a whole number >= 1, or one for each of 3"),
        ({"problem": DATA, "cohort": 4}, "cohort must be at most the number of clients, 3, got 4"),
        ({"dtype": "float16"}, "dtype must be 'float32' or 'float64'"),
    ],
)
def test_refusals(changes, match):
    options = {"problem": GAME, "sites": 3, "rounds": 2} | {"method": fx.FeDualEx(0.1)} | changes
    problem, method = options.pop("problem"), options.pop("method")
    with pytest.raises((ValueError, TypeError), match=match) as refused:
        rehearse(problem, method, **options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("sites", [(), ("a", "a")], ids=["none", "twice"])
def test_sites_have_names_of_their_own(tmp_path, sites):
    task = Task(fx.FeDualEx(0.1), sites, DeploymentOptions(rounds=2))
    with pytest.raises(ValueError, match="sites must be at least one name, each once"):
        task.serve(LocalEngine({}), GAME, tmp_path / "checkpoint.npz")
    assert list(tmp_path.iterdir()) == []


# --- for long ------------------------------------------------------------------------------------------------------


def resident():
    """Megabytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_soak(tmp_path):
    """2,000 rounds: memory of the second half grows by less than a few megabytes, and the iterates are right."""
    sizes, began = {}, time.perf_counter()

    def watch(record):
        sizes[record["round"]] = resident()

    options = OPTIONS | {"rounds": 2000, "record_every": 100}
    run = rehearse(GAME, sites=3, checkpoint=tmp_path / "checkpoint.npz", callback=watch, **options)
    shown = ", ".join(f"{r}: {size:.1f}" for r, size in sizes.items() if r % 500 == 0)
    print(f"\nsoak: {time.perf_counter() - began:.0f} s; megabytes at rounds {shown}")
    assert run.rounds == 2000
    assert sizes[2000] - sizes[1000] < 5
    expected = fx.simulate(GAME, clients=3, **options)
    assert_close(run.state.server, expected.state.server, 1e-11)


def test_privacy_sends_a_clipped_noisy_increment_and_nothing_else():
    privacy = fx.deploy.Privacy(clip=0.5, noise=4.0, delta=1e-5)
    task = Task(fx.FeDualEx(0.1), ("a", "b"), DeploymentOptions(rounds=4, privacy=privacy, record_every=2))
    run = rehearse(GAME, fx.FeDualEx(0.1), sites=2, rounds=4, privacy=privacy, record_every=2)
    assert list(run.outputs) == ["last"]
    assert run.gap is None
    assert run.status is fx.Status.UNCERTIFIED
    assert "noisy" in run.outputs["last"].certificate.reason
    # The accountant's own answer for four Gaussian releases of sensitivity 2 clip and deviation 4 clip.
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    expected = RdpAccountant().compose(GaussianDpEvent(2.0), 4).get_epsilon(1e-5)
    np.testing.assert_allclose(run.history["epsilon"][-1], expected)
    site = task.site(GAME, "a")
    with double():
        server = GAME.geometry.dual(GAME.validate_point(GAME.like))
        request = Request("round", 0, f"{site.agreed}-run", pack(server=server, survey=None))
        one, two = (site.work(request) for _ in range(2))
    assert sorted(one) == ["message.omega.x", "message.omega.y", "message.tau"]
    assert not np.array_equal(one["message.omega.x"], two["message.omega.x"])  # not from the seed, which the server has
    with pytest.raises(PermissionError, match="not covered"), double():
        site.work(
            Request(
                "survey",
                0,
                f"{site.agreed}-run",
                pack(points=jax.tree.map(lambda leaf: leaf[None], GAME.validate_point(GAME.like))),
            )
        )


def test_an_increment_that_is_not_finite_is_only_noise():
    privacy = fx.deploy.Privacy(clip=1.0, noise=1e-3)
    for bad in (np.nan, np.inf):
        hidden = privacy.applied(fx.Dual(fx.Saddle(np.array([bad, 1e6, -777.0]), np.zeros(1)), np.asarray(1.0)))
        assert np.max(np.abs(hidden.omega.x)) < 0.1


def test_epsilon_counts_failed_rounds_and_is_not_forgotten(tmp_path):
    privacy, changes = fx.deploy.Privacy(1.0, 4.0), {"rounds": 6, "record_every": 2, "attempts": 3}

    def fault(request):
        if request.round >= 3:
            raise RuntimeError("gone")

    lost, engine = serve(tmp_path, fault=fault, privacy=privacy, **changes)
    assert lost.stop is Stop.CLIENTS_LOST
    first = len(engine.asked(NAMES[0]))
    assert first == 3 + 3
    assert lost.epsilon == pytest.approx(privacy.epsilon(first))
    run, engine = serve(tmp_path, privacy=privacy, **changes)
    total = first + len(engine.asked(NAMES[0]))
    assert run.epsilon == run.history["epsilon"][-1] == pytest.approx(privacy.epsilon(total))

    def killed(request):
        raise SystemExit  # as if the server died while its sites work

    with pytest.raises(SystemExit):
        serve(tmp_path / "killed", before=killed, privacy=privacy, **changes)
    run, _ = serve(tmp_path / "killed", privacy=privacy, **changes)
    assert run.epsilon == pytest.approx(privacy.epsilon(7))


def test_without_an_accountant_nothing_begins(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match="an epsilon needs dp-accounting: pip install"):
        serve(tmp_path, privacy=fx.deploy.Privacy(1.0, 1.0))
    assert list(tmp_path.iterdir()) == []


def test_clipping_is_to_the_length_and_noise_has_the_stated_size():
    privacy = fx.deploy.Privacy(clip=2.0, noise=1e-9)
    message = fx.Dual(fx.Saddle(np.full(300, 3.0), np.full(100, -4.0)), np.asarray(1.0))
    hidden = privacy.applied(message)
    length = np.sqrt(np.sum(hidden.omega.x**2) + np.sum(hidden.omega.y**2))
    np.testing.assert_allclose(length, 2.0, rtol=1e-6)
    wide = fx.deploy.Privacy(clip=2.0, noise=3.0).applied(fx.Dual(fx.Saddle(np.zeros(40_000)), np.asarray(0.0)))
    assert abs(np.std(wide.omega.x) / 6.0 - 1) < 0.03


@pytest.mark.parametrize(
    ("method", "options", "match"),
    [
        (fx.FedMiP(0.1), {}, "covers FeDualEx"),
        (fx.FeDualExCorrected(0.1), {}, "covers FeDualEx"),
        (fx.FeDualEx(0.1), {"tol": 0.1}, "tol"),
        (fx.FeDualEx(0.1), {"ergodic": True}, "ergodic"),
        (fx.FeDualEx(0.1), {"output": "clients"}, "'last'"),
    ],
)
def test_privacy_refuses_what_it_does_not_cover(method, options, match):
    with pytest.raises(ValueError, match=match):
        rehearse(GAME, method, sites=2, rounds=2, privacy=fx.deploy.Privacy(1.0, 1.0), **options)
