"""Runs on a user's f look for a disproof of it, and certify nothing if there is one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedualex as fx
from fedualex.runtime.driver import Records

Status, Stop = fx.Status, fx.Stop


def minimize(f, size=3, **options):
    problem = fx.Problem(f, x=fx.Box(1.0), like=fx.Saddle(np.zeros(size)))
    return fx.solve(problem, fx.FeDualEx(0.1), rounds=10, tol=1e-3, **options)


def concave(x):
    return -jnp.sum(x**2)


def kinked(x):
    """Convex, with slopes 0.99 and 1.01 at 0, where jax says 0."""
    return jnp.sum(1.01 * jax.nn.relu(x) - 0.99 * jax.nn.relu(-x))


def bent(x):
    """Convex below 1/2 and concave above, so that the start and its surroundings need not show it."""
    return jnp.sum(jnp.where(x < 0.5, (x - 0.9) ** 2, 0.16 - 0.8 * (x - 0.5) - 0.3 * (x - 0.5) ** 2))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("f", "words"), [(concave, "not convex in x"), (kinked, "tangent"), (bent, "not convex in x")])
def test_what_is_not_convex_is_not_certified(f, words):
    run = minimize(f)
    assert run.status is Status.UNCERTIFIED
    assert run.gap is None
    assert run.best is None
    assert {output.gap for output in run.outputs.values()} == {None}
    assert all(gap is None for gap in run.history["gap_last"])
    assert words in str(run)
    assert words in run.convexity
    for point in run.disproof.witness:
        assert np.all(np.abs(point.x) <= 1 + 1e-12)


def test_with_trust_nobody_looks():
    run = minimize(concave, convexity="trust")
    assert run.status is Status.OPTIMAL  # of what is a maximum: the user's word was taken
    assert run.disproof is None
    assert "as asked" in run.convexity
    with pytest.raises(ValueError, match="convexity must be one of 'check', 'trust', got 'maybe'"):
        minimize(concave, convexity="maybe")


@pytest.mark.slow
def test_what_was_checked_is_said_and_convexity_is_not_claimed():
    run = minimize(lambda x: jnp.sum((x - 0.3) ** 2))
    assert run.status is Status.OPTIMAL
    assert "no proof" in run.convexity
    game = fx.problems.bilinear(np.eye(2), np.ones(2), x=fx.Box(1.0), y=fx.Box(1.0))
    assert "by construction" in fx.solve(game, fx.FeDualEx(0.1), rounds=2).convexity


def test_certificates_are_withdrawn_if_the_disproof_comes_late(monkeypatch):
    """As if the surroundings of the start had been convex."""
    finish = Records.finish

    def honest_from_now_on(records, *arguments):
        monkeypatch.undo()
        return finish(records, *arguments)

    monkeypatch.setattr("fedualex.runtime.driver.disproof", lambda *_, **__: None)
    monkeypatch.setattr(Records, "finish", honest_from_now_on)
    seen = []
    run = minimize(concave, callback=lambda record: seen.append(record["gap_last"]))
    assert seen[0] is not None
    assert (run.status, run.stop) == (Status.UNCERTIFIED, Stop.DISPROVED)
    assert run.gap is run.best is None
    assert all(gap is None for gap in run.history["gap_last"])
