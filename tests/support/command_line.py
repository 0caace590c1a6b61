"""A folder of small problems with TOML files, its runs, and commands as a user would run them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from fedualex.cli import main

PSI = "{ L1 = 0.1, Box = 0.5 }"
SPECTRAL = f"{{ Spectral = {PSI} }}"
GAME = f'name = "bilinear"\nfile = "game.npz"\nx = {PSI}\ny = {PSI}'
METHOD = 'name = "FeDualEx"\neta_c = 0.5'
OUTPUTS = {"last", "ergodic", "client_average", "polished"}

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
        assert result.stderr == "", result.stderr
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
    return [{key: value for key, value in record.items() if "seconds" not in key} for record in records_of(path)]
