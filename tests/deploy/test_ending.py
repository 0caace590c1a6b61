"""How a deployed run ends: certificates that cannot be had, when it stops, which output is the answer, and after long."""

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.deploying import DEAD, OPTIONS, Status, Stop, assert_close, assert_same_run, patience, serve, undisturbed  # noqa: F401
from support.games import GAME
from support.plain_rows import rows

import fedualex as fx
from fedualex.deploy import clients as exchange, run as rehearse
from fedualex.deploy.clients import UNANSWERED
from fedualex.deploy.consortium.deployment import is_resumable

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


@pytest.mark.slow
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
    for name in ("last", "client_average", "polished"):
        output = run.outputs[name]
        assert (output.status, output.gap, output.operator) == (Status.UNCERTIFIED, None, None)
        assert output.certificate.reason == (
            f"{UNANSWERED}: no valid answer of cork (the site raised TimeoutError (its log says more))"
        )
    assert run.output == "best"  # what was certified on the way stays certified
    assert run.gap == run.best.gap is not None
    assert run.unanswered
    assert not undisturbed.unanswered
    status = {"stop": run.stop.name, "status": run.status.name}
    assert is_resumable({**status, "unanswered": True})
    assert not is_resumable({**status, "unanswered": False})


@pytest.mark.slow
def test_bounds_outlive_the_surveys_they_follow_from(tmp_path):
    method, options = fx.FeDualExCorrected(0.1), {"rounds": 4, "noise": None, "record_every": 1}
    surveys = []

    def fault(request):
        surveys.append(request.task)
        if len(surveys) > 15:
            raise TimeoutError

    run, _ = serve(tmp_path, problem=rows("agnostic"), method=method, fault=fault, attempts=1, **options)
    assert run.outputs["last"].gap is None
    assert run.outputs["bounds"].gap == pytest.approx(run.history["gap_bounds"][-1], abs=1e-12)
    assert run.output == "bounds"


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
    assert {run.outputs[name].status for name in ("last", "client_average", "polished")} == {Status.UNCERTIFIED}
    assert (run.status, run.output, run.best.gap <= 0.02) == (Status.OPTIMAL, "best", True)
    again, engine = serve(tmp_path, **options)  # with all sites there, the same point is what it is
    assert (again.status, again.rounds) == (Status.OPTIMAL, run.rounds)
    assert engine.asked(DEAD) == []


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


@pytest.mark.slow
def test_which_output_is_the_answer(tmp_path, undisturbed):
    assert undisturbed.output == "polished"
    assert list(undisturbed.outputs) == ["last", "client_average", "polished"]
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


@pytest.mark.slow
def test_without_certificate_by_its_domain(tmp_path):
    problem = fx.problems.bilinear(np.eye(2), np.zeros(2), x=fx.L1(0.1), y=fx.L1(0.1))
    run, _ = serve(tmp_path, problem)
    assert (run.status, run.gap, run.best, run.rounds) == (Status.UNCERTIFIED, None, None, 12)
    assert "unbounded" in run.outputs["last"].certificate.reason


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 3])
def test_a_straggler_inside_jax_ends_with_the_process_and_not_it_with_the_straggler(code):
    """However long its work is: this one never ends, as if the machine were infinitely busy."""
    program = f"""
import itertools, sys
import jax, jax.numpy as jnp, numpy as np
from fedualex.deploy import thread_engine, Request
def work(request):
    for n in itertools.count(1):
        jax.jit(lambda x: jnp.sort(jnp.linalg.qr(jnp.outer(x, x))[0] @ x))(jnp.ones(n % 8 + 1))
engine = thread_engine({{"slow": work}})
[reply] = engine.broadcast(Request("round", 0, "run", {{"x": np.ones(1)}}), ["slow"], 0.5)
print(reply.error)
sys.exit({code})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=250, check=False)
    assert (done.returncode, done.stdout) == (code, "timeout\n"), done.stderr


@pytest.mark.slow
def test_a_site_that_hangs_does_not_keep_the_process_from_ending():
    program = """
import threading, numpy as np
from fedualex.deploy import threads
threads.LEAVE_SECONDS = 1.0
from fedualex.deploy import thread_engine, Request
engine = thread_engine({"hangs": lambda request: threading.Event().wait()})
[reply] = engine.broadcast(Request("round", 0, "run", {"x": np.ones(1)}), ["hangs"], 0.2)
engine.close()
print(reply.error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=250, check=True)
    assert done.stdout == "timeout\n"


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
