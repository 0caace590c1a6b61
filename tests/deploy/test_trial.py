"""Processes of a trial: with nothing of an engine."""

import json
import os

import psutil
import pytest

from fedualex.deploy import processes
from fedualex.deploy.party import Layout

STUBBORN = "#!/bin/sh\n(trap '' TERM; echo up; sleep 300) & setsid sleep 301 & wait\n"


@pytest.fixture
def folder(tmp_path):
    """A server whose process starts two more: one does not hear SIGTERM, one is in a session of its own."""
    for name, script in {
        "server": STUBBORN,
        "sites/a": "#!/bin/sh\necho up\nsleep 300\n",
        "sites/b": "#!/bin/sh\nexit 3\n",
    }.items():
        party = tmp_path / name
        party.mkdir(parents=True)
        (party / "start.sh").write_text(script)
        (party / "start.sh").chmod(0o700)
    yield tmp_path
    processes.down(tmp_path, timeout=1.0)


def until_up(folder, *names):
    def all_said_so():
        return all("up" in (Layout(folder).party(name) / "log.txt").read_text() for name in names)

    processes.until(all_said_so, folder, names, 60.0, "everybody")


def until_sleeping(folder, *seconds):
    """Until the server's own script and those that it started are all past their beginnings."""

    def all_sleep():
        lines = [process.cmdline() for process in processes.members(folder, "server")]
        return all(["sleep", end] in lines for end in seconds)

    processes.until(all_sleep, folder, ["server"], 60.0, "its children")


def test_parties_end_with_all_they_started_and_alone(folder):
    for name in ("server", "a"):
        processes.start(folder, name)
    until_up(folder, "server", "a")
    until_sleeping(folder, "300", "301")
    members = processes.members(folder, "server")
    assert len(members) >= 3
    assert members[0].pid == json.loads((folder / "processes.json").read_text())["parties"]["server"]["pid"]
    processes.start(folder, "server")  # it runs: nothing happens
    assert len(processes.members(folder, "server")) == len(members)
    processes.down(folder, "server", timeout=1.0)
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in members)
    assert processes.alive_parties(folder) == {"a": True}
    processes.down(folder)
    assert processes.alive_parties(folder) == {}


def test_whoever_ends_while_others_wait_is_named_with_its_last_words(folder):
    processes.start(folder, "b")
    (folder / "sites" / "b" / "log.txt").write_text("no such table")
    with pytest.raises(RuntimeError, match=r"b ended while waiting for rain; the end of .*: no such table"):
        processes.until(lambda: False, folder, ["b"], 60.0, "rain")
    processes.start(folder, "a")
    with pytest.raises(TimeoutError, match="waited 0 s for rain"):
        processes.until(lambda: False, folder, ["a"], 0.0, "rain")


def test_a_foreign_process_with_the_same_id_is_left_alone(folder):
    record = {"mark": "other", "parties": {"server": {"pid": os.getpid(), "started": 1.0}}}
    (folder / "processes.json").write_text(json.dumps(record))
    assert processes.alive_parties(folder) == {"server": False}
    assert processes.members(folder, "server") == []
