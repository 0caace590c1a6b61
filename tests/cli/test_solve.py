"""`fedualex solve`: what it leaves, what it says, and how it ends."""

import itertools

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


# --- a run that is interrupted ----------------------------------------------------------------------------------------


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
