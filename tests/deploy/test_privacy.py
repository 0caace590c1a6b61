"""Clipped and noisy increments: what leaves a site, what it costs, and what is refused."""

import sys

import jax
import numpy as np
import pytest
from support.deploying import NAMES, Stop, patience, serve  # noqa: F401
from support.games import GAME

import fedualex as fx
from fedualex.compiling import double
from fedualex.deploy import DeploymentOptions, Request, Task, run as rehearse
from fedualex.deploy.wire import pack


def test_privacy_sends_a_clipped_noisy_increment_and_nothing_else():
    privacy = fx.deploy.Privacy(clip=0.5, noise=4.0, delta=1e-5)
    task = Task(fx.FeDualEx(0.1), ("a", "b"), DeploymentOptions(rounds=4, privacy=privacy, record_every=2))
    run = rehearse(GAME, fx.FeDualEx(0.1), sites=2, rounds=4, privacy=privacy, record_every=2)
    assert list(run.outputs) == ["last"]
    assert run.gap is None
    assert run.status is fx.Status.UNCERTIFIED
    assert "noisy" in run.outputs["last"].certificate.reason
    # The accountant's own answer for four Gaussian releases of sensitivity 2 clip and deviation 4 clip.
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    expected = RdpAccountant().compose(GaussianDpEvent(2.0), 4).get_epsilon(1e-5)
    np.testing.assert_allclose(run.history["epsilon"][-1], expected)
    site = task.site(GAME, "a")
    with double():
        server = GAME.geometry.dual(GAME.validate_point(GAME.like))
        request = Request("round", 0, f"{site.agreed}-run", pack(server=server, survey=None))
        one, two = (site.work(request) for _ in range(2))
    assert sorted(one) == ["message.omega.x", "message.omega.y", "message.tau"]
    assert not np.array_equal(one["message.omega.x"], two["message.omega.x"])  # not from the seed, which the server has
    with pytest.raises(PermissionError, match="not covered"), double():
        site.work(
            Request(
                "survey",
                0,
                f"{site.agreed}-run",
                pack(points=jax.tree.map(lambda leaf: leaf[None], GAME.validate_point(GAME.like))),
            )
        )


def test_an_increment_that_is_not_finite_is_only_noise():
    privacy = fx.deploy.Privacy(clip=1.0, noise=1e-3)
    for bad in (np.nan, np.inf):
        hidden = privacy.apply(fx.Dual(fx.Saddle(np.array([bad, 1e6, -777.0]), np.zeros(1)), np.asarray(1.0)))
        assert np.max(np.abs(hidden.omega.x)) < 0.1


def test_epsilon_counts_failed_rounds_and_is_not_forgotten(tmp_path):
    privacy, changes = fx.deploy.Privacy(1.0, 4.0), {"rounds": 6, "record_every": 2, "attempts": 3}

    def fault(request):
        if request.round >= 3:
            raise RuntimeError("gone")

    lost, engine = serve(tmp_path, fault=fault, privacy=privacy, **changes)
    assert lost.stop is Stop.CLIENTS_LOST
    first = len(engine.asked(NAMES[0]))
    assert first == 3 + 3
    assert lost.epsilon == pytest.approx(privacy.epsilon(first))
    run, engine = serve(tmp_path, privacy=privacy, **changes)
    total = first + len(engine.asked(NAMES[0]))
    assert run.epsilon == run.history["epsilon"][-1] == pytest.approx(privacy.epsilon(total))

    def killed(request):
        raise SystemExit  # as if the server died while its sites work

    with pytest.raises(SystemExit):
        serve(tmp_path / "killed", before=killed, privacy=privacy, **changes)
    run, _ = serve(tmp_path / "killed", privacy=privacy, **changes)
    assert run.epsilon == pytest.approx(privacy.epsilon(7))


def test_without_an_accountant_nothing_begins(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match="an epsilon needs dp-accounting: pip install"):
        serve(tmp_path, privacy=fx.deploy.Privacy(1.0, 1.0))
    assert list(tmp_path.iterdir()) == []


def test_clipping_is_to_the_length_and_noise_has_the_stated_size():
    privacy = fx.deploy.Privacy(clip=2.0, noise=1e-9)
    message = fx.Dual(fx.Saddle(np.full(300, 3.0), np.full(100, -4.0)), np.asarray(1.0))
    hidden = privacy.apply(message)
    length = np.sqrt(np.sum(hidden.omega.x**2) + np.sum(hidden.omega.y**2))
    np.testing.assert_allclose(length, 2.0, rtol=1e-6)
    wide = fx.deploy.Privacy(clip=2.0, noise=3.0).apply(fx.Dual(fx.Saddle(np.zeros(40_000)), np.asarray(0.0)))
    assert abs(np.std(wide.omega.x) / 6.0 - 1) < 0.03


@pytest.mark.parametrize(
    ("method", "options", "match"),
    [
        (fx.FedMiP(0.1), {}, "covers FeDualEx"),
        (fx.FeDualExCorrected(0.1), {}, "covers FeDualEx"),
        (fx.FeDualEx(0.1), {"tol": 0.1}, "tol"),
        (fx.FeDualEx(0.1), {"ergodic": True}, "ergodic"),
        (fx.FeDualEx(0.1), {"output": "client_average"}, "'last'"),
    ],
)
def test_privacy_refuses_what_it_does_not_cover(method, options, match):
    with pytest.raises(ValueError, match=match):
        rehearse(GAME, method, sites=2, rounds=2, privacy=fx.deploy.Privacy(1.0, 1.0), **options)
