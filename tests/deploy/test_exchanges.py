"""FeDualSlide over an engine: the simulator's iterates, and sites that do not answer."""

import logging
from datetime import datetime

import numpy as np
import pytest
from support.deploying import DEAD, NAMES, serve
from support.plain_rows import rows

import fedualex as fx
from fedualex.deploy.engine import RefusedError
from fedualex.deploy.party import read_events, write_entry, write_log
from fedualex.runtime.status import ENDS, REFUSALS, Code, Failure, Missing

SLIDE = {"problem": rows("agnostic"), "sites": NAMES, "noise": None}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("mode", "steps"), [("survey", 1), ("auto", 3), ("local", 3)])
def test_sites_give_the_iterates_of_the_simulator(tmp_path, mode, steps):
    method = fx.FeDualSlide(mode=mode)
    run, engine = serve(tmp_path, method=method, rounds=12, local_steps=steps, record_every=1, **SLIDE)
    same = fx.simulate(rows("agnostic"), method, rounds=12, local_steps=steps, record_every=1)
    assert len(engine.requests) == 12  # certificates need no exchange of their own
    # Rounding is estimated where the sums are made elsewhere: certificates agree but for that.
    np.testing.assert_allclose(run.history["gap_bounds"], same.history["gap_bounds"], rtol=0, atol=1e-10)
    for name in ("weights", "bias"):
        np.testing.assert_allclose(run.z.x[name], same.z.x[name], rtol=0, atol=1e-12)
        found, expected = run.state.server.at.x[name], same.state.server.at.x[name]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_a_survey_waits_for_a_site_that_is_back_in_time(tmp_path):
    """Nothing stands in for a missing site: the exchange is repeated, and the run is the undisturbed one."""
    failures = iter([True] * 4)

    def fault(request):
        if next(failures, False):
            raise RuntimeError

    method = fx.FeDualSlide()
    run, _ = serve(tmp_path, method=method, rounds=6, local_steps=1, record_every=1, fault=fault, attempts=3, **SLIDE)
    same = fx.simulate(rows("agnostic"), method, rounds=6, record_every=1)
    assert run.stop is fx.Stop.MAX_ROUNDS
    np.testing.assert_allclose(run.history["gap_bounds"], same.history["gap_bounds"], rtol=0, atol=1e-10)


def test_a_site_that_stays_away_ends_the_run_with_what_is_certified(tmp_path):
    answered = iter([False] * 4)

    def fault(request):
        if next(answered, True):
            raise RuntimeError(DEAD)

    method = fx.FeDualSlide()
    run, _ = serve(tmp_path, method=method, rounds=20, local_steps=1, record_every=1, fault=fault, attempts=2, **SLIDE)
    assert run.stop is fx.Stop.CLIENTS_LOST
    assert run.rounds == 4
    same = fx.simulate(rows("agnostic"), method, rounds=4, record_every=1)
    assert run.gap == pytest.approx(same.gap, abs=1e-10)


def test_a_site_that_refuses_is_not_asked_again_and_ends_the_run_with_its_reason(tmp_path):
    answered = iter([False] * 4)

    def fault(request):
        if next(answered, True):
            raise RefusedError("this site gives 4 answers in 24 hours, and has given them")

    method = fx.FeDualSlide()
    run, engine = serve(tmp_path, method=method, rounds=20, local_steps=1, record_every=1, fault=fault, **SLIDE)
    assert run.stop is fx.Stop.CLIENTS_LOST
    assert f"no valid answer of {DEAD} (refused: this site gives 4 answers in 24 hours" in run.detail
    assert [sites for _, sites in engine.requests] == [NAMES] * 5
    assert run.gap is not None


def test_where_enough_others_answer_a_refusal_ends_nothing(tmp_path):
    def fault(request):
        raise RefusedError("this site takes no part")

    run, _ = serve(tmp_path, fault=fault, min_replies=2, attempts=1)
    assert run.stop is fx.Stop.MAX_ROUNDS


@pytest.mark.parametrize("code", [Code.NOT_FINITE, Code.TOO_LARGE, Code.ANSWERED])
def test_what_is_refused_of_one_attempt_is_asked_for_again(tmp_path, code):
    failures = iter([True])

    def fault(request):
        if next(failures, False):
            raise RefusedError("of this attempt", code)

    method = fx.FeDualSlide()
    run, _ = serve(tmp_path, method=method, rounds=2, local_steps=1, fault=fault, **SLIDE)
    assert run.stop is fx.Stop.MAX_ROUNDS


def refusing(code):
    def fault(request):
        raise RefusedError("this site takes no part", code)

    return fault


def raising(request):
    raise ZeroDivisionError("a row of data")


def lying(request):
    """An operator that is longer than is believed, of a survey; local steps that are not finite."""
    if request.task == "survey":
        return {"operators.x": np.full((1, 5), 1e9), "operators.y": np.full((1, 4), 1e9), "values": np.zeros(1)}
    raise RefusedError("message is not finite", Code.NOT_FINITE)


def silent(request):
    raise RefusedError("the oldest word", "a code of another version")


FAULTS = {code: refusing(code) for code in [*REFUSALS, Code.NOT_FINITE, Code.TOO_LARGE, Code.ANSWERED]}
FAULTS |= {"raised": raising, "doubted": lying, "unknown": silent}


def outcome(folder, **changes):
    """Everything that a program could decide: requests, retries, stops, statuses, what was recorded."""
    run, engine = serve(folder, attempts=2, **changes)
    asked = [(request.task, request.round, sites) for request, sites in engine.requests]
    codes = [[(reply.site, reply.code) for reply in replies] for replies in engine.replies]
    claims = {name: (output.status, output.gap is None) for name, output in run.outputs.items()}
    return (
        run.stop,
        run.rounds,
        run.unanswered,
        run.output,
        claims,
        {k: len(v) for k, v in run.history.items()},
        asked,
        codes,
    )


@pytest.mark.parametrize("method", [fx.FeDualEx(0.3), fx.FeDualSlide()], ids=["rounds", "exchanges"])
@pytest.mark.sampled(4)
@pytest.mark.parametrize("fault", FAULTS)
def test_no_decision_depends_on_the_words_of_a_failure(tmp_path, monkeypatch, fault, method):
    """The same requests, retries and endings where every text is blank: those of sites, and those of `Missing`."""
    options = {"method": method, "rounds": 4, "local_steps": 1, "fault": FAULTS[fault], "operator_bound": 1e6}
    said = [outcome(tmp_path / f"said-{needed}", min_replies=needed, **options) for needed in (2, 3)]
    monkeypatch.setattr(Failure, "text", property(lambda self: "", lambda self, text: None), raising=False)
    monkeypatch.setattr(RefusedError, "__str__", lambda self: "")
    assert Failure(Code.TIMEOUT, "timeout").text == str(Missing(Failure(Code.LOST, "lost")).why) == ""
    assert [outcome(tmp_path / f"blank-{needed}", min_replies=needed, **options) for needed in (2, 3)] == said


@pytest.mark.parametrize("code", Code)
def test_what_follows_from_a_code_is_declared(code):
    """A site's decision has its advice and is final; what ends a run is no decision of one site."""
    why = Failure(code, "")
    assert why.is_final == (code in REFUSALS)
    assert (Missing(why).stop is None) == (code not in ENDS)
    assert not (code in REFUSALS and (code in ENDS or why.is_about_numbers))
    assert REFUSALS.get(code, "advice")


def test_events_say_who_failed_and_who_is_back_as_data(tmp_path):
    folder = tmp_path / "server"
    folder.mkdir()
    write_entry(folder, "server", "module:function")
    logger = logging.getLogger("fedualex")
    before, level = list(logger.handlers), logger.level
    answered = iter([False, True])

    def fault(request):
        if not next(answered, True):
            raise TimeoutError("a row of data")

    try:
        write_log(folder)
        serve(tmp_path / "run", fault=fault, attempts=3)
    finally:
        for handler in [handler for handler in logger.handlers if handler not in before]:
            logger.removeHandler(handler)
            handler.close()
        logger.setLevel(level)
    events = list(read_events(folder))
    assert [(event["code"], event["party"]) for event in events] == [("raised", DEAD), ("answers", DEAD)]
    assert events[0]["text"] == "the site raised TimeoutError (its log says more)"
    assert datetime.fromisoformat(events[0]["time"]).tzinfo is not None
