"""The ledger of a site: written before anything leaves, chained, and never in doubt after a crash."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from click.testing import CliRunner

from fedualex.cli import main
from fedualex.deploy.engine import RefusedError, Request
from fedualex.deploy.guard import Guard
from fedualex.deploy.ledger import DAY, HEAD, LEDGER, Ledger, Line, audit, begin_ledger, content_digest, digest, stamp
from fedualex.deploy.policy import Policy
from fedualex.runtime.status import Code

ANSWER = {"operators.x": np.arange(3.0), "values": np.ones(2)}


@pytest.fixture
def file(tmp_path):
    begin_ledger(tmp_path)
    return tmp_path / LEDGER


def guard(file, policy=None, **options):
    return Guard(lambda request: ANSWER, policy or Policy(), Ledger(file, **options))


def ask(number=0, **changes):
    return Request(**{"task": "survey", "round": number, "run_id": "run-1", "arrays": {}} | changes)


def test_every_release_is_a_line_with_what_left(file):
    door = guard(file)
    for number in range(3):
        assert door.work(ask(number)) is ANSWER
    found = audit(file.parent)
    assert found["damage"] == ""
    assert [line["kind"] for line in found["lines"]] == ["begun", "release", "release", "release"]
    line = found["lines"][-1]
    assert (line["run"], line["task"], line["round"], line["size"]) == ("run-1", "survey", 2, 40)
    assert line["arrays"] == {"operators.x": [3], "values": [2]}
    assert line["sha256"] == content_digest(ANSWER)
    assert found["totals"]["releases"] == 3
    assert oct(file.stat().st_mode & 0o777) == "0o600"


def test_the_line_is_on_the_disk_before_the_answer_leaves(file, monkeypatch):
    seen = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (sync(handle), seen.append(file.read_bytes().count(b"\n"))))
    guard(file).work(ask())
    assert seen == [2]


def test_nothing_leaves_if_the_ledger_cannot_be_written(file, monkeypatch):
    door = guard(file)
    before = file.read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: write(handle, content[:20]))
    with pytest.raises(OSError, match="the disk of this site is full"):
        door.work(ask())
    assert file.read_bytes() == before
    monkeypatch.undo()
    door.work(ask())
    assert Ledger(file).damage == ""


def change_byte(content):
    at = content.index(b'"round":1')
    return content[:at] + content[at:].replace(b'"round":1', b'"round":7', 1)


DAMAGES = {
    "a changed number": change_byte,
    "a removed line": lambda content: b"".join(
        content.splitlines(keepends=True)[:2] + content.splitlines(keepends=True)[3:]
    ),
    "a removed beginning": lambda content: b"".join(content.splitlines(keepends=True)[1:]),
    "lines in another order": lambda content: b"".join(
        np.array(content.splitlines(keepends=True))[[0, 2, 1, 3, 4]].tolist()
    ),
    "a line twice": lambda content: content + content.splitlines(keepends=True)[-1],
    "a cut in the middle": lambda content: content[:300] + content[350:],
    "a line of something else": lambda content: content + b"hello\n",
    "an empty line": lambda content: content + b"\n",
    "nothing": lambda content: b"",
}


@pytest.mark.parametrize("change", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_ledger_refuses_until_it_is_acknowledged(file, change):
    door = guard(file)
    for number in range(4):
        door.work(ask(number))
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(RefusedError, match="ledger of this site is damaged") as refused:
        guard(file).work(ask(9))
    assert refused.value.code is Code.LEDGER_DAMAGED
    assert audit(file.parent)["damage"]
    Ledger(file).acknowledge("a disk was replaced")
    guard(file).work(ask(10))
    assert audit(file.parent)["damage"] == ""
    content = file.read_bytes()
    file.write_bytes(content[:-60] + b"x" + content[-59:])  # an acknowledgment covers what was before it
    with pytest.raises(RefusedError, match="damaged"):
        guard(file).work(ask(11))


def last_line_changed(content):
    *lines, last = content.splitlines(keepends=True)
    return b"".join([*lines, last.replace(b'"round":3', b'"round":7')])


ENDS = {
    "a changed last line": last_line_changed,
    "a last line that was cut off": lambda content: b"".join(content.splitlines(keepends=True)[:-1]),
    "two of them": lambda content: b"".join(content.splitlines(keepends=True)[:-2]),
}


@pytest.mark.parametrize("change", ENDS.values(), ids=ENDS)
def test_the_end_of_a_ledger_is_held_by_its_head(file, change):
    for number in range(4):
        guard(file).work(ask(number))
    file.write_bytes(change(file.read_bytes()))
    assert "none has the hash in ledger.head" in audit(file.parent)["damage"]
    with pytest.raises(RefusedError, match="damaged"):
        guard(file).work(ask(9))
    Ledger(file).acknowledge("seen")
    guard(file).work(ask(10))
    assert audit(file.parent)["damage"] == ""


def test_a_head_is_needed_and_may_be_that_of_an_earlier_line(file):
    """A crash between a line and its head leaves the head before."""
    guard(file).work(ask(0))
    head = file.with_name(HEAD).read_bytes()
    guard(file).work(ask(1))
    file.with_name(HEAD).write_bytes(head)
    assert Ledger(file).damage == ""
    guard(file).work(ask(2))
    file.with_name(HEAD).unlink()
    assert "its head, ledger.head, is missing" in Ledger(file).damage


def test_what_was_acknowledged_cannot_be_changed_afterwards(file):
    for number in range(3):
        guard(file).work(ask(number))
    file.write_bytes(change_byte(file.read_bytes()))
    Ledger(file).acknowledge("seen")
    file.write_bytes(file.read_bytes().replace(b'"round":2', b'"round":3'))
    assert Ledger(file).damage


def test_a_sound_ledger_needs_no_acknowledgment(file):
    with pytest.raises(ValueError, match="not damaged"):
        Ledger(file).acknowledge("nothing")


@pytest.mark.parametrize("length", [1, 40, 200])
def test_a_torn_line_counts_as_a_release(file, length):
    guard(file).work(ask(0))
    whole, head = file.read_bytes(), file.with_name(HEAD).read_bytes()
    guard(file).work(ask(1))
    file.write_bytes(file.read_bytes()[: len(whole) + length])  # the power failed while it was written
    file.with_name(HEAD).write_bytes(head)  # which comes after the line
    assert audit(file.parent)["totals"]["releases"] == 2
    door = guard(file, Policy(exchanges_per_day=3))
    assert door.ledger.count_recent() == 2
    door.work(ask(2))
    with pytest.raises(RefusedError, match="gives 3 answers in 24 hours") as refused:
        door.work(ask(3))
    assert refused.value.code is Code.DAY_SPENT
    found = audit(file.parent)
    assert (found["damage"], found["totals"]["releases"]) == ("", 3)
    assert [line["kind"] for line in found["lines"]] == ["begun", "release", "torn", "release"]


def test_a_torn_line_counts_against_the_budget_with_the_noise_of_now(file):
    guard(file).work(ask(0))
    file.write_bytes(file.read_bytes() + b'{"kind":"rel')
    ledger = Ledger(file)
    ledger.recover(4.0)
    assert ledger.noises() == {4.0: 1}
    assert Ledger(file).noises() == {4.0: 1}


KILLED = """
import sys
from pathlib import Path
from fedualex.deploy.ledger import Ledger
from fedualex.deploy.ledger import Line
ledger = Ledger(Path(sys.argv[1]))
for number in range(100000):
    with ledger.lock():
        ledger.append(Line(run="killed", task="round", round=number))
    print(number, flush=True)  # only now does it leave
"""


@pytest.mark.slow
def test_after_kill_9_the_ledger_has_every_answer_that_left(file):
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(file)], stdout=subprocess.PIPE)
    left = [process.stdout.readline() for _ in range(5)]
    os.kill(process.pid, signal.SIGKILL)
    left += process.stdout.read().splitlines()
    process.stdout.close()
    process.wait()
    last = int(left[-1]) if left[-1].strip().isdigit() else len(left) - 1
    ledger = Ledger(file)
    assert ledger.damage == ""
    ledger.recover(None)
    assert ledger.count_recent() >= last + 1
    assert Ledger(file).damage == ""


def test_days_are_counted_across_restarts_and_clocks(file):
    now = [1e9]
    policy = Policy(exchanges_per_day=2)
    for number in range(2):
        guard(file, policy, clock=lambda: now[0]).work(ask(number))
        now[0] += 60
    with pytest.raises(RefusedError, match="gives 2 answers in 24 hours"):
        guard(file, policy, clock=lambda: now[0]).work(ask(5))
    now[0] -= 2 * DAY  # a clock that was set back forgets nothing
    with pytest.raises(RefusedError, match="gives 2 answers"):
        guard(file, policy, clock=lambda: now[0]).work(ask(5))
    now[0] += 3 * DAY
    guard(file, policy, clock=lambda: now[0]).work(ask(5))


def test_two_processes_share_one_ledger_and_its_limits(file):
    """As when the process of a new job starts before that of the old one has ended."""
    one, other = (guard(file, Policy(exchanges_per_day=5)) for _ in range(2))
    for number in range(5):
        (one, other)[number % 2].work(ask(number))
    for door in (one, other):
        with pytest.raises(RefusedError, match="5 answers"):
            door.work(ask(9))
    assert audit(file.parent)["damage"] == ""


def test_threads_do_not_answer_more_often_than_allowed(file):
    slow = threading.Barrier(8)

    def work(request):
        slow.wait(10)  # all of them are past the first look at the limits
        return ANSWER

    door, refused = Guard(work, Policy(exchanges_per_day=3), Ledger(file)), []

    def ask_once():
        try:
            door.work(ask())
        except RefusedError:
            refused.append(1)

    threads = [threading.Thread(target=ask_once) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 5
    assert audit(file.parent)["totals"]["releases"] == 3


def test_a_ledger_that_vanished_or_shrank_refuses(file):
    door = guard(file)
    door.work(ask())
    whole = file.read_bytes()
    file.unlink()
    with pytest.raises(FileNotFoundError, match="is missing: a site answers only what it can write down"):
        door.work(ask())
    with pytest.raises(FileNotFoundError, match="is missing"):
        Ledger(file)
    file.write_bytes(whole[:100])
    with pytest.raises(RefusedError, match="damaged"):
        door.work(ask())


def test_a_long_ledger_is_read_quickly(file):
    content = [file.read_bytes()]
    head = content[0]
    line = Line(
        run="r" * 60, task="survey", arrays={"operators.x": [3, 100], "values": [3]}, size=2424, sha256="0" * 64
    )
    for _ in range(20_000):
        head = line.chain(digest(head[:-1]), stamp(1e9)).encode()
        content.append(head)
    file.write_bytes(b"".join(content))
    began = time.process_time()
    ledger = Ledger(file)
    assert ledger.damage == ""
    assert time.process_time() - began < 4.0


def test_audit_prints_the_ledger(file):
    guard(file).work(ask(3))
    runner = CliRunner()
    shown = runner.invoke(main, ["deploy", "audit", str(file.parent)])
    assert shown.exit_code == 0
    assert "survey 3" in shown.output
    assert "40 bytes  in the clear: operators.x[3] values[2]" in shown.output
    assert "releases: 1 (1 survey) in 1 runs, 40 bytes" in shown.output
    assert "ledger: whole" in shown.output
    found = json.loads(runner.invoke(main, ["deploy", "audit", str(file.parent), "--json"]).output)
    assert found["totals"]["tasks"] == {"survey": 1}
    file.write_bytes(file.read_bytes() + b"hello\n")
    broken = runner.invoke(main, ["deploy", "audit", str(file.parent)])
    assert (broken.exit_code, "DAMAGED, line 3 cannot be read" in broken.output) == (1, True)
    mended = runner.invoke(main, ["deploy", "audit", str(file.parent), "--acknowledge", "an editor was open"])
    assert (mended.exit_code, "an editor was open" in " ".join(mended.output.split())) == (0, True)
    elsewhere = runner.invoke(main, ["deploy", "audit", str(file.parent.parent)])
    assert (elsewhere.exit_code, "is not the folder of a site" in elsewhere.output) == (2, True)
