"""Faults of the server: stopped, killed, fenced off or out of disk, it goes on from its checkpoint to the same iterates."""

import errno
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from support.deploying import (  # noqa: F401
    DEAD,
    NAMES,
    Status,
    Stop,
    Wrapped,
    assert_close,
    assert_same_run,
    patience,
    serve,
    task_of,
    undisturbed,
    works_of,
)
from support.games import GAME

import fedualex as fx
from fedualex.deploy import RunHooks, thread_engine
from fedualex.deploy.task import FencedError
from fedualex.runtime.driver import Records


@pytest.mark.slow
def test_a_stopped_run_goes_on(tmp_path, undisturbed):
    task = task_of()
    engine = thread_engine(works_of(task))

    def stop(record):
        if record["round"] == 4:
            engine.carrier.stop()

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
from support.deploying import serve
serve({folder!r}, rounds=40, before=lambda request: time.sleep(0.05))
"""


@pytest.mark.slow
def test_a_killed_server_is_resumed_to_identical_iterates(tmp_path):
    """kill -9 in the middle of its rounds."""
    file = tmp_path / "a" / "checkpoint.npz"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(tests=str(Path(__file__).parents[1]), folder=str(file.parent))]
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


@pytest.mark.slow
def test_a_certificate_that_overflows_at_the_end_is_a_status_and_not_an_exception(tmp_path):
    """Steps far too large for psi*(g) = |g|^2 / 2 lambda; the state of the round before overflows there as well."""
    psi = fx.SquaredL2(0.01)
    problem = fx.problems.bilinear(GAME.A, GAME.b, x=psi, y=psi)
    run, _ = serve(tmp_path, problem, method=fx.FeDualEx(1e5), rounds=130, record_every=130, local_steps=1)
    assert (run.stop, run.rounds, run.outputs["last"].gap) == (Stop.NUMERICAL_ERROR, 129, None)
    assert "cork (values must be finite, but 2 entries are nan" in run.outputs["last"].certificate.reason
    assert run.gap == run.best.gap < 100


@pytest.mark.slow
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


@pytest.mark.slow
def test_one_sites_infinities_are_its_own_and_not_the_methods(tmp_path, undisturbed):
    run, _ = serve(tmp_path / "a", after=nan_at(DEAD, lambda request: request.task == "survey"))
    assert (run.status, run.rounds) == (Status.UNCERTIFIED, 12)
    assert_close(run.state, undisturbed.state)
    again, _ = serve(tmp_path / "a")  # it is back: the outputs of the last state are certified
    assert_close(again.outputs["polished"].gap, undisturbed.outputs["polished"].gap)

    once = iter([True])
    run, _ = serve(tmp_path / "b", cohort=1, after=nan_at(NAMES[0], lambda r: r.task == "round" and next(once, False)))
    assert_same_run(run, serve(tmp_path / "c", cohort=1)[0])


@pytest.mark.slow
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
        assert "refused: the server and this site were told different tasks" in caplog.text
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
            engine.carrier.stop()

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
