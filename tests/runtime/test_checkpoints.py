"""Checkpoints: resumed runs are the undisturbed ones bit for bit, and anything but a whole file of this run is refused."""

import json
import os
import random
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.checkpointed import OPTIONS, digest, simulate, stop_at
from support.games import GAME, game

import fedualex as fx
from fedualex.runtime import checkpoint as checkpoints


@pytest.fixture(scope="module")
def undisturbed():
    return simulate()


@pytest.fixture
def half(tmp_path):
    """The file of a run that was interrupted at round 6 of 12."""
    path = tmp_path / "run.npz"
    run = simulate(checkpoint=path, callback=stop_at(6))
    assert run.stop is fx.Stop.INTERRUPTED
    return path


# --- resuming ------------------------------------------------------------------------------------------------------


def test_resumed_run_is_the_undisturbed_one(half, undisturbed):
    seen = []
    run = simulate(checkpoint=half, callback=seen.append)
    assert digest(run) == digest(undisturbed)
    assert [record["round"] for record in seen] == [8, 10, 12]  # what follows round 6, and nothing before it
    assert run.stop is fx.Stop.MAX_ROUNDS
    assert np.all(np.diff(run.history["seconds"]) > 0)  # the clock goes on from where it stood
    for name, output in run.outputs.items():
        np.testing.assert_array_equal(output.z.x, undisturbed.outputs[name].z.x)
        assert output.gap == undisturbed.outputs[name].gap


def test_path_may_be_text_and_a_finished_run_is_read_back(tmp_path, undisturbed):
    path = str(tmp_path / "run")
    assert digest(simulate(checkpoint=path)) == digest(undisturbed)
    assert os.listdir(tmp_path) == ["run"]
    seen = []
    again = simulate(checkpoint=path, callback=seen.append)
    assert digest(again) == digest(undisturbed)
    assert seen == []


@pytest.mark.parametrize("stop", [2, 6, 10])
def test_every_record_is_a_place_to_resume_from(tmp_path, stop, undisturbed):
    path = tmp_path / "run"
    simulate(checkpoint=path, callback=stop_at(stop))
    assert digest(simulate(checkpoint=path)) == digest(undisturbed)


@pytest.mark.parametrize(
    "case",
    [
        {"method": fx.ScaffoldSMemory(0.05)},
        pytest.param({"method": fx.FeDualExCorrected(0.1, mode="stale")}, marks=pytest.mark.slow),
        pytest.param({"dtype": "float32"}, marks=pytest.mark.slow),
    ],
    ids=["client memory", "stale survey", "float32"],
)
def test_all_that_a_run_remembers_is_in_the_file(tmp_path, case):
    path = tmp_path / "run"
    simulate(**case, checkpoint=path, callback=stop_at(8))
    assert digest(simulate(**case, checkpoint=path)) == digest(simulate(**case))


def test_a_start_within_tol_is_the_answer_with_or_without_a_pause(tmp_path):
    start = fx.solve(GAME, fx.CoMP(0.3), steps=4000, tol=1e-7).z
    options = {"rounds": 20, "clients": 2, "tol": 1e-3, "z0": start, "checkpoint": tmp_path / "c.npz"}
    for _ in range(2):
        run = fx.solve(GAME, fx.FeDualEx(0.1), **options)
        assert (run.status, run.rounds) == (fx.Status.OPTIMAL, 0)


def test_another_output_is_another_run(tmp_path):
    simulate(checkpoint=tmp_path / "c.npz", output="polished")
    with pytest.raises(ValueError, match="belongs to another run"):
        simulate(checkpoint=tmp_path / "c.npz")


def test_a_run_that_met_its_tol_stays_where_it_stopped(tmp_path):
    """Killed after writing the last record, before it could return: resumed, it must not run on."""
    path, options = tmp_path / "run", OPTIONS | {"rounds": 200, "noise": None, "tol": 0.02}
    first = fx.solve(GAME, fx.FeDualEx(0.3), **options, checkpoint=path)
    assert first.status is fx.Status.OPTIMAL
    again = fx.solve(GAME, fx.FeDualEx(0.3), **options, checkpoint=path)
    assert again.status is fx.Status.OPTIMAL
    assert again.rounds == first.rounds < 200
    assert digest(again) == digest(first)


# --- kill -9 -------------------------------------------------------------------------------------------------------

CHILD = """
import sys
sys.path.insert(0, {tests!r})
import numpy as np
import fedualex as fx
from support.checkpointed import digest

rng = np.random.default_rng(0)
psi = fx.L1(0.1) + fx.Box(0.5)
game = fx.problems.bilinear(rng.uniform(-1, 1, (40, 50)), rng.uniform(-1, 1, 40), x=psi, y=psi)
print("ready", flush=True)
run = fx.simulate(game, fx.FeDualEx(0.03), rounds={rounds}, clients=4, cohort=3, local_steps=2, seed=1,
                  record_every=1, noise=fx.GaussianNoise(0.1), checkpoint={path!r})
print(*digest(run), run.rounds, flush=True)
"""


def start_child(path, rounds, cache):
    code = CHILD.format(tests=str(Path(__file__).parents[1]), path=str(path), rounds=rounds)
    # Compiled programs are kept between the processes: what is tested is the run, not the compiler.
    cached = {"JAX_COMPILATION_CACHE_DIR": str(cache), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ | cached)
    assert child.stdout.readline() == "ready\n"
    return child


def finish(child):
    answer, _ = child.communicate()
    assert child.returncode == 0
    return answer.split()


def records_in(path):
    with np.load(path, allow_pickle=False) as file:
        return len(json.loads(bytes(file["header"]).decode())["history"])


def survives(tmp_path, kills, rounds, seed):
    """Kill a run that many times at random moments; half of them anywhere, half while it writes record after record."""
    moments, cache = random.Random(seed), tmp_path / "cache"
    expected = finish(start_child(tmp_path / "undisturbed", rounds, cache))
    path, seen = tmp_path / "disturbed", []
    for kill in range(kills):
        child = start_child(path, rounds, cache)
        if kill % 2:
            time.sleep(moments.uniform(0, 1.5))
        else:
            before = path.stat().st_mtime_ns if path.exists() else None
            while child.poll() is None and (not path.exists() or path.stat().st_mtime_ns == before):
                time.sleep(0.001)
            time.sleep(moments.uniform(0, 0.2))
        child.kill()  # SIGKILL
        child.communicate()
        seen.append(records_in(path) if path.exists() else 0)
    assert seen == sorted(seen)
    assert seen[-1] > 0
    print(f"records after each kill: {seen} of {rounds + 1}")
    assert finish(start_child(path, rounds, cache)) == expected
    assert expected[2] == str(rounds)


@pytest.mark.slow
def test_killed_three_times(tmp_path):
    survives(tmp_path, kills=3, rounds=40, seed=0)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_twenty_times(tmp_path):
    survives(tmp_path, kills=20, rounds=1000, seed=1)


# --- the file ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_crash_while_writing_leaves_the_old_file(half, undisturbed, monkeypatch, function):
    before = half.read_bytes()

    def crash(*_):
        raise OSError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(os, function, crash)
        with pytest.raises(OSError, match="the disk is gone"):
            simulate(checkpoint=half)
    assert half.read_bytes() == before
    assert digest(simulate(checkpoint=half)) == digest(undisturbed)  # a leftover .tmp does not disturb
    assert os.listdir(half.parent) == [half.name]


def test_leftover_garbage_beside_the_file_does_not_disturb(half, undisturbed):
    half.with_name(half.name + ".tmp").write_bytes(b"half a file")
    assert digest(simulate(checkpoint=half)) == digest(undisturbed)


def test_no_pickle(half):
    with np.load(half, allow_pickle=False) as file:
        header = json.loads(bytes(file["header"]).decode())
        assert all(file[name].dtype != object for name in file.files)
    assert header["schema"] == checkpoints.SCHEMA
    assert [record["round"] for record in header["history"]] == [0, 2, 4, 6]


def refusal(path, match, **changes):
    """The one sentence with which the file is refused; it is left as it is."""
    before = path.read_bytes()
    with pytest.raises(ValueError, match=match) as refused:
        simulate(**changes, checkpoint=path)
    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)
    assert path.read_bytes() == before


def test_truncated_file_is_refused(half):
    whole = half.read_bytes()
    for size in (0, 1, 10, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        half.write_bytes(whole[:size])
        refusal(half, "is not a whole checkpoint")


def test_any_other_file_is_refused(half, tmp_path):
    np.save(tmp_path / "array.npy", np.zeros(3))
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    for number, header in enumerate(({"schema": 1}, [1, 2], "text", {})):
        np.savez(tmp_path / f"header{number}.npz", header=np.frombuffer(json.dumps(header).encode(), np.uint8))
    (tmp_path / "text").write_text("round,gap\n0,1.0\n")
    (tmp_path / "pickle").write_bytes(b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00K\x01.")
    for path in sorted(tmp_path.iterdir()):
        if path != half:
            refusal(path, "is not a whole checkpoint|has checkpoint schema|belongs to another run")


def test_flipped_bits_are_refused_or_harmless(half, undisturbed):
    """Every byte of the arrays and of the header is under a checksum; the zip container has bytes nobody reads."""
    whole, generator = half.read_bytes(), random.Random(0)
    contents = bytes_of_entries(half)
    container = sorted(set(range(len(whole))) - set(contents))
    for place in [*generator.sample(contents, 20), *generator.sample(container, 10)]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << generator.randrange(8)
        half.write_bytes(damaged)
        try:
            run = simulate(checkpoint=half)
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017
        else:
            assert place in container
            assert digest(run) == digest(undisturbed)


def bytes_of_entries(path):
    """Where in the file the contents of the zip's entries are, which are stored as they are."""
    whole, places = path.read_bytes(), []
    with zipfile.ZipFile(path) as file:
        for entry in file.infolist():
            name, extra = struct.unpack_from("<HH", whole, entry.header_offset + 26)
            start = entry.header_offset + 30 + name + extra
            places += range(start, start + entry.compress_size)
    return places


def rewrite(path, change):
    """The file with its header or arrays changed, in an intact container."""
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    header = json.loads(bytes(arrays.pop("header")).decode())
    change(header, arrays)
    with open(path, "wb") as file:
        np.savez(file, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)


def flip(header, arrays):
    name = next(name for name, array in arrays.items() if array.dtype == np.float64 and array.size > 1)
    arrays[name] = arrays[name].copy()
    arrays[name].ravel().view(np.uint8)[3] ^= 16


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda header, arrays: header.update(schema=99), "has checkpoint schema 99; this version reads schema 7"),
        (lambda header, arrays: header.update(version="0.0.9"), r"was written by fedualex 0\.0\.9, and this is \d"),
        (lambda header, arrays: header.pop("version"), "was written by fedualex None"),
        (lambda header, arrays: header.update(run="0"), "belongs to another run"),
        (flip, "is damaged: its checksum does not match"),
        (lambda header, arrays: header["history"][1].update(gap_last=0.0), "is damaged: its checksum does not match"),
        (lambda header, arrays: arrays.pop(f"leaf{len(arrays) - 1}"), "is damaged: its checksum does not match"),
        (lambda header, arrays: header.pop("checksum"), "is not a whole checkpoint|is damaged"),
    ],
    ids=["newer schema", "other version", "no version", "run", "bit flip", "history", "missing array", "no checksum"],
)
def test_changed_contents_are_refused(half, change, match):
    rewrite(half, change)
    refusal(half, match)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"method": fx.FeDualEx(0.31)},
        {"method": fx.FeDualEx(0.3, eta_s=0.9)},
        {"method": fx.FedDualAvg(0.3)},
        {"problem": game(1)},
        {"noise": fx.GaussianNoise(0.2)},
        {"noise": None},
        {"rounds": 14},
        {"record_every": 3},
        {"local_steps": 3},
        {"local_steps": [2, 2, 1]},
        {"clients": 4},
        {"cohort": 3},
        {"dtype": "float64"},
        {"z0": fx.Saddle(np.full(5, 0.1), np.zeros(4))},
        {"init": "paper"},
    ],
    ids=lambda changes: ",".join(changes),
)
def test_file_of_another_run_is_refused(half, changes):
    refusal(half, "belongs to another run", **changes)
