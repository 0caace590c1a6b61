"""`fedualex verify` from the command line: fresh runs, altered ones, corrupt folders."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.command_line import OUTPUTS, OWN, arrays_of, cli, copied, here, read, refused, solved, strict, write_toml  # noqa: F401
from support.tampering import alter, reseal


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "name", ["optimal", "short", "diverged", "noisy", "machine", "agnostic", "weighted", "spectral"]
)
def test_a_fresh_run_verifies(solved, name):
    trust = ["--trust"] * (name == "weighted")  # its problem is the user's own code
    result = cli("verify", solved(name)[0], "--json", *trust)
    found = strict(result.stdout)
    assert result.exit_code == 0, found
    assert found["agrees"]
    assert found["complete"]
    what = [check["what"] for check in found["checks"]]
    outputs = read(solved(name)[0], "status.json")["outputs"]
    bounded = "bounds" in outputs
    assert sum(text.startswith("operator from the data") for text in what) == len(outputs) - bounded
    assert sum(text == "shift from the surveys" for text in what) == bounded
    assert sum(text == "x part of the certificate" for text in what) == len(outputs)
    assert ("rank" in what) == (name == "spectral")
    assert "density" in what
    assert cli("verify", solved(name)[0], *trust).stdout == "VERIFIED\n"
    verbose = cli("verify", solved(name)[0], "-v", *trust).stdout
    assert verbose.count("agrees") == len(what)
    assert verbose.splitlines()[-1] == "VERIFIED"


@pytest.mark.parametrize("name", [pytest.param("own", marks=pytest.mark.slow), "broken"])
def test_a_run_without_certificates_cannot_be_verified_in_full(solved, name):
    result = cli("verify", solved(name)[0], "--trust")
    assert result.exit_code == 3
    assert "the domain is unbounded" in " ".join(re.findall(r"[\w']+", result.stdout))
    assert result.stdout.splitlines()[-1].startswith("NOT FULLY CHECKED")


@pytest.mark.slow
@pytest.mark.parametrize("with_data", [True, False])
def test_verify_sees_every_altered_array(copied, with_data):
    path = copied("optimal")
    if not with_data:
        alter(path, "manifest.json", lambda manifest: manifest["configuration"].update(folder="/nowhere"))
    whole = arrays_of(path)
    for name, array in whole.items():
        changed = array.copy()
        if "/surveys/" in name:  # a survey says nothing where it has no weight
            own = whole[name.replace("/surveys/", "/weights/").rstrip("xy") + ("upper" if name[-1] == "x" else "lower")]
            changed[np.argmax(own)] *= 1.001
        elif name.endswith("/floor"):
            changed += 1e-3
        else:
            # Without the data a slope shows in the certificate where z is not at that slope's best response.
            changed[np.argmin(np.abs(array)) if "/z/" in name else np.argmax(np.abs(array))] *= -1.001
        np.savez(path / "solution.npz", **{**whole, name: changed})
        reseal(path)
        result = cli("verify", path)
        assert result.exit_code == 1, f"{name}\n{result.stdout}"
        assert result.stdout.splitlines()[-1] == "DIFFERS"
    np.savez(path / "solution.npz", **whole)
    reseal(path)
    assert cli("verify", path).exit_code == (0 if with_data else 3)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_verify_sees_numbers_that_no_run_stores(copied, value):
    path = copied("optimal")
    for name in ("last/z/x", "last/g/x"):
        whole = arrays_of(path)
        spoiled = {**whole, name: np.full_like(whole[name], value)}
        np.savez(path / "solution.npz", **spoiled)
        reseal(path)
        result = cli("verify", path, "--json")
        assert result.exit_code == 1
        assert not strict(result.stdout)["agrees"]
        np.savez(path / "solution.npz", **whole)


@pytest.mark.slow
def test_verify_sees_every_altered_gap(copied):
    path = copied("optimal")
    whole = (path / "status.json").read_text()
    places = [
        ("gap",),
        *(("outputs", o, key) for o in OUTPUTS for key in ("gap", "gap_x", "gap_y", "density", "objective")),
    ]
    places += [("rounds",), ("exchanges",), ("bytes_up",), ("bytes_down",)]
    for place in places:
        status = json.loads(whole)
        inner = status
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] *= 0.999 if isinstance(inner[place[-1]], float) else 2
        (path / "status.json").write_text(json.dumps(status))
        reseal(path)
        assert cli("verify", path).exit_code == 1, place
    (path / "status.json").write_text(whole)
    assert cli("verify", path).exit_code == 0


def test_verify_sees_a_false_claim(copied):
    path = copied("short")
    alter(path, "status.json", lambda status: status.update(status="OPTIMAL"))
    assert cli("verify", path).exit_code == 1


@pytest.mark.parametrize(
    "change",
    [
        {"status": "OPTIMAL_INACCURATE"},
        {"status": "SUPERB"},
        {"status": "UNCERTIFIED"},
        {"stop": "STALLED"},
        {"stop": "TOLERANCE"},
        {"stop": "MAX_TIME"},
        {"stop": "SUPERB"},
        {"rounds": 2},
    ],
    ids=str,
)
def test_verify_sees_a_status_that_is_not_the_runs(copied, change):
    path = copied("short")
    alter(path, "status.json", lambda status: status.update(change))
    assert cli("verify", path).exit_code == 1


def test_verify_sees_rounds_that_were_not_run(copied):
    path = copied("short")
    alter(path, "manifest.json", lambda manifest: manifest["configuration"]["run"].update(rounds=1000))
    assert cli("verify", path).exit_code == 1


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["narrow", "steep"])
def test_honest_runs_verify_whatever_their_numbers(here, tmp_path, entry):
    """Data in float32, whose operator must not be computed in it; a penalty far above the operator."""
    write_toml(tmp_path / "run.toml", f'entry = "cli_own:{entry}"', 'name = "FeDualEx"\neta_c = 1e-4', "rounds = 3")
    (tmp_path / "cli_own.py").write_text(OWN)
    assert cli("solve", tmp_path / "run.toml", "--out", tmp_path / "run").exit_code == 0
    assert cli("verify", tmp_path / "run", "--trust").exit_code == 0


@pytest.mark.slow
def test_verify_sees_an_altered_rank_and_regularizer(copied):
    path = copied("spectral")
    alter(path, "status.json", lambda status: status["outputs"]["last"].update(rank=[0]))
    assert cli("verify", path).exit_code == 1
    path = copied("machine")
    part = {"class": "EntropicSimplex", "regularizer": {"class": "L1", "lam": 0.1}}  # a constant on the simplex
    alter(path, "manifest.json", lambda manifest: manifest["geometry"].update(x=part))
    assert cli("verify", path).exit_code == 1


@pytest.mark.slow
def test_verify_sees_an_altered_history(copied):
    path = copied("optimal")
    lines = (path / "history.jsonl").read_text().splitlines()
    record = json.loads(lines[1])
    spoiled = {
        "a gap in the middle": [lines[0], json.dumps(record | {"gap_last": 0.5}), *lines[2:]],
        "no middle": [lines[0], *lines[2:]],
        "no end": lines[:-1],
        "nothing": [],
    }
    for what, kept in spoiled.items():
        (path / "history.jsonl").write_text("".join(f"{line}\n" for line in kept))
        reseal(path)
        assert cli("verify", path).exit_code == 1, what
    (path / "history.jsonl").write_text("".join(f"{line}\n" for line in lines))
    reseal(path)
    assert cli("verify", path).exit_code == 0


def test_without_its_data_a_run_stands_on_what_the_sites_reported(here, copied, monkeypatch, tmp_path):
    path = copied("optimal")
    for file in ("game.npz", "zero.npz"):
        shutil.copy(here / file, tmp_path)
    monkeypatch.chdir(tmp_path)
    alter(path, "manifest.json", lambda manifest: manifest["configuration"].update(folder="."))
    assert cli("verify", path).exit_code == 0
    shutil.move("zero.npz", "game.npz")
    assert "the data has changed since" in operator_check(path, code=5, agrees=False)
    assert cli("verify", path).stdout.splitlines()[-1].startswith("DATA CHANGED: ")
    Path("game.npz").unlink()
    assert "the data cannot be reached: game.npz cannot be read" in operator_check(path)
    # What stands in square brackets is text, not a style of the table.
    alter(path, "manifest.json", lambda manifest: manifest["configuration"]["problem"].pop("file"))
    assert "[problem] needs file" in " ".join(cli("verify", path).stdout.replace("│", " ").split())


def operator_check(path, code=3, agrees=True):
    """What verify says about the operators of a run whose data is not there."""
    result = cli("verify", path, "--json")
    found = strict(result.stdout)
    assert result.exit_code == code
    assert found["agrees"] == agrees
    assert not found["complete"]
    settings, text = dict.fromkeys(check["what"] for check in found["checks"] if check["agrees"] is None)
    assert settings.startswith("settings in the checkpoint")
    assert text.startswith("operator as reported by sites")
    return text


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("solution.npz", None, "solution.npz cannot be read"),
        ("solution.npz", b"", "solution.npz cannot be read"),
        ("solution.npz", b"PK\x03\x04 no zip", "solution.npz cannot be read"),
        ("status.json", b"{", "status.json cannot be read as JSON"),
        ("status.json", b"[]", "status.json"),
        ("status.json", b"{}", "status.json is damaged: it lacks 'status'"),
        ("manifest.json", b"\xff", "manifest.json cannot be read as JSON"),
        ("manifest.json", b"{}", "no schema number"),
        ("manifest.json", b'{"schema": 4, "kind": "photo"}', "kind 'photo'"),
        ("manifest.json", b'{"schema": 4, "kind": "run"}', "manifest.json is damaged: it lacks 'configuration'"),
        ("manifest.json", b'{"schema": 5, "kind": "run"}', "written by a newer fedualex"),
        ("manifest.json", b'{"schema": 3, "kind": "run"}', "written by an older fedualex"),
        ("manifest.json", b'{"schema": 4, "kind": "experiment"}', "manifest.json is damaged: it lacks 'title'"),
        ("history.jsonl", None, "history.jsonl"),
        ("history.jsonl", b'{"round": 0, "exchanges": 0, "seconds": 0.1}\n{"rou', "history.jsonl is damaged in line 2"),
        ("history.jsonl", b"1\n", "history.jsonl is damaged in line 1"),
        ("history.jsonl", b"\xff\n", "history.jsonl is damaged in line 1"),
    ],
)
def test_corrupt_folders_are_refused(copied, file, content, words):
    path = copied("short")
    (path / file).unlink()
    if content is not None:
        (path / file).write_bytes(content)
    assert words in refused("verify", path)
    if "experiment" not in words and b"experiment" not in (content or b""):
        assert words in refused("compare", path)
        assert words in refused("report", path)


@pytest.mark.parametrize("change", ["cut", "names", "shape", "lacks", "geometry", "status"])
def test_corrupt_contents_are_refused(copied, change):
    path = copied("short")
    whole = arrays_of(path)
    if change == "cut":
        (path / "solution.npz").write_bytes((path / "solution.npz").read_bytes()[:-100])
    if change == "names":
        np.savez(path / "solution.npz", A=np.zeros(3))
    if change == "shape":
        np.savez(path / "solution.npz", **{**whole, "last/g/x": np.zeros(7)})
    if change == "lacks":
        np.savez(path / "solution.npz", **{name: array for name, array in whole.items() if name != "ergodic/g/y"})
    if change == "geometry":
        alter(path, "manifest.json", lambda manifest: manifest["geometry"].update(x={"lam": 1}))
    if change == "status":
        alter(path, "status.json", lambda status: status["outputs"].update(last=3))
    assert str(path) in refused("verify", path)
