"""When sites are asked again, for how long, and what an operator may change of that without telling anybody."""

import json
import logging

import numpy as np
import pytest
from support.consortium import deployment, run_in_threads, write_tables

from fedualex import __version__
from fedualex.deploy import Request, clients
from fedualex.deploy.clients import Exchange, Patience, SilentSitesError
from fedualex.deploy.consortium.agreement import agreement
from fedualex.deploy.consortium.settings import PATIENCE, RUN_DEFAULTS, settings_of
from fedualex.deploy.engine import NOT_CONNECTED, Reply, failure_reply
from fedualex.deploy.wire import answer, reply_from_bytes, request_to_bytes
from fedualex.runtime.status import REFUSALS, Code

OPERATORS = {"timeout": 301.0, "attempts": 7, "patience": 9.0, "max_seconds": 1e6, "min_replies": 3}


class Clock:
    """Time that passes while somebody sleeps."""

    def __init__(self, monkeypatch):
        self.now, self.started = 1000.0, 1000.0
        monkeypatch.setattr(clients.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(clients.time, "sleep", self.sleep)

    def sleep(self, seconds):
        self.now += seconds

    @property
    def passed(self):
        return self.now - self.started


class Fake:
    """An engine whose second site is away until some time, and refuses if it is told to."""

    def __init__(self, clock, back=np.inf, refuses=False):
        self.clock, self.back, self.refuses, self.asked = clock, back, refuses, 0

    def sites(self):
        return ["north", "south"]

    def broadcast(self, request, sites, timeout):
        self.asked += 1
        return [self._reply(request, site) for site in sites]

    def _reply(self, request, site):
        if site == "south" and self.refuses:
            return Reply(site, request.round, request.run_id, error="no", code=Code.NOT_RELEASED)
        if site == "south" and self.clock.passed < self.back:
            return failure_reply(site, request.round, request.run_id, NOT_CONNECTED)
        return Reply(site, request.round, request.run_id, {"a": np.ones(1)})

    def stopped(self):
        return False


def ask(engine, patience):
    exchange = Exchange(engine, ["north", "south"], "run", 1.0, patience=patience)
    return exchange.ask_all("columns", {}, 0, dict)


def test_the_operators_options_are_no_part_of_the_agreement_and_what_decides_is(tmp_path):
    write_tables(tmp_path)
    settings = settings_of(deployment(tmp_path) / "server")
    word = agreement(settings)
    for key, value in OPERATORS.items():
        assert agreement({**settings, "run": {**settings["run"], key: value}}) == word, key
    for key, value in {"tol": 0.5, "seed": 3, "secure_sums": "on", "rounds": 7, "local_steps": 4}.items():
        assert agreement({**settings, "run": {**settings["run"], key: value}}) != word, key
    assert RUN_DEFAULTS["patience"] == PATIENCE


def test_a_run_with_other_patience_at_the_server_alone_is_answered(tmp_path):
    write_tables(tmp_path)
    root = deployment(tmp_path, goal="logistic")
    file = root / "server" / "deployment.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "run": {**settings["run"], **OPERATORS}}))
    assert run_in_threads(root).gap is not None


def test_another_version_has_a_code_and_a_sentence_with_both_versions():
    request = Request("survey", 1, "run", {}, version="9.9")
    reply = reply_from_bytes(answer(lambda request: {}, request_to_bytes(request)))
    assert (reply.code, reply.error) == (
        Code.OTHER_VERSION,
        f"refused: the server runs fedualex 9.9, and this site {__version__}",
    )
    assert "same version" in REFUSALS[Code.OTHER_VERSION]
    older = answer(lambda request: {}, b"FXM2" + request_to_bytes(request)[4:])
    assert reply_from_bytes(older).code == Code.OTHER_VERSION


def test_a_failed_site_is_given_up_after_attempts_and_seconds(monkeypatch):
    clock = Clock(monkeypatch)
    patience = Patience(3, 60.0)
    ends = []
    while not ends or not ends[-1]:
        ends.append(patience.fail())
        patience.pause(lambda: False)
    assert len(ends) > 3
    assert 60 <= clock.passed < 60 + 2 * clients.LONGEST_PAUSE
    assert [Patience(1, 0.0).fail(), Patience(2, 0.0).fail()] == [True, False]


def test_a_pause_ends_when_the_run_is_stopped(monkeypatch):
    clock, patience = Clock(monkeypatch), Patience(9, 0.0)
    for _ in range(8):
        patience.fail()
    patience.pause(lambda: clock.passed > 1.0)
    assert clock.passed < 2.0


def test_a_site_that_is_back_in_time_costs_nothing_before_a_run(monkeypatch):
    clock = Clock(monkeypatch)
    engine = Fake(clock, back=100.0)
    assert list(ask(engine, PATIENCE)) == ["north", "south"]
    assert clock.passed < 100.0 + clients.LONGEST_PAUSE + 1.0


def test_a_refusal_is_final_and_silence_is_not_waited_for_without_end(monkeypatch):
    clock = Clock(monkeypatch)
    with pytest.raises(SilentSitesError, match="south"):
        ask(engine := Fake(clock, refuses=True), PATIENCE)
    assert engine.asked == 1
    with pytest.raises(SilentSitesError, match="not connected"):
        ask(Fake(clock), PATIENCE)
    assert PATIENCE <= clock.passed < PATIENCE + 2 * clients.LONGEST_PAUSE


def test_a_failure_says_when_the_site_answered_last(monkeypatch, caplog):
    clock = Clock(monkeypatch)
    engine = Fake(clock, back=-1.0)
    exchange = Exchange(engine, engine.sites(), "run", 1.0)
    caplog.set_level(logging.INFO, "fedualex")
    exchange.ask_all("survey", {}, 0, dict)
    engine.back = np.inf
    with pytest.raises(SilentSitesError):
        exchange.ask_all("survey", {}, 1, dict)
    events = [record.event for record in caplog.records if hasattr(record, "event")]
    assert {event["party"] for event in events} == {"south"}
    assert all(event["answered"] > 1e9 for event in events)
