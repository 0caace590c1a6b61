"""`fedualex solve`: what it leaves, how it ends, and runs that were cut."""

import itertools
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.command_line import (  # noqa: F401
    METHOD,
    OUTPUTS,
    RUNS,
    arrays_of,
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

from fedualex.cli import main
from fedualex.cli.common import STOPS, exit_code
from fedualex.runs import folder
from fedualex.runs.settings import RUN_DEFAULTS
from fedualex.runtime import Stop

# --- solve ----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("name", "status", "stop", "code"),
    [
        ("optimal", "OPTIMAL", "TOLERANCE", 0),
        ("short", "CERTIFIED", "MAX_ROUNDS", 3),
        ("diverged", "CERTIFIED", "DIVERGED", 4),
        ("noisy", "CERTIFIED", "MAX_ROUNDS", 0),
        ("machine", "OPTIMAL", "TOLERANCE", 0),
        pytest.param("agnostic", "CERTIFIED", "MAX_ROUNDS", 0, marks=pytest.mark.slow),
        pytest.param("weighted", "CERTIFIED", "MAX_ROUNDS", 0, marks=pytest.mark.slow),
        ("spectral", "CERTIFIED", "MAX_ROUNDS", 0),
        ("own", "UNCERTIFIED", "MAX_ROUNDS", 5),
        ("broken", "UNCERTIFIED", "NUMERICAL_ERROR", 4),
    ],
)
def test_solve_leaves_a_whole_folder_and_says_how_it_ended(solved, name, status, stop, code):
    path, result = solved(name)
    assert result.exit_code == code
    stored = read(path, "status.json")
    assert (stored["status"], stored["stop"]) == (status, stop)
    assert f"status: {status}, {stop}" in result.stdout
    assert f"{stored['rounds']} rounds, {stored['seconds']:.1f} s" in result.stdout
    assert stored["gap"] == stored["outputs"][stored["output"]]["gap"]
    assert stored["outputs"].keys() - {"best", "bounds"} == OUTPUTS
    if code == 0 and "tol" in RUNS[name][2]:
        assert stored["gap"] <= read(path, "manifest.json")["configuration"]["run"]["tol"]
    records = records_of(path)
    assert records[0]["round"] == 0
    assert records[-1]["round"] == stored["rounds"]
    assert all(later["round"] > earlier["round"] for earlier, later in itertools.pairwise(records))
    arrays = arrays_of(path)
    assert {key.split("/")[0] for key in arrays} == stored["outputs"].keys()
    for key, array in arrays.items():
        assert array.dtype == np.float64
        if "/z/" in key:
            assert array.shape == arrays[key.replace("/z/", "/g/")].shape


@pytest.mark.slow
def test_a_history_is_a_table_for_other_programs(solved):
    for name in ("optimal", "noisy", "own"):
        records = records_of(solved(name)[0])
        assert len({tuple(record) for record in records}) == 1
        assert {"round", "seconds", "bytes_up", "bytes_down", "gap_last", "density_last", "rank_last"} <= set(
            records[0]
        )
    assert all(record["gap_last"] is None for record in records_of(solved("own")[0]))
    assert all(len(record["rank_last"]) == 1 for record in records_of(solved("spectral")[0]))


def test_the_manifest_holds_every_default(solved, here):
    manifest = read(solved("optimal")[0], "manifest.json")
    assert manifest["schema"] == folder.SCHEMA
    assert manifest["kind"] == "run"
    assert manifest["configuration"] == {
        "problem": {
            "name": "bilinear",
            "file": "game.npz",
            "x": {"L1": 0.1, "Box": 0.5},
            "y": {"L1": 0.1, "Box": 0.5},
        },
        "method": {"name": "FeDualEx", "eta_c": 0.5, "eta_s": 1.0},
        "run": {**RUN_DEFAULTS, "rounds": 200, "record_every": 10, "tol": 1e-3},
        "folder": str(here),
    }
    assert len(manifest["data_sha256"]) == 64
    assert {"python", "jax", "numpy", "fedualex"} <= manifest["versions"].keys()


@pytest.mark.slow
def test_the_manifest_of_a_catalogue_problem_holds_every_default(solved):
    agnostic = read(solved("agnostic")[0], "manifest.json")["configuration"]
    assert agnostic["problem"] == {
        "name": "agnostic",
        "loss": None,
        "delta": 1.0,
        "cvar": None,
        "spread": 0.0,
        "file": "data.npz",
        "l1": 0.0,
        "l2": 0.1,
        "kl": 0.0,
        "prior": None,
        "radius": None,
        "groups": None,
        "sample_weight": None,
    }
    assert agnostic["run"]["weights"] is None
    assert read(solved("weighted")[0], "manifest.json")["configuration"]["run"]["weights"] == [1.0, 1.0, 2.0]


@pytest.mark.slow
def test_weights_are_in_the_stored_operators(solved):
    """The operator of the mean of |x - e|^2 / 2 is x - mean e: 1.25 with weights 1, 1, 2 for e = 0, 1, 2, not 1."""
    arrays = arrays_of(solved("weighted")[0])
    assert arrays["last/g/x"] == pytest.approx(arrays["last/z/x"] - 1.25, rel=1e-12)


@pytest.mark.slow
def test_the_operator_of_a_mixture_is_the_clients_losses(solved):
    path, _ = solved("agnostic")
    arrays = arrays_of(path)
    manifest = read(path, "manifest.json")
    assert {key.split("/")[2] for key in arrays if "/weights/" not in key} == {"x['bias']", "x['weights']", "y"}
    assert manifest["geometry"]["y"]["class"] == "EntropicSimplex"
    with np.load(path.parents[1] / "data.npz") as data:
        X, sign, client = data["X"], np.where(data["y"] == "yes", 1, -1), data["clients"]
    margins = sign * (X @ arrays["last/z/x['weights']"] + arrays["last/z/x['bias']"])
    losses = np.array([np.mean(np.logaddexp(0, -margins[client == m])) for m in "abc"])
    assert arrays["last/g/y"] == pytest.approx(-losses, rel=1e-12)


def test_json_is_the_status_file(here, solved, tmp_path):
    path = tmp_path / "again"
    result = cli("solve", here / "optimal.toml", "--out", path, "--json")
    assert result.exit_code == 0
    printed, stored = strict(result.stdout), read(path, "status.json")
    assert printed.pop("folder") == str(path)
    assert printed == stored
    first = read(solved("optimal")[0], "status.json")
    for status in (stored, first):
        for clocked in ("seconds", "files", "sha256"):
            del status[clocked]
    assert stored == first


def test_runs_go_to_a_folder_of_the_file_s_name(here, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_toml(here / "named.toml", run="rounds = 1")
    assert "run: runs/named" in cli("solve", here / "named.toml").stdout
    assert read(tmp_path / "runs" / "named", "status.json")["rounds"] == 1


@pytest.mark.parametrize(
    ("status", "stop", "tol", "code"),
    [
        ("OPTIMAL", "TOLERANCE", 0.1, 0),
        ("OPTIMAL", "MAX_ROUNDS", 0.1, 0),
        ("CERTIFIED", "MAX_ROUNDS", None, 0),
        ("CERTIFIED", "MAX_ROUNDS", 0.1, 3),
        ("OPTIMAL_INACCURATE", "MAX_TIME", 0.1, 3),
        ("CERTIFIED", "STALLED", 0.1, 3),
        ("CERTIFIED", "DIVERGED", None, 4),
        ("UNCERTIFIED", "NUMERICAL_ERROR", None, 4),
        ("UNCERTIFIED", "MAX_ROUNDS", None, 5),
        ("UNCERTIFIED", "CLIENTS_LOST", None, 6),
        ("CERTIFIED", "INTERRUPTED", None, 130),
    ],
)
def test_exit_codes(status, stop, tol, code):
    assert exit_code({"status": status, "stop": stop}, tol) == code
    assert STOPS.keys() <= {stop.name for stop in Stop}


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


# --- a run that was cut -----------------------------------------------------------------------------------------------

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


def interrupt(*arguments):
    raise KeyboardInterrupt


@pytest.mark.parametrize("file", ["short", "several"])
def test_ctrl_c_says_how_to_resume(here, tmp_path, monkeypatch, file):
    (here / "several.toml").write_text((here / "short.toml").read_text().replace("[method]", "[[method]]"))
    monkeypatch.setattr("fedualex.runs.solving.solve_into", interrupt)
    monkeypatch.setattr("fedualex.runs.solving.solve_into", interrupt)
    command = ["solve", str(here / f"{file}.toml"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == STOPS["INTERRUPTED"]
    what = {"short": "the run", "several": "the runs"}[file]
    assert result.stderr.split("\n") == [
        f"the same command resumes {what}",
        "",
        "interrupted",
        "",
    ]  # click ends ^C's line
    result = CliRunner().invoke(main, [*command, "--json"])
    assert (strict(result.stdout), result.stderr.strip()) == ({"error": "interrupted"}, "")


def test_a_run_that_was_interrupted_between_rounds_says_after_which(here, copied, monkeypatch):
    path = copied("short")
    alter(path, "status.json", lambda status: status.update(stop="INTERRUPTED"))
    monkeypatch.setattr("fedualex.runs.solving.solve_into", lambda *arguments: None)
    result = cli("solve", here / "short.toml", "--out", path)
    assert result.exit_code == STOPS["INTERRUPTED"]
    assert result.stdout.splitlines()[-1] == "the same command resumes the run after round 3"


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
