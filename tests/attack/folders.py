"""Run folders that somebody changed: `fedualex verify` never says VERIFIED of another claim, and never shows a trace."""

import hashlib
import io
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

from fedualex.cli import main

from .configurations import TABLES, _lines, check, folder
from .harness import require, within
from .terms import Rng

EXIT_CODES = {0, 1, 2, 3}
FILES = ("manifest.json", "status.json", "history.jsonl", "solution.npz")
UNCLAIMED = {"created", "command", "versions", "machine"}
"""Keys of the manifest that say where a run was made; nothing follows from them."""


@cache
def runs() -> list[Path]:
    """Finished runs, each of which is verified as it is."""
    found = []
    for number, tables in enumerate(TABLES):
        file, path = folder() / f"base-{number}.toml", folder() / f"base-{number}"
        file.write_text("".join(f"[{name}]\n" + _lines(table) for name, table in tables.items()))
        CliRunner().invoke(main, ["solve", str(file), "--out", str(path)])
        result = CliRunner().invoke(main, ["verify", str(path)])
        if result.exit_code != 0:
            differs = [line for line in result.output.splitlines() if "DIFFERS" in line or "not checked" in line]
            raise RuntimeError(f"an honest run is not verified: {differs[:3]}")
        found.append(path)
    return found


def attack(rng: Rng) -> None:
    """One change to one copy."""
    original = runs()[rng.integers(len(runs()))]
    changed = folder() / "changed"
    shutil.rmtree(changed, ignore_errors=True)
    shutil.copytree(original, changed)
    kinds = (_change_value, _change_value, _change_value, _flip, _cut, _change_array, _change_history)
    what = kinds[rng.integers(len(kinds))](rng, changed)
    repro = f"# {json.dumps(TABLES[int(original.name[-1])])}\n# fedualex solve, then {what}, then fedualex verify"
    with within(120, "fedualex verify", repro):
        result = CliRunner().invoke(main, ["verify", str(changed)])
    check(result, EXIT_CODES, repro)
    if claims(changed) != claims(original):
        require(result.exit_code != 0 and "VERIFIED" not in result.output, f"VERIFIED after {what}", repro)


def claims(path: Path) -> Any:
    """What a folder says, file by file, without where it was made; a damaged file says something else."""
    return [_content(path / name) for name in FILES]


def _content(file: Path) -> Any:
    try:
        if file.suffix == ".npz":
            with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as arrays:
                return {key: (arrays[key].shape, arrays[key].tobytes()) for key in arrays.files}
        if file.suffix == ".jsonl":
            return [json.loads(line) for line in file.read_text().splitlines()]
        data = json.loads(file.read_text())
        return {key: value for key, value in data.items() if key not in UNCLAIMED} if isinstance(data, dict) else data
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _change_value(rng: Rng, path: Path) -> str:
    """A value of a JSON file: another number, another word, dropped."""
    file = path / str(rng.choice(["manifest.json", "status.json"]))
    data = json.loads(file.read_text())
    places = [place for place in _leaves(data) if place[0] not in UNCLAIMED]
    keys = places[rng.integers(len(places))]
    *way, last = keys
    table = data
    for key in way:
        table = table[key]
    old = table[last]
    if rng.random() < 0.2:
        del table[last]
        how = "dropped"
    else:
        table[last] = _other(rng, old)
        how = f"changed from {old!r} to {table[last]!r}"
    file.write_text(json.dumps(data))
    return f"{file.name}: {'.'.join(map(str, keys))} {how}"


def _leaves(data: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(data, dict) and data:
        return [leaf for key, value in data.items() for leaf in _leaves(value, (*way, key))]
    if isinstance(data, list) and data:
        return [leaf for i, value in enumerate(data) for leaf in _leaves(value, (*way, i))]
    return [way] if way else []


def _other(rng: Rng, old: Any) -> Any:
    """A value of the same kind that is not the same, or one of another kind."""
    if rng.random() < 0.15:
        return str(rng.choice(["", "OPTIMAL", "x"])) if not isinstance(old, str) else 1
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return old + int(rng.choice([-1, 1, 10]))
    if isinstance(old, float):
        return old * float(rng.choice([0.5, 0.99, 1 + 1e-6, 2.0])) + (0.0 if old else 1e-3)
    if isinstance(old, str):
        return str(rng.choice(["OPTIMAL", "MAX_ROUNDS", "last", "polished", old + "x", old[:-1] or "y"]))
    return 0.5


def _change_array(rng: Rng, path: Path) -> str:
    """An entry of a point or an operator."""
    file = path / "solution.npz"
    with np.load(file) as stored:
        arrays = {key: stored[key] for key in stored.files}
    key = str(rng.choice(list(arrays)))
    entry = int(rng.integers(arrays[key].size))
    factor = float(rng.choice([0.0, 0.9, 1.001, -1.0]))
    arrays[key] = arrays[key].copy()
    arrays[key].flat[entry] = arrays[key].flat[entry] * factor + (0.01 if not arrays[key].flat[entry] else 0.0)
    np.savez(file, **arrays)
    return f"solution.npz: entry {entry} of {key} times {factor}"


def _change_history(rng: Rng, path: Path) -> str:
    """A number of a record, with the checksum of the history brought up to date."""
    file, status = path / "history.jsonl", path / "status.json"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    record = records[rng.integers(len(records))]
    key = str(rng.choice([key for key in record if isinstance(record[key], int | float)]))
    old, record[key] = record[key], _other(rng, record[key])
    content = "".join(json.dumps(one) + "\n" for one in records).encode()
    file.write_bytes(content)
    told = json.loads(status.read_text())
    told["history_sha256"] = hashlib.sha256(content).hexdigest()
    status.write_text(json.dumps(told))
    return f"history.jsonl: {key} changed from {old!r} to {record[key]!r}, checksum updated"


def _flip(rng: Rng, path: Path) -> str:
    """A bit of any file."""
    file = path / str(rng.choice(FILES))
    content = bytearray(file.read_bytes())
    place, bit = int(rng.integers(len(content))), int(rng.integers(8))
    content[place] ^= 1 << bit
    file.write_bytes(bytes(content))
    return f"{file.name}: bit {bit} of byte {place} flipped"


def _cut(rng: Rng, path: Path) -> str:
    """A file without its end, or without anything."""
    file = path / str(rng.choice([*FILES, "checkpoint.npz"]))
    if rng.random() < 0.3:
        file.unlink()
        return f"{file.name} removed"
    length = int(rng.integers(len(file.read_bytes())))
    file.write_bytes(file.read_bytes()[:length])
    return f"{file.name} cut to {length} bytes"
