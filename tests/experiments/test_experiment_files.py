"""The files of the paper's experiments: sizes, grids, keys."""

from pathlib import Path

import pytest
from support.paper_runs import PAPER, UNPROJECTED

from fedualex.experiments import protocol
from fedualex.experiments.plan import Experiment, paper_experiments
from fedualex.experiments.registry import ConfigurationError
from fedualex.experiments.reproduce import chosen

ETA_C = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001]


@pytest.mark.parametrize(
    ("name", "points", "start", "local_steps", "rounds"),
    [
        ("l1-k1", 35, 0.05, 1, 5000),
        ("l1-k10", 35, 0.05, 10, 500),
        ("nuclear-k1", 45, 1.0, 1, 100),
        ("nuclear-k10", 45, 1.0, 10, 20),
    ],
)
def test_sizes_and_grids_are_those_of_the_paper(name, points, start, local_steps, rounds):
    experiment = Experiment.read(paper_experiments()[name])
    run, game = experiment.settings["run"], name.split("-")[0]
    assert (run["clients"], run["noise"], run["start"]) == (100, 0.1, {"uniform": start})
    assert (run["local_steps"], run["rounds"]) == (local_steps, rounds)
    assert rounds % run["record_every"] == 0
    assert experiment.settings["problem"] == {"name": f"paper_{game}", "seed": 0}
    assert experiment.seeds == 10
    steps = {(one["eta_s"], one["eta_c"]) for one in experiment.grid()}
    eta_c = ETA_C if game == "l1" else [10.0, 3.0, *ETA_C]
    assert steps == {(eta_s, step) for eta_s in (1.0, 0.3, 0.1, 0.03, 0.01) for step in eta_c}
    assert len(experiment.grid()) == len(steps) == points
    assert experiment.methods == PAPER | (UNPROJECTED if name == "nuclear-k1" else {})
    assert experiment.settings["tuning"]["seed"] not in range(experiment.seeds)  # not tuned on what is reported


def test_the_paper_has_four_experiments():
    assert list(paper_experiments()) == ["l1-k1", "l1-k10", "nuclear-k1", "nuclear-k10"]
    assert [one.name for one in chosen([], seeds=None, quick=False)] == list(paper_experiments())
    assert [one.name for one in chosen(["all", "l1-k1"], seeds=None, quick=False)] == list(paper_experiments())
    twice = chosen(["l1-k10", "l1-k1", "l1-k10"], seeds=3, quick=False)
    assert [(one.name, one.seeds) for one in twice] == [("l1-k10", 3), ("l1-k1", 3)]


@pytest.mark.parametrize("name", paper_experiments())
def test_quick_is_smaller_and_otherwise_the_same(name):
    full, quick = (Experiment.read(paper_experiments()[name], quick=quick) for quick in (False, True))
    assert quick.seeds == 2
    assert quick.title == f"{full.title} (quick)"
    changed = {key for key in full.settings["run"] if full.settings["run"][key] != quick.settings["run"][key]}
    assert changed <= {"clients", "rounds", "record_every"}
    for key in ("clients", "rounds"):
        assert quick.settings["run"][key] < full.settings["run"][key]
    assert all(steps in full.grid() for steps in quick.grid())
    assert {key: full.settings[key] for key in ("problem", "tuning", "methods")} == {
        key: quick.settings[key] for key in ("problem", "tuning", "methods")
    }


@pytest.mark.parametrize("name", paper_experiments())
def test_every_task_has_a_place_of_its_own(name):
    experiment = Experiment.read(paper_experiments()[name])
    tasks = protocol.grid_tasks(experiment)
    tasks += [{"kind": "seed", "method": label, "steps": {}, "seed": s} for label in experiment.methods for s in (0, 1)]
    paths = {protocol.result_path(Path("root"), task) for task in tasks}
    assert len(paths) == len(tasks)
    assert Path("root/grid/FedMiP-as-printed/0.3_0.001.json") in paths
    assert Path("root/runs/FeDualEx/seed-1/status.json") in paths


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[tuning]", "[tuneing]", r"no key 'tuneing'; did you mean 'tuning'"),
        ("noise = 0.1", "nois = 0.1", r"\[run\] has no key 'nois'; did you mean 'noise'"),
        ("output =", "outputs =", r"\[tuning\] has no key 'outputs'; did you mean 'output'"),
        ("seeds = 2", "seed = 2", r"\[quick\] has no key 'seed'; did you mean 'seeds'"),
        ("eta_s = [1.0]", "eta = [1.0]", r"\[quick\] has no key 'eta'; did you mean 'eta_"),
        ("{ init =", "{ initial =", r"\[methods.FeDualEx unprojected start\] run has no key 'initial'; .* 'init'"),
        ("[tuning]", "[tuning", "cannot be read as TOML"),
    ],
)
def test_keys_are_strict(tmp_path, old, new, message):
    text = paper_experiments()["nuclear-k1"].read_text()
    assert old in text
    (tmp_path / "own.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigurationError, match=message):
        Experiment.read(tmp_path / "own.toml", quick=True)


def test_a_missing_table_is_named(tmp_path):
    text = paper_experiments()["l1-k1"].read_text()
    (tmp_path / "own.toml").write_text(text[: text.index("[methods")])
    with pytest.raises(ConfigurationError, match=r"needs a table \[methods\]"):
        Experiment.read(tmp_path / "own.toml")
    with pytest.raises(ConfigurationError, match="there is no file"):
        Experiment.read(tmp_path / "other.toml")
