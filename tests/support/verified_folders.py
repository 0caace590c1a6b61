"""Folders of runs of every kind and of a small reproduction, for `fedualex verify`."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from fedualex.cli import main
from fedualex.paper import reproduction as protocol
from fedualex.paper.reproduction import Experiment
from fedualex.runs import folder
from fedualex.runs.settings import configure
from fedualex.runs.solving import solve_into

PSI = {"L1": 0.1, "Box": 0.5}
GAME = {"name": "bilinear", "file": "game.npz", "x": PSI, "y": PSI}
METHOD = {"name": "FeDualEx", "eta_c": 0.3}
NOISY = {"clients": 3, "local_steps": 2, "rounds": 12, "record_every": 4, "noise": 0.05, "seed": 5, "tol": 1e-6}
TINY = 1e-8
OWN = """
from pathlib import Path
import jax.numpy as jnp
import numpy as np
import fedualex as fx

Path(__file__).with_name("called").write_text("by import")

def build(shift):
    Path(__file__).with_name("called").write_text("by call")
    return fx.Problem(lambda x: jnp.sum((x - shift) ** 2), x=fx.L1(0.1) + fx.Box(1.0), like=fx.Saddle(np.zeros(2)))

def concave():
    return fx.Problem(lambda x: -jnp.sum(x**2), x=fx.Box(1.0), like=fx.Saddle(np.zeros(2)))
"""
PARTITION = {"kind": "iid", "clients": 2, "seed": 0}
BUNDLED = {"name": "sparse_glm", "family": "squared", "l1": 0.1, "bundled": "diabetes", "standardize": True}
ROWS = {"name": "sparse_glm", "file": "rows.npz", "family": "logistic", "l1": 0.01}
RUNS = {
    "game": (GAME, METHOD, NOISY),
    "other": (GAME, METHOD, NOISY | {"seed": 6}),
    "optimal": (GAME, {"name": "FeDualEx", "eta_c": 0.5}, {"rounds": 200, "record_every": 20, "tol": 1e-2}),
    "bundled": (BUNDLED | {"partition": PARTITION}, METHOD, {"rounds": 1}),
    "floored": (ROWS, {"name": "FeDualEx", "eta_c": 0.001}, {"rounds": 1}),
    "slide": (GAME, {"name": "FeDualSlide"}, {"clients": 3, "local_steps": 2, "rounds": 6, "record_every": 2}),
    "cuts": ({"name": "agnostic", "file": "rows.npz", "l1": 0.01}, {"name": "FeDualCuts"}, {"rounds": 12}),
    "own": ({"entry": "verify_own:build", "shift": 0.3}, METHOD, {"rounds": 1}),
    "infeasible": (
        {
            "name": "constrained",
            "file": "rows.npz",
            "groups": "classes",
            "limits": 0.001,
            "multiplier": 10.0,
            "l1": 0.01,
        },
        {"name": "FeDualEx", "eta_c": 0.01},
        {"rounds": 2, "tol": 100.0},
    ),
    "tiny units": (
        {**GAME, "file": "tiny.npz", "x": {"L1": 0.1 * TINY, "Box": 0.5}, "y": {"L1": 0.1 * TINY, "Box": 0.5}},
        {"name": "FeDualEx", "eta_c": 0.3 / TINY},
        {"rounds": 3},
    ),
}
SLOW = ("bundled", "infeasible")


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    path, rng = tmp_path_factory.mktemp("verify"), np.random.default_rng(0)
    A, b = rng.uniform(-1, 1, (3, 4)), rng.uniform(-1, 1, 3)
    np.savez(path / "game.npz", A=A, b=b)
    np.savez(path / "tiny.npz", A=TINY * A, b=TINY * b)
    np.savez(path / "rows.npz", X=rng.normal(size=(30, 2)), y=rng.integers(0, 2, 30), clients=np.arange(30) % 3)
    (path / "verify_own.py").write_text(OWN)
    sys.modules.pop("verify_own", None)  # of the folder of another file of tests
    return path


@pytest.fixture(scope="module")
def solved(here):
    """The folder of a run of RUNS, solved when it is first asked for."""

    def solve(name):
        path = here / "runs" / name
        if not path.exists():
            problem, method, run = RUNS[name]
            solve_into(path, configure({"problem": problem, "method": method, "run": run}, here))
        return path

    return solve


@pytest.fixture
def copied(solved, tmp_path):
    return lambda name: Path(shutil.copytree(solved(name), tmp_path / name))


@pytest.fixture(scope="module")
def reproduction(here):
    """A folder of one experiment: two methods, one point of the grid, two seeds."""
    settings = {
        "problem": {**GAME, "file": str(here / "game.npz")},
        "run": {"clients": 2, "rounds": 4, "record_every": 2, "noise": 0.05},
        "grid": {"eta_c": [0.1, 0.3]},
        "tuning": {"seed": 1000, "output": "last"},
        "methods": {"FeDualEx": {"name": "FeDualEx"}, "FedMiP plain": {"name": "FedMiP", "server_prox": "none"}},
    }
    experiment, root = Experiment("tiny", "Tiny", settings, seeds=2), here / "reproduction"
    folder.write_collection(root, "reproduction", experiments=["tiny"], seeds=2)
    protocol.begin(experiment, root / "tiny", resume=False)
    for task in protocol.grid_tasks(experiment):
        file = protocol.result_path(root / "tiny", task)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({**task, "score": task["steps"]["eta_c"], "outputs": {}}))
    for task in protocol.seed_tasks(experiment, root / "tiny"):
        protocol.perform(experiment, experiment.problem(), root / "tiny", task)
    return root


def command(*arguments):
    """Exit code and lines of the command, which never shows a trace."""
    result = CliRunner().invoke(main, ["verify", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output.splitlines()


def differing(result):
    return {check.what for check in result.checks if check.agrees is False}
