"""Runs through secure sums: the answers of plain ones, certificates that hold, and sites that drop out."""

import jax
import numpy as np
import pytest
from support.deploying import DATA, DEAD, NAMES, Wrapped, assert_close, patience, task_of  # noqa: F401
from support.plain_rows import rows

import fedualex as fx
from fedualex.deploy import run as rehearse
from fedualex.deploy.guard import rehearse_sites

AGNOSTIC = rows("agnostic")
SLIDE = {"rounds": 12, "record_every": 1}


def serve(folder, problem, fault=None, after=None, **options):
    """A run of the three sites under masks. fault: what happens at one of them before it answers."""
    task = task_of(secure_sums="on", noise=None, **options)
    works, roster = rehearse_sites(task, {name: task.site(problem.of_client(m), name) for m, name in enumerate(NAMES)})
    if fault is not None:
        honest = works[DEAD]
        works[DEAD] = lambda request: (fault(request), honest(request))[1]
    engine = Wrapped(works, after=after)
    return task.serve(engine, problem.without_data(), folder / "checkpoint.npz", None, roster), engine


def test_fedualslide_ends_with_the_answer_of_a_plain_run_and_a_certificate_that_holds():
    method = fx.FeDualSlide(mode="survey")
    plain, masked = (rehearse(AGNOSTIC, method, secure_sums=choice, **SLIDE) for choice in ("off", "on"))
    assert_close(masked.z, plain.z, 1e-10)
    np.testing.assert_allclose(masked.history["gap_bounds"], plain.history["gap_bounds"], rtol=0, atol=1e-10)
    # Checked by somebody who has all rows: the worst mixture for x is a client, and its loss is within the certificate.
    worst = max(AGNOSTIC.objective(fx.Saddle(masked.z.x, client)) for client in np.eye(len(NAMES)))
    assert 0 <= worst - AGNOSTIC.objective(masked.z) <= masked.gap


@pytest.mark.slow
@pytest.mark.parametrize("steps", [2, (1, 2, 3)], ids=["equal steps", "unequal steps"])
def test_local_rounds_with_all_outputs_are_those_of_a_plain_run(steps):
    options = {"rounds": 6, "local_steps": steps, "record_every": 3, "ergodic": True}
    plain, masked = (rehearse(DATA, fx.FeDualEx(0.1), secure_sums=choice, **options) for choice in ("off", "on"))
    assert_close(masked.state, plain.state, 1e-12)
    assert masked.history["bytes_up"][-1] > 2 * plain.history["bytes_up"][-1]


def test_a_site_that_drops_out_repeats_the_exchange_by_all_under_a_new_nonce(tmp_path):
    left = [1]

    def fault(request):
        if request.task == "round" and request.round == 3 and left:
            left.clear()
            raise ConnectionError

    options = {"method": fx.FeDualEx(0.1), "rounds": 6, "local_steps": 2, "record_every": 6}
    run, engine = serve(tmp_path, DATA, fault, weights=(0.3, 0.5, 0.2), **options)
    same = rehearse(DATA, fx.FeDualEx(0.1), rounds=6, local_steps=2, record_every=6)
    assert_close(run.state, same.state, 1e-12)
    asked = [(request.round, sites) for request, sites in engine.requests if request.task == "round"]
    assert asked == [(r, NAMES) for r in (0, 1, 2, 3, 3, 4, 5)]
    nonces = [request.nonce for request, _ in engine.requests]
    assert len(set(nonces)) == len(nonces)
    assert all(len(nonce) == 32 for nonce in nonces)


def test_what_is_changed_on_its_way_is_no_sum(tmp_path):
    """One bit of one site's words: the check words do not see it, the numbers do; one of its check words: repeated."""
    left = [1]

    def tamper(request, replies):
        if request.task == "round" and request.round == 2 and left:
            left.clear()
            replies[0].arrays["check"][0] += np.uint64(1)
        return replies

    options = {"method": fx.FeDualEx(0.1), "rounds": 4, "local_steps": 2, "record_every": 4}
    run, engine = serve(tmp_path, DATA, after=tamper, **options)
    assert run.stop is fx.Stop.MAX_ROUNDS
    assert engine.asked(NAMES[0]) == [0, 1, 2, 2, 3]


def test_a_site_that_stays_away_ends_the_run_by_name(tmp_path):
    def fault(request):
        if request.round >= 2:
            raise ConnectionError

    options = {"method": fx.FeDualEx(0.1), "rounds": 6, "local_steps": 2, "record_every": 6, "attempts": 2}
    run, _ = serve(tmp_path, DATA, fault, **options)
    assert (run.stop, run.rounds) == (fx.Stop.CLIENTS_LOST, 2)
    assert run.detail.startswith(f"no valid answer of {DEAD} (the site raised ConnectionError")


def test_numbers_that_overflow_end_the_run_as_without_masks(tmp_path):
    """A site cannot put masks on infinity; that all of them cannot is the method's fault, not theirs."""
    run, _ = serve(tmp_path, DATA, method=fx.FeDualEx(1e200), rounds=6, local_steps=2, record_every=6)
    assert run.stop is fx.Stop.NUMERICAL_ERROR


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"sites": 2}, "they are of 3 to 1024 sites, got 2"),
        ({"cohort": 2}, "cohort and min_replies must be left out"),
        ({"min_replies": 2}, "cohort and min_replies must be left out"),
        ({"method": fx.LeadSliding()}, "a sum of one hides nothing"),
    ],
)
def test_what_cannot_have_secure_sums_is_refused(changes, match):
    options = {"method": fx.FeDualEx(0.1), "sites": 3, "rounds": 2} | changes
    sites = tuple("abc"[: options.pop("sites")])
    problem = fx.problems.paper_l1()
    with pytest.raises(ValueError, match=match):
        task_of(sites=sites, secure_sums="on", noise=None, local_steps=1, record_every=None, **options).check(problem)


@pytest.mark.slow
def test_the_quantization_is_part_of_the_certificate():
    """The same operators with and without it: the certificate's rounding grows by at least <error, |z|>."""
    from fedualex.compiling import double
    from fedualex.runtime.outputs import exact_problem

    with double():
        exact = exact_problem(DATA)
        z = DATA.project(jax.tree.map(np.ones_like, DATA.like))
        g = exact.operator(z)
        (plain, _), (coarse, _) = (exact.measure(z, g, error) for error in (0.0, 1e-6))
        size = sum(float(np.sum(np.abs(leaf))) for leaf in jax.tree.leaves(z))
        assert float(coarse.rounding) >= float(plain.rounding) + 1e-6 * size > float(plain.rounding)
