"""Runs that go into folders: one that was cut, one that is there already, several side by side."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.command_line import (  # noqa: F401
    GAME,
    METHOD,
    RUNS,
    cli,
    copied,
    here,
    read,
    records_of,
    refused,
    solved,
    strict,
    without_times,
    write_toml,
)
from support.tampering import alter

from fedualex.runs import folder
from fedualex.runs.settings import ConfigurationError, configure, read_toml
from fedualex.runs.solving import (
    CONTENT,
    configure_each,
    describe_difference,
    has_several,
    is_finished,
    runs_among,
    solve_each,
    solve_into,
    title_of,
)


def test_finished_and_foreign_folders_are_refused(here, copied, tmp_path):
    path = copied("short")
    before = (path / "status.json").read_bytes()
    assert "finished run" in refused("solve", here / "short.toml", "--out", path)
    assert (path / "status.json").read_bytes() == before
    (path / "status.json").unlink()
    assert "holds an unfinished run with" in refused("solve", here / "optimal.toml", "--out", path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"")
    assert "is not empty and is not a run" in refused("solve", here / "short.toml", "--out", tmp_path / "photos")


LONG = "rounds = 1200\nrecord_every = 20\nclients = 3\nnoise = 0.1"


@pytest.fixture(scope="module")
def killed(here):
    """The folder of a run that was killed at its third record or soon after."""
    file, out = write_toml(here / "long.toml", run=LONG), here / "runs" / "killed"
    program = "import sys; from fedualex.cli import main; main(sys.argv[1:])"
    with open(here / "long.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", program, "solve", str(file), "--out", str(out)], stdout=log, stderr=log
        )
        try:
            history, deadline = out / "history.jsonl", time.monotonic() + 600
            while not (history.exists() and history.read_bytes().count(b"\n") >= 3):
                assert process.poll() is None, (here / "long.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.005)
        finally:
            process.kill()
            process.wait()
    assert b"\x1b" not in (here / "long.log").read_bytes()
    assert (out / "checkpoint.npz").exists()
    assert not (out / "status.json").exists()
    return out


@pytest.fixture(scope="module")
def undisturbed(here, killed):
    out = here / "runs" / "undisturbed"
    assert cli("solve", here / "long.toml", "--out", out).exit_code == 0
    return out


@pytest.mark.slow
def test_an_unfinished_run_is_neither_reported_nor_verified(killed, solved):
    assert 3 <= len(records_of(killed)) < 61
    assert "has not ended" in refused("report", killed)
    assert "has not ended" in refused("verify", killed)
    assert "has not ended" in refused("compare", killed, solved("noisy")[0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["killed", "killed in a line", "interrupted"])
def test_a_cut_run_ends_as_if_undisturbed(here, killed, undisturbed, tmp_path, how):
    path = Path(shutil.copytree(killed, tmp_path / "run"))
    if how == "killed in a line":
        with open(path / "history.jsonl", "a") as file:
            file.write('{"round": 40, "seco')
    if how == "interrupted":
        shutil.copy(undisturbed / "status.json", path)
        alter(path, "status.json", lambda status: status.update(stop="INTERRUPTED"))
    assert "holds an unfinished run with" in refused("solve", here / "noisy.toml", "--out", path)
    assert cli("solve", here / "long.toml", "--out", path).exit_code == 0
    assert without_times(path) == without_times(undisturbed)
    assert len(records_of(path)) == 61
    assert (path / "solution.npz").read_bytes() == (undisturbed / "solution.npz").read_bytes()
    assert cli("verify", path).exit_code == 0


def test_a_run_can_be_killed_in_a_line_twice(killed, tmp_path):
    path = Path(shutil.copytree(killed, tmp_path / "run"))
    with open(path / "history.jsonl", "a") as file:
        file.write('{"round": 40, "seco')
    known = folder.load(path)
    folder.reopen(path, known, known.manifest["configuration"])
    folder.append(path, known.history[-1])
    assert folder.load(path).history == [*known.history, known.history[-1]]


def test_damaged_checkpoints_and_changed_data_are_refused(here, killed, tmp_path):
    path = Path(shutil.copytree(killed, tmp_path / "run"))
    data = (here / "game.npz").read_bytes()
    with np.load(here / "game.npz") as file:
        changed = {"A": file["A"] + 1, "b": file["b"]}
    try:
        np.savez(here / "game.npz", **changed)
        assert "belongs to another run" in refused("solve", here / "long.toml", "--out", path)
    finally:
        (here / "game.npz").write_bytes(data)
    (path / "checkpoint.npz").write_bytes((path / "checkpoint.npz").read_bytes()[:100])
    assert "delete it to start again" in refused("solve", here / "long.toml", "--out", path)


def test_what_was_refused_before_its_first_record_does_not_block_its_folder(here, tmp_path):
    file = write_toml(here / "steps.toml", 'entry = "cli_own:not_finite"', METHOD)
    assert "is not finite" in refused("solve", file, "--out", tmp_path / "run")
    write_toml(file, *RUNS["short"])
    assert cli("solve", file, "--out", tmp_path / "run").exit_code == 3
    write_toml(file, run='rounds = "many"')
    refused("solve", file, "--out", tmp_path / "other")
    assert not (tmp_path / "other").exists()


# --- several methods of one file ----------------------------------------------------------------------------------------


SEVERAL = (
    '[[method]]\nname = "FeDualEx"\neta_c = 0.5\n\n[[method]]\nname = "FeDualEx"\nlabel = "short steps"\neta_c = 0.01\n'
)


def several(path, methods=SEVERAL):
    path.write_text(f"[problem]\n{GAME}\n\n{methods}\n[run]\nrounds = 200\nrecord_every = 10\ntol = 1e-3\n")
    return path


@pytest.mark.slow
def test_several_methods_of_a_file_are_solved_and_compared(here, tmp_path):
    file, out = several(here / "several.toml"), tmp_path / "out"
    result = cli("solve", file, "--out", out)
    assert result.exit_code == 3  # of the method that did not get there
    assert "FeDualEx: status: OPTIMAL, TOLERANCE" in result.stdout
    assert f"report: {out / 'report.html'}" in result.stdout
    assert read(out, "manifest.json")["runs"] == ["FeDualEx", "short-steps"]
    assert read(out / "short-steps", "manifest.json")["configuration"]["label"] == "short steps"
    assert cli("verify", out).exit_code == 0
    (out / "short-steps" / "status.json").unlink()  # as if it had been killed
    before = (out / "FeDualEx" / "status.json").read_bytes()
    found = strict(cli("solve", file, "--out", out, "--json").stdout)
    assert found["runs"].keys() == {row["method"] for row in found["table"]} == {"FeDualEx", "short steps"}
    assert (out / "FeDualEx" / "status.json").read_bytes() == before
    other = several(here / "other.toml", SEVERAL.replace("short", "shorter"))
    assert "a comparison of other methods" in refused("solve", other, "--out", out)


def test_what_is_wrong_with_several_methods_is_said(here, tmp_path):
    for methods, refusal in (
        (SEVERAL.replace("eta_c = 0.01", "eta = 0.01"), "[[method]] short steps has no key 'eta'"),
        (SEVERAL.replace('"short steps"', "3"), "[[method]] label must be a text"),
        (SEVERAL.replace("eta_c = 0.5", 'label = "short steps"'), "[[method]] label must be another one for each"),
    ):
        assert refusal in refused("solve", several(here / "wrong.toml", methods), "--out", tmp_path / "out")
    (here / "wrong.toml").write_text("method = []\n")
    assert "a table [method], or tables [[method]], got []" in refused("solve", here / "wrong.toml")
    assert not (tmp_path / "out").exists()


def test_methods_side_by_side_are_solved_once_each_and_told_as_they_end(here, tmp_path):
    given = read_toml(several(here / "twice.toml"))
    given["run"] = {"rounds": 2, "tol": 1e-6}
    assert has_several(given)
    assert not has_several(read_toml(here / "short.toml"))
    configurations = configure_each(given, here)
    assert list(configurations) == ["FeDualEx", "short steps"]
    assert [one.method.eta_c for one in configurations.values()] == [0.5, 0.01]
    told = []
    statuses = solve_each(
        tmp_path / "out", configurations, lambda label, status: told.append((label, status["rounds"]))
    )
    assert told == [("FeDualEx", 2), ("short steps", 2)]
    assert [one.label for one in runs_among([tmp_path / "out" / name for name in ("FeDualEx", "short-steps")])[0]] == [
        "FeDualEx",
        "short steps",
    ]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*/status.json")}
    assert solve_each(tmp_path / "out", configurations, lambda *told: None) == statuses
    assert {path: path.stat().st_mtime_ns for path in before} == before
    other = {"FeDualEx": configurations["FeDualEx"]}
    with pytest.raises(ConfigurationError, match="holds a comparison of other methods: choose another --out"):
        solve_each(tmp_path / "out", other, lambda *told: None)


# --- what a folder holds, and what is asked for -----------------------------------------------------------------------


def test_only_a_run_of_the_same_settings_that_ended_by_itself_is_finished(here, copied, tmp_path):
    path, configuration = copied("short"), configure(read_toml(here / "short.toml"), here)
    assert is_finished(path, configuration)
    assert not is_finished(path, configure(read_toml(here / "optimal.toml"), here))
    assert not is_finished(tmp_path / "nowhere", configuration)
    alter(path, "status.json", lambda status: status.update(stop="INTERRUPTED"))
    assert not is_finished(path, configuration)
    with pytest.raises(ConfigurationError, match=r"holds an unfinished run with .*, where .* is asked for: choose"):
        solve_into(path, configure(read_toml(here / "optimal.toml"), here))


@pytest.mark.parametrize(
    ("known", "asked", "words"),
    [
        ({"run": {"rounds": 3}}, {"run": {"rounds": 3}}, ""),
        ({"run": {"rounds": 3}}, {"run": {"rounds": 4}}, " with rounds = 3, where 4 is asked for"),
        ({"run": {}}, {"run": {"seed": 1}}, " with seed = None, where 1 is asked for"),
        ({"folder": "/a"}, {"folder": "/b"}, " with another folder"),
        ({}, {"goal": {"name": "fair"}}, " with another goal"),
        (
            {"problem": {"table": "t.csv", CONTENT: "ab"}},
            {"problem": {"table": "t.csv", CONTENT: "cd"}},
            " on what t.csv held before it was changed",
        ),
    ],
)
def test_the_first_setting_that_differs_is_named(known, asked, words):
    assert describe_difference(known, asked) == words


def test_runs_are_told_from_what_else_there_is(solved, tmp_path):
    run = solved("short")[0]
    shutil.copytree(run, tmp_path / "fit" / "run")
    (tmp_path / "figures").mkdir()
    runs, ignored = runs_among([run, tmp_path / "fit", tmp_path / "figures"])
    assert [one.path for one in runs] == [run, tmp_path / "fit" / "run"]
    assert ignored == [tmp_path / "figures"]
    with pytest.raises(ConfigurationError, match="there is no folder"):
        runs_among([run, tmp_path / "gone"])
    with pytest.raises(ConfigurationError, match=r"it has no manifest\.json"):
        runs_among([tmp_path / "figures"])


def test_the_title_of_runs_is_that_of_their_problem():
    named = ({"name": "bilinear"}, {"goal": "fair"}, {"entry": "a:b"}, {"object": "Problem(...)"})
    assert [title_of(problem) for problem in named] == [
        "Runs of bilinear",
        "Runs of fair",
        "Runs of a:b",
        "Runs of Problem(...)",
    ]
