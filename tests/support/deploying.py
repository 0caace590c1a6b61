"""Runs on the local engine: a game, three sites, hooks into every request, and what goes wrong at one of the sites."""

from pathlib import Path

import jax
import numpy as np
import pytest
from support.games import GAME, PSI

import fedualex as fx
from fedualex.deploy import DeploymentOptions, RunHooks, Task, clients, thread_engine

NAMES = ("amsterdam", "berlin", "cork")
DEAD = NAMES[2]
Status, Stop = fx.Status, fx.Stop


def loss_of_example(x, y, e):
    return (e["a"] @ x - e["b"]) * (e["c"] @ y) + 0.5 * (e["a"] @ x) ** 2 - 0.5 * (e["c"] @ y) ** 2


def unequal():
    """Three clients with 3, 5 and 2 examples of their own, weighted by that."""
    rng = np.random.default_rng(1)
    data = [{"a": rng.normal(size=(n, 5)), "b": rng.normal(size=n), "c": rng.normal(size=(n, 4))} for n in (3, 5, 2)]
    like = fx.Saddle(np.zeros(5), np.zeros(4))
    return fx.Problem(loss_of_example, x=PSI, y=PSI, like=like, data=data, weights="samples")


DATA = unequal()
NOISE = fx.GaussianNoise(0.1)
OPTIONS = {
    "method": fx.FeDualEx(0.3),
    "rounds": 12,
    "local_steps": 2,
    "noise": NOISE,
    "record_every": 4,
    "dtype": "float64",
}


def task_of(**changes):
    chosen = OPTIONS | {"sites": NAMES, "timeout": 60.0} | changes
    method, sites = chosen.pop("method"), chosen.pop("sites")
    return Task(method, sites, DeploymentOptions(**chosen))


def works_of(task, problem=GAME):
    return {name: task.site(problem.of_client(m), name).work for m, name in enumerate(task.sites)}


class Wrapped:
    """The local engine with a hook before each request, which may return another timeout for it, and one that sees
    and changes all replies; keeps count."""

    def __init__(self, works, before=None, after=None):
        self.inner, self.before, self.after = thread_engine(works), before, after
        self.requests, self.replies = [], []

    def sites(self):
        return self.inner.sites()

    def broadcast(self, request, sites, timeout):
        timeout = (self.before and self.before(request)) or timeout
        self.requests.append((request, tuple(sites)))
        replies = self.inner.broadcast(request, sites, timeout)
        replies = self.after(request, replies) if self.after else replies
        self.replies.append(replies)
        return replies

    def stopped(self):
        return self.inner.stopped()

    def close(self):
        self.inner.close()

    def asked(self, site, task="round"):
        """The rounds in which a site was asked."""
        return [request.round for request, sites in self.requests if request.task == task and site in sites]


def serve(folder, problem=GAME, before=None, after=None, callback=None, fault=None, **changes):
    """A deployed run; fault(request) is what goes wrong at the dead site. Gives the run and the engine."""
    task = task_of(**changes)
    works = works_of(task, problem)
    if fault:
        healthy = works[DEAD]

        def work(request):
            answer = fault(request)
            return healthy(request) if answer is None else answer

        works[DEAD] = work
    engine = Wrapped(works, before, after)
    journal = RunHooks() if callback is None else RunHooks(append=callback)
    return task.serve(engine, problem.without_data(), Path(folder) / "checkpoint.npz", journal), engine


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(clients, "PAUSE", 0.0)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return serve(tmp_path_factory.mktemp("undisturbed"))[0]


def assert_close(one, other, tolerance=1e-12):
    """Two pytrees of the same structure and numbers."""
    one, other = jax.tree.leaves(one), jax.tree.leaves(other)
    assert len(one) == len(other) > 0
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def assert_same_run(run, expected, tolerance=1e-12, outputs=("last", "client_average", "polished")):
    assert run.rounds == expected.rounds
    assert_close(run.state, expected.state, tolerance)
    for name in outputs:
        assert_close(run.outputs[name].z, expected.outputs[name].z, tolerance)
        assert_close(run.outputs[name].gap, expected.outputs[name].gap, tolerance)


UP = {"message.omega.x": (5,), "message.omega.y": (4,), "message.tau": ()}
UP |= {"points.x": (5,), "points.y": (4,), "point_weight": ()}
