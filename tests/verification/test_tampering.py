"""What `fedualex verify` notices: folders that were tampered with.

A tampered folder is sealed again unless a test is about the seal: what is noticed is then noticed by the other checks.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.tampering import alter, of_method, of_output, of_run, of_status, reseal
from support.verified_folders import (  # noqa: F401
    METHOD,
    command,
    copied,
    differing,
    here,
    solved,
)

from fedualex.runs import folder
from fedualex.runs.settings import configure
from fedualex.runs.solving import solve_into
from fedualex.runtime import checkpoint as checkpoints
from fedualex.runtime.driver import Records
from fedualex.verification.evidence import Verdict
from fedualex.verification.verify import seal_checks, verify


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
        path,
        lambda arrays: arrays.update({f"last/{k}/{b}": arrays[f"client_average/{k}/{b}"] for k in "zg" for b in "xy"}),
    )
    rewrite_history(path, lambda records: records[-1].update(gap_last=records[-1]["gap_client_average"]))
    of_output("last", **{key: status["outputs"]["client_average"][key] for key in status["outputs"]["client_average"]})(
        path
    )


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
    "precision": of_run(dtype="float64"),
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
    "exchanges": of_status(exchanges=1),
    "a shift at a single survey": of_output("last", shift=-1e-3),
    "rounds run": of_status(rounds=8),
    "a gap of the history": lambda path: rewrite_history(path, lambda records: records[1].update(gap_last=0.2)),
    "a record of the history dropped": lambda path: rewrite_history(path, lambda records: records.pop(1)),
    "a record of the checkpoint": lambda path: rewrite_checkpoint(path, lose_half),
    "the state of the checkpoint": lambda path: rewrite_checkpoint(path, move),
    "not a checkpoint": lambda path: (path / "checkpoint.npz").write_bytes(b"PK"),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("what", TAMPERS)
def test_what_was_changed_is_noticed_though_it_was_sealed_again(copied, what):
    path = copied("game")
    TAMPERS[what](path)
    reseal(path)
    result = verify(path)
    assert result.verdict is Verdict.DIFFERS, result.headline


@pytest.mark.slow
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


def scaled(key, factor, entry=...):
    """An array of the bounds, or the entry of it that weighs most, times a factor."""

    def change(arrays):
        one, array = f"bounds/{key}", arrays[f"bounds/{key}"].copy()
        array[np.argmax(arrays["bounds/weights/upper"]) if entry == "row" else entry] *= factor
        arrays[one] = array

    return lambda path: rewrite_arrays(path, change)


def more_of_the_floor(path):
    rewrite_arrays(path, lambda arrays: arrays.update({"bounds/weights/floor": arrays["bounds/weights/floor"] + 1e-3}))


def smaller_shift(path):
    """The shift, the gap that follows from it, and the last line of the history."""
    output = json.loads((path / "status.json").read_text())["outputs"]["bounds"]
    shift = output["shift"] - 1e-3 * output["gap"]
    gap = max(output["gap_x"] + output["gap_y"] + shift, 0.0) + output["rounding"]
    of_output("bounds", shift=shift, gap=gap)(path)
    of_status(gap=gap)(path)


def without_surveys(path):
    rewrite_arrays(
        path, lambda arrays: [arrays.pop(key) for key in list(arrays) if key.split("/")[1] in ("surveys", "weights")]
    )


def other_weights(path):
    """Weights that still sum to 1."""

    def change(arrays):
        lower, floor = arrays["bounds/weights/lower"], arrays["bounds/weights/floor"]
        arrays |= {"bounds/weights/lower": 0.9 * lower, "bounds/weights/floor": 1 - 0.9 * (1 - floor)}

    rewrite_arrays(path, change)


BOUNDS = {
    "the weights of the upper bound": (scaled("weights/upper", 1.001), "weights of the upper bound"),
    "a negative weight": (scaled("weights/upper", -1.0), "weights of the upper bound"),
    "the weights of the lower bound": (scaled("weights/lower", 1.001), "weights of the lower bound"),
    "the weight of the floor": (more_of_the_floor, "weights of the lower bound"),
    "other weights of the lower bound": (other_weights, "mean operator of the surveys, largest difference"),
    "a survey": (scaled("surveys/x['weights']", 1.001, "row"), "mean of the surveyed points, largest difference"),
    "the point": (scaled("z/x['weights']", 1.001), "mean of the surveyed points, largest difference"),
    "the mean operator": (scaled("g/x['weights']", 1.001), "mean operator of the surveys, largest difference"),
    "the shift and the gap": (smaller_shift, "shift from the surveys"),
    "the gap": (of_output("bounds", gap=0.0), "sum of the parts and of the rounding"),
    "a rounding of nothing": (of_output("bounds", rounding=0.0), "rounding"),
    "no surveys": (without_surveys, "no shift at a single survey"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", BOUNDS)
def test_the_surveys_behind_bounds_are_made_again(copied, what):
    path = copied("floored")
    tamper, noticed = BOUNDS[what]
    tamper(path)
    reseal(path)
    assert noticed in differing(verify(path))


@pytest.mark.slow
def test_an_estimate_of_rounding_is_not_called_a_bound(copied):
    path = copied("slide")
    of_output("bounds", estimated=False)(path)
    reseal(path)
    assert differing(verify(path)) >= {"rounding"}


@pytest.mark.slow
@pytest.mark.parametrize("what", ["surveys/x['weights']", "weights/upper", "weights/floor"])
def test_surveys_of_another_shape_are_one_line(copied, what):
    path = copied("floored")
    rewrite_arrays(path, lambda arrays: arrays.update({f"bounds/{what}": np.zeros((2, 3))}))
    reseal(path)
    code, lines = command(path)
    assert (code, len(lines)) == (2, 1)
    assert "does not hold surveys of the output 'bounds'" in lines[0]


def test_bounds_may_use_a_floor(solved):
    """What the cases above are about: a weight of the floor, and a shift that matters."""
    run = folder.load(solved("floored"))
    output = run.status["outputs"]["bounds"]
    assert 0.01 < run.surveys("bounds")[1]["floor"] < 0.99
    assert output["shift"] > 0.1 * output["gap"]
    assert verify(run.path).verdict is Verdict.VERIFIED


def test_bounds_that_are_dropped_are_missed(copied):
    path = copied("floored")
    alter(path, "status.json", lambda status: status["outputs"].pop("bounds"))
    alter(path, "status.json", lambda status: status.update(output="last", gap=status["outputs"]["last"]["gap"]))
    assert "outputs of such a run" in differing(verify(path))


@pytest.mark.slow
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
    of_status(stop_meaning=status["stop_meaning"], least_violation=2 * status["least_violation"])(path)
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_run_whose_certificates_were_withdrawn(here, tmp_path, monkeypatch):
    finish = Records.finish

    def examined_from_now_on(records, *arguments):
        monkeypatch.undo()
        return finish(records, *arguments)

    # As if the surroundings of the start had been convex.
    monkeypatch.setattr("fedualex.runtime.driver.disproof", lambda *_, **__: None)
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
