"""`fedualex solve` on files that somebody got wrong: a documented exit code, one line for a person, never a trace."""

import copy
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner, Result

from fedualex.cli import main

from .harness import require, within
from .terms import Rng

EXIT_CODES = {0, 2, 3, 4, 5, 6, 130}
"""Those that docs/cli.md lists for `solve`."""
PSI = {"L1": 0.1, "Box": 0.5}
GAME = {"name": "bilinear", "file": "game.npz", "x": PSI, "y": PSI}
METHOD = {"name": "FeDualEx", "eta_c": 0.3}
TABLES: tuple[dict[str, Any], ...] = (
    {"problem": GAME, "method": METHOD, "run": {"rounds": 3, "clients": 2, "noise": 0.1, "tol": 1e-3, "seed": 1}},
    {"problem": {"name": "matrix_game", "file": "game.npz"}, "method": {"name": "MirrorProx"}, "run": {"steps": 4}},
    {
        "problem": {"name": "agnostic", "file": "rows.npz", "l2": 0.1, "kl": 0.1},
        "method": METHOD,
        "run": {"rounds": 2, "minibatch": 2, "record_every": 1, "output": "last", "dtype": "float32"},
    },
    {
        "problem": {"name": "sparse_glm", "file": "rows.npz", "family": "logistic", "l1": 0.1, "radius": 2.0},
        "method": {"name": "FeDualExCorrected"},
        "run": {"rounds": 2, "local_steps": 2, "start": {"uniform": 0.1}, "max_seconds": 30.0},
    },
    {
        "problem": {**GAME, "file": "matrix.npz", "x": {"Spectral": PSI}, "y": {"L2Ball": 0.5}},
        "method": {"name": "FedMiD", "eta_c": 0.1, "server_prox": "none"},
        "run": {"rounds": 2, "init": "paper"},
    },
)
VALUES = (
    *(True, False, 0, -1, 1, 2, 3, 0.0, -0.5, 1e-320, 1e200, 1e308, float("nan"), float("inf"), 2**62, "", "abc"),
    *("Zero", "game.npz", "missing.npz", "../game.npz", "broken.npz", [], [1, 2], [[1], 2], ["a"], {}, {"L1": 0.1}),
    *(
        {"Box": -1},
        {"Box": [1, 2]},
        {"L1": "a"},
        {"L2Ball": 1, "Simplex": 1},
        {"uniform": 0.1},
        {"Spectral": {"Box": 1}},
    ),
    *({"EntropicSimplex": {}}, {"EntropicSimplex": {"regularizer": {"Entropy": 0.1}}}, "last", "float32", "FeDualEx"),
)
LARGE_SIZES = {"rounds", "steps", "local_steps", "clients", "cohort", "minibatch", "record_every", "chunk"}
"""Keys whose large whole numbers are wishes that only take long."""


def attack(rng: Rng) -> None:
    """One file with one to three changes, or with damaged text."""
    tables = copy.deepcopy(TABLES[rng.integers(len(TABLES))])
    for _ in range(rng.integers(1, 4)):
        _mutate(rng, tables)
    text = "".join(f"[{name}]\n" + _lines(table) for name, table in tables.items())
    if rng.random() < 0.15:
        text = _damaged(rng, text)
    file = folder() / "case.toml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    arguments = ["solve", str(file), "--out", str(folder() / "run"), *(["--json"] if rng.random() < 0.3 else [])]
    repro = f"# game.npz: A, b; rows.npz: X, y, clients; as tests/attack/configurations.py writes them\n{text}"
    with within(120, "fedualex solve", repro):
        check(CliRunner().invoke(main, arguments), EXIT_CODES, repro)
    shutil.rmtree(folder() / "run", ignore_errors=True)


def check(result: Result, codes: set[int], repro: str) -> None:
    """A documented exit code; what is wrong in one line, and never a trace."""
    escaped = result.exception is not None and not isinstance(result.exception, SystemExit)
    require(not escaped, f"{type(result.exception).__name__} escaped: {result.exception}", repro)
    require(result.exit_code in codes, f"exit code {result.exit_code}", repro)
    require("Traceback" not in result.output, "a trace is shown", repro)
    if result.exit_code == 2:
        # With --json it is JSON, where the answer would be.
        shown = result.stderr or str(json.loads(result.stdout)["error"])
        lines = [line for line in shown.splitlines() if line.strip()]
        require(len(lines) == 1 or lines[0].startswith("Usage"), f"bad input in {len(lines)} lines: {lines[:3]}", repro)
    if result.exit_code == 0:
        require(not re.search(r"\bnan\b", result.stdout, re.IGNORECASE), f"nan is shown: {result.stdout[:300]}", repro)


def _mutate(rng: Rng, tables: dict[str, Any]) -> None:
    """Change, drop, rename or add a key somewhere."""
    places = [place for place in _places(tables) if place[0]]
    if not places:
        return
    table, key = places[rng.integers(len(places))]
    kind = rng.random()
    if kind < 0.6:
        value = copy.deepcopy(VALUES[rng.integers(len(VALUES))])
        table[key] = 7 if key in LARGE_SIZES and value == 2**62 else value
    elif kind < 0.75:
        del table[key]
    elif kind < 0.9:
        table[str(rng.choice([f"{key}s", "weights", "cohort", "l1", "x", "entry", "fast", "ζ", "a b"]))] = table.pop(
            key
        )
    else:
        table["extra"] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])


def _places(table: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    for key, value in table.items():
        yield table, key
        if isinstance(value, dict):
            yield from _places(value)


def _lines(table: Any) -> str:
    if not isinstance(table, dict):
        return f"value = {_toml(table)}\n"
    return "".join(f"{json.dumps(key, ensure_ascii=False)} = {_toml(value)}\n" for key, value in table.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value) if isinstance(value, float) else json.dumps(value)


def _damaged(rng: Rng, text: str) -> str:
    """Some bytes changed, or the end cut."""
    content = bytearray(text.encode())
    for _ in range(rng.integers(1, 4)):
        content[rng.integers(len(content))] = rng.integers(256)
    return bytes(content[: rng.integers(1, len(content) + 1)]).decode("utf-8", "surrogateescape")


@cache
def folder() -> Path:
    """Where the data of all files is; removed when the program ends."""
    path = Path(_kept.name)
    rng = np.random.default_rng(0)
    A, b = rng.uniform(-1, 1, (3, 2)), rng.uniform(-1, 1, 3)
    np.savez(path / "game.npz", A=A, b=b)
    np.savez(path / "matrix.npz", A=A, b=rng.uniform(-1, 1, (3, 2)))
    X = rng.normal(size=(12, 2))
    np.savez(path / "rows.npz", X=X, y=np.where(X[:, 0] > 0, "yes", "no"), clients=np.repeat(["a", "b"], 6))
    (path / "broken.npz").write_bytes(os.urandom(64))
    return path


_kept = tempfile.TemporaryDirectory(prefix="attack")
