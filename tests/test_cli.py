"""The command line, as a user would run it: in a folder of small problems, with TOML files, and with all that goes wrong."""

import itertools
import json
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.tampering import alter, reseal

from fedualex.cli import main
from fedualex.cli.common import STOPS, exit_code
from fedualex.experiments import folder
from fedualex.experiments.configuration import RUN_DEFAULTS, with_defaults
from fedualex.experiments.names import METHODS, PROBLEMS, build_method, build_problem, build_regularizer
from fedualex.runtime import Stop, fingerprint

PSI = "{ L1 = 0.1, Box = 0.5 }"
SPECTRAL = f"{{ Spectral = {PSI} }}"
GAME = f'name = "bilinear"\nfile = "game.npz"\nx = {PSI}\ny = {PSI}'
METHOD = 'name = "FeDualEx"\neta_c = 0.5'
OUTPUTS = {"last", "ergodic", "clients", "polished"}

OWN = """
import jax.numpy as jnp
import numpy as np
import fedualex as fx

def build(shift=1.0):
    return fx.Problem(loss, x={"w": fx.L1(0.1)}, like=fx.Saddle({"w": np.zeros(3)}), data=[np.full((2, 3), shift)])

def loss(x, example):
    return jnp.sum((x["w"] - example) ** 2) / 2

def closed_over(shift):
    return fx.Problem(lambda x: jnp.sum((x - shift) ** 2), x=fx.Box(1.0), like=fx.Saddle(np.zeros(2)))

def three():
    data = [np.full((1, 2), m) for m in (0.0, 1.0, 2.0)]
    return fx.Problem(lambda x, e: jnp.sum((x - e) ** 2) / 2, x=fx.Box(3.0), like=fx.Saddle(np.zeros(2)), data=data)

def narrow():
    data = [np.random.default_rng(0).uniform(1, 2, (4, 2)).astype(np.float32)]
    f = lambda x, e: jnp.exp(0.37 * jnp.log(e[0])) * jnp.sum((x - e) ** 2)
    return fx.Problem(f, x=fx.L1(0.1) + fx.Box(1.0), like=fx.Saddle(np.zeros(2)), data=data)

def steep():
    f = lambda x: jnp.sum((x - 0.3) ** 2)
    return fx.Problem(f, x=fx.L1(1e7) + fx.Box(1.0), like=fx.Saddle(np.zeros(9)))

def not_finite():
    return fx.Problem(lambda x: jnp.sum(jnp.log(x)), x=fx.Box(lower=0.0, upper=1.0), like=fx.Saddle(np.zeros(2)))

def missing():
    return {}["shift"]

def number():
    return 5
"""
OWN_LINE = OWN.splitlines().index('    return {}["shift"]') + 1

RUNS = {
    "optimal": (GAME, METHOD, "rounds = 200\nrecord_every = 10\ntol = 1e-3"),
    "short": (GAME, 'name = "FeDualEx"', "rounds = 3\ntol = 1e-6"),
    "diverged": (
        GAME.replace("game", "zero").replace("L1 = 0.1", "L1 = 0.0"),
        'name = "FeDualEx"\neta_c = 20.0',
        "rounds = 20\nrecord_every = 1\nstart = { uniform = 1e-3 }",
    ),
    "noisy": (
        GAME,
        METHOD,
        'rounds = 10\nclients = 4\ncohort = 2\nlocal_steps = 2\nnoise = 0.1\ndtype = "float32"\nseed = 7',
    ),
    "machine": ('name = "matrix_game"\nfile = "payoff.npz"', 'name = "MirrorProx"', "steps = 200\ntol = 0.01"),
    "agnostic": (
        'name = "agnostic"\nfile = "data.npz"\nl2 = 0.1',
        METHOD,
        "rounds = 6\nminibatch = 4",
    ),
    "weighted": ('entry = "cli_own:three"', METHOD, "rounds = 6\nweights = [1.0, 1.0, 2.0]"),
    "spectral": (
        f'name = "bilinear"\nfile = "matrix.npz"\nx = {SPECTRAL}\ny = {{ Box = 0.5 }}',
        METHOD,
        "rounds = 6",
    ),
    "own": ('entry = "cli_own:build"\nshift = 2.0', METHOD, "rounds = 6"),
    "broken": ('entry = "cli_own:build"', 'name = "FeDualEx"\neta_c = 1e100', "rounds = 20\nrecord_every = 1"),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with data files, a module with problems, and one TOML file for each of RUNS."""
    path = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    A, b = rng.uniform(-1, 1, (3, 4)), rng.uniform(-1, 1, 3)
    np.savez(path / "game.npz", A=A, b=b)
    np.savez(path / "zero.npz", A=A, b=0 * b)
    np.savez(path / "payoff.npz", A=A)
    np.savez(path / "matrix.npz", A=A, b=rng.uniform(-1, 1, (3, 2)))
    X = rng.normal(size=(24, 2))
    labels = np.where(X @ [1, -1] + 0.3 * rng.normal(size=24) > 0, "yes", "no")
    np.savez(path / "data.npz", X=X, y=labels, clients=np.repeat(["a", "b", "c"], 8))
    (path / "cli_own.py").write_text(OWN)
    (path / "cli_syntax.py").write_text("def build(:\n")
    for name, tables in RUNS.items():
        write_toml(path / f"{name}.toml", *tables)
    return path


@pytest.fixture(scope="module")
def solved(here):
    """The folder of a run of RUNS, solved at the first call; (path, the result of the command)."""
    results = {}

    def solve(name):
        if name not in results:
            out = here / "runs" / name
            results[name] = out, cli("solve", here / f"{name}.toml", "--out", out)
        return results[name]

    return solve


@pytest.fixture
def copied(solved, tmp_path):
    """A copy of the folder of a run, to be spoiled."""

    def copy(name):
        return Path(shutil.copytree(solved(name)[0], tmp_path / name))

    return copy


def write_toml(path, problem=GAME, method=METHOD, run="rounds = 3"):
    path.write_text(f"[problem]\n{problem}\n\n[method]\n{method}\n\n[run]\n{run}\n")
    return path


def cli(*arguments):
    """Run a command in this process; it never shows a trace, and never colours or a bar where there is no terminal."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(f"{arguments} let an exception through") from result.exception
    assert "\x1b" not in result.output
    assert "\r" not in result.output
    if result.exit_code != 2:
        assert result.stderr == ""
    return result


def refused(*arguments):
    """The one line that a command refuses with."""
    result = cli(*arguments)
    assert result.exit_code == 2, result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("Error: ")
    assert len(lines[0]) > len("Error: ")
    return lines[0]


def strict(text):
    """JSON as the standard has it: no NaN, no Infinity."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def read(path, name):
    return strict((path / name).read_text())


def arrays_of(path):
    with np.load(path / "solution.npz") as file:
        return {name: file[name] for name in file.files}


def records_of(path):
    return [strict(line) for line in (path / "history.jsonl").read_text().splitlines()]


def without_times(path):
    return [{key: value for key, value in record.items() if key != "seconds"} for record in records_of(path)]


# --- solve ----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
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
    assert stored["gap"] == stored["outputs"][stored["output"]]["gap"]
    assert stored["outputs"].keys() - {"best"} == OUTPUTS
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
        assert array.shape == arrays[key.replace("/z/", "/g/")].shape


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
    agnostic = read(solved("agnostic")[0], "manifest.json")["configuration"]
    assert agnostic["problem"] == {
        "name": "agnostic",
        "loss": None,
        "delta": 1.0,
        "cvar": None,
        "file": "data.npz",
        "l1": 0.0,
        "l2": 0.1,
        "kl": 0.0,
        "prior": None,
        "radius": None,
    }
    assert agnostic["run"]["weights"] is None
    assert read(solved("weighted")[0], "manifest.json")["configuration"]["run"]["weights"] == [1.0, 1.0, 2.0]
    assert len(manifest["data_sha256"]) == 64
    assert {"python", "jax", "numpy", "fedualex"} <= manifest["versions"].keys()


def test_weights_are_in_the_stored_operators(solved):
    """The operator of the mean of |x - e|^2 / 2 is x - mean e: 1.25 with weights 1, 1, 2 for e = 0, 1, 2, not 1."""
    arrays = arrays_of(solved("weighted")[0])
    assert arrays["last/g/x"] == pytest.approx(arrays["last/z/x"] - 1.25, rel=1e-12)


def test_the_operator_of_a_mixture_is_the_clients_losses(solved):
    path, _ = solved("agnostic")
    arrays = arrays_of(path)
    manifest = read(path, "manifest.json")
    assert {key.split("/")[2] for key in arrays} == {"x['bias']", "x['weights']", "y"}
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
    assert "another configuration" in refused("solve", here / "optimal.toml", "--out", path)
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
            history, deadline = out / "history.jsonl", time.monotonic() + 250
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
    assert "another configuration" in refused("solve", here / "noisy.toml", "--out", path)
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


# --- refusals ---------------------------------------------------------------------------------------------------------

REFUSALS = [
    # (table, its content, what the line must say)
    ("problem", 'name = "bilinar"', "did you mean 'bilinear'?"),
    ("problem", f'nam = "bilinear"\nx = {PSI}', 'needs either name = "..." or entry'),
    ("problem", 'name = "bilinear"\nentry = "a:b"', 'needs either name = "..." or entry'),
    ("problem", 'name = ["bilinear"]', "there is no problem ['bilinear']"),
    ("problem", GAME.replace("file", "fiel"), "[problem] has no key 'fiel'; did you mean 'file'?"),
    ("problem", f'name = "bilinear"\nx = {PSI}\ny = {PSI}', 'needs file = "....npz" with the arrays A, b'),
    ("problem", GAME.replace("game.npz", "nowhere.npz"), "nowhere.npz cannot be read"),
    ("problem", GAME.replace("game.npz", "own.toml"), "own.toml cannot be read"),
    ("problem", GAME.replace("game.npz", "data.npz"), "data.npz must hold the arrays A, b; 'A' is missing"),
    ("problem", 'name = "bilinear"\nfile = "game.npz"', "'x'"),
    ("problem", 'name = "paper_l1"\nsed = 1', "did you mean 'seed'?"),
    ("problem", 'name = "paper_l1"\nseed = "a"', "[problem]"),
    ("problem", GAME.replace("L1 =", "L_1 ="), "did you mean 'L1'?"),
    ("problem", GAME.replace("{ L1 = 0.1, Box", "{ Simplex = 1.0, Box"), "has no closed form"),
    (
        "problem",
        GAME.replace("Box = 0.5", "Box = { radios = 0.5 }"),
        "x.Box has no key 'radios'; did you mean 'radius'?",
    ),
    ("problem", GAME.replace("Box = 0.5", "Box = { upper = inf }"), "problem.x.Box.upper must be finite"),
    ("problem", GAME.replace("L1 = 0.1", "L1 = nan"), "problem.x.L1 must be finite"),
    ("problem", GAME.replace("L1 = 0.1", 'L1 = "a"'), "[problem] x.L1"),
    ("problem", GAME.replace("L1 = 0.1", "L1 = -0.1"), "[problem] x.L1"),
    ("problem", GAME.replace("L1 = 0.1", "L1 = 2026-01-01"), "problem.x.L1 must be a number"),
    ("problem", GAME.replace(f"x = {PSI}", "x = 0.1"), "[problem] x must be such as"),
    ("problem", GAME.replace(f"x = {PSI}", "x = {}"), "[problem] x must be such as"),
    ("problem", GAME.replace(f"x = {PSI}", 'x = "Zeroo"'), "did you mean 'Zero'?"),
    ("problem", GAME.replace(f"x = {PSI}", "x = { Spectral = 0.1 }"), "[problem] x.Spectral must be such as"),
    ("problem", GAME.replace(f"x = {PSI}", f"x = {SPECTRAL}"), "Spectral needs a matrix"),
    ("problem", GAME.replace(f"x = {PSI}", "x = { EntropicSimplex = [], Entropy = 1.0 }"), "{regularizer = {...}}"),
    ("problem", 'entry = "cli_own"', 'entry must be "module:function"'),
    ("problem", "entry = 5", 'entry must be "module:function"'),
    ("problem", 'entry = "cli_nowhere:build"', "No module named 'cli_nowhere'"),
    ("problem", 'entry = "cli_own:biuld"', "has no attribute 'biuld'"),
    ("problem", 'entry = "cli_own:build"\nshft = 1', "unexpected keyword argument 'shft'"),
    ("problem", 'entry = "cli_own:number"', "must return a problem, got 5"),
    ("problem", 'entry = "cli_own:missing"', f"KeyError: 'shift' (cli_own.py, line {OWN_LINE})"),
    ("problem", 'entry = "cli_syntax:build"', "SyntaxError: invalid syntax (cli_syntax.py, line 1)"),
    ("method", 'name = "FeDualX"', "there is no method 'FeDualX'; did you mean 'FeDualEx'?"),
    ("method", 'nmae = "FeDualEx"', '[method] needs name = "..."'),
    ("method", "name = { a = 1 }", "there is no method {'a': 1}"),
    ("method", 'name = "FeDualEx"\neta_k = 0.1', "[method] has no key 'eta_k'; did you mean 'eta_"),
    ("method", 'name = "FeDualEx"\neta_c = "big"', "[method]: eta_c must be a number > 0, got 'big'"),
    ("method", 'name = "FeDualEx"\neta_c = -1', "[method]: eta_c must be a number > 0, got -1.0"),
    ("method", 'name = "FedMiD"\nserver_prox = "some"', "server_prox"),
    ("run", "rouns = 3", "[run] has no key 'rouns'; did you mean 'rounds'?"),
    ("run", "rounds = 3\ntolerance = 1", "[run] has no key 'tolerance'"),
    ("run", 'rounds = "many"', "rounds must be a whole number >= 1, got 'many'"),
    ("run", "rounds = 3.0", "rounds must be a whole number >= 1, got 3.0"),
    ("run", "rounds = 0", "rounds must be a whole number >= 1, got 0"),
    ("run", "rounds = 99999999999999999999", "run.rounds must be a number of 64 bits"),
    ("run", "clients = 3", "rounds= "),
    ("run", "rounds = 3\nsteps = 3", "rounds= "),
    ("run", "rounds = 3\nnoise = -1", "[run] noise: GaussianNoise: sigma must be a number >= 0, got -1.0"),
    ("run", "rounds = 3\nnoise = true", "[run] noise must not be true"),
    ("run", "rounds = 3\nnoise = 0.1\nminibatch = 2", "noise or minibatch, not both"),
    ("run", "rounds = 3\nminibatch = 2", "[run] minibatch: this problem has no examples"),
    ("run", "rounds = 3\nminibatch = 0", "[run] minibatch: Minibatch: size must be a whole number >= 1"),
    ("run", "rounds = 3\nclients = 2\ncohort = 3", "cohort must be at most the number of clients, 2"),
    ("run", "rounds = 3\nclients = 2\nlocal_steps = [1, 2, 3]", "one for each of 2 clients"),
    ("run", "rounds = 3\nweights = [1.0, 2.0]", "weights"),
    ("run", "rounds = 3\nstart = 0.1", "[run] start must be {uniform = radius}, got 0.1"),
    ("run", "rounds = 3\nstart = { uniform = -1 }", "start.uniform must be a number > 0, got -1.0"),
    ("run", "rounds = 3\nseed = -1\nstart = { uniform = 1 }", "seed must be a whole number >= 0, got -1"),
    ("run", "rounds = 3\ntol = nan", "run.tol must be finite"),
    ("run", "rounds = 3\ntol = 0", "tol must be a number > 0"),
    ("run", 'rounds = 3\ndtype = "float16"', "dtype must be 'float32' or 'float64'"),
    ("run", 'rounds = 3\noutput = "best"', "output must be one of 'last'"),
    ("run", "rounds = 3\nrecord_every = 0", "record_every must be a whole number >= 1"),
    ("run", "rounds = 3\nmax_seconds = -1", "max_seconds must be a number > 0"),
]


@pytest.mark.parametrize(("table", "content", "words"), REFUSALS, ids=lambda value: value.replace("\n", ", ")[:60])
def test_a_wrong_file_is_refused_in_one_line_and_leaves_nothing(here, tmp_path, table, content, words):
    file = write_toml(here / "wrong.toml", **{table: content})
    assert words in refused("solve", file, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert words in refused("theory", file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[problem", "cannot be read as TOML"),
        ("[problem]\nname = paper_l1", "line 2"),
        ("", "needs a table [problem]"),
        ("problem = 1", "needs a table [problem]"),
        ("[problem]\n[run]", "needs a table [method]"),
        ("[problem]\n[metod]\n[run]", "the file has no key 'metod'; did you mean 'method'?"),
        ("\ufeff[problem]", "cannot be read as TOML"),
    ],
)
def test_a_file_that_is_not_a_configuration_is_refused(tmp_path, text, words):
    (tmp_path / "wrong.toml").write_text(text)
    assert words in refused("solve", tmp_path / "wrong.toml")
    assert words in refused("theory", tmp_path / "wrong.toml")


def test_missing_files_and_folders_are_refused(tmp_path):
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for command in ("solve", "theory"):
        assert "there is no file" in refused(command, tmp_path / "nowhere.toml")
        assert "cannot be read as TOML" in refused(command, tmp_path)
        assert "cannot be read as TOML" in refused(command, tmp_path / "binary.toml")
    for command in ("verify", "report", "compare"):
        assert "there is no folder" in refused(command, tmp_path / "nowhere")
        assert "has no manifest.json" in refused(command, tmp_path)


def test_regularizers_as_a_file_names_them():
    built = {
        '"Zero"': "Zero()",
        "{L1 = 0.1, Box = 0.5, SquaredL2 = 1.0}": "L1(0.1) + Box(0.5) + SquaredL2(1.0)",
        "{Box = {lower = 0.0, upper = 2.0}}": "Box(lower=0.0, upper=2.0)",
        "{ElasticNet = [0.1, 2.0]}": "L1(0.1) + SquaredL2(2.0)",
        "{Spectral = {L1 = 0.1, Box = 0.5}}": "Spectral(L1(0.1) + Box(0.5))",
        '"EntropicSimplex"': "EntropicSimplex()",
        "{EntropicSimplex = {regularizer = {CappedSimplex = 0.5}}}": "EntropicSimplex(CappedSimplex(0.5))",
        "{PNorm = {p = 1.5, regularizer = {L1 = 0.1}}}": "PNorm(1.5, L1(0.1))",
    }
    for text, expected in built.items():
        assert repr(build_regularizer(tomllib.loads(f"x = {text}")["x"], "x")) == expected


# --- verify -----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
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
    assert sum(text.startswith("operator from the data") for text in what) == len(outputs)
    assert sum(text == "x part of the certificate" for text in what) == len(outputs)
    assert ("rank" in what) == (name == "spectral")
    assert "density" in what
    assert cli("verify", solved(name)[0], *trust).stdout.splitlines()[-1] == "VERIFIED"


@pytest.mark.parametrize("name", ["own", "broken"])
def test_a_run_without_certificates_cannot_be_verified_in_full(solved, name):
    result = cli("verify", solved(name)[0], "--trust")
    assert result.exit_code == 3
    assert "the domain is unbounded" in " ".join(re.findall(r"[\w']+", result.stdout))
    assert result.stdout.splitlines()[-1].startswith("NOT FULLY CHECKED")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("with_data", [True, False])
def test_verify_sees_every_altered_array(copied, with_data):
    path = copied("optimal")
    if not with_data:
        alter(path, "manifest.json", lambda manifest: manifest["configuration"].update(folder="/nowhere"))
    whole = arrays_of(path)
    for name, array in whole.items():
        changed = array.copy()
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


def test_verify_sees_every_altered_gap(copied):
    path = copied("optimal")
    whole = (path / "status.json").read_text()
    places = [
        ("gap",),
        *(("outputs", o, key) for o in OUTPUTS for key in ("gap", "gap_x", "gap_y", "density", "objective")),
    ]
    places += [("rounds",), ("bytes_up",), ("bytes_down",)]
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
        ("manifest.json", b'{"schema": 2, "kind": "photo"}', "kind 'photo'"),
        ("manifest.json", b'{"schema": 2, "kind": "run"}', "manifest.json is damaged: it lacks 'configuration'"),
        ("manifest.json", b'{"schema": 3, "kind": "run"}', "written by a newer fedualex"),
        ("manifest.json", b'{"schema": 1, "kind": "run"}', "written by an older fedualex"),
        ("manifest.json", b'{"schema": 2, "kind": "experiment"}', "manifest.json is damaged: it lacks 'title'"),
        ("history.jsonl", None, "history.jsonl"),
        ("history.jsonl", b'{"round": 0, "seconds": 0.1}\n{"rou', "history.jsonl is damaged in line 2"),
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


# --- compare and report -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_compare_shows_runs_of_one_problem(solved, tmp_path):
    runs = [solved(name)[0] for name in ("optimal", "noisy")]
    table = strict(cli("compare", *runs, "--json").stdout)
    assert {row["method"] for row in table} == {"FeDualEx (optimal)", "FeDualEx (noisy)"}
    assert {row["output"] for row in table} == OUTPUTS
    for row in table:
        run = runs["noisy" in row["method"]]
        assert row["gap"] == read(run, "status.json")["outputs"][row["output"]]["gap"]
    out = tmp_path / "comparison"
    shown = cli("compare", *runs, "--out", out).stdout
    assert "(noisy)" in shown
    assert f"report: {out / 'report.html'}" in shown
    page = (out / "report.html").read_text()
    assert "FeDualEx (noisy)" in page
    assert {file.suffix for file in (out / "figures").iterdir()} == {".png", ".pdf"}
    assert all(file.stat().st_size > 1000 for file in (out / "figures").iterdir())
    assert read(out, "manifest.json")["kind"] == "comparison"


def test_compare_refuses_what_cannot_be_compared(solved, copied, tmp_path):
    optimal = solved("optimal")[0]
    for other in ("diverged", "machine"):
        assert "different problems" in refused("compare", optimal, solved(other)[0], "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    result = cli("compare")
    assert result.exit_code == 2
    assert "Missing argument" in result.stderr


def test_compare_never_writes_over_a_run(solved, copied, tmp_path):
    path = copied("optimal")
    assert "kind 'comparison' is needed" in refused("compare", path, "--out", path)
    assert cli("verify", path).exit_code == 0
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"")
    assert "not a folder that fedualex wrote" in refused("compare", path, "--out", tmp_path / "photos")


def test_report_of_a_run(copied):
    path = copied("spectral")
    files = [Path(file) for file in strict(cli("report", path, "--json").stdout)]
    assert files[0] == path / "report.html"
    assert all(file.stat().st_size > 1000 for file in files)
    assert {file.name for file in files[1:]} == {
        f"spectral-{output}{axis}.{kind}"
        for output in ("last", "ergodic")
        for axis in ("", "-megabytes")
        for kind in ("png", "pdf")
    }
    page = files[0].read_text()
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "FeDualEx" in page


def test_report_of_a_run_without_certificates(copied):
    path = copied("own")
    assert cli("report", path).exit_code == 0
    assert "the domain is unbounded in x" in (path / "report.html").read_text()


def test_compare_keeps_runs_of_equal_names_apart(solved, copied):
    table = strict(cli("compare", solved("short")[0], copied("short"), "--json").stdout)
    assert len(table) == 2 * len(OUTPUTS)


def test_a_loss_is_told_apart_by_what_it_closes_over(here):
    first, second = (build_problem({"entry": "cli_own:closed_over", "shift": s}, here) for s in (1.0, 2.0))
    assert fingerprint(first) != fingerprint(second)


# --- theory, methods, problems, help, demo ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "results"),
    [
        ("optimal", [("Theorem 1", "printed"), ("Theorem 1", "corrected"), ("Proposition B, corrected", "ours")]),
        ("machine", [("Theorem 4", "printed"), ("Theorem 4", "corrected")]),
        ("own", [("Theorem 2", "printed"), ("Theorem 2", "corrected"), ("Proposition B, corrected", "ours")]),
    ],
)
def test_theory_prints_constants_and_bounds(here, name, results):
    found = strict(cli("theory", here / f"{name}.toml", "--json").stdout)
    assert [(bound["result"], bound["version"]) for bound in found["bounds"]] == results
    assert found["constants"].keys() == {"beta", "sigma", "grad_bound", "B", "B0", "diameter", "kappa"}
    assert found["constants"]["beta"]["value"] > 0
    assert found["constants"]["sigma"]["value"] == 0
    shown = cli("theory", here / f"{name}.toml").stdout
    assert "Steps and bounds" in shown
    assert "…" not in shown
    assert f"{found['constants']['beta']['value']:.4g}" in shown
    for bound in found["bounds"]:
        if name == "own":  # unbounded: nothing is promised
            assert bound["total"] is None
        elif bound["version"] != "printed":
            assert 0 < bound["best_step"] <= bound["step_limit"]
            assert bound["total"] == pytest.approx(sum(bound["terms"].values()))


def test_theory_knows_the_spectral_norm_and_the_noise(here):
    file = write_toml(here / "theory.toml", run="rounds = 9\nclients = 4\nlocal_steps = 3\nnoise = 0.5")
    constants = strict(cli("theory", file, "--json").stdout)["constants"]
    with np.load(here / "game.npz") as data:
        assert constants["beta"]["value"] == pytest.approx(np.linalg.norm(data["A"], 2))
    assert constants["sigma"]["value"] == pytest.approx(0.5 * np.sqrt(7))
    write_toml(here / "theory.toml", run="steps = 9\nnoise = 0.5")
    assert {bound["result"] for bound in strict(cli("theory", file, "--json").stdout)["bounds"]} == {"Theorem 3"}


def test_the_catalogue_lists_all_that_a_file_can_name():
    methods, problems = (strict(cli(command, "--json").stdout) for command in ("methods", "problems"))
    assert methods.keys() == METHODS.keys()
    assert problems.keys() == PROBLEMS.keys()
    assert all(text and "\n" not in text for text in [*methods.values(), *problems.values()])
    for command, names in (("methods", methods), ("problems", problems)):
        shown = cli(command).stdout
        assert all(name in shown for name in names)


def test_every_method_can_be_named_without_step_sizes_and_kept_as_json():
    for name in METHODS:
        build_method({"name": name})
        assert strict(json.dumps(with_defaults({"name": name}, METHODS)))["name"] == name


GROUPS = [name for name, command in main.commands.items() if hasattr(command, "commands")]
COMMANDS = [[name] for name in main.commands if name not in GROUPS]
COMMANDS += [[group, name] for group in GROUPS for name in main.commands[group].commands]


@pytest.mark.parametrize("command", [[], *([group] for group in GROUPS), *COMMANDS])
def test_help_of_every_command(command):
    result = cli(*command, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")
    if command in COMMANDS:
        assert "--json" in result.stdout


def test_the_program_starts_without_jax():
    program = "import sys; from fedualex.cli import main; assert 'jax' not in sys.modules; main(['--version'])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=250, check=True)
    assert re.search(r"version \d+\.\d+\.\d+", result.stdout)


@pytest.mark.slow
def test_demo_is_optimal_and_writes_a_report(tmp_path):
    out = tmp_path / "demo"
    result = cli("demo", "--out", out, "--json")
    assert result.exit_code == 0
    found = strict(result.stdout)
    assert found["folder"] == str(out)
    assert found["status"]["status"] == "OPTIMAL"
    assert found["status"]["gap"] <= 0.02
    assert found["status"] == read(out / "FeDualEx", "status.json")
    assert {row["method"] for row in found["table"]} == {"FeDualEx", "FedMiP", "FedDualAvg", "FedMiD"}
    assert all(row["distance"] >= 0 for row in found["table"])
    assert "FedDualAvg" in (out / "report.html").read_text()
    for method in ("FeDualEx", "FedMiP", "FedDualAvg", "FedMiD"):
        assert cli("verify", out / method).exit_code == 0
    assert "holds something else" in refused("demo", "--out", out / "FeDualEx")
