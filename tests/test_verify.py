"""What `fedualex verify` runs, accepts and notices: untouched folders of every kind, and folders that were tampered with.

A tampered folder is sealed again unless a test is about the seal: what is noticed is then noticed by the other checks.
"""

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
from support.tampering import alter, reseal

from fedualex.cli import main
from fedualex.experiments import folder, protocol
from fedualex.experiments.configuration import configure
from fedualex.experiments.ending import seal_checks
from fedualex.experiments.names import ConfigurationError
from fedualex.experiments.protocol import Experiment
from fedualex.experiments.single import solve_into
from fedualex.experiments.verdict import DATA, Verdict
from fedualex.experiments.verify import verify
from fedualex.runtime import checkpoint as checkpoints
from fedualex.runtime.records import Records

PSI = {"L1": 0.1, "Box": 0.5}
GAME = {"name": "bilinear", "file": "game.npz", "x": PSI, "y": PSI}
METHOD = {"name": "FeDualEx", "eta_c": 0.3}
NOISY = {"clients": 3, "local_steps": 2, "rounds": 12, "record_every": 4, "noise": 0.05, "seed": 5, "tol": 1e-6}
TINY = 1e-8
OWN = """
from pathlib import Path
import jax.numpy as jnp
import numpy as np
import fedualex as fx

Path(__file__).with_name("called").write_text("by import")

def build(shift):
    Path(__file__).with_name("called").write_text("by call")
    return fx.Problem(lambda x: jnp.sum((x - shift) ** 2), x=fx.L1(0.1) + fx.Box(1.0), like=fx.Saddle(np.zeros(2)))

def concave():
    return fx.Problem(lambda x: -jnp.sum(x**2), x=fx.Box(1.0), like=fx.Saddle(np.zeros(2)))
"""
PARTITION = {"kind": "iid", "clients": 2, "seed": 0}
BUNDLED = {"name": "sparse_glm", "family": "squared", "l1": 0.1, "bundled": "diabetes", "standardize": True}
RUNS = {
    "game": (GAME, METHOD, NOISY),
    "other": (GAME, METHOD, NOISY | {"seed": 6}),
    "optimal": (GAME, {"name": "FeDualEx", "eta_c": 0.5}, {"rounds": 200, "record_every": 20, "tol": 1e-2}),
    "bundled": (BUNDLED | {"partition": PARTITION}, METHOD, {"rounds": 1}),
    "own": ({"entry": "verify_own:build", "shift": 0.3}, METHOD, {"rounds": 1}),
    "infeasible": (
        {
            "name": "constrained",
            "file": "rows.npz",
            "groups": "classes",
            "limits": 0.001,
            "multiplier": 10.0,
            "l1": 0.01,
        },
        {"name": "FeDualEx", "eta_c": 0.01},
        {"rounds": 2, "tol": 100.0},
    ),
    "tiny units": (
        {**GAME, "file": "tiny.npz", "x": {"L1": 0.1 * TINY, "Box": 0.5}, "y": {"L1": 0.1 * TINY, "Box": 0.5}},
        {"name": "FeDualEx", "eta_c": 0.3 / TINY},
        {"rounds": 3},
    ),
}
SLOW = ("bundled", "infeasible")


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    path, rng = tmp_path_factory.mktemp("verify"), np.random.default_rng(0)
    A, b = rng.uniform(-1, 1, (3, 4)), rng.uniform(-1, 1, 3)
    np.savez(path / "game.npz", A=A, b=b)
    np.savez(path / "tiny.npz", A=TINY * A, b=TINY * b)
    np.savez(path / "rows.npz", X=rng.normal(size=(30, 2)), y=rng.integers(0, 2, 30), clients=np.arange(30) % 3)
    (path / "verify_own.py").write_text(OWN)
    return path


@pytest.fixture(scope="module")
def solved(here):
    """The folder of a run of RUNS, solved when it is first asked for."""

    def solve(name):
        path = here / "runs" / name
        if not path.exists():
            problem, method, run = RUNS[name]
            solve_into(path, configure({"problem": problem, "method": method, "run": run}, here))
        return path

    return solve


@pytest.fixture
def copied(solved, tmp_path):
    return lambda name: Path(shutil.copytree(solved(name), tmp_path / name))


@pytest.fixture(scope="module")
def reproduction(here):
    """A folder of one experiment: two methods, one point of the grid, two seeds."""
    settings = {
        "problem": {**GAME, "file": str(here / "game.npz")},
        "run": {"clients": 2, "rounds": 4, "record_every": 2, "noise": 0.05},
        "grid": {"eta_c": [0.1, 0.3]},
        "tuning": {"seed": 1000, "output": "last"},
        "methods": {"FeDualEx": {"name": "FeDualEx"}, "FedMiP plain": {"name": "FedMiP", "server_prox": "none"}},
    }
    experiment, root = Experiment("tiny", "Tiny", settings, seeds=2), here / "reproduction"
    folder.write_collection(root, "reproduction", experiments=["tiny"], seeds=2)
    protocol.begin(experiment, root / "tiny", resume=False)
    for task in protocol.grid_tasks(experiment):
        file = protocol.result_path(root / "tiny", task)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({**task, "score": task["steps"]["eta_c"], "outputs": {}}))
    for task in protocol.seed_tasks(experiment, root / "tiny"):
        protocol.perform(experiment, experiment.problem(), root / "tiny", task)
    return root


def command(*arguments):
    """Exit code and lines of the command, which never shows a trace."""
    result = CliRunner().invoke(main, ["verify", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output.splitlines()


def differing(result):
    return {check.what for check in result.checks if check.agrees is False}


# --- untouched --------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in RUNS])
def test_an_untouched_run_is_verified(solved, name):
    result = verify(solved(name), trust=True)
    assert result.verdict is Verdict.VERIFIED, [check for check in result.checks if not check.agrees]


def test_untouched_collections_are_verified(solved, reproduction, tmp_path):
    names = [str(solved("game")), os.path.relpath(solved("optimal"), tmp_path)]  # a path and one from the folder
    folder.write_collection(tmp_path, "comparison", title="both", runs=names)
    code, lines = command(tmp_path)
    assert (code, lines[-1]) == (0, "VERIFIED")
    assert lines[:-1] == [f"{tmp_path / name}: VERIFIED" for name in names]
    for path in (reproduction, reproduction / "tiny"):
        code, lines = command(path)
        assert (code, lines[-1], len(lines)) == (0, "VERIFIED", 5)


def test_json_of_a_collection(reproduction):
    result = CliRunner().invoke(main, ["verify", str(reproduction), "--json"])
    found = json.loads(result.stdout)
    assert (result.exit_code, found["verdict"], found["agrees"], found["complete"]) == (0, "VERIFIED", True, True)
    (experiment,) = found["runs"]
    assert experiment["folder"] == str(reproduction / "tiny")
    assert {Path(run["folder"]).name for run in experiment["runs"]} == {"seed-0", "seed-1"}
    assert all(run["checks"] and run["headline"] == "VERIFIED" for run in experiment["runs"])


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


# --- tampered with ----------------------------------------------------------------------------------------------------


def of_output(name, **changes):
    return lambda path: alter(path, "status.json", lambda status: status["outputs"][name].update(changes))


def of_status(**changes):
    return lambda path: alter(path, "status.json", lambda status: status.update(changes))


def of_run(**changes):
    return lambda path: alter(path, "manifest.json", lambda m: m["configuration"]["run"].update(changes))


def of_method(**changes):
    return lambda path: alter(path, "manifest.json", lambda m: m["configuration"]["method"].update(changes))


def rewrite_arrays(path, change):
    with np.load(path / "solution.npz") as file:
        arrays = dict(file)
    change(arrays)
    np.savez(path / "solution.npz", **arrays)


def rewrite_checkpoint(path, change):
    """A changed checkpoint whose own checksum is right."""
    header, leaves = checkpoints.read(path / "checkpoint.npz")
    change(header, leaves)
    checkpoints.save(path / "checkpoint.npz", leaves, header["history"], header["run"], header["best"])


def rewrite_history(path, change):
    records = [json.loads(line) for line in (path / "history.jsonl").read_text().splitlines()]
    change(records)
    (path / "history.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def drop_output(path):
    alter(path, "status.json", lambda status: status["outputs"].pop("ergodic"))


def drop_output_everywhere(path):
    rewrite_arrays(path, lambda arrays: [arrays.pop(key) for key in list(arrays) if key.startswith("ergodic/")])
    rewrite_history(path, lambda records: [record.pop("gap_ergodic") for record in records])
    drop_output(path)


def claim_optimal(path):
    """A larger tol, and all words made to fit it."""
    gaps = {name: output["gap"] for name, output in json.loads((path / "status.json").read_text())["outputs"].items()}
    of_run(tol=2 * max(gaps.values()))(path)
    for name in gaps:
        of_output(name, status="OPTIMAL")(path)
    of_status(status="OPTIMAL", stop="TOLERANCE")(path)


def other_answer(path):
    status = json.loads((path / "status.json").read_text())
    name = next(name for name in status["outputs"] if name != status["output"])
    of_status(output=name, **{key: status["outputs"][name][key] for key in ("gap", "status")})(path)


def exchange_last(path):
    """The point of another output, with the certificate that it has."""
    status = json.loads((path / "status.json").read_text())
    rewrite_arrays(
        path, lambda arrays: arrays.update({f"last/{k}/{b}": arrays[f"clients/{k}/{b}"] for k in "zg" for b in "xy"})
    )
    rewrite_history(path, lambda records: records[-1].update(gap_last=records[-1]["gap_clients"]))
    of_output("last", **{key: status["outputs"]["clients"][key] for key in status["outputs"]["clients"]})(path)


def smaller_gap(path):
    """One output's gap made smaller together with its parts and the history's last line."""
    output = json.loads((path / "status.json").read_text())["outputs"]["last"]
    parts = {key: 0.999 * output[key] for key in ("gap_x", "gap_y")}
    gap = max(sum(parts.values()), 0.0) + output["rounding"]
    rewrite_history(path, lambda records: records[-1].update(gap_last=gap))
    of_output("last", **parts, gap=gap)(path)


def less_rounding(path):
    output = json.loads((path / "status.json").read_text())["outputs"]["last"]
    gap = max(output["gap_x"] + output["gap_y"], 0.0) - 1e-3
    of_output("last", rounding=-1e-3, gap=gap)(path)


def lose_half(header, leaves):
    header["history"] = header["history"][:2]


def move(header, leaves):
    leaves[0] = leaves[0] + 1e-3


TAMPERS = {
    "a status": of_output("last", status="OPTIMAL"),
    "the answer's status": of_status(status="OPTIMAL"),
    "a status that does not exist": of_output("last", status="SUPERB"),
    "a tol that all meet, and the words for it": claim_optimal,
    **{
        f"why it stopped: {word}": of_status(stop=word)
        for word in ("TOLERANCE", "STALLED", "DIVERGED", "MAX_TIME", "?")
    },
    "tol": of_run(tol=1e-7),
    "noise": of_run(noise=0.0501),
    "seed": of_run(seed=6),
    "local steps": of_run(local_steps=3),
    "rounds": of_run(rounds=13),
    "clients": of_run(clients=4),
    "cohort": of_run(cohort=2),
    "start": of_run(start={"uniform": 0.1}),
    "precision": of_run(dtype="float32"),
    "records": of_run(record_every=3),
    "output asked for": of_run(output="last"),
    "nonsense as a seed": of_run(seed="five"),
    "no seed": lambda path: alter(path, "manifest.json", lambda m: m["configuration"]["run"].pop("seed")),
    "method": of_method(name="FedDualAvg"),
    "step": of_method(eta_c=0.31),
    "server step": of_method(eta_s=0.9),
    "method that does not exist": of_method(name="FeDualEy"),
    "regularizer": lambda path: alter(
        path, "manifest.json", lambda m: m["geometry"]["x"]["regularizer"]["penalty"].update(lam=0.2)
    ),
    "an output dropped": drop_output,
    "an output dropped everywhere": drop_output_everywhere,
    "another answer": other_answer,
    "another point with its own certificate": exchange_last,
    "a smaller gap": smaller_gap,
    "negative rounding": less_rounding,
    "objective": of_output("last", objective=0.0),
    "density": of_output("last", density=0.5),
    "traffic": of_status(bytes_up=1),
    "rounds run": of_status(rounds=8),
    "a gap of the history": lambda path: rewrite_history(path, lambda records: records[1].update(gap_last=0.2)),
    "a record of the history dropped": lambda path: rewrite_history(path, lambda records: records.pop(1)),
    "a record of the checkpoint": lambda path: rewrite_checkpoint(path, lose_half),
    "the state of the checkpoint": lambda path: rewrite_checkpoint(path, move),
    "not a checkpoint": lambda path: (path / "checkpoint.npz").write_bytes(b"PK"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", TAMPERS)
def test_what_was_changed_is_noticed_though_it_was_sealed_again(copied, what):
    path = copied("game")
    TAMPERS[what](path)
    reseal(path)
    result = verify(path)
    assert result.verdict is Verdict.DIFFERS, result.headline


def test_the_checkpoint_of_another_run_is_noticed(copied, solved):
    path = copied("game")
    shutil.copy(solved("other") / "checkpoint.npz", path)
    reseal(path)
    assert "history in the checkpoint, records" in differing(verify(path))
    header, _ = checkpoints.read(solved("game") / "checkpoint.npz")
    rewrite_checkpoint(path, lambda other, leaves: other.update(history=header["history"]))
    reseal(path)
    assert differing(verify(path)) == {"settings in the checkpoint: method, steps, noise, seed, sizes, tol"}


SEALED = {
    "manifest.json": lambda path: of_file(path / "manifest.json", '"noise": 0.05', '"noise": 0.06'),
    "history.jsonl": lambda path: of_file(path / "history.jsonl", '"round": 4', '"round": 5'),
    "solution.npz": lambda path: rewrite_arrays(path, lambda arrays: None),
    "checkpoint.npz": lambda path: (path / "checkpoint.npz").unlink(),
    "all of these and of status.json": lambda path: of_file(path / "status.json", '"MAX_ROUNDS"', '"INTERRUPTED"'),
}


def of_file(file, old, new):
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


@pytest.mark.parametrize("name", SEALED)
def test_the_seal_knows_every_file(copied, name):
    path = copied("game")
    assert all(check.agrees for check in seal_checks(folder.load(path)))
    SEALED[name](path)
    broken = [check.what for check in seal_checks(folder.load(path)) if not check.agrees]
    assert broken == [f"SHA-256 of {name}"]
    assert command(path)[0] == 1


def test_a_status_without_its_seal_differs(copied):
    path = copied("own")
    for key in ("files", "sha256"):
        status = json.loads((path / "status.json").read_text())
        del status[key]
        (path / "status.json").write_text(json.dumps(status))
        assert command(path)[0] == 1
        reseal(path)


def test_the_seal_is_no_signature(copied):
    """Whoever takes the checkpoint away and rewrites the hash is not found out; docs/cli.md says so."""
    path = copied("game")
    (path / "checkpoint.npz").unlink()
    assert verify(path).verdict is Verdict.DIFFERS
    reseal(path)
    assert verify(path).verdict is Verdict.VERIFIED


def test_the_best_record_cannot_be_dropped_or_invented(copied):
    path = copied("game")
    status = json.loads((path / "status.json").read_text())
    least = min(output["gap"] for output in status["outputs"].values())
    rewrite_history(path, lambda records: records[1].update(gap_last=least / 2))
    rewrite_checkpoint(path, lambda header, leaves: header["history"][1].update(gap_last=least / 2))
    reseal(path)
    assert "no earlier record is better" in differing(verify(path))
    path = Path(shutil.copytree(path, path.with_name("invented")))
    best = status["outputs"]["last"] | {"origin": "last of round 8"}
    alter(path, "status.json", lambda status: status["outputs"].update(best=best))
    rewrite_arrays(path, lambda a: a.update({f"best/{k}/{b}": a[f"last/{k}/{b}"] for k in "zg" for b in "xy"}))
    reseal(path)
    assert "gap in the history (last of round 8)" in differing(verify(path))


@pytest.mark.parametrize(
    "kind", ["x part of the certificate", "operator from the data, largest difference", "objective"]
)
def test_a_problem_in_small_units_is_checked_as_any_other(copied, kind):
    """All numbers are about 1e-8, and an error of a thousandth of that is one."""
    path = copied("tiny units")
    if kind == "objective":
        alter(
            path,
            "status.json",
            lambda s: s["outputs"]["last"].update(objective=s["outputs"]["last"]["objective"] * 1.001),
        )
    elif kind == "x part of the certificate":
        alter(path, "status.json", lambda s: s["outputs"]["last"].update(gap_x=s["outputs"]["last"]["gap_x"] * 1.001))
    else:
        rewrite_arrays(path, lambda arrays: arrays.update({"last/g/x": arrays["last/g/x"] * 1.001}))
        reseal(path)
    assert kind in differing(verify(path))


def test_why_a_run_was_interrupted_is_not_checked(copied):
    """No record tells of it: a word that claims nothing is called unchecked, not right."""
    path = copied("game")
    of_status(stop="INTERRUPTED")(path)
    result = verify(path)
    assert result.verdict is Verdict.NOT_FULLY_CHECKED
    (what,) = {check.what for check in result.checks if not check.agrees}
    assert what == "why the run ended (INTERRUPTED: no record tells of it)"


@pytest.mark.slow
def test_that_limits_cannot_be_met_is_proved_again(copied, solved):
    path = copied("infeasible")
    status = json.loads((path / "status.json").read_text())
    assert status["stop"] == "INFEASIBLE"
    of_status(stop_meaning=status["stop_meaning"].rpartition(" ")[0] + " 5")(path)
    assert differing(verify(path)) == {"limits that cannot be met"}
    of_status(stop="TOLERANCE", stop_meaning="", status="OPTIMAL")(path)  # as if the limits could be met
    for name in status["outputs"]:
        of_output(name, status="OPTIMAL")(path)
    assert "limits that cannot be met" in differing(verify(path))
    of_output("last", violation=-1.0)(path)
    assert "violation" in differing(verify(path))
    path = copied("game")
    of_status(stop="INFEASIBLE")(path)
    assert differing(verify(path)) >= {"INFEASIBLE: the problem has limits"}


def test_what_was_seen_of_f_is_looked_for_again(copied):
    path = copied("own")
    for tamper in (
        of_status(convexity="f is convex in x and concave in y by construction"),
        of_run(convexity="trust"),
        of_status(stop="DISPROVED"),
    ):
        whole = {file: (path / file).read_bytes() for file in ("status.json", "manifest.json")}
        tamper(path)
        assert verify(path, trust=True).verdict > Verdict.VERIFIED
        for file, content in whole.items():
            (path / file).write_bytes(content)
    assert verify(path, trust=True).verdict is Verdict.VERIFIED


def test_a_run_whose_certificates_were_withdrawn(here, tmp_path, monkeypatch):
    finish = Records.finish

    def examined_from_now_on(records, *arguments):
        monkeypatch.undo()
        return finish(records, *arguments)

    # As if the surroundings of the start had been convex.
    monkeypatch.setattr("fedualex.runtime.examination.disproof", lambda *_, **__: None)
    monkeypatch.setattr(Records, "finish", examined_from_now_on)
    tables = {"problem": {"entry": "verify_own:concave"}, "method": METHOD, "run": {"rounds": 2}}
    solve_into(tmp_path / "run", configure(tables, here))
    path = tmp_path / "run"
    assert json.loads((path / "status.json").read_text())["stop"] == "DISPROVED"
    result = verify(path, trust=True)
    assert result.verdict is Verdict.NOT_FULLY_CHECKED, differing(result)
    assert [check.agrees for check in result.checks if check.what == "why the run ended (DISPROVED)"] == [True]
    of_status(stop="MAX_ROUNDS")(path)
    assert differing(verify(path, trust=True)) == {"history in the checkpoint, records"}


def test_another_version_of_the_library_is_not_a_difference(copied):
    path = copied("game")
    alter(path, "manifest.json", lambda m: m["versions"].update(fedualex="0.0.9"))
    result = verify(path)
    assert result.verdict is Verdict.NOT_FULLY_CHECKED
    (what,) = {check.what for check in result.checks if not check.agrees}
    assert what.startswith("settings in the checkpoint (fedualex 0.0.9 (here ")
    alter(path, "manifest.json", lambda m: m.update(data_sha256="0" * 64))
    result = verify(path)  # a fingerprint by another version proves nothing
    assert result.verdict is Verdict.NOT_FULLY_CHECKED
    assert any("the fingerprint of the data was made by fedualex 0.0.9" in check.what for check in result.checks)


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
        assert all(any(line.startswith(f"{run}: ") for line in lines) for run in runs)
    assert f"{broken}: CANNOT BE READ: {broken / 'status.json'} cannot be read as JSON" in "\n".join(lines)
    of_status(rounds=1)(elsewhere)
    assert command(tmp_path / "all")[0] == 1


# --- collections ------------------------------------------------------------------------------------------------------


def test_what_is_missing_from_a_collection_is_said(solved, reproduction, tmp_path):
    folder.write_collection(tmp_path / "one", "comparison", title="", runs=[str(solved("game")), "gone"])
    _, lines = command(tmp_path / "one")
    assert lines[1:3] == [
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
