"""What a deployment refuses before it begins."""

import pytest
from support.deploying import DATA, patience  # noqa: F401
from support.games import GAME

import fedualex as fx
from fedualex.deploy import DeploymentOptions, Task, run as rehearse, thread_engine


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"method": fx.ScaffoldSMemory(0.1)}, "keeps a memory at its clients"),
        ({"method": fx.OptimisticMirrorDescent(0.1)}, "is a method for one machine"),
        ({"problem": DATA, "method": fx.OptimisticMirrorDescent(0.1)}, "is a method for one machine"),
        ({"problem": DATA, "method": fx.FeDualEx()}, "give eta_c: theory needs the data of all sites"),
        ({"output": "ergodic"}, "output='ergodic' needs ergodic=True"),
        ({"output": "best"}, "output must be one of"),
        ({"min_replies": 0}, "min_replies must be a whole number >= 1, got 0"),
        ({"min_replies": True}, "min_replies must be a whole number >= 1, got True"),
        ({"min_replies": 4}, "min_replies must be at most the sites of a round, 3, got 4"),
        ({"min_replies": 3, "cohort": 2}, "min_replies must be at most the sites of a round, 2, got 3"),
        ({"attempts": 0}, "attempts must be a whole number >= 1, got 0"),
        ({"timeout": 0.0}, "timeout must be a number > 0"),
        ({"timeout": -1.0}, "timeout must be a number > 0"),
        ({"timeout": float("nan")}, "timeout must not contain nan"),
        ({"max_seconds": -1.0}, "max_seconds must be a number > 0"),
        ({"tol": 0.0}, "tol must be a number > 0"),
        ({"weights": (1.0, 1.0)}, "weights must be 3 numbers >= 0 with a positive sum"),
        ({"weights": (1.0, -1.0, 1.0)}, "weights must be 3 numbers >= 0 with a positive sum"),
        ({"weights": (0.0, 0.0, 0.0)}, "weights must be 3 numbers >= 0 with a positive sum"),
        ({"weights": (1.0, float("inf"), 1.0)}, "weights must be finite"),
        ({"weights": (1.0, 0.0, 1.0), "cohort": 3, "min_replies": 2}, "weights must be > 0 where sites may be missing"),
        ({"sites": 0}, "sites must be"),
        ({"sites": -1}, "sites must be"),
        ({"problem": DATA, "sites": 2}, "sites must be 3, as many as the problem's data has, got 2"),
        ({"rounds": 0}, "rounds must be a whole number >= 1, got 0"),
        ({"local_steps": (1, 2)}, "local_steps must be a whole number >= 1, or one for each of 3 clients"),
        ({"problem": DATA, "local_steps": (1, 2)}, "local_steps must be a whole number >= 1, or one for each of 3"),
        ({"problem": DATA, "cohort": 4}, "cohort must be at most the number of clients, 3, got 4"),
        ({"dtype": "float16"}, "dtype must be 'float32' or 'float64'"),
    ],
)
def test_refusals(changes, match):
    options = {"problem": GAME, "sites": 3, "rounds": 2} | {"method": fx.FeDualEx(0.1)} | changes
    problem, method = options.pop("problem"), options.pop("method")
    with pytest.raises((ValueError, TypeError), match=match) as refused:
        rehearse(problem, method, **options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("sites", [(), ("a", "a")], ids=["none", "twice"])
def test_sites_have_names_of_their_own(tmp_path, sites):
    task = Task(fx.FeDualEx(0.1), sites, DeploymentOptions(rounds=2))
    with pytest.raises(ValueError, match="sites must be at least one name, each once"):
        task.serve(thread_engine({}), GAME, tmp_path / "checkpoint.npz")
    assert list(tmp_path.iterdir()) == []
