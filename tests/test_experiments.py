"""The paper's experiments: their files, the protocol with real workers, kills, claims, and the figures of the results."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from click.testing import CliRunner

import fedualex as fx
from fedualex.cli import main
from fedualex.experiments import claims, folder, protocol
from fedualex.experiments.claims import CLAIMS, judge, write_claims
from fedualex.experiments.configuration import start_point
from fedualex.experiments.folder import StoredRun
from fedualex.experiments.names import ConfigurationError, build_method
from fedualex.experiments.plan import Experiment, paper_experiments
from fedualex.experiments.readings import Claim, Found, settled
from fedualex.experiments.reproduce import chosen, reproduce
from fedualex.experiments.summary import Spread, complete, final, seed_runs, steps_text
from fedualex.precision import double
from fedualex.problems import Bilinear
from fedualex.report import figures, write_report
from fedualex.report.collect import collect, experiment_panel
from fedualex.report.statistics import curve, row
from fedualex.runtime import averaging

PAPER = {
    "FeDualEx": {"name": "FeDualEx"},
    "FedDualAvg": {"name": "FedDualAvg"},
    "FedMiP as printed": {"name": "FedMiP", "server_prox": "paper"},
    "FedMiP plain averaging": {"name": "FedMiP", "server_prox": "none"},
    "FedMiD as printed": {"name": "FedMiD", "server_prox": "paper"},
    "FedMiD plain averaging": {"name": "FedMiD", "server_prox": "none"},
    "Extra Step Local SGD": {"name": "ExtraStepLocalSGD"},
}
UNPROJECTED = {"FeDualEx unprojected start": {"name": "FeDualEx", "run": {"init": "paper"}}}
ETA_C = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001]
SPARSE = fx.L1(0.5) + fx.Box(0.3)

# --- the files -----------------------------------------------------------------------------------------------------


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


# --- a tiny experiment ---------------------------------------------------------------------------------------------

TINY = """
title = "A tiny game"

[problem]
name = "bilinear"
file = "FILE"
x = { L1 = 0.1, Box = 0.3 }
y = { L1 = 0.1, Box = 0.3 }

[run]
clients = 4
local_steps = 3
rounds = 40
noise = 0.1
start = { uniform = 0.3 }
dtype = "float32"
record_every = 10

[grid]
eta_s = [1.0, 0.3]
eta_c = [1.0, 0.1, 0.01]

[tuning]
seed = 1000
output = "last"

[quick]
clients = 3
rounds = 12
record_every = 3
seeds = 2
eta_s = [1.0]
"""


def tiny_file(path):
    """An experiment with a name of the paper's, so that its claims are judged; the game is our own."""
    rng = np.random.default_rng(0)
    np.savez(path / "game.npz", A=rng.uniform(-1, 1, (12, 16)), b=rng.uniform(-1, 1, 12))
    paper = paper_experiments()["l1-k10"].read_text()
    file = path / "l1-k10.toml"
    file.write_text(TINY.replace("FILE", str(path / "game.npz")) + paper[paper.index("[methods") :])
    return file


@pytest.fixture
def tiny(tmp_path):
    return Experiment.read(tiny_file(tmp_path))


def store_scores(experiment, root, scores):
    """Grid results with these scores for every method, in the order of the grid."""
    for task in protocol.grid_tasks(experiment):
        path = protocol.result_path(root, task)
        path.parent.mkdir(parents=True, exist_ok=True)
        score = scores[experiment.grid().index(task["steps"])]
        path.write_text(json.dumps(task | {"score": score, "outputs": {}}))


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([3.0, 2.0, 1.0, 0.5, 2.0, 3.0], (0.3, 1.0)),
        ([None, 0.2, 0.1, None, 0.1, None], (1.0, 0.01)),  # the first of equals; what broke down is left out
        ([0.1, 0.2, 0.3, 0.4, 0.0, 0.5], (0.3, 0.1)),  # a gap of 0 is the best of all, not a missing one
        ([0.1, 0.2, 0.3, 0.4, 0.5, -1e-17], (0.3, 0.01)),
    ],
)
def test_the_smallest_certified_gap_wins(tiny, tmp_path, scores, best):
    store_scores(tiny, tmp_path, scores)
    for label, steps in protocol.tuned_steps(tiny, tmp_path).items():
        assert (steps["eta_s"], steps["eta_c"]) == best, label
    tasks = protocol.seed_tasks(tiny, tmp_path)
    assert [(task["method"], task["seed"]) for task in tasks] == [(label, s) for label in PAPER for s in range(10)]
    assert {(task["steps"]["eta_s"], task["steps"]["eta_c"]) for task in tasks} == {best}


def test_a_method_that_always_breaks_down_is_named(tiny, tmp_path):
    store_scores(tiny, tmp_path, [None] * 6)
    with pytest.raises(ValueError, match="FeDualEx: no step sizes of the grid gave a finite run"):
        protocol.tuned_steps(tiny, tmp_path)


def test_a_run_that_breaks_down_has_no_score(tiny, tmp_path):
    """A server's step of 3e38 overflows float32 in its second round: the protocol goes on, the file is strict JSON."""
    steps = {"eta_s": 3e38, "eta_c": 1.0}
    task = {"kind": "grid", "method": "FedMiP plain averaging", "steps": steps, "seed": 1000}
    protocol.perform(tiny, tiny.problem(), tmp_path, task)
    stored = json.loads(protocol.result_path(tmp_path, task).read_text())
    assert stored["score"] is None
    assert {key: stored[key] for key in task} == task


class Interrupted(Bilinear):
    """A game at whose first local step somebody presses Ctrl-C."""

    def client_operator(self, client, z):
        raise KeyboardInterrupt


@pytest.mark.parametrize("kind", ["grid", "seed"])
def test_an_interrupted_run_is_not_a_result(tiny, tmp_path, kind):
    """`simulate` returns what it has when it is interrupted; stored, that would pass for the whole run on resuming."""
    game = Interrupted(**vars(tiny.problem()))
    task = {"kind": kind, "method": "FeDualEx", "steps": {"eta_s": 1.0, "eta_c": 0.1}, "seed": 0}
    with pytest.raises(KeyboardInterrupt):
        protocol.perform(tiny, game, tmp_path, task)
    assert not protocol.result_path(tmp_path, task).exists()


# --- what is refused -----------------------------------------------------------------------------------------------


def invoke(*arguments):
    return CliRunner().invoke(main, ["reproduce", *map(str, arguments)])


@pytest.mark.parametrize("names", [["l1-k11"], ["all", "l1-k11"], ["l1-k1", "l1-k11"]])
def test_an_unknown_experiment_is_one_line(tmp_path, names):
    result = invoke(*names, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert re.fullmatch(r"Error: .*'l1-k11'; did you mean 'l1-k10?'\?\n", result.output)
    assert not (tmp_path / "out").exists()


def everything_in(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.fixture
def begun(tmp_path):
    """The folder of `reproduce l1-k1 --seeds 2 --quick`, killed before its first run."""
    root = tmp_path / "out"
    (experiment,) = chosen(["l1-k1"], seeds=2, quick=True)
    folder.write_collection(root, "reproduction", experiments=["l1-k1"], seeds=2)
    protocol.begin(experiment, root / "l1-k1", resume=False)
    return root


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["l1-k1", "--quick"], "already holds results: --resume goes on with them"),
        (["l1-k10", "--quick"], "already holds results: --resume goes on with them"),
        (["l1-k1", "--quick", "--resume", "--seeds", "3"], "holds another experiment or other sizes"),
        (["l1-k1", "--resume", "--seeds", "2"], "holds another experiment or other sizes"),  # not quick
        # l1-k10 would be new, but is not begun either: with 3 seeds it would be in the way of the right command.
        (["l1-k10", "l1-k1", "--quick", "--resume", "--seeds", "3"], "holds another experiment or other sizes"),
    ],
)
def test_what_does_not_fit_the_folder_is_refused_and_leaves_no_trace(begun, arguments, message):
    before = everything_in(begun)
    result = invoke(*arguments, "--out", begun)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.splitlines()) == 1
    assert everything_in(begun) == before


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps({"schema": folder.SCHEMA, "kind": "comparison"}))
    for resume in (["--resume"], []):
        result = invoke("l1-k1", "--out", tmp_path, *resume)
        assert result.exit_code == 2
        assert re.search("comparison.*reproduction", result.output)


def test_the_same_experiment_is_gone_on_with(begun):
    (same,) = chosen(["l1-k1"], seeds=2, quick=True)
    assert protocol.begun(same, begun / "l1-k1", resume=True)
    assert not protocol.begun(same, begun / "other", resume=True)
    before = everything_in(begun)
    protocol.begin(same, begun / "l1-k1", resume=True)
    assert everything_in(begun) == before


# --- from one call, with real workers ------------------------------------------------------------------------------


def _timeless(data):
    """Without clock times, and without the checksum of a history that has them."""
    return {key: value for key, value in data.items() if key not in ("seconds", "files", "sha256")}


def results(root):
    """All that a reproduction found, without its surroundings."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.name in ("manifest.json", "timing.json") or not path.is_file() or "figures" in name:
            continue
        if path.suffix == ".json":
            data = json.loads(path.read_text())
            found[name] = _timeless(data) if isinstance(data, dict) else data
        elif path.suffix == ".jsonl":
            found[name] = [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
        elif path.suffix == ".npz":
            with np.load(path) as arrays:
                found[name] = {key: arrays[key].tobytes() for key in arrays.files}
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The tiny experiment, quick, through real workers: the folder, its experiment, and what was shown on the way."""
    path = tmp_path_factory.mktemp("reproduction")
    experiment, shown = Experiment.read(tiny_file(path), quick=True), []
    root = path / "out"
    reproduce([experiment], root, resume=False, show=lambda *event: shown.append(event))
    write_claims(root)
    return root, experiment, shown


def test_every_task_is_done_and_shown(finished):
    root, experiment, shown = finished
    assert shown == [("l1-k10", "grid", i, 21) for i in range(1, 22)] + [
        ("l1-k10", "seeds", i, 14) for i in range(1, 15)
    ]
    tasks = protocol.grid_tasks(experiment) + protocol.seed_tasks(experiment, root / "l1-k10")
    assert all(protocol.result_path(root / "l1-k10", task).exists() for task in tasks)
    timing = json.loads((root / "l1-k10" / "timing.json").read_text())
    assert list(timing) == ["exact optimum", "grid", "seeds", "averaging"]
    assert all(seconds > 0 for seconds in timing.values())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("label", PAPER)
def test_the_grid_is_what_tune_finds(finished, label):
    root, experiment, _ = finished
    problem, run = experiment.problem(), experiment.settings["run"]
    options = {key: run[key] for key in ("clients", "local_steps", "rounds", "dtype")}
    options |= {"noise": fx.GaussianNoise(0.1), "seed": 1000, "z0": start_point({"uniform": 0.3}, problem, 1000)}
    grid = {"eta_s": [1.0], "eta_c": [1.0, 0.1, 0.01]}
    tuned = fx.tune(problem, build_method(experiment.methods[label]), grid=grid, record_every=run["rounds"], **options)
    assert protocol.tuned_steps(experiment, root / "l1-k10")[label] == tuned.steps
    for steps, score in tuned.table:
        task = {"kind": "grid", "method": label, "steps": steps, "seed": 1000}
        stored = json.loads(protocol.result_path(root / "l1-k10", task).read_text())
        assert stored["score"] == pytest.approx(score, rel=1e-3)  # float32 on one core there, on several here
        assert stored["score"] == stored["outputs"]["last"]["gap"]


def test_seeds_are_whole_runs_that_can_be_verified(finished):
    root = finished[0]
    for label, runs in seed_runs(root / "l1-k10").items():
        assert [run.manifest["configuration"]["run"]["seed"] for run in runs] == [0, 1]
        for run in runs:
            assert run.label == label
            assert [record["round"] for record in run.history] == [0, 3, 6, 9, 12]
            assert {f"gap_{name}" for name in ("last", "ergodic", "clients", "polished")} < set(run.history[0])
        assert runs[0].history[-1]["gap_last"] != runs[1].history[-1]["gap_last"]
    checked = CliRunner().invoke(main, ["verify", str(root / "l1-k10" / "runs" / "FeDualEx" / "seed-1")])
    assert checked.exit_code == 0, checked.output


def test_the_exact_optimum_is_beside_the_runs(finished):
    root, experiment, _ = finished
    exact, solution = json.loads((root / "l1-k10" / "exact.json").read_text()), fx.reference.lp(experiment.problem())
    assert exact["value"] == pytest.approx(solution.value)
    assert exact["how"] == "linear programming"
    assert 0 <= exact["gap"] < 1e-9
    assert {name: len(values) for name, values in exact["blocks"].items()} == {"x": 16, "y": 12}
    for values in exact["blocks"].values():
        assert values == sorted(values, reverse=True)
    entries = np.concatenate([exact["blocks"]["x"], exact["blocks"]["y"]])
    assert exact["density"] == np.mean(entries > 1e-5)


def test_averaging_is_measured_at_the_tuned_steps(finished):
    root = finished[0]
    stored = json.loads((root / "l1-k10" / "averaging.json").read_text())
    assert stored["exact"] == json.loads((root / "l1-k10" / "exact.json").read_text())["density"]
    assert set(stored["series"]) == {"FeDualEx", "FedMiP plain averaging"}
    runs = seed_runs(root / "l1-k10")
    for label, series in stored["series"].items():
        assert series["round"] == list(range(1, 13))
        # The same seed and the same steps as the stored run of seed 0.
        for record in runs[label][0].history[1:]:
            assert series["server"][record["round"] - 1] == pytest.approx(record["density_last"], abs=0.04)


def test_all_claims_about_the_experiment_are_judged(finished):
    root = finished[0]
    table = json.loads((root / "claims.json").read_text())
    assert [one["claim"] for one in table] == [claim.sentence for claim in CLAIMS if "l1-k10" in claim.experiments]
    assert all("l1-k10" in one["measured"] and "l1-k1 " not in one["measured"] for one in table)


def test_a_finished_reproduction_is_left_alone(finished):
    root, experiment, shown = finished
    before = {path: path.stat().st_mtime_ns for path in (root / "l1-k10").rglob("*.json") if path.name != "timing.json"}
    again = []
    reproduce([experiment], root, resume=True, show=lambda *event: again.append(event))
    assert again == shown
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_report_of_a_reproduction(finished, tmp_path):
    root = tmp_path / "copy"
    shutil.copytree(finished[0], root)
    files = write_report(root)
    assert files[0] == root / "report.html"
    names = {path.name for path in files[1:]}
    assert names == {
        f"l1-k10-{output}{x}.{kind}"
        for output in ("last", "ergodic", "clients", "polished")
        for x in ("", "-megabytes")
        for kind in ("png", "pdf")
    } | {"l1-k10-averaging.png", "l1-k10-averaging.pdf"}
    assert all(path.stat().st_size > 5000 for path in files)
    assert "A tiny game (quick)" in files[0].read_text()


def test_report_while_experiments_are_still_running(finished, tmp_path):
    """An experiment whose first seed has not ended has no panel yet; one with some seeds has those, but no claims."""
    root = tmp_path / "copy"
    shutil.copytree(finished[0], root)
    manifest = json.loads((root / "manifest.json").read_text())
    (root / "manifest.json").write_text(json.dumps(manifest | {"experiments": ["l1-k1", "l1-k10", "nuclear-k1"]}))
    shutil.copytree(root / "l1-k10", root / "l1-k1")
    for status in (root / "l1-k1" / "runs").glob("*/*/status.json"):
        status.unlink()
    for status in (root / "l1-k10" / "runs").glob("Fed[DM]*/*/status.json"):
        status.unlink()
    (panel,) = collect(root)["panels"]
    assert panel["name"] == "l1-k10"
    assert {one["method"] for one in panel["curves"]} == {"FeDualEx", "Extra Step Local SGD"}
    assert write_claims(root) == []
    with pytest.raises(ConfigurationError, match="has no finished runs yet"):
        collect(root / "l1-k1")


def test_files_are_named_after_the_folder_wherever_one_stands(finished, monkeypatch):
    monkeypatch.chdir(finished[0] / "l1-k10")
    assert collect(Path())["panels"][0]["name"] == "l1-k10"
    monkeypatch.chdir("runs/FeDualEx/seed-0")
    assert collect(Path())["panels"][0]["name"] == "seed-0"


# --- killed --------------------------------------------------------------------------------------------------------

CHILD = """
import sys
from pathlib import Path
from fedualex.experiments.claims import write_claims
from fedualex.experiments.protocol import Experiment
from fedualex.experiments.reproduce import reproduce

if __name__ == "__main__":
    file, root = map(Path, sys.argv[1:3])
    experiment = Experiment.read(file, quick=True)
    reproduce([experiment], root, resume=True, show=lambda *event: None)
    write_claims(root)
"""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def workers_of(pid):
    """The spawned children; the one that looks after semaphores ends with its parent, whatever happens."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == pid and "spawn_main" in (path / "cmdline").read_text():
                found.append(int(path.name))
        except OSError:  # it ended while we looked
            continue
    return found


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s in vain"
        time.sleep(0.01)


def end_in_the_middle(process, root, count, how):
    """End a reproduction when so many results are there; its workers must end within seconds."""

    def results_there():
        done = [*root.glob("l1-k10/grid/*/*.json"), *root.glob("l1-k10/runs/*/*/status.json")]
        assert process.poll() is None
        return len(done) >= count

    wait_until(results_there, 600)
    workers = workers_of(process.pid)
    assert len(workers) == len(os.sched_getaffinity(0))
    if how == "kill -9":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGINT)
    wait_until(lambda: not any(map(alive, workers)), 20)  # measured: 1.2 s at most, on loaded cores
    process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGKILL if how == "kill -9" else -signal.SIGINT)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", ["kill -9", "Ctrl-C"])
def test_ended_in_the_middle_and_resumed_nothing_changes(finished, tmp_path, how):
    script, root = tmp_path / "child.py", tmp_path / "out"
    script.write_text(CHILD)
    expected, experiment, _ = finished
    command = [sys.executable, str(script), experiment.settings["problem"]["file"].replace("game.npz", "l1-k10.toml")]
    for count in (4, 13, 24, 30):  # twice in the grid, twice among the seeds
        process = subprocess.Popen(
            [*command, str(root)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        end_in_the_middle(process, root, count, how)
    subprocess.run([*command, str(root)], check=True, timeout=600)
    found, wanted = results(root), results(expected)
    assert found.keys() == wanted.keys()
    assert [name for name in wanted if found[name] != wanted[name]] == []


# --- claims --------------------------------------------------------------------------------------------------------

OUTPUTS = ("last", "ergodic", "clients", "polished")


def write_run(path, label, numbers, rounds=(0, 5, 10), eta_c=0.1, data="a game"):
    """A run folder by hand. numbers(output, round) is (gap, density, ranks)."""
    path.mkdir(parents=True)
    configuration = {"label": label, "method": {"name": "FeDualEx", "eta_s": 1.0, "eta_c": eta_c}, "run": {"seed": 0}}
    configuration |= {"problem": {"name": "by hand"}}
    about = {"created": "now", "command": "by hand", "versions": {}, "machine": {}}
    manifest = {"schema": folder.SCHEMA, "kind": "run", **about, "configuration": configuration, "data_sha256": data}
    manifest |= {"geometry": {}}
    (path / "manifest.json").write_text(json.dumps(manifest))
    history = []
    for r in rounds:
        record = {"round": r, "seconds": 0.5 * r + 1, "bytes_up": 2000 * r, "bytes_down": 1000 * r}
        for output in OUTPUTS[:2]:
            gap, density, ranks = numbers(output, r)
            record |= {f"gap_{output}": gap, f"density_{output}": density, f"rank_{output}": ranks}
        history.append(record)
    (path / "history.jsonl").write_text("".join(json.dumps(record) + "\n" for record in history))
    found = {}
    for output in OUTPUTS[:2]:
        gap, density, ranks = numbers(output, rounds[-1])
        parts = {"gap_x": None, "gap_y": None} if gap is None else {"gap_x": gap / 4, "gap_y": 3 * gap / 4}
        reason = "" if gap is not None else "unbounded"
        found[output] = {"gap": gap, **parts, "reason": reason, "density": density, "rank": ranks}
        found[output] |= {"status": "CERTIFIED", "origin": "", "rounding": 0.0, "estimated": False, "violation": None}
        found[output]["objective"] = 2.0 + (gap or 0) / 2
    status = {"schema": folder.SCHEMA, "status": "CERTIFIED", "meaning": "", "stop": "MAX_ROUNDS", "stop_meaning": ""}
    status |= {"output": "last", "gap": found["last"]["gap"], "violation": None}
    status |= {"outputs": found, "rounds": rounds[-1], "seconds": 0.5 * rounds[-1] + 1, "steps": ""}
    status |= {"bytes_up": 2000 * rounds[-1], "bytes_down": 1000 * rounds[-1]}
    arrays = {f"{output}/z/{block}": np.array([[0.3, 0.0], [0.0, -0.5]]) for output in OUTPUTS[:2] for block in "xy"}
    np.savez(path / "solution.npz", **arrays)
    (path / "status.json").write_text(json.dumps(status))


def write_experiment(root, name, values, seeds=2):
    """An experiment by hand. values(label, output, seed, round) is (gap, density, ranks)."""
    nuclear = name.startswith("nuclear")
    methods = PAPER | (UNPROJECTED if name == "nuclear-k1" else {})
    plan = {"name": name, "seeds": seeds, "settings": {"methods": methods}}
    folder.write_collection(root / name, "experiment", title=name, plan=plan)
    for label in methods:
        for seed in range(seeds):
            path = root / name / "runs" / label.replace(" ", "-") / f"seed-{seed}"

            def numbers(output, r, label=label, seed=seed):
                gap, density, ranks = values(label, output, seed, r)
                return (gap, None, ranks) if nuclear else (gap, density, None)

            write_run(path, label, numbers)


def as_the_paper_says(label, output, seed, r):
    """Final numbers with which every sentence holds in every reading."""
    gap = {"FeDualEx": 0.1, "FedMiP": 0.2, "FedDualAvg": 2.0, "FedMiD": 3.0}.get(label.split(" ")[0], 1.0)
    density = {"FeDualEx": 0.7, "FedMiP": 0.95, "FedDualAvg": 0.8, "FedMiD": 0.9}.get(label.split(" ")[0], 1.0)
    rank = {"FeDualEx": 10, "FedMiP": 20, "FedDualAvg": 10, "FedMiD": 10}.get(label.split(" ")[0], 20)
    return gap + 0.01 * seed, density + 0.004 * seed, [rank, rank] if r >= 5 else [20, 20]


def opposite(label, output, seed, r):
    """Final numbers with which none does in any."""
    gap = {"FeDualEx": 2.0, "FedMiP": 1.5, "FedDualAvg": 0.5, "FedMiD": 0.4}.get(label.split(" ")[0], 1.0)
    density = {"FeDualEx": 0.95, "FedMiP": 0.7, "FedDualAvg": 0.9, "FedMiD": 0.8}.get(label.split(" ")[0], 1.0)
    return gap, density, [20, 20]


def last_only(label, output, seed, r):
    return (as_the_paper_says if output == "last" else opposite)(label, output, seed, r)


def plain_only(label, output, seed, r):
    """As the paper says, except for the primal methods with their server's rule as printed."""
    return (opposite if "printed" in label else as_the_paper_says)(label, output, seed, r)


ALL = ("l1-k1", "l1-k10", "nuclear-k1", "nuclear-k10")


@pytest.mark.parametrize(
    ("values", "verdict", "why"),
    [
        (as_the_paper_says, "agrees", "In every reading."),
        (opposite, "does not agree", "In no reading."),
        (last_only, "agrees only if", "Only: "),
    ],
)
def test_each_claim_gets_each_verdict(tmp_path, values, verdict, why):
    for name in ALL:
        write_experiment(tmp_path, name, values)
    table = write_claims(tmp_path)
    assert [one["claim"] for one in table] == [claim.sentence for claim in CLAIMS]
    assert {one["claim"]: one["verdict"] for one in table} == dict.fromkeys([c.sentence for c in CLAIMS], verdict)
    assert all(one["why"].startswith(why) for one in table)
    if values is last_only:
        assert all("last point" in one["why"] and "ergodic average" not in one["why"].split(".")[0] for one in table)
    assert json.loads((tmp_path / "claims.json").read_text()) == table


def test_readings_by_the_servers_rule(tmp_path):
    for name in ALL:
        write_experiment(tmp_path, name, plain_only)
    found = {one["claim"]: one for one in write_claims(tmp_path)}
    only = "Only: plain averaging, last point; plain averaging, ergodic average."
    for claim in CLAIMS:
        depends = any("as printed" in reading for reading in claim.readings)
        assert found[claim.sentence]["verdict"] == ("agrees only if" if depends else "agrees"), claim.sentence
        assert found[claim.sentence]["why"].startswith(only if depends else "In every reading."), claim.sentence


def test_a_claim_that_holds_for_one_K_says_for_which(tmp_path):
    write_experiment(tmp_path, "l1-k1", as_the_paper_says)
    write_experiment(tmp_path, "l1-k10", opposite)
    table = write_claims(tmp_path)
    assert {one["verdict"] for one in table} == {"agrees only if"}
    assert all("last point of l1-k1" in one["why"] and "of l1-k10" not in one["why"] for one in table)
    shutil.rmtree(tmp_path / "l1-k10")
    assert {one["verdict"] for one in write_claims(tmp_path)} == {"agrees"}


def test_what_was_not_run_is_left_out(tmp_path):
    assert write_claims(tmp_path) == []
    write_experiment(tmp_path, "nuclear-k10", as_the_paper_says)
    table = write_claims(tmp_path)
    assert [one["claim"] for one in table] == [c.sentence for c in CLAIMS if "nuclear-k10" in c.experiments]
    assert all("nuclear-k10" in one["measured"] and "nuclear-k1 " not in one["measured"] for one in table)
    assert judge(CLAIMS[0], {"nuclear-k10": {}}) is None


def test_an_experiment_counts_when_all_its_seeds_are_there(tmp_path):
    write_experiment(tmp_path, "l1-k1", as_the_paper_says)
    assert complete(tmp_path / "l1-k1", seed_runs(tmp_path / "l1-k1"))
    (tmp_path / "l1-k1" / "runs" / "FedDualAvg" / "seed-1" / "status.json").unlink()
    assert not complete(tmp_path / "l1-k1", seed_runs(tmp_path / "l1-k1"))
    assert write_claims(tmp_path) == []
    shutil.rmtree(tmp_path / "l1-k1" / "runs" / "FedDualAvg")  # not even begun
    assert list(seed_runs(tmp_path / "l1-k1")) == [label for label in PAPER if label != "FedDualAvg"]
    assert write_claims(tmp_path) == []


def test_measured_are_means_and_deviations(tmp_path):
    write_experiment(tmp_path, "l1-k1", as_the_paper_says, seeds=3)
    runs = seed_runs(tmp_path / "l1-k1")
    gaps = np.array([2.0, 2.01, 2.02])
    spread = final(runs["FedDualAvg"], "last", "gap")
    assert (spread.mean, spread.std) == (pytest.approx(gaps.mean()), pytest.approx(gaps.std()))
    assert steps_text(runs["FedDualAvg"][0]) == "eta_s 1, eta_c 0.1"
    write_experiment(tmp_path, "nuclear-k1", as_the_paper_says)
    assert final(seed_runs(tmp_path / "nuclear-k1")["FedMiP as printed"], "last", "rank") == Spread(40.0, 0.0)  # both
    (found,) = [one for one in write_claims(tmp_path) if "FedDualAvg stays above" in one["claim"]]
    each = "l1-k1 gap 2.01 ± 0.008 (eta_s 1, eta_c 0.1)"
    assert found["measured"] == f"last point: {each}; ergodic average: {each}"


@pytest.mark.parametrize(
    ("change", "sentence", "holds"),
    [
        ({"FeDualEx": (claims.ORDER_TENTH, 0.7)}, "FeDualEx converges to the order", True),
        ({"FeDualEx": (0.317, 0.7)}, "FeDualEx converges to the order", False),
        ({"FedDualAvg": (1.0, 0.8)}, "FedDualAvg stays above 10^0", False),
        ({"FedDualAvg": (1.001, 0.8)}, "FedDualAvg stays above 10^0", True),
        ({"FeDualEx": (0.1, 0.749)}, "density ('sparsity', E29) around 0.7", True),
        ({"FeDualEx": (0.1, 0.649)}, "density ('sparsity', E29) around 0.7", False),
        ({"FedMiP": (0.2, 0.981)}, "FedMiP stays at a density around 0.95", False),
        ({"FedDualAvg": (2.0, 0.9), "FedMiD": (3.0, 0.9)}, "lower density", False),  # equal is not lower
        ({"FedDualAvg": (2.0, 0.8), "FedMiD": (3.0, 0.81)}, "lower density", True),
    ],
)
def test_where_a_claim_begins_to_hold(tmp_path, change, sentence, holds):
    def values(label, output, seed, r):
        gap, density, ranks = as_the_paper_says(label, output, 0, r)
        return *change.get(label.split(" ")[0], (gap, density)), ranks

    write_experiment(tmp_path, "l1-k1", values, seeds=1)
    (found,) = [one for one in write_claims(tmp_path) if sentence in one["claim"]]
    assert found["verdict"] == ("agrees" if holds else "does not agree")


def test_verdicts_of_any_claim():
    def claim(*holds):
        readings = {str(i): lambda runs, i=i: Found(holds[i], f"number {i}") for i in range(len(holds))}
        return Claim("a sentence", ("one", "two"), readings, "A remark.")

    verdicts = [
        judge(claim(*holds), {"two": {}, "three": {}}) for holds in ((True, True), (False, True), (False, False))
    ]
    assert [one["verdict"] for one in verdicts] == ["agrees", "agrees only if", "does not agree"]
    assert verdicts[1] == {
        "claim": "a sentence",
        "measured": "0: two number 0; 1: two number 1",
        "verdict": "agrees only if",
        "why": "Only: 1. A remark.",
    }


@pytest.mark.parametrize(
    ("ranks", "start"),
    [
        ([20, 10, 10, 10], 1),
        ([10, 10, 10, 10], 0),
        ([10, 20, 10, 10], 2),  # left again: only the last stay counts
        ([20, 20, 20, 10], 3),
        ([10, 10, 10, 20], None),
        ([], None),
    ],
)
def test_settled(ranks, start):
    history = [{"round": 10 * i, "rank_last": [10, rank]} for i, rank in enumerate(ranks)]
    run = StoredRun(Path(), {}, history, {})
    assert settled(run, "last", [10, 10]) == (None if start is None else 10 * start)


@pytest.mark.parametrize(
    ("arrival", "verdict"), [((5, 5), "agrees"), ((5, 10), "does not agree"), ((5, 11), "does not agree")]
)
def test_the_rank_is_reached_in_every_seed_within_half_of_the_rounds(tmp_path, arrival, verdict):
    def values(label, output, seed, r):
        gap, density, _ = as_the_paper_says(label, output, seed, r)
        return gap, density, [10, 10] if r >= arrival[seed] else [10, 11]

    write_experiment(tmp_path, "nuclear-k1", values)
    (found,) = [one for one in write_claims(tmp_path) if "quickly reaches" in one["claim"]]
    assert found["verdict"] == verdict
    text = {5: "from round 5 of 10 on", 10: "from round 10 of 10 on", 11: "not settled at 10 by round 10"}
    assert text[arrival[1]] in found["measured"]


# --- what averaging does -------------------------------------------------------------------------------------------


def small_game():
    rng = np.random.default_rng(0)
    return fx.problems.bilinear(rng.uniform(-1, 1, (20, 30)), rng.uniform(-1, 1, 20), x=SPARSE, y=SPARSE)


def start_of(game):
    return start_point({"uniform": 0.3}, game, 0)


OPTIONS = {"clients": 8, "local_steps": 4, "rounds": 20, "every": 6, "noise": fx.GaussianNoise(0.3)}
METHODS = {"primal": fx.FedMiP(0.05, 1.0, server_prox="none"), "dual": fx.FeDualEx(0.05, 1.0)}


@pytest.fixture(scope="module")
def measured():
    game = small_game()
    return {kind: averaging(game, method, z0=start_of(game), **OPTIONS) for kind, method in METHODS.items()}


@pytest.mark.slow
def test_primal_averaging_fills_zeros_and_dual_averaging_does_not(measured):
    primal, dual = measured["primal"], measured["dual"]
    for series in (primal, dual):
        assert series["round"] == [6, 12, 18, 20]
        assert np.all(np.array(series["lowest"]) < series["clients"])
        assert np.all(np.array(series["clients"]) < series["highest"])
    # The support of a mean is the union of the supports.
    assert np.all(np.array(primal["server"]) >= primal["highest"])
    assert np.all(np.array(primal["server"]) - primal["clients"] > 0.25)
    assert np.all(np.abs(np.array(dual["server"]) - dual["clients"]) < 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", METHODS)
def test_averaging_is_a_function_of_its_seed(measured, kind):
    game = small_game()
    assert averaging(game, METHODS[kind], z0=start_of(game), **OPTIONS) == measured[kind]
    assert averaging(game, METHODS[kind], z0=start_of(game), **OPTIONS, seed=1) != measured[kind]


@pytest.mark.slow
@pytest.mark.parametrize("kind", METHODS)
def test_the_server_is_that_of_the_run(measured, kind):
    game, options = small_game(), {key: value for key, value in OPTIONS.items() if key != "every"}
    run = fx.simulate(game, METHODS[kind], z0=start_of(game), record_every=6, **options)
    assert run.history["round"].tolist() == [0, *measured[kind]["round"]]
    assert run.history["density_last"].tolist()[1:] == measured[kind]["server"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("local_steps", [1, 4])
def test_without_noise_all_clients_are_the_server(kind, local_steps):
    """Equal clients that see the same operator end at one point, which is its own mean in both spaces."""
    game, options = small_game(), OPTIONS | {"local_steps": local_steps, "noise": None, "every": 1, "rounds": 12}
    series = averaging(game, METHODS[kind], z0=start_of(game), **options)
    for name in ("clients", "lowest", "highest"):
        assert series[name] == pytest.approx(series["server"], abs=1e-12)
    assert 0 < series["server"][-1] < 0.6  # there are zeros to lose


@pytest.mark.slow
def test_densities_of_clients_by_hand():
    """FedMiP in numpy: every client's point after two steps, with the noise that its counters give."""
    game, sigma, eta, clients, steps = small_game(), 0.3, 0.05, 5, 2
    z0, oracle = start_of(game), fx.GaussianNoise(sigma)

    def prox(v):
        return np.clip(np.sign(v) * np.maximum(np.abs(v) - 0.5 * eta, 0), -0.3, 0.3)

    def stepped(z, at, key):
        g = oracle(game, None, at, key)
        return jax.tree.map(lambda leaf, slope: prox(leaf - eta * np.asarray(slope)), z, g)

    def density(z):
        return np.mean(np.abs(np.concatenate([z.x, z.y])) > 1e-5)

    points = []
    with double():
        for m in range(clients):
            z = z0
            for k in range(steps):
                key = jax.random.key(7)
                for counter in (0, m + 1, k):
                    key = jax.random.fold_in(key, counter)
                half = stepped(z, z, jax.random.fold_in(key, 0))
                z = stepped(z, half, jax.random.fold_in(key, 1))
            points.append(z)
        method = fx.FedMiP(eta, 1.0, server_prox="none")
        sizes = {"clients": clients, "local_steps": steps, "rounds": 1, "every": 1}
        series = averaging(game, method, noise=oracle, seed=7, z0=z0, **sizes)
    each = [density(z) for z in points]
    assert len(set(each)) > 1
    mean = jax.tree.map(lambda *leaves: np.mean(leaves, axis=0), *points)
    expected = {"clients": np.mean(each), "lowest": min(each), "highest": max(each), "server": density(mean)}
    assert {name: series[name][0] for name in expected} == pytest.approx(expected, abs=1e-12)
    assert series["round"] == [1]


def test_averaging_needs_densities():
    spectral = fx.Spectral(SPARSE)
    game = fx.problems.bilinear(np.eye(4), np.ones((4, 3)), x=spectral, y=spectral)
    with pytest.raises(ValueError, match="averaging compares densities"):
        averaging(game, METHODS["dual"], clients=2, local_steps=1, rounds=1, every=1)


# --- collected and drawn -------------------------------------------------------------------------------------------


def by_seed(numbers, lengths, tmp_path):
    """One stored run for each seed, of these many records; numbers(seed, output, round) is (gap, density, ranks)."""
    runs = []
    for seed, length in enumerate(lengths):
        rounds = [4 * i for i in range(length)]
        write_run(tmp_path / f"seed-{seed}", "A", lambda output, r, seed=seed: numbers(seed, output, r), rounds)
        runs.append(folder.load(tmp_path / f"seed-{seed}"))
    return runs


def test_a_curve_is_mean_and_deviation_over_seeds(tmp_path):
    rng = np.random.default_rng(0)
    gaps, densities = rng.uniform(size=(2, 3, 5)), rng.uniform(size=(2, 3, 5))

    def numbers(seed, output, r):
        i, j = OUTPUTS.index(output), r // 4
        return gaps[i, seed, j], densities[i, seed, j], None

    runs = by_seed(numbers, (5, 4, 5), tmp_path)  # one seed broke down: only what all have is averaged
    for i, output in enumerate(("last", "ergodic")):
        found = curve("A", output, runs)
        assert found["round"] == [0, 4, 8, 12]
        assert found["gap"]["mean"] == pytest.approx(gaps[i, :, :4].mean(0))
        assert found["gap"]["std"] == pytest.approx(gaps[i, :, :4].std(0))
        assert list(found["structure"]) == ["all"]
        assert found["structure"]["all"]["mean"] == pytest.approx(densities[i, :, :4].mean(0))
        assert found["structure"]["all"]["std"] == pytest.approx(densities[i, :, :4].std(0))
        assert found["seconds"] == [1, 3, 5, 7]
        assert found["megabytes"] == pytest.approx([0, 0.012, 0.024, 0.036])


def test_a_curve_of_ranks(tmp_path):
    ranks = np.array([[[20, 20], [12, 11], [10, 10]], [[20, 20], [10, 14], [10, 11]]])
    runs = by_seed(lambda seed, output, r: (1.0, None, ranks[seed, r // 4].tolist()), (3, 3), tmp_path)
    structure = curve("A", "last", runs)["structure"]
    assert list(structure) == ["x", "y"]
    for i, block in enumerate("xy"):
        assert structure[block]["mean"] == ranks[:, :, i].mean(0).tolist()
        assert structure[block]["std"] == ranks[:, :, i].std(0).tolist()
    assert row("A", "last", runs, None)["structure"] == "10 ± 0 / 10.5 ± 0.5"


def test_what_is_not_certified_has_no_number(tmp_path):
    runs = by_seed(lambda seed, output, r: (None if seed else 1.0, 0.5, None), (3, 3), tmp_path)
    assert curve("A", "last", runs)["gap"] == {"mean": [None] * 3, "std": [None] * 3}
    found = row("A", "last", runs, None)
    assert (found["gap"], found["gap_std"], found["distance"]) == (None, None, None)
    assert found["structure"] == "0.500 ± 0.000"


def test_a_row_is_mean_and_deviation_over_seeds(tmp_path):
    gaps, densities = np.array([0.5, 0.25, 1.0]), np.array([0.7, 0.75, 0.65])
    runs = by_seed(lambda seed, output, r: (gaps[seed], densities[seed], None), (3, 3, 3), tmp_path)
    found = row("A", "last", runs, {"value": 2.125})
    assert (found["gap"], found["gap_std"]) == (pytest.approx(gaps.mean()), pytest.approx(gaps.std()))
    assert found["structure"] == f"{densities.mean():.3f} ± {densities.std():.3f}"
    assert found["distance"] == pytest.approx(np.mean(np.abs(2 + gaps / 2 - 2.125)))
    assert (found["method"], found["steps"], found["output"]) == ("A", "eta_s 1, eta_c 0.1", "last")
    assert (found["seconds"], found["megabytes"]) == (5.0, pytest.approx(0.024))
    assert (found["status"], found["stop"], found["answer"]) == ("CERTIFIED", "MAX_ROUNDS", True)
    alone = row("A", "last", runs[:1], None)
    assert (alone["gap"], alone["gap_std"], alone["distance"]) == (0.5, None, None)
    assert alone["structure"] == "0.700"


def test_an_experiment_is_one_panel(tmp_path):
    write_experiment(tmp_path, "nuclear-k1", as_the_paper_says)
    panel = experiment_panel(tmp_path / "nuclear-k1")
    assert panel["structure"] == "rank"
    assert list(dict.fromkeys(one["method"] for one in panel["curves"])) == [*PAPER, *UNPROJECTED]
    assert len(panel["curves"]) == len(panel["table"]) == 2 * 8
    assert "over 2 seeds" in " ".join(panel["notes"])
    blocks = panel["solutions"][0]["blocks"]
    assert [(block["kind"], block["values"]) for block in blocks] == [("singular values", [0.5, 0.3])] * 2


@pytest.fixture
def panels(tmp_path):
    write_experiment(tmp_path, "l1-k1", as_the_paper_says)
    write_experiment(tmp_path, "nuclear-k1", as_the_paper_says)
    exact = {"value": 2.0, "gap": 0.0, "how": "by hand", "density": 0.7, "rank": [10, 10]}
    return {name: experiment_panel(tmp_path / name) | {"exact": exact} for name in ("l1-k1", "nuclear-k1")}


SERIES = {"round": [1, 2], "clients": [0.6, 0.5], "lowest": [0.5, 0.4], "highest": [0.7, 0.6], "server": [0.9, 0.8]}
DRAWN = {
    "density": lambda panels, stem: figures.draw(panels["l1-k1"], "last", stem),
    "ranks": lambda panels, stem: figures.draw(panels["nuclear-k1"], "ergodic", stem),
    "seconds": lambda panels, stem: figures.draw(panels["l1-k1"], "last", stem, x="seconds"),
    "megabytes": lambda panels, stem: figures.draw_gap(panels["l1-k1"], "last", stem),
    "averaging": lambda panels, stem: figures.draw_averaging({"A": SERIES, "B": SERIES}, 0.7, stem),
    "averaging of one": lambda panels, stem: figures.draw_averaging({"A": SERIES}, None, stem),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", DRAWN)
def test_figures_are_files_and_always_the_same(panels, tmp_path, name):
    png, pdf = DRAWN[name](panels, tmp_path / "figures" / "one")
    assert (png.name, pdf.name) == ("one.png", "one.pdf")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    width, height = (int.from_bytes(png.read_bytes()[i : i + 4], "big") for i in (16, 20))
    columns = {"density": 2, "seconds": 2, "ranks": 3, "averaging": 2}.get(name, 1)
    assert width == 780 * columns
    assert 500 < height < 800
    assert png.stat().st_size > 10_000
    assert pdf.stat().st_size > 5_000
    again = DRAWN[name](panels, tmp_path / "elsewhere" / "two")
    assert again[0].read_bytes() == png.read_bytes()
    assert again[1].read_bytes() == pdf.read_bytes()


def test_other_numbers_are_another_figure(panels, tmp_path):
    (png, _), (other, _) = (figures.draw(panels["l1-k1"], output, tmp_path / output) for output in ("last", "ergodic"))
    assert png.read_bytes() != other.read_bytes()  # the title
    before = png.read_bytes()
    panels["l1-k1"]["curves"][0]["gap"]["mean"][-1] *= 2
    (png, _) = figures.draw(panels["l1-k1"], "last", tmp_path / "last")
    assert png.read_bytes() != before


@pytest.mark.parametrize("gaps", [[None, None, None], [0.0, 0.0, 0.0], [1.0, None, -1e-17]])
def test_gaps_that_a_logarithmic_axis_cannot_show(panels, tmp_path, gaps):
    for one in panels["l1-k1"]["curves"]:
        one["gap"] = {"mean": gaps, "std": [None if gap is None else 0.0 for gap in gaps]}
    for path in figures.draw(panels["l1-k1"], "last", tmp_path / "one"):
        assert path.stat().st_size > 5_000
