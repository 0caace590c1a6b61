"""The protocol of an experiment with real workers: what wins, what is refused, what is shown, killed and resumed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from html import escape
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.interrupting import start_interruptible
from support.paper_runs import L1

import fedualex as fx
from fedualex.cli import main
from fedualex.paper import reproduction as protocol
from fedualex.paper.claims import CLAIMS, seed_runs, write_claims
from fedualex.paper.reproduction import SMALL, choose_experiments, paper_experiments, read_experiments, reproduce
from fedualex.problems import Bilinear
from fedualex.report import write_figures, write_report
from fedualex.report.collect import collect
from fedualex.runs import folder
from fedualex.runs.settings import ConfigurationError, build_method, start_point

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
    (experiment,) = read_experiments(tiny_file(tmp_path))
    return experiment


def store_scores(experiment, root, scores):
    """Grid results with these scores for every method, in the order of the grid."""
    for task in protocol.grid_tasks(experiment):
        path = protocol.result_path(root, task)
        path.parent.mkdir(parents=True, exist_ok=True)
        score = scores[experiment.grid(task["method"]).index(task["steps"])]
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
    assert [(task["method"], task["seed"]) for task in tasks] == [(label, s) for label in L1 for s in range(10)]
    assert {(task["steps"]["eta_s"], task["steps"]["eta_c"]) for task in tasks} == {best}


def test_a_method_that_always_breaks_down_is_named(tiny, tmp_path):
    store_scores(tiny, tmp_path, [None] * 6)
    with pytest.raises(ValueError, match="FeDualEx: no step sizes of the grid gave a finite run"):
        protocol.tuned_steps(tiny, tmp_path)


@pytest.mark.slow
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
    (experiment,) = choose_experiments(["l1-k1"], seeds=2, quick=True)
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
    (same,) = choose_experiments(["l1-k1"], seeds=2, quick=True)
    assert protocol.begin_experiment(same, begun / "l1-k1", resume=True)
    assert not protocol.begin_experiment(same, begun / "other", resume=True)
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
    (experiment,), shown = read_experiments(tiny_file(path), quick=True), []
    root = path / "out"
    reproduce([experiment], root, resume=False, show=lambda *event: shown.append(event))
    write_claims(root)
    return root, experiment, shown


@pytest.mark.slow
def test_every_task_is_done_and_shown(finished):
    root, experiment, shown = finished
    totals = {"exact optimum": 1, "grid": 24, "seeds": 16, "averaging": 1}
    assert shown == [("l1-k10 (1 of 1)", stage, i, n) for stage, n in totals.items() for i in range(n + 1)]
    tasks = protocol.grid_tasks(experiment) + protocol.seed_tasks(experiment, root / "l1-k10")
    assert all(protocol.result_path(root / "l1-k10", task).exists() for task in tasks)
    timing = json.loads((root / "l1-k10" / "timing.json").read_text())
    assert list(timing) == ["exact optimum", "grid", "seeds", "averaging"]
    assert all(seconds > 0 for seconds in timing.values())


@pytest.mark.slow
@pytest.mark.parametrize("label", L1)
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


@pytest.mark.slow
def test_seeds_are_whole_runs_that_can_be_verified(finished):
    root = finished[0]
    for label, runs in seed_runs(root / "l1-k10").items():
        assert [run.manifest["configuration"]["run"]["seed"] for run in runs] == [0, 1]
        for run in runs:
            assert run.label == label
            assert [record["round"] for record in run.history] == [0, 3, 6, 9, 12]
            assert {f"gap_{name}" for name in ("last", "ergodic", "client_average", "polished")} < set(run.history[0])
        assert runs[0].history[-1]["gap_last"] != runs[1].history[-1]["gap_last"]
    checked = CliRunner().invoke(main, ["verify", str(root / "l1-k10" / "runs" / "FeDualEx" / "seed-1")])
    assert checked.exit_code == 0, checked.output


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_all_claims_about_the_experiment_are_judged(finished):
    root = finished[0]
    table = json.loads((root / "claims.json").read_text())
    assert [one["claim"] for one in table] == [claim.sentence for claim in CLAIMS if "l1-k10" in claim.experiments]
    assert all("l1-k10" in one["measured"] and "l1-k1 " not in one["measured"] for one in table)


@pytest.mark.slow
def test_a_finished_reproduction_is_left_alone(finished):
    root, experiment, shown = finished
    before = {path: path.stat().st_mtime_ns for path in (root / "l1-k10").rglob("*.json") if path.name != "timing.json"}
    again = []
    reproduce([experiment], root, resume=True, show=lambda *event: again.append(event))
    assert again == [event for event in shown if event[1] in ("grid", "seeds")]
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.slow
def test_report_of_a_reproduction(finished, tmp_path):
    root = tmp_path / "copy"
    shutil.copytree(finished[0], root)
    page = write_report(root)
    assert page == root / "report.html"
    text = page.read_text()
    assert "A tiny game (quick)" in text
    assert f"This is {escape(SMALL)}." in text
    files = write_figures(root)
    stems = {"l1-k10-averaging"} | {
        f"l1-k10-{output}{x}"
        for output in ("answer", "last", "ergodic", "client_average", "polished")
        for x in ("", "-megabytes")
    }
    assert {path.name for path in files} == {f"{stem}.{kind}" for stem in stems for kind in ("png", "pdf")} | {
        "captions.md"
    }
    captions = files[-1].read_text().strip().split("\n\n")
    assert {caption.split("**")[1] for caption in captions} == stems
    assert all(SMALL in caption for caption in captions)


@pytest.mark.slow
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


@pytest.mark.slow
def test_files_are_named_after_the_folder_wherever_one_stands(finished, monkeypatch):
    monkeypatch.chdir(finished[0] / "l1-k10")
    assert collect(Path())["panels"][0]["name"] == "l1-k10"
    monkeypatch.chdir("runs/FeDualEx/seed-0")
    assert collect(Path())["panels"][0]["name"] == "seed-0"


# --- killed --------------------------------------------------------------------------------------------------------

CHILD = """
import sys
from pathlib import Path
from fedualex.paper.claims import write_claims
from fedualex.paper.reproduction import read_experiments
from fedualex.paper.reproduction import reproduce

if __name__ == "__main__":
    file, root = map(Path, sys.argv[1:3])
    (experiment,) = read_experiments(file, quick=True)
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
    wait_until(lambda: not any(map(alive, workers)), 300)  # measured: 1.2 s
    process.communicate(timeout=600)
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
        process = start_interruptible(
            [*command, str(root)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        end_in_the_middle(process, root, count, how)
    subprocess.run([*command, str(root)], check=True, timeout=600)
    found, wanted = results(root), results(expected)
    assert found.keys() == wanted.keys()
    assert [name for name in wanted if found[name] != wanted[name]] == []
