"""Model folders that somebody changed: one sentence, or the answer that their numbers have; no trace, hang or flood."""

import io
import json
import os
import re
import shutil
import tracemalloc
import zipfile
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from click.testing import CliRunner
from support.committee_data import effect, effects, full_training, path_curve
from support.patients import columns, write

import fedualex as fx
from fedualex import models
from fedualex.cli import main
from fedualex.data import Coding, Encoder
from fedualex.models import Answers, Model
from fedualex.models.store import MOST_ARRAYS, MOST_JSON, WITHOUT_CHECKSUMS, _checksums
from fedualex.problems.families import reading_of

from .configurations import check
from .folders import _leaves
from .harness import require, within
from .terms import Rng

SECONDS = 20
"""For a refusal or an answer."""
MOST = 2 * (MOST_ARRAYS + MOST_JSON)
"""Bytes of memory at most: the stated limits of both files, packed and unpacked."""
CODES = {0, 1, 2}
FEATURES = ("age", "dose", "unit", "town")
KINDS: list[tuple[str, tuple[int, ...]]] = [
    ("classes", ()),
    ("classes", (3,)),
    ("ranking", ()),
    ("numbers", ()),
    ("numbers", (2,)),
]
VALUES = [
    None,
    True,
    -1,
    0,
    10**400,
    0.5,
    3,
    750.0,
    -1e6,
    1e308,
    -1e308,
    5e-324,
    "",
    "x",
    "nan",
    "\u0000",
    "a\nb",
    [],
    {},
    [[]],
    [None],
    ["x", "x"],
    {"a": 1},
    "\x1b[2J<b onclick=x>",
]


@cache
def place() -> Path:
    """Where everything is."""
    return Path(mkdtemp(prefix="models-"))


@cache
def table() -> Any:
    """Patients, of whom some things are not known."""
    return fx.data.read_csv(write(place() / "t.csv"))


@cache
def originals() -> list[Path]:
    """A model of each kind, in a folder of its own, and once within the folder of a fit."""
    features = fx.data.Table({name: table()[name] for name in FEATURES}, "t")
    encoder = Encoder.fit(features, coding=Coding(missing="indicator"))
    rng, found = np.random.default_rng(1), []
    for number, (kind, outputs) in enumerate(KINDS):
        labels = {
            "numbers": [],
            "ranking": ["sick", "well"],
            "classes": ["a", "b", "c"] if outputs else ["sick", "well"],
        }
        scale = {"center": np.full(outputs, 20.0), "scale": np.full(outputs, 3.0)} if kind == "numbers" else {}
        answers = Answers(reading_of(kind), np.array(labels[kind]), 0.3 if kind == "ranking" else 0.0, **scale)
        target = ("days", "cost") if kind == "numbers" and outputs else "outcome"
        weights = rng.normal(size=(len(encoder.features), *outputs))
        certificate = {
            "gap": 0.01,
            "tol": 1e-6,
            "exchanges": 5,
            "violation": 0.1,
            "status": "MAX_ROUNDS",
            "meaning": "",
        }
        model = Model(encoder, weights, rng.normal(size=outputs), answers, target, certificate, training())
        found.append(models.save(model, place() / f"model-{number}"))
    for ask in asks_of(found[0]):  # what is imported and compiled first takes its time
        CliRunner().invoke(main, ask)
    (found[0] / "report.html").unlink(missing_ok=True)
    return found


def training() -> dict[str, Any]:
    """All that a model may keep of its training."""
    rows = [effect("age", 0.7), effect("dose", None), effect("town=Oslo", -0.3, "Rome"), effect("unit", 1e-4)]
    table = effects(rows)
    own = {"exchanges": 5, "own_intercepts": True, "others": {"sandwich": table | {"kind": "sandwich"}}}
    more = {"id": "hospital", "rate": {"sentence": "P(...) <= 0.05"}, "versions": {"python": "3"}, "created": "today"}
    penalty = {"name": "l1", "value": 0.05, "sentence": "l1 = 0.05", "curve": path_curve()}
    return {**full_training(["east", "west"]), "effects": table | own, "penalty": penalty, **more}


def attack(rng: Rng) -> None:
    """One change to one copy; explained, predicted with, and looked at by a program."""
    original = originals()[rng.integers(len(KINDS))]
    folder = place() / "changed"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(original, folder)
    kinds = (_value, _value, _value, _array, _array, _array, _flip, _cut, _foreign, _link, _flood, _deep)
    what = kinds[rng.integers(len(kinds))](rng, folder)
    honest = bool(rng.random() < 0.5)
    if honest and _sign(rng, folder):
        what += ", checksums made anew"
    repro = f"# model {KINDS[int(original.name[-1])]}: {what}"
    look(folder, original, repro)


def look(folder: Path, original: Path, repro: str) -> None:
    """All that a user does with a model, within the limits."""
    told = []
    for ask in asks_of(folder):
        tracemalloc.start()
        try:
            with within(SECONDS, f"fedualex {ask[0]}", repro):
                result = CliRunner().invoke(main, ask)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        check(result, CODES, repro)
        require(peak <= MOST, f"{ask[0]} took {peak} bytes", repro)
        require(not re.search(r"\binf\b", result.stdout, re.IGNORECASE), "an infinite number is shown", repro)
        require("\x1b" not in result.output, f"{ask[0]} steers the terminal", repro)
        told.append(result.exit_code)
    if (page := folder / "report.html").exists():
        _look_at(page.read_text(encoding="utf-8"), repro)
    if 0 in told:
        _same(folder, original, repro)


def asks_of(folder: Path) -> list[list[str]]:
    """All commands that read a model."""
    return [
        ["explain", str(folder)],
        ["explain", str(folder), "--json"],
        ["predict", str(folder), str(place() / "t.csv")],
        ["evaluate", str(folder), str(place() / "t.csv"), "--clients", "hospital"],
        ["summary", str(folder)],
        ["summary", str(folder), "--errors", "sandwich", "--json"],
        ["report", str(folder)],
    ]


def _look_at(page: str, repro: str) -> None:
    """The page before its script, whose words are data."""
    shown = page[: page.index("<script")]
    require("<b onclick" not in page and "\x1b" not in page, "a name is a tag or steers", repro)
    require(not re.search(r"[\"\s>](nan|inf)[%\"\s<]", shown, re.IGNORECASE), "what is not finite is drawn", repro)


def _same(folder: Path, original: Path, repro: str) -> None:
    """A model that is read is what its files say: the original's, unless its checksums were made anew."""
    with within(SECONDS, "models.load", repro):
        model = models.load(folder)
        try:
            scores = model.decision_function(table())
        except (ValueError, TypeError) as error:
            require("\n" not in str(error) and len(str(error)) < 500, f"a long refusal: {error}", repro)
            return
    document, arrays = _read(folder)
    expected = _scores(document, arrays)
    near = np.allclose(scores, expected, rtol=1e-9, atol=1e-9 * float(np.max(np.abs(expected), initial=1e-300)))
    require(bool(np.all(np.isfinite(scores))) and near, "a wrong number", repro)
    if document.get("schema") != WITHOUT_CHECKSUMS:
        words = {key: value for key, value in document.items() if key != "checksums"}
        own = _checksums(words, (folder / "model.npz").read_bytes())
        require(document["checksums"] == own, "a changed model is read as if it were whole", repro)


def _scores(document: dict[str, Any], arrays: dict[str, Any]) -> Any:
    """<weights, encoded row> + bias, written anew."""
    raw, found = columns(), []
    mean, deviation, weights = arrays.get("mean"), arrays.get("deviation"), np.asarray(arrays["weights"], float)
    for i in range(len(raw["age"])):
        row = []
        for j, name in enumerate(document["numbers"]):
            value = raw[name][i]
            row.append(0.0 if value is None or not deviation[j] > 0 else (value - mean[j]) / deviation[j])
        for name, own in document["categories"].items():
            known = raw[name][i] in own["levels"]
            for level, share in zip(own["levels"], own["shares"], strict=True):
                if level != own["reference"]:
                    row.append(float(raw[name][i] == level) if known else float(share))
        for group in document.get("indicators", ()):
            row.append(float(np.mean([raw[name][i] in (None, "") for name in group])))
        found.append(np.asarray(row) @ weights + np.asarray(arrays["bias"], float))
    return np.asarray(found)


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    document = json.loads((folder / "model.json").read_text())
    with np.load(io.BytesIO((folder / "model.npz").read_bytes()), allow_pickle=False) as stored:
        return document, {key: stored[key] for key in stored.files}


def _sign(rng: Rng, folder: Path) -> bool:
    """Somebody who changes a folder can make its checksums anew, or call it one of a version that had none."""
    try:
        document = json.loads((folder / "model.json").read_text())
        if rng.random() < 0.3:
            document["schema"] = WITHOUT_CHECKSUMS
        document["checksums"] = _checksums(document, (folder / "model.npz").read_bytes())
        (folder / "model.json").write_text(json.dumps(document))
    except Exception:  # there is nothing left to sign
        return False
    return True


# What somebody does to a folder.


def _value(rng: Rng, folder: Path) -> str:
    file = folder / "model.json"
    document = json.loads(file.read_text())
    places = [*_leaves(document), *((key,) for key in document)]
    *way, last = places[rng.integers(len(places))]
    inner = document
    for key in way:
        inner = inner[key]
    if rng.random() < 0.2:
        del inner[last]
        how = "dropped"
    else:
        inner[last] = VALUES[rng.integers(len(VALUES))]
        how = f"{inner[last]!r}"[:40]
    text = json.dumps(document)
    file.write_text(text.replace('"nan"', "NaN") if rng.random() < 0.3 else text)
    return f"{[*way, last]} is {how}"


def _array(rng: Rng, folder: Path) -> str:
    file = folder / "model.npz"
    with np.load(file) as stored:
        arrays = {key: stored[key] for key in stored.files}
    key = str(rng.choice(list(arrays)))
    own = arrays[key]
    changes: dict[str, Any] = {
        "dropped": None,
        "empty": np.zeros((0,)),
        "longer": np.concatenate([np.ravel(own)] * 2),
        "a row": np.ravel(own)[None],
        "a number": np.array(1.0),
        "complex": np.zeros(own.shape, complex) + 1j,
        "words": np.full(own.shape, "x"),
        "whole numbers": np.ones(own.shape, np.int8),
        "half": np.ones(own.shape, np.float16),
        "the other end first": np.ones(own.shape, ">f8"),
        "true": np.ones(own.shape, bool),
        "nan": np.full(own.shape, np.nan),
        "infinite": np.full(own.shape, -np.inf),
        "huge": np.full(own.shape, 1.7e308),
        "tiny": np.full(own.shape, 5e-324),
        "records": np.zeros(own.shape, [("a", "f8"), ("b", "i4")]),
        "days": np.zeros(own.shape, "M8[D]"),
        "by columns": np.asfortranarray(own),
        "bytes": np.full(own.shape, b"x"),
        "negative": -np.ones(own.shape),
    }
    how = str(rng.choice(list(changes)))
    changed = changes[how]
    arrays = {name: array for name, array in arrays.items() if name != key} | (
        {} if changed is None else {key: changed}
    )
    np.savez(file, **arrays)
    return f"{key} is {how}"


def _flip(rng: Rng, folder: Path) -> str:
    file = folder / str(rng.choice(["model.json", "model.npz"]))
    content = bytearray(file.read_bytes())
    place, bit = int(rng.integers(len(content))), int(rng.integers(8))
    content[place] ^= 1 << bit
    file.write_bytes(bytes(content))
    return f"bit {bit} of byte {place} of {file.name} flipped"


def _cut(rng: Rng, folder: Path) -> str:
    file = folder / str(rng.choice(["model.json", "model.npz"]))
    if rng.random() < 0.3:
        file.unlink()
        return f"{file.name} removed"
    length = int(rng.integers(len(file.read_bytes())))
    file.write_bytes(file.read_bytes()[:length])
    return f"{file.name} cut to {length} bytes"


def _foreign(rng: Rng, folder: Path) -> str:
    """Another model's file, another program's, or the one in place of the other."""
    other = originals()[rng.integers(len(KINDS))]
    name = str(rng.choice(["model.json", "model.npz"]))
    kind = int(rng.integers(5))
    contents = [
        (other / name).read_bytes(),
        (folder / ("model.npz" if name == "model.json" else "model.json")).read_bytes(),
        b"\x80\x04\x95\x00.",
        json.dumps([1, 2, 3]).encode(),
        "\ufeff{}".encode("utf-16"),
    ]
    (folder / name).write_bytes(contents[kind])
    return f"{name} is {['that of another model', 'the other file', 'a pickle', 'a list', 'of another encoding'][kind]}"


def _link(rng: Rng, folder: Path) -> str:
    """Something that is no file, and may never end."""
    name = str(rng.choice(["model.json", "model.npz", "model"]))
    file = folder / name
    if file.exists():
        file.unlink()
    kind = str(rng.choice(["/dev/zero", "/dev/urandom", "pipe", "folder", "itself", "/dev/null", "/proc/self/mem"]))
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to(file if kind == "itself" else kind)
    return f"{name} is {kind}"


def _flood(rng: Rng, folder: Path) -> str:
    """Archives that unpack to more than they are, and headers that promise more than there is."""
    kind = int(rng.integers(6))
    if kind == 0:
        (folder / "model.json").write_bytes(b" " * (MOST_JSON + 1))
        return "model.json is too long"
    if kind == 1:
        with open(folder / "model.npz", "wb") as file:
            file.truncate(MOST_ARRAYS + 1)
        return "model.npz is too long"
    with zipfile.ZipFile(folder / "model.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        if kind == 2:
            archive.writestr("weights.npy", bytes(2**24) if rng.random() < 0.8 else bytes(MOST_ARRAYS + 1))
        elif kind == 3:
            for i in range(1001):
                archive.writestr(f"{i}.npy", _header((0,)))
        elif kind == 4:
            many = int(rng.choice([10**11, 2**62, -1]))
            archive.writestr("weights.npy", _header((many,)) + bytes(8))
        else:
            archive.writestr("../weights.npy", _header((1,)) + bytes(8))
            archive.writestr("weights", b"\x93NUMPY\x09\x09")
    return f"model.npz is flood {kind}"


def _header(shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue()


def _deep(rng: Rng, folder: Path) -> str:
    """Lists and tables within one another, wide ones, and long numbers."""
    document = json.loads((folder / "model.json").read_text())
    depth = int(rng.choice([20, 31, 40, 1000, 100_000]))
    inner = rng.choice(["[", '{"a":'])
    deep = str(inner) * depth + "1" + ("]" if inner == "[" else "}") * depth
    kind = int(rng.integers(3))
    inserts = [deep, "[" + "0," * 10**5 + "0]", "9" * int(rng.choice([300, 4000, 10**5]))]
    key = str(rng.choice(list(document)))
    text = json.dumps(document | {key: "HERE"}).replace('"HERE"', inserts[kind])
    (folder / "model.json").write_text(text)
    return f"{key} is {['deep', 'wide', 'a long number'][kind]} ({depth})"
