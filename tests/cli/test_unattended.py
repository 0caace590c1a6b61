"""A run that nobody watches: sent again whatever cut it off, and never against a person's will."""

import errno
import json
import re
import shutil
import subprocess
from configparser import ConfigParser
from types import SimpleNamespace

import pytest

from fedualex.cli import deploy_run
from fedualex.cli.deploy import deploy
from fedualex.cli.deploy_run import STOPPED, run_unattended
from fedualex.deploy.consortium.deployment import FAILURE, heals, tell_error
from fedualex.deploy.engine import Request
from fedualex.deploy.ledger import Ledger, Line, begin_ledger
from fedualex.deploy.party import write_run_unit, write_unit
from fedualex.deploy.wire import answer, reply_from_bytes, request_to_bytes
from fedualex.runtime.status import REFUSALS, Code


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A deployment whose runs end as they are told; ends holds what each one does."""
    found = SimpleNamespace(folder=tmp_path, ends=[], runs=0, history=[], done=False, sent="word", slept=[])
    (tmp_path / "server").mkdir()

    def run(folder, as_json):
        found.runs += 1
        end = found.ends.pop(0)
        if isinstance(end, BaseException):
            raise end
        end()
        raise SystemExit(0)

    monkeypatch.setattr(deploy_run, "run_deployment", run)
    monkeypatch.setattr(deploy_run, "stored_run", lambda folder: (list(found.history), None))
    monkeypatch.setattr(deploy_run, "last_sent", lambda folder: found.sent)
    monkeypatch.setattr(deploy_run, "_has_ended", lambda folder: found.done)
    monkeypatch.setattr(deploy_run.time, "sleep", found.slept.append)
    return found


def finish(world):
    def end():
        world.done = True

    return end


def test_a_run_is_sent_again_until_it_has_ended_and_more_slowly_while_nothing_comes_of_it(world):
    lost = RuntimeError("the server was silent for 181 s")
    world.ends = [lost, SystemExit(4), lost, lost, lost, lost, lost, finish(world)]
    run_unattended(world.folder, False)
    assert world.runs == 8
    assert world.slept[:3] == [10.0, 20.0, 30.0]
    assert max(world.slept) == deploy_run.LONGEST_PAUSE


def test_the_pause_is_short_again_once_rounds_came(world):
    def advance():
        world.history.append({"round": 1})
        raise RuntimeError("it was killed")

    world.ends = [RuntimeError("x"), RuntimeError("x"), advance, finish(world)]
    run_unattended(world.folder, False)
    assert world.slept == [10.0, 20.0, deploy_run.FIRST_PAUSE]


def test_what_was_stopped_by_hand_is_left_alone(world):
    def stop():
        world.sent = STOPPED
        raise SystemExit(130)

    world.ends = [stop]
    run_unattended(world.folder, False)
    run_unattended(world.folder, False)  # as after the machine was started again
    assert world.runs == 1


def test_a_finished_run_is_not_begun_again(world):
    world.done = True
    run_unattended(world.folder, False)
    assert world.runs == 0


def test_what_a_person_must_correct_ends_the_service_with_the_sentence(world):
    def fail():
        failure = {"error": "ConfigurationError: all sites must have the same columns", "heals": False}
        (world.folder / "server" / FAILURE).write_text(json.dumps(failure))
        raise RuntimeError("the server could not go on")

    world.ends = [fail]
    with pytest.raises(ValueError, match="all sites must have the same columns"):
        run_unattended(world.folder, False)
    assert not heals(world.folder / "server")


def test_a_full_disk_is_said_to_be_that_at_the_server_and_at_a_site(tmp_path, monkeypatch):
    full = OSError(errno.ENOSPC, "No space left on device")
    assert tell_error(full).startswith("the disk of the server is full")
    assert tell_error(ValueError("x")) == "ValueError: x"

    def work(request):
        raise full

    reply = reply_from_bytes(answer(work, request_to_bytes(Request("survey", 1, "run", {}))))
    assert (reply.code, reply.error) == (Code.DISK_FULL, "the disk of this site is full, so that nothing leaves it")
    assert Code.DISK_FULL not in REFUSALS  # the site is asked again, and answers once there is room
    begin_ledger(tmp_path)
    ledger = Ledger(tmp_path / "ledger.jsonl")
    monkeypatch.setattr("fedualex.deploy.ledger.os.write", lambda handle, content: len(content) - 1)
    with ledger.lock(), pytest.raises(OSError, match="disk of this site is full") as error:
        ledger.append(Line())
    assert error.value.errno == errno.ENOSPC


def test_the_unit_of_the_run_names_a_command_that_exists_and_is_not_started_after_what_a_person_must_correct(tmp_path):
    write_run_unit(tmp_path)
    unit = ConfigParser(strict=False)
    unit.optionxform = str
    unit.read(tmp_path / "fedualex-run.service")
    words = unit["Service"]["ExecStart"].split()
    assert words[1:3] == ["deploy", "run"]
    assert words[4] in {name for option in deploy.commands["run"].params for name in option.opts}
    assert (unit["Service"]["Restart"], unit["Service"]["RestartPreventExitStatus"]) == ("on-failure", "2")
    assert unit["Service"]["ReadWritePaths"] == words[3]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="this machine has no systemd")
def test_systemd_finds_nothing_wrong_in_the_units(tmp_path):
    write_run_unit(tmp_path)
    write_unit(tmp_path, "the server")
    units = sorted(tmp_path.glob("*.service"))
    assert len(units) == 2
    for unit in units:  # the program is not installed where the unit looks for it
        unit.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text()))
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
