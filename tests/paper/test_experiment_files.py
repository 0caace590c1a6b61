"""The files of the paper's experiments: sizes, grids, keys."""

from pathlib import Path

import pytest
from support.paper_runs import L1, NUCLEAR

from fedualex.paper import reproduction as protocol
from fedualex.paper.claims import CLAIMS
from fedualex.paper.reproduction import choose_experiments, paper_experiments, read_experiments
from fedualex.runs.settings import ConfigurationError

PAPERS = ("l1-k1", "l1-k10", "nuclear-k1", "nuclear-k10")
STUDIES = ("cohorts", "convex", "entropic", "last-point", "rates", "unequal", "unequal-nuclear")
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
    (experiment,) = read_experiments(paper_experiments()[name])
    run, game = experiment.settings["run"], name.split("-")[0]
    assert (run["clients"], run["noise"], run["start"]) == (100, 0.1, {"uniform": start})
    assert (run["local_steps"], run["rounds"]) == (local_steps, rounds)
    assert rounds % run["record_every"] == 0
    assert experiment.settings["problem"] == {"name": f"paper_{game}", "seed": 0}
    assert experiment.seeds == 10
    grids = [experiment.grid(label) for label in experiment.methods]
    assert all(grid == grids[0] for grid in grids)
    steps = {(one["eta_s"], one["eta_c"]) for one in grids[0]}
    eta_c = ETA_C if game == "l1" else [10.0, 3.0, *ETA_C]
    assert steps == {(eta_s, step) for eta_s in (1.0, 0.3, 0.1, 0.03, 0.01) for step in eta_c}
    assert len(grids[0]) == len(steps) == points
    assert experiment.methods == (L1 if game == "l1" else NUCLEAR)
    assert experiment.settings["tuning"]["seed"] not in range(experiment.seeds)  # not tuned on what is reported


def test_the_paper_has_four_experiments_and_its_theorems_ask_for_six_studies():
    assert sorted(paper_experiments()) == sorted(PAPERS + STUDIES)
    names = [one.name for one in choose_experiments([], seeds=None, quick=False)]
    assert names == [one.name for one in choose_experiments(["all", "l1-k1"], seeds=None, quick=False)]
    assert len(set(names)) == len(names)
    assert set(PAPERS) <= set(names)
    twice = choose_experiments(["l1-k10", "l1-k1", "l1-k10"], seeds=3, quick=False)
    assert [(one.name, one.seeds) for one in twice] == [("l1-k10", 3), ("l1-k1", 3)]


def test_every_claim_is_about_experiments_that_exist():
    names = {one.name for one in choose_experiments([], seeds=None, quick=False)}
    assert {name for claim in CLAIMS for name in claim.experiments} <= names


@pytest.mark.parametrize("name", PAPERS)
def test_quick_is_smaller_and_otherwise_the_same(name):
    ((full,), (quick,)) = (read_experiments(paper_experiments()[name], quick=quick) for quick in (False, True))
    assert quick.seeds == 2
    assert quick.title == f"{full.title} (quick)"
    changed = {key for key in full.settings["run"] if full.settings["run"][key] != quick.settings["run"][key]}
    assert changed <= {"clients", "rounds", "record_every"}
    for key in ("clients", "rounds"):
        assert quick.settings["run"][key] < full.settings["run"][key]
    assert all(steps in full.grid("FeDualEx") for steps in quick.grid("FeDualEx"))
    assert {key: full.settings[key] for key in ("problem", "tuning", "methods")} == {
        key: quick.settings[key] for key in ("problem", "tuning", "methods")
    }


@pytest.mark.parametrize("name", STUDIES)
def test_cases_of_a_study_differ_in_what_they_say(name):
    full, quick = (read_experiments(paper_experiments()[name], quick=quick) for quick in (False, True))
    settings = [str(one.settings) for one in full]
    assert len(set(settings)) >= len(settings) - 3  # the middle of the rates stands on each of its four axes
    assert {one.name for one in quick} <= {one.name for one in full}
    small = {one.name: one for one in quick}
    for one in full:
        assert one.case["study"] == name
        assert one.name.startswith(f"{name}-")
        assert f"{one.case['value']:g}" in one.title
        if one.name in small:
            assert small[one.name].case == one.case
            assert small[one.name].settings["run"]["rounds"] <= one.settings["run"]["rounds"]


def test_quick_does_not_change_what_a_case_is_about():
    small = {one.name: one for one in read_experiments(paper_experiments()["rates"], quick=True)}
    assert small["rates-R-100"].settings["run"]["rounds"] == 100
    assert small["rates-M-1"].settings["run"]["clients"] == 1
    assert small["rates-K-1"].settings["run"]["rounds"] == 20


def test_a_method_has_the_grid_of_its_own_steps():
    (unequal, *_) = read_experiments(paper_experiments()["unequal"])
    assert unequal.grid("FeDualSlide") == [{}]
    assert len(unequal.grid("FeDualEx")) == 7
    (rates, *_) = read_experiments(paper_experiments()["rates"])
    assert rates.grid("FeDualEx at the step of theory") == [{}]
    assert [set(one) for one in rates.grid("FeDualEx")] == [{"eta_c"}] * 7  # eta_s is given
    assert "steps" not in rates.method_settings("FeDualEx at the step of theory")


@pytest.mark.parametrize("name", PAPERS + STUDIES)
def test_every_task_has_a_place_of_its_own(name):
    for experiment in read_experiments(paper_experiments()[name]):
        tasks, labels = protocol.grid_tasks(experiment), experiment.methods
        tasks += [{"kind": "seed", "method": label, "steps": {}, "seed": s} for label in labels for s in (0, 1)]
        paths = {protocol.result_path(Path("root"), task) for task in tasks}
        assert len(paths) == len(tasks)
        assert Path("root/runs/FeDualEx/seed-1/status.json") in paths
        if name in PAPERS:
            assert Path("root/grid/FedMiP-as-printed/0.3_0.001.json") in paths


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
        read_experiments(tmp_path / "own.toml", quick=True)


def test_a_missing_table_is_named(tmp_path):
    text = paper_experiments()["l1-k1"].read_text()
    (tmp_path / "own.toml").write_text(text[: text.index("[methods")])
    with pytest.raises(ConfigurationError, match=r"needs a table \[methods\]"):
        read_experiments(tmp_path / "own.toml")
    with pytest.raises(ConfigurationError, match="there is no file"):
        read_experiments(tmp_path / "other.toml")


def test_a_case_says_what_it_is(tmp_path):
    text = paper_experiments()["unequal"].read_text()
    (tmp_path / "own.toml").write_text(text.replace('axis = "heterogeneity"\n', "", 1))
    with pytest.raises(ConfigurationError, match="a case has no axis"):
        read_experiments(tmp_path / "own.toml")
