"""What `fedualex verify` runs and accepts: untouched folders of every kind, data that changed, collections, nonsense."""

import io
import itertools
import json
import math
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.tampering import alter, of_method, of_run, of_status, reseal
from support.verified_folders import (  # noqa: F401
    RUNS,
    SLOW,
    command,
    copied,
    differing,
    here,
    reproduction,
    solved,
)

from fedualex.cli import main
from fedualex.runs import folder
from fedualex.runs.settings import ConfigurationError
from fedualex.verification.evidence import DATA, Verdict, rounding_check
from fedualex.verification.verify import verify

# --- untouched --------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in RUNS])
def test_an_untouched_run_is_verified(solved, name):
    result = verify(solved(name), trust=True)
    assert result.verdict is Verdict.VERIFIED, [check for check in result.checks if not check.agrees]


@pytest.mark.slow
def test_untouched_collections_are_verified(solved, reproduction, tmp_path):
    names = [str(solved("game")), os.path.relpath(solved("optimal"), tmp_path)]  # a path and one from the folder
    folder.write_collection(tmp_path, "comparison", title="both", runs=names)
    for path in (tmp_path, reproduction, reproduction / "tiny"):
        assert command(path) == (0, ["VERIFIED"])
    code, lines = command(tmp_path, "--verbose")
    assert code == 0
    assert [line for line in lines if line.endswith(": VERIFIED")] == [f"{tmp_path / name}: VERIFIED" for name in names]


@pytest.mark.slow
def test_json_of_a_collection(reproduction):
    result = CliRunner().invoke(main, ["verify", str(reproduction), "--json"])
    found = json.loads(result.stdout)
    assert (result.exit_code, found["verdict"], found["agrees"], found["complete"]) == (0, "VERIFIED", True, True)
    (experiment,) = found["runs"]
    assert experiment["folder"] == str(reproduction / "tiny")
    assert {Path(run["folder"]).name for run in experiment["runs"]} == {"seed-0", "seed-1"}
    assert all(run["checks"] and run["headline"] == "VERIFIED" for run in experiment["runs"])


@pytest.mark.parametrize(
    ("stored", "estimated", "agrees"),
    [(0.98, True, True), (0.49, True, False), (1.5, True, True), (1.0, False, True), (0.98, False, False)],
)
def test_estimates_of_rounding_depend_on_the_program_and_bounds_do_not(stored, estimated, agrees):
    assert rounding_check("last", {"rounding": stored, "estimated": estimated}, 1.0, estimated).agrees is agrees
    assert not rounding_check("last", {"rounding": stored, "estimated": False}, 1.0, estimated=True).agrees


# --- code -------------------------------------------------------------------------------------------------------------


def test_code_that_a_folder_names_is_not_run_unasked(here, solved, tmp_path):
    path = solved("own")
    folder.write_collection(tmp_path, "comparison", title="one", runs=[str(path)])
    for one in (path, tmp_path):
        (here / "called").unlink(missing_ok=True)
        code, lines = command(one)
        assert code == 3
        assert lines[-1] == "NOT FULLY CHECKED: nothing differs"
        assert not (here / "called").exists()
    result = verify(path)
    unchecked = {check.what for check in result.checks if check.agrees is None}
    why = "the folder names code ('verify_own:build'); give --trust to run it"
    assert unchecked == {f"operator as reported by sites ({why})", f"settings in the checkpoint ({why})"}
    assert sum(check.what.endswith("part of the certificate") and check.agrees for check in result.checks) >= 8
    assert command(path, "--trust")[0] == 0
    assert (here / "called").read_text() == "by call"


def test_a_name_beside_the_code_does_not_hide_it(here, copied):
    path = copied("own")
    (here / "called").unlink(missing_ok=True)
    alter(path, "manifest.json", lambda m: m["configuration"]["problem"].update(name="bilinear"))
    assert command(path)[0] == 3
    assert not (here / "called").exists()


class Written:
    """Writes a file when it is unpickled."""

    def __init__(self, file):
        self.file = str(file)

    def __reduce__(self):
        return Path.touch, (Path(self.file),)


@pytest.mark.parametrize("name", ["solution.npz", "checkpoint.npz", "game.npz"])
def test_pickles_are_not_read(here, copied, tmp_path, name):
    path = copied("game")
    file = path / name
    if name == "game.npz":
        file = tmp_path / name
        alter(path, "manifest.json", lambda m: m["configuration"].update(folder=str(tmp_path)))
    np.savez(file, A=np.array([Written(tmp_path / "loaded")], dtype=object), b=np.zeros(3))
    reseal(path)
    assert command(path, "--trust")[0] != 0
    assert not (tmp_path / "loaded").exists()


# --- data that changed ------------------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(copied, here, tmp_path):
    """A run whose data lies in a folder of its own, and has changed since."""
    path = copied("game")
    with np.load(here / "game.npz") as file:
        np.savez(tmp_path / "game.npz", A=file["A"] + 1e-9, b=file["b"])
    alter(path, "manifest.json", lambda m: m["configuration"].update(folder=str(tmp_path)))
    return path


def test_data_that_changed_has_its_own_headline_and_exit_code(elsewhere, solved, tmp_path):
    code, lines = command(elsewhere)
    assert code == 5
    assert lines[-1].startswith("DATA CHANGED: ")
    assert differing(verify(elsewhere)) == {DATA}
    of_status(gap=0.0)(elsewhere)
    assert command(elsewhere)[0] == 1  # what differs counts more
    both = tmp_path / "both"
    folder.write_collection(both, "comparison", title="", runs=[str(solved("game")), str(solved("own"))])
    assert command(both)[0] == 3


def test_of_several_runs_the_worst_counts(elsewhere, solved, copied, tmp_path):
    broken, nowhere = copied("optimal"), tmp_path / "nowhere"
    (broken / "status.json").write_text("{")
    cases = [
        ([solved("game"), nowhere], 3, "NOT FULLY CHECKED"),
        ([nowhere, elsewhere], 5, "DATA CHANGED"),
        ([broken, elsewhere], 2, "CANNOT BE READ"),
    ]
    for runs, code, words in cases:
        folder.write_collection(tmp_path / "all", "comparison", title="", runs=list(map(str, runs)))
        found, lines = command(tmp_path / "all")
        assert found == code
        assert lines[-1].startswith(words)
        named = [run for run in runs if any(line.startswith(f"{run}: ") for line in lines)]
        assert named == [run for run in runs if run != solved("game")]  # what is verified needs no line
    assert f"{broken}: CANNOT BE READ: {broken / 'status.json'} cannot be read as JSON" in "\n".join(lines)
    of_status(rounds=1)(elsewhere)
    assert command(tmp_path / "all")[0] == 1


# --- collections ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_missing_from_a_collection_is_said(solved, reproduction, tmp_path):
    folder.write_collection(tmp_path / "one", "comparison", title="", runs=[str(solved("game")), "gone"])
    _, lines = command(tmp_path / "one")
    assert lines[:2] == [  # what is verified needs no line
        f"{tmp_path / 'one' / 'gone'}: NOT FULLY CHECKED: nothing differs",
        "  not checked: missing: there is no run in this folder",
    ]
    folder.write_collection(tmp_path / "none", "comparison", title="", runs=[])
    assert command(tmp_path / "none")[0] == 3
    root = Path(shutil.copytree(reproduction, tmp_path / "root"))
    seeds = root / "tiny" / "runs" / "FeDualEx"
    shutil.rmtree(seeds / "seed-0")
    (seeds / "seed-1" / "status.json").unlink()
    code, lines = command(root)
    assert code == 3
    assert f"  not checked: missing: {seeds / 'seed-0'}" in lines
    assert "  not checked: missing: the run has not ended" in lines


@pytest.mark.slow
def test_runs_of_an_experiment_are_those_of_its_plan(reproduction, tmp_path):
    """They have no checkpoint; the plan and the grid say what their settings must be."""
    root = Path(shutil.copytree(reproduction, tmp_path / "root"))
    one = root / "tiny" / "runs" / "FeDualEx" / "seed-0"
    shutil.rmtree(one.with_name("seed-1"))
    shutil.rmtree(root / "tiny" / "runs" / "FedMiP-plain")
    assert [run.verdict for run in verify(root / "tiny").runs] == [Verdict.VERIFIED]
    for change in (of_run(seed=1), of_run(noise=0.01), of_method(eta_c=0.3), of_method(name="FedDualAvg")):
        before = {file: (one / file).read_bytes() for file in ("manifest.json", "status.json")}
        change(one)
        (found,) = [run for run in verify(root / "tiny").runs if run.verdict is not Verdict.VERIFIED]
        assert (found.path, differing(found)) == (one, {"configuration as planned"})
        for file, content in before.items():
            (one / file).write_bytes(content)
    shutil.copytree(one, one.with_name("seed-7"))  # a seed that nobody planned
    assert command(root)[0] == 1
    shutil.rmtree(one.with_name("seed-7"))
    shutil.rmtree(root / "tiny" / "grid")
    assert command(root)[0] == 3


# --- nonsense ---------------------------------------------------------------------------------------------------------

NONSENSE = [None, "x", -1, 10**400, [], {}, [[1], {"a": None}], True, math.nan, math.inf, 1e-300]


def places(data, above=()):
    """Every key of nested tables, and the first two entries of every list."""
    inner = data.items() if isinstance(data, dict) else enumerate(data[:2]) if isinstance(data, list) else ()
    for key, value in inner:
        yield (*above, key)
        yield from places(value, (*above, key))


@pytest.mark.parametrize("name", ["status.json", "manifest.json", "history.jsonl"])
def test_nonsense_in_a_folder_is_one_line(copied, name):
    """Whatever stands where a number or a table should: a verdict or one sentence, and never a trace."""
    path = copied("own")
    lines = (path / name).read_text().splitlines() if name == "history.jsonl" else [(path / name).read_text()]
    whole, outcomes = json.loads(lines[0]), set()
    for place, value in itertools.islice(itertools.product(places(whole), NONSENSE), 0, None, 4):
        data = inner = json.loads(lines[0])
        for key in place[:-1]:
            inner = inner[key]
        if inner[place[-1]] is value:
            continue
        inner[place[-1]] = value
        (path / name).write_text("\n".join([json.dumps(data), *lines[1:]]))
        try:
            outcomes.add(verify(path).verdict)
        except ConfigurationError as error:
            outcomes.add("refused" if len(str(error).splitlines()) == 1 else f"refused as {error}")
    assert outcomes == {Verdict.DIFFERS, "refused"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("key", ["runs", "experiments", "plan", "title", "seeds"])
def test_nonsense_in_a_collection_is_one_line(reproduction, solved, tmp_path, key):
    root = Path(shutil.copytree(reproduction, tmp_path / "root"))
    folder.write_collection(root / "both", "comparison", title="", runs=[str(solved("own"))])
    for path, value in itertools.product((root, root / "both", root / "tiny"), NONSENSE):
        manifest = json.loads((path / "manifest.json").read_text())
        if key in manifest:
            whole = (path / "manifest.json").read_text()
            (path / "manifest.json").write_text(json.dumps(manifest | {key: value}))
            code, lines = command(path)
            assert code in (2, 3) or key in ("title", "seeds")  # two that no run of a reproduction depends on
            assert lines
            (path / "manifest.json").write_text(whole)


def test_deep_nesting_is_one_line(copied):
    path = copied("own")
    deep = "[" * 100_000 + "]" * 100_000
    for name in ("status.json", "manifest.json"):
        whole = (path / name).read_text()
        (path / name).write_text('{"schema": ' + deep + "}")
        code, lines = command(path)
        assert (code, len(lines)) == (2, 1)
        (path / name).write_text(whole)
    regularizer: dict = {"class": "L1", "lam": 0.1}
    for _ in range(400):
        regularizer = {"class": "Spectral", "psi": regularizer}
    alter(path, "manifest.json", lambda m: m["geometry"]["x"].update(regularizer=regularizer))
    code, lines = command(path)
    assert (code, len(lines)) == (2, 1)


def test_a_solution_with_other_arrays_is_one_line(copied):
    path = copied("own")
    for content in ({"a": np.zeros(2)}, {"last/w/x": np.zeros(2)}, {"last/z/x": np.array("text")}, {}):
        buffer = io.BytesIO()
        np.savez(buffer, **content)
        (path / "solution.npz").write_bytes(buffer.getvalue())
        reseal(path)
        code, lines = command(path)
        assert (code, len(lines)) == (2, 1)
