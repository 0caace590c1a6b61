"""What a run leaves in its folder, and what is refused of folders."""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.command_line import arrays_of, here, read, records_of, solved  # noqa: F401
from support.games import GAME

import fedualex as fx
from fedualex.runs import folder
from fedualex.runs.settings import RUN_DEFAULTS, ConfigurationError


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


# --- one run, made in this process ------------------------------------------------------------------------------------


RESOLVED = {"problem": {"object": "a game"}, "method": {"name": "FeDualEx"}, "run": {"rounds": 3}}


@pytest.fixture(scope="module")
def run():
    return fx.solve(GAME, fx.FeDualEx(0.3), rounds=3)


@pytest.fixture(scope="module")
def made(run, tmp_path_factory):
    """The folder of `run`."""
    path = tmp_path_factory.mktemp("runs") / "made"
    folder.begin(path, GAME, RESOLVED)
    folder.finish(path, run, GAME)
    return path


@pytest.fixture
def spoiled(made, tmp_path):
    """A copy of the folder, one of whose JSON files is changed; the copy."""

    def change(name, **entries):
        path = Path(shutil.copytree(made, tmp_path / "spoiled"))
        data = json.loads((path / name).read_text())
        (path / name).write_text(json.dumps({**data, **entries}))
        return path

    return change


def refusal(path, load=folder.load):
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    said = str(caught.value)
    assert "\n" not in said
    return said


def test_a_folder_holds_the_run_to_the_bit(run, made):
    stored = folder.load(made)
    assert stored.manifest["configuration"] == RESOLVED
    assert stored.label == "FeDualEx"
    assert [record["round"] for record in stored.history] == run.history["round"].tolist()
    assert stored.status["gap"] == run.gap
    assert stored.status["outputs"].keys() == run.outputs.keys()
    for name, output in run.outputs.items():
        z, g = stored.points(name)
        np.testing.assert_array_equal(z["x"], output.z.x)
        np.testing.assert_array_equal(z["y"], output.z.y)
        np.testing.assert_array_equal(g["x"], output.operator.x)
    assert stored.surveys("last") == ({}, {}, {}, {})  # what is certified at its own point follows from no others


def test_the_status_is_sealed_with_the_digest_of_every_file(made):
    status = read(made, "status.json")
    assert status["files"] == folder.digests(made)
    assert status["files"].keys() == {"manifest.json", "history.jsonl", "solution.npz"}
    assert status["sha256"] == folder.digest_of(status)
    assert folder.digest_of({**status, "gap": 0.0}) != status["sha256"]
    sealed = folder.seal_status(made, {key: value for key, value in status.items() if key not in ("files", "sha256")})
    assert sealed == status


@pytest.mark.parametrize("stopped", ["history.jsonl", "solution.npz", "status.json"])
def test_a_folder_whose_writing_fails_holds_no_half_file_and_has_not_ended(run, tmp_path, monkeypatch, stopped):
    path, real = tmp_path / "run", os.replace
    folder.begin(path, GAME, RESOLVED)
    folder.append(path, {"round": 0, "exchanges": 1, "seconds": 0.5})

    def fail(source, target):
        if Path(target).name == stopped:
            raise OSError("no space left on device")
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="no space left"):
            folder.finish(path, run, GAME)
    expected = {"manifest.json", "history.jsonl", "solution.npz"}
    assert {file.name for file in path.iterdir()} == expected - ({"solution.npz"} if stopped < "status" else set())
    stored = folder.load(path)
    assert stored.status is None
    assert len(stored.history) == (1 if stopped == "history.jsonl" else len(run.history["round"]))
    folder.finish(path, run, GAME)
    assert folder.load(path).status["gap"] == run.gap


def test_a_folder_that_is_begun_again_has_not_ended(made, tmp_path):
    path = Path(shutil.copytree(made, tmp_path / "again"))
    folder.begin(path, GAME, RESOLVED)
    assert folder.load(path).status is None
    assert folder.load(path).history == []


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "age"), [(folder.SCHEMA - 1, "an older"), (1, "an older"), (folder.SCHEMA + 1, "a newer")]
)
def test_another_schema_is_refused_in_one_sentence(spoiled, schema, age):
    path = spoiled("manifest.json", schema=schema)
    words = f"{path} has schema {schema}, written by {age} fedualex; this one reads {folder.SCHEMA}"
    assert refusal(path) == words


@pytest.mark.parametrize(
    ("name", "entries", "words"),
    [
        ("manifest.json", {"schema": None}, "is not a manifest of fedualex: it has no schema number"),
        ("manifest.json", {"schema": "4"}, "is not a manifest of fedualex: it has no schema number"),
        ("manifest.json", {"kind": "photos"}, "is not a manifest of fedualex: it says kind 'photos'"),
        ("manifest.json", {"kind": "comparison", "title": "", "runs": []}, "one of kind 'run' is needed"),
        ("manifest.json", {"configuration": 5}, "is damaged: it says configuration = 5"),
        ("manifest.json", {"configuration": {"problem": {}, "method": {}}}, "is damaged: it lacks 'run'"),
        ("manifest.json", {"versions": {"jax": 3}}, "is damaged: it says versions = {'jax': 3}"),
        ("status.json", {"rounds": 3.5}, "is damaged: it says rounds = 3.5"),
        ("status.json", {"seconds": None}, "is damaged: it says seconds = None"),
        ("status.json", {"output": "photo"}, "is damaged: it lacks 'photo'"),
        ("status.json", {"outputs": {"last": 5}}, "is damaged"),
    ],
)
def test_a_damaged_folder_is_refused_by_file_and_value(spoiled, name, entries, words):
    path = spoiled(name, **entries)
    said = refusal(path)
    assert words in said
    assert str(path) in said


def test_an_output_has_its_gap_with_its_parts_or_neither(made, spoiled):
    outputs = read(made, "status.json")["outputs"]
    path = spoiled("status.json", outputs={**outputs, "last": {**outputs["last"], "gap_x": None}})
    assert "an output has a gap without its parts, or parts without a gap" in refusal(path)


@pytest.mark.parametrize("content", ["", "[1]", "{", '{"schema": NaN}', '{"schema": Infinity}', "[" * 100_000])
def test_what_is_no_json_table_is_refused(tmp_path, content):
    file = tmp_path / "manifest.json"
    file.write_text(content)
    assert re.fullmatch(rf"{re.escape(str(file))} cannot be read.*: .+", refusal(file, folder.read_json))


def test_folders_that_are_not_there_or_are_of_others_are_refused(tmp_path):
    assert refusal(tmp_path / "gone") == f"there is no folder {str(tmp_path / 'gone')!r}"
    assert refusal(tmp_path) == f"{tmp_path} is not a folder that fedualex wrote: it has no manifest.json"


def test_a_line_of_history_that_was_cut_is_left_out_while_a_run_goes_on_and_refused_afterwards(made, tmp_path):
    path = Path(shutil.copytree(made, tmp_path / "cut"))
    whole = folder.load(path).history
    with open(path / "history.jsonl", "a") as file:
        file.write('{"round": 4, "seco')
    assert f"history.jsonl is damaged in line {len(whole) + 1}" in refusal(path)
    (path / "status.json").unlink()
    assert folder.load(path).history == whole
    lines = (path / "history.jsonl").read_text().splitlines()
    (path / "history.jsonl").write_text("\n".join([lines[0], '{"round": "one"}', *lines[1:]]))
    assert "history.jsonl is damaged in line 2" in refusal(path)


@pytest.mark.parametrize(
    ("record", "good"),
    [
        ({"round": 1, "exchanges": 2, "seconds": 0.5}, True),
        ({"round": 1, "exchanges": 2, "seconds": 0.5, "gap_last": None, "bytes_up": 7}, True),
        ({"round": 1, "exchanges": 2, "seconds": 0.5, "gap_last": "small"}, False),
        ({"round": True, "exchanges": 2, "seconds": 0.5}, False),
        ({"round": 1, "exchanges": 2, "seconds": 1e400}, False),
        ({"round": 1, "exchanges": 2}, False),
        ([1, 2, 0.5], False),
    ],
)
def test_a_record_has_a_round_its_exchanges_a_clock_and_numbers(record, good):
    assert folder.is_record(record) is good


def test_a_solution_that_cannot_be_read_is_refused(made, tmp_path):
    path = Path(shutil.copytree(made, tmp_path / "cut"))
    (path / "solution.npz").write_bytes((path / "solution.npz").read_bytes()[:50])
    assert refusal(path, lambda path: folder.load(path).points("last")).startswith(f"{path / 'solution.npz'} cannot be")


# --- collections, geometries, versions --------------------------------------------------------------------------------


def test_a_collection_is_kept_with_its_kind_and_its_entries(made, tmp_path):
    path = tmp_path / "several"
    folder.check_collection(path, "comparison")  # nothing is there yet
    folder.write_collection(path, "comparison", title="two", runs=["a", "b"])
    assert folder.read_manifest(path, "comparison")["runs"] == ["a", "b"]
    folder.check_collection(path, "comparison")
    with pytest.raises(ConfigurationError, match="of kind 'comparison'; one of kind 'experiment' is needed"):
        folder.check_collection(path, "experiment")
    with pytest.raises(ConfigurationError, match="of kind 'run'; one of kind 'comparison' is needed"):
        folder.check_collection(made, "comparison")


def test_the_run_of_a_fit_is_within_its_folder(made, tmp_path):
    shutil.copytree(made, tmp_path / "fit" / folder.RUN_OF_FIT)
    assert folder.run_of(tmp_path / "fit") == tmp_path / "fit" / folder.RUN_OF_FIT
    assert folder.run_of(made) == made


def test_a_geometry_is_described_by_classes_and_numbers_that_json_keeps():
    told = folder.describe(fx.problems.bilinear(np.eye(2), np.ones(2), x=fx.Box(lower=0.1), y=fx.L1(0.1)).geometry)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    regularizer = told["x"]["regularizer"]
    assert regularizer["class"] == "Box"
    assert (regularizer["lower"], regularizer["upper"]) == (0.1, "inf")
    assert told["y"]["regularizer"] == {"class": "L1", "lam": 0.1}


def test_other_versions_than_those_here_are_told(made):
    manifest = folder.load(made).manifest
    assert folder.other_versions(manifest) == ""
    older = {**manifest, "versions": {**manifest["versions"], "numpy": "0.1"}}
    assert folder.other_versions(older) == f"numpy 0.1 (here {np.__version__})"
