"""Checkpoints: resumed runs are the undisturbed ones bit for bit, and anything but a whole file of this run is refused."""

import functools
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import rows

import fedualex as fx
from fedualex.runtime import checkpoint as checkpoints

PSI = fx.L1(0.1) + fx.Box(0.5)
OPTIONS = {"rounds": 12, "clients": 3, "cohort": 2, "local_steps": 2, "record_every": 2, "noise": fx.GaussianNoise(0.1)}


def game(seed=0):
    rng = np.random.default_rng(seed)
    return fx.problems.bilinear(rng.uniform(-1, 1, (4, 5)), rng.uniform(-1, 1, 4), x=PSI, y=PSI)


GAME = game()


def simulate(problem=GAME, method=None, **options):
    return fx.simulate(problem, fx.FeDualEx(0.3) if method is None else method, **(OPTIONS | options))


def digest(run):
    """SHA-256 of the final state, and of the history without its clock times."""
    state = hashlib.sha256()
    for leaf in jax.tree.leaves(run.state):
        state.update(np.ascontiguousarray(leaf).tobytes())
    history = {key: column.tolist() for key, column in run.history.items() if key != "seconds"}
    return state.hexdigest(), hashlib.sha256(json.dumps(history, sort_keys=True).encode()).hexdigest()


def stop_at(round_index):
    def callback(record):
        if record["round"] == round_index:
            raise KeyboardInterrupt

    return callback


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


FACTOR = 1.0


def helper(x):
    return FACTOR * x


def calls_helper(x):
    return helper(x)


@jax.jit
def compiled(x):
    return FACTOR * x


def calls_compiled(x):
    return compiled(x)


def calls_itself(x):
    return calls_itself(x - 1) if x > 0 else x


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def method(self, x):
        return self.factor * x

    def __call__(self, x):
        return self.method(x)


def test_a_fingerprint_sees_what_a_function_computes(monkeypatch):
    def squared(x):
        inner = lambda t: t**2  # noqa: E731
        return inner(x)

    def fourth(x):
        inner = lambda t: t**4  # noqa: E731
        return inner(x)

    of = checkpoints.fingerprint
    for one, other in [
        (squared, fourth),
        (jax.jit(squared), jax.jit(fourth)),
        (Scaled(1.0), Scaled(2.0)),
        (Scaled(1.0).method, Scaled(2.0).method),
        (np.sin, np.cos),
    ]:
        assert of(one) == of(one) != of(other)
    assert of(calls_itself) == of(calls_itself)
    before = of(calls_helper), of(calls_compiled), of(Scaled(1.0))
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    monkeypatch.setattr(Scaled, "__call__", lambda self, x: x)
    assert all(map(str.__ne__, before, (of(calls_helper), of(calls_compiled), of(Scaled(1.0)))))


class Settings:
    factor = 1.0


helper_of_rows = rows.kinds_first
SETTINGS, LISTED, NAMED = Settings(), [1.0], {"factor": 1.0}


def uses_a_list(x):
    return LISTED[0] * x


def uses_a_dictionary(x):
    return NAMED["factor"] * x


def uses_an_object(x):
    return SETTINGS.factor * x


def uses_a_class(x):
    return Settings.factor * x


def uses_another_module(x):
    return rows.factor * x


def uses_another_modules_function(x):
    return helper_of_rows(x)


class Own(eqx.Module):
    def __call__(self, x):
        return x


UNSEEN = {
    "what a list holds": (uses_a_list, lambda patch: patch.setitem(globals(), "LISTED", [2.0])),
    "what a dictionary holds": (uses_a_dictionary, lambda patch: patch.setitem(NAMED, "factor", 2.0)),
    "an object's attribute": (uses_an_object, lambda patch: patch.setattr(SETTINGS, "factor", 2.0, raising=False)),
    "a class's attribute": (uses_a_class, lambda patch: patch.setattr(Settings, "factor", 2.0)),
    "another module's number": (uses_another_module, lambda patch: patch.setattr(rows, "factor", 2.0, raising=False)),
    "another module's function": (
        uses_another_modules_function,
        lambda patch: patch.setitem(globals(), "helper_of_rows", eqx.filter),
    ),
    "the methods of a class of pytrees": (Own(), lambda patch: patch.setattr(Own, "__call__", lambda self, x: 2 * x)),
    "the methods that a method calls": (
        Scaled(1.0),
        lambda patch: patch.setattr(Scaled, "method", lambda self, x: 2 * x),
    ),
}


@pytest.mark.parametrize("what", UNSEEN)
def test_what_a_fingerprint_does_not_see(what, monkeypatch):
    """The list of docs/simulator.md: a run whose f changed in these ways only is continued. Seeing one is welcome."""
    function, change = UNSEEN[what]
    before = checkpoints.fingerprint(function)
    change(monkeypatch)
    assert checkpoints.fingerprint(function) == before


def test_a_run_is_of_a_version_and_a_schema(monkeypatch):
    before, data = checkpoints.run_id(GAME), checkpoints.fingerprint(GAME)
    for name, value in (("__version__", "0.0.9"), ("SCHEMA", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(checkpoints, name, value)
            assert checkpoints.run_id(GAME) != before
            assert checkpoints.fingerprint(GAME) == data  # of a problem alone: any version can compare it


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
from test_checkpoints import digest

rng = np.random.default_rng(0)
psi = fx.L1(0.1) + fx.Box(0.5)
game = fx.problems.bilinear(rng.uniform(-1, 1, (40, 50)), rng.uniform(-1, 1, 40), x=psi, y=psi)
print("ready", flush=True)
run = fx.simulate(game, fx.FeDualEx(0.03), rounds={rounds}, clients=4, cohort=3, local_steps=2, seed=1,
                  record_every=1, noise=fx.GaussianNoise(0.1), checkpoint={path!r})
print(*digest(run), run.rounds, flush=True)
"""


def start_child(path, rounds, cache):
    code = CHILD.format(tests=str(Path(__file__).parent), path=str(path), rounds=rounds)
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
    whole, generator, refused = half.read_bytes(), random.Random(0), 0
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[generator.randrange(len(whole))] ^= 1 << generator.randrange(8)
        half.write_bytes(damaged)
        try:
            run = simulate(checkpoint=half)
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017
            refused += 1
        else:
            assert digest(run) == digest(undisturbed)
    assert refused > 20


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
        (lambda header, arrays: header.update(schema=99), "has checkpoint schema 99; this version reads schema 3"),
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
        {"dtype": "float32"},
        {"z0": fx.Saddle(np.full(5, 0.1), np.zeros(4))},
        {"init": "paper"},
    ],
    ids=lambda changes: ",".join(changes),
)
def test_file_of_another_run_is_refused(half, changes):
    refusal(half, "belongs to another run", **changes)


# --- which run it is -----------------------------------------------------------------------------------------------


def scaled_game(scale, x, y):
    return scale * jnp.vdot(x, y)


def of(f):
    return fx.Problem(f, x=PSI, y=PSI, like=fx.Saddle(np.zeros(2), np.zeros(2)))


def test_functions_are_told_apart_by_what_they_compute():
    pairs = [
        (lambda x, y: jnp.vdot(x, y), lambda x, y: 2 * jnp.vdot(x, y)),
        (lambda x, y: jnp.sum(x) * y[0], lambda x, y: jnp.max(x) * y[0]),
        (functools.partial(scaled_game, 2.0), functools.partial(scaled_game, 3.0)),
    ]
    for one, other in pairs:
        assert checkpoints.fingerprint(of(one)) != checkpoints.fingerprint(of(other))


def test_fingerprint_is_the_same_in_another_process():
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_checkpoints import fingerprints\nprint(*fingerprints())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == fingerprints()


def fingerprints():
    """Of a game, a problem with a partial function, and one with data: none of them may depend on addresses."""
    data = [{"a": np.arange(3.0)}, {"a": np.arange(2.0)}]
    like = fx.Saddle(np.zeros(2), np.zeros(2))
    with_data = fx.Problem(lambda x, y, e: e["a"] * jnp.vdot(x, y), x=PSI, y=PSI, like=like, data=data)
    problems = (GAME, of(functools.partial(scaled_game, 2.0)), with_data)
    return [checkpoints.fingerprint(problem, fx.FeDualEx(0.1), jax.random.key(3)) for problem in problems]
