"""Faults of sites: a bad, late or missing reply costs a round and changes nothing."""

import threading

import jax
import numpy as np
import pytest
from support.deploying import (  # noqa: F401
    DEAD,
    NAMES,
    UP,
    Status,
    Stop,
    assert_same_run,
    patience,
    serve,
    task_of,
    undisturbed,
    works_of,
)

import fedualex as fx
from fedualex.deploy import Reply, Request, clients as exchange, thread_engine


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


@pytest.mark.sampled(8)
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_bad_reply_costs_a_round_and_changes_nothing(tmp_path, act, undisturbed, caplog):
    caplog.set_level("INFO", "fedualex")
    run, engine = serve(tmp_path, fault=at_round(5, act))
    assert_same_run(run, undisturbed)
    assert run.stop is Stop.MAX_ROUNDS
    assert engine.asked(DEAD) == engine.asked(NAMES[0]) == [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 11]
    assert f"nothing from {DEAD}" in caplog.text
    assert "after failure 1 of 5" in caplog.text
    told = [record for record in caplog.records if record.name != "fedualex.deploy.wire"]  # the site's own log
    assert not any("may quote data" in record.getMessage() or record.exc_info for record in told)


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


@pytest.mark.slow
def test_a_site_that_was_not_asked_is_not_heard_and_not_blamed(tmp_path):
    """In a cohort of two the third is silent; what comes under its name, or a stranger's, is dropped."""

    def intrude(request, replies):
        missing = set(NAMES) - {reply.site for reply in replies}
        return [*replies, *(garbage(request, site=site) for site in (*missing, "stranger") if request.task == "round")]

    run, engine = serve(tmp_path / "a", after=intrude, cohort=2, min_replies=1)
    expected, quiet = serve(tmp_path / "b", cohort=2, min_replies=1)
    assert_same_run(run, expected)
    assert [engine.asked(site) for site in NAMES] == [quiet.asked(site) for site in NAMES]


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_site_that_hangs_for_good_does_not_starve_the_others():
    """More requests than a site has threads: they wait for each other, and for nobody else."""
    release = threading.Event()

    def hang(request):
        release.wait(60)
        return {}

    engine = thread_engine({"fine": lambda request: request.arrays, "hangs": hang})
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


@pytest.mark.slow
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
