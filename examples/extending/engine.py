"""An engine of one's own, which calls sites in this thread."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import fedualex as fx
from fedualex.deploy import DeploymentOptions, Engine, Reply, Task


class CallingEngine:
    """Calls each site's work one after the other in this thread, and counts the requests."""

    def __init__(self, works):
        self.works, self.requests = works, 0

    def sites(self):
        return sorted(self.works)

    def broadcast(self, request, sites, timeout):
        self.requests += 1
        return [Reply(site, request.round, request.run_id, self.works[site](request)) for site in sites]

    def stopped(self):
        return False

    def close(self):
        pass


game = fx.problems.bilinear(np.eye(2), np.ones(2), x=fx.Box(1.0), y=fx.Box(1.0))
task = Task(fx.FeDualEx(0.3), ("north", "south"), DeploymentOptions(rounds=3))
engine = CallingEngine({name: task.site(game, name).work for name in task.sites})
assert isinstance(engine, Engine)
with TemporaryDirectory() as folder:
    run = task.serve(engine, game, Path(folder) / "checkpoint.npz")
assert run.rounds == 3
assert engine.requests >= 3
