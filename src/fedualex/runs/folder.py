"""A run on disk: manifest.json, history.jsonl, solution.npz, status.json. Readable with pandas and numpy alone."""

import dataclasses
import hashlib
import io
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from .. import tree
from ..arrays import Values
from ..compiling import double
from ..geometry import AbstractGeometry, Product, is_geometry
from ..problems import AbstractProblem
from ..regularizers import AbstractRegularizer
from ..runtime import Output, Run, fingerprint
from ..storage import Json, read_arrays, write_atomically, write_json
from ..validation import short
from .settings import ConfigurationError

# One hash over all files of a finished run, kept in its status.
#
# It shows that a file was changed, lost or exchanged. It is integrity, not a signature: whoever rewrites the hash can
# rewrite anything.


CHECKPOINT = "checkpoint.npz"
FILES = ("manifest.json", "history.jsonl", "solution.npz", CHECKPOINT)
"""What a run leaves beside its status; the checkpoint only if it wrote one."""


def seal_status(path: Path, status: Json) -> Json:
    """The status with the SHA-256 of each file (`files`), and one over all that it says, these included (`sha256`)."""
    whole = {**status, "files": digests(path)}
    return {**whole, "sha256": digest_of(whole)}


def digests(path: Path) -> dict[str, str]:
    """The SHA-256 of each file that is there."""
    return {name: hashlib.sha256((path / name).read_bytes()).hexdigest() for name in FILES if (path / name).exists()}


def digest_of(status: Json) -> str:
    """The SHA-256 of a status without the one that it holds, as JSON with its keys in order."""
    content = {key: value for key, value in status.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# What the JSON files of a folder must hold: checked when they are read, so that nothing else is computed with.


Kind = Callable[[Any], bool]
Fields = Mapping[str, Kind]

MOST_SEEDS = 10_000


def text(value: object) -> bool:
    """A text."""
    return isinstance(value, str)


def flag(value: object) -> bool:
    """True or false."""
    return isinstance(value, bool)


def whole(value: object) -> TypeGuard[int]:
    """A whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def count(value: object) -> bool:
    """How many seeds there are to look for."""
    return whole(value) and 0 <= value <= MOST_SEEDS


def number(value: object) -> bool:
    """A finite number, as float64 holds it."""
    return isinstance(value, float | int) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def table(value: object) -> bool:
    """A table."""
    return isinstance(value, dict)


def maybe(kind: Kind) -> Kind:
    """Of this kind, or nothing."""
    return lambda value: value is None or kind(value)


def list_of(kind: Kind) -> Kind:
    """A list of this kind."""
    return lambda value: isinstance(value, list) and all(map(kind, value))


def table_of(kind: Kind) -> Kind:
    """A table of this kind."""
    return lambda value: isinstance(value, dict) and all(map(kind, value.values()))


RUN: Fields = {"configuration": table, "data_sha256": text, "geometry": table_of(table), "versions": table_of(text)}
CONFIGURATION: Fields = {"problem": table, "method": table, "run": table}
SETTINGS_OF_RUN: Fields = {
    "tol": maybe(number),
    "max_seconds": maybe(number),
    "rounds": maybe(whole),
    "steps": maybe(whole),
    "record_every": maybe(whole),
    "output": maybe(text),
}
"""Of [run], what a verdict is computed with, where it is there."""
OUTPUT: Fields = {
    "status": text,
    "origin": text,
    "gap": maybe(number),
    "gap_x": maybe(number),
    "gap_y": maybe(number),
    "shift": number,
    "rounding": number,
    "estimated": flag,
    "reason": text,
    "violation": maybe(number),
    "density": maybe(number),
    "rank": maybe(list_of(whole)),
    "objective": maybe(number),
}
STATUS: Fields = {
    "status": text,
    "stop": text,
    "output": text,
    "gap": maybe(number),
    "violation": maybe(number),
    "least_violation": maybe(number),
    "unanswered": flag,
    "stop_meaning": text,
    "outputs": table_of(table),
    "rounds": whole,
    "exchanges": whole,
    "seconds": number,
    "bytes_up": maybe(whole),
    "bytes_down": maybe(whole),
    "steps": text,
}
RECORD: Fields = {"round": whole, "exchanges": whole, "seconds": number}
PLAN: Fields = {"name": text, "seeds": count, "settings": table}
SETTINGS: Fields = {"methods": table_of(table)}
COLLECTIONS: dict[str, Fields] = {
    "comparison": {"title": text, "runs": list_of(text)},
    "comparisons": {"title": text, "comparisons": list_of(text)},
    "experiment": {"title": text, "plan": table},
    "reproduction": {"experiments": list_of(text), "seeds": whole},
}


def read_json(file: Path) -> Json:
    """The table that a JSON file holds, or one line about why there is none."""
    try:
        data = json.loads(file.read_text(), parse_constant=_refuse)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{file} cannot be read as JSON: {error}") from None
    if not isinstance(data, dict):
        raise ConfigurationError(f"{file} cannot be read: it does not hold a table")
    return data


def check(file: Path, data: object, fields: Fields) -> None:
    """Refuse a table that lacks one of the fields, or has something else there."""
    if not isinstance(data, dict):
        raise ConfigurationError(f"{file} is damaged: it holds {short(data)} where a table should be")
    for key, kind in fields.items():
        if key not in data:
            raise ConfigurationError(f"{file} is damaged: it lacks {key!r}")
        if not kind(data[key]):
            raise ConfigurationError(f"{file} is damaged: it says {key} = {short(data[key])}")


def check_manifest(file: Path, manifest: Json) -> None:
    """Refuse what is not the manifest of its kind."""
    check(file, manifest, {**COLLECTIONS, "run": RUN}[manifest["kind"]])
    if manifest["kind"] == "run":
        configuration = manifest["configuration"]
        check(file, configuration, CONFIGURATION)
        check(file, configuration["run"], {k: kind for k, kind in SETTINGS_OF_RUN.items() if k in configuration["run"]})
    if manifest["kind"] == "experiment":
        check(file, manifest["plan"], PLAN)
        check(file, manifest["plan"]["settings"], SETTINGS)


def check_status(file: Path, status: Json) -> None:
    """Refuse what is not the status of a run that has ended."""
    check(file, status, STATUS)
    check(file, status["outputs"], {status["output"]: table})
    for output in status["outputs"].values():
        check(file, output, OUTPUT)
        parts = [output[key] is None for key in ("gap", "gap_x", "gap_y")]
        if any(parts) != all(parts):
            raise ConfigurationError(
                f"{file} is damaged: an output has a gap without its parts, or parts without a gap"
            )


def is_record(record: object) -> bool:
    """Whether a line of history can be one: a round, exchanges, a clock, and numbers or nothing as gaps."""
    if not isinstance(record, dict) or not all(kind(record.get(key)) for key, kind in RECORD.items()):
        return False
    return all(maybe(number)(value) for key, value in record.items() if key.startswith(("gap_", "bytes_")))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


# The history of a run on disk: one JSON object a line.


def read_history(file: Path, ended: bool) -> list[Json]:
    """All records; the last line of a run that has not ended may be cut."""
    lines = file.read_text(errors="replace").splitlines() if ended or file.exists() else []
    history = []
    for number, line in enumerate(lines, 1):
        record = None
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
        if record is not None and is_record(record):
            history.append(record)
        elif ended or number < len(lines):  # else the last line of a run that was killed while it was written
            raise ConfigurationError(f"{file} is damaged in line {number}")
    return history


def lines(records: list[Json]) -> bytes:
    """Records as the bytes of the file."""
    return "".join(json.dumps(record, allow_nan=False) + "\n" for record in records).encode()


def finite(value: float | None) -> float | None:
    """A number as it is stored: nothing where it is not finite."""
    return value if value is not None and np.isfinite(value) else None


def plain(value: object) -> Any:
    """An array or a number of numpy as Python's own."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


# A geometry as plain JSON data, from which its certificates can be computed again without this library.


def describe(geometry: Product) -> Json:
    """{name of a leaf: {"class": its name, and every number in it}}, nested as the classes are.

    Floats keep every bit through JSON; infinities are the strings "inf" and "-inf". A class that is not ours has only
    its name, and "foreign": True.
    """
    named = tree.leaves_with_names(geometry.parts, is_leaf=is_geometry)
    return {name: _describe(part) for name, part in named}


def _describe(node: object) -> Any:
    if not isinstance(node, AbstractGeometry | AbstractRegularizer):
        return _plain(np.asarray(node).tolist())
    name = type(node).__name__
    if not type(node).__module__.startswith("fedualex."):
        return {"class": name, "foreign": True}
    # A static field, such as the route of Spectral, says how to compute, not what.
    fields = [field.name for field in dataclasses.fields(node) if not field.metadata.get("static", False)]
    return {"class": name, **{field: _describe(getattr(node, field)) for field in fields}}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return str(value) if np.isinf(value) else value  # strict JSON has no infinities


# What a run's manifest says about where it came from.


PACKAGES = ("fedualex", "jax", "jaxlib", "equinox", "numpy", "scipy")


def provenance() -> Json:
    """When, by which command, with which versions, on which machine."""
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "versions": versions(),
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "memory_gib": _memory(),
        },
    }


def versions() -> dict[str, str]:
    """Of Python and of what decides the numbers of a run."""
    numbers = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            numbers[package] = version(package)
        except PackageNotFoundError:  # run from a source tree
            numbers[package] = "unknown"
    return numbers


def other_versions(manifest: Json) -> str:
    """Which versions of a run are not the ones here, in which the same code need not have the same bits; "" if none."""
    here, there = versions(), manifest["versions"]
    return ", ".join(f"{name} {there.get(name)} (here {here[name]})" for name in here if there.get(name) != here[name])


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):  # not a POSIX system
        return None


# The outputs of a run as a run folder stores them.


def stored_arrays(run: Run) -> Json:
    """Points, operators and surveys of all outputs, by "output/kind/leaf"."""
    arrays: Json = {}
    for name, output in run.outputs.items():
        for kind, point in (("z", output.z), ("g", output.operator)):  # no g if sites did not answer
            arrays |= {f"{name}/{kind}/{leaf}": array for leaf, array in tree.leaves_with_names(point)}
        if (evidence := output.evidence) is not None:
            arrays |= {f"{name}/surveys/{leaf}": array for leaf, array in tree.leaves_with_names(evidence.points)}
            if evidence.starts is not None:
                arrays |= {f"{name}/starts/{leaf}": array for leaf, array in tree.leaves_with_names(evidence.starts)}
            arrays |= {f"{name}/weights/{side}": getattr(evidence, side) for side in ("upper", "lower", "floor")}
            if evidence.told is not None:
                arrays |= {f"{name}/told/{part}": array for part, array in evidence.told._asdict().items()}
    return arrays


def output_summary(output: Output, problem: AbstractProblem) -> Json:
    """What status.json says about an output."""
    certificate = output.certificate
    return {
        "status": output.status.name,
        "origin": output.origin,
        "gap": output.gap,
        "gap_x": certificate.x,
        "gap_y": certificate.y,
        "shift": certificate.shift,
        "rounding": certificate.rounding,
        "estimated": certificate.estimated,
        "reason": certificate.reason,
        "violation": finite(output.violation),
        "density": output.density,
        "rank": None if output.rank is None else list(output.rank),
        # Where the data is elsewhere nobody can compute it.
        "objective": None if problem.clients == 0 else finite(problem.objective(output.z)),
    }


SCHEMA = 4
KINDS = ("run", "experiment", "comparison", "comparisons", "reproduction")


@dataclass(frozen=True)
class StoredRun:
    """What a run folder holds, as plain data."""

    path: Path
    manifest: Json
    history: list[Json]
    status: Json | None
    """None if the run has not ended."""

    def points(self, output: str) -> tuple[dict[str, Values], dict[str, Values]]:
        """z and g of an output, array by array."""
        groups = self._arrays(output)
        return groups["z"], groups["g"]

    def surveys(self, output: str) -> tuple[dict[str, Values], ...]:
        """Where the surveys were made that an output's certificate follows from, and their weights; empty if at z.

        Then where steps to them began whose dual cuts count; empty if cuts are those of the surveys. Last what clients
        say of their rounding; empty if they do not, or rows are here.
        """
        groups = self._arrays(output)
        return groups["surveys"], groups["weights"], groups["starts"], groups["told"]

    def _arrays(self, output: str) -> dict[str, dict[str, Values]]:
        kinds = ("z", "g", "surveys", "weights", "starts", "told")
        groups: dict[str, dict[str, Values]] = {kind: {} for kind in kinds}

        def belongs(key: str) -> bool:
            name, _, _ = key.split("/", 2)
            return name == output

        try:
            for key, array in read_arrays(self.path / "solution.npz", belongs).items():
                _, kind, leaf = key.split("/", 2)
                groups[kind][leaf] = array
        except Exception as error:  # a missing, truncated or foreign file can fail in many ways
            raise ConfigurationError(f"{self.path / 'solution.npz'} cannot be read: {error}") from None
        return groups

    @property
    def label(self) -> str:
        """The name of the method, or of the folder."""
        method: str = self.manifest["configuration"].get("label") or self.manifest["configuration"]["method"]["name"]
        return method


def begin(path: Path, problem: AbstractProblem, resolved: Json) -> None:
    """Create the folder and its manifest."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "status.json").unlink(missing_ok=True)  # what is written anew has not ended
    manifest = {
        "schema": SCHEMA,
        "kind": "run",
        **provenance(),
        "configuration": resolved,
        "data_sha256": fingerprint(problem),
        "geometry": describe(problem.geometry),
    }
    write_json(path / "manifest.json", manifest)
    write_atomically(path / "history.jsonl", b"")


def append(path: Path, record: Json) -> None:
    """One more line of history, on disk before the next round begins."""
    with open(path / "history.jsonl", "a") as file:
        file.write(json.dumps(record, allow_nan=False) + "\n")


def reopen(path: Path, known: StoredRun, resolved: Json) -> None:
    """Make the folder that of a run that goes on: no status, and no line of history that a crash cut."""
    (path / "status.json").unlink(missing_ok=True)
    write_json(path / "manifest.json", known.manifest | {"configuration": resolved})
    write_atomically(path / "history.jsonl", lines(known.history))


def finish(path: Path, run: Run, problem: AbstractProblem) -> None:
    """The whole history, the outputs with their operators, and last the status: its presence says that all is there."""
    records = [
        {key: plain(column[i]) for key, column in run.history.items()}
        for i in range(len(next(iter(run.history.values()), ())))
    ]
    write_atomically(path / "history.jsonl", lines(records))
    buffer = io.BytesIO()
    with double():
        np.savez_compressed(buffer, **stored_arrays(run))
        summaries = {name: output_summary(output, problem) for name, output in run.outputs.items()}
    write_atomically(path / "solution.npz", buffer.getvalue())
    last = records[-1] if records else {}
    status = {
        "schema": SCHEMA,
        "status": run.status.name,
        "meaning": run.status.value,
        "stop": run.stop.name,
        "stop_meaning": run.detail or run.stop.value,
        "output": run.output,
        "gap": run.gap,
        "violation": finite(run.violation),
        "least_violation": finite(run.least_violation),
        "unanswered": run.unanswered,
        "outputs": summaries,
        "rounds": run.rounds,
        "exchanges": run.exchanges,
        "seconds": run.seconds,
        "bytes_up": last.get("bytes_up"),
        "bytes_down": last.get("bytes_down"),
        "steps": run.steps,
        "precision": run.precision,
        "convexity": run.convexity,
        **({} if run.epsilon is None else {"epsilon": run.epsilon}),
    }
    write_json(path / "status.json", seal_status(path, status))


def load(path: Path) -> StoredRun:
    """A run folder; one clear line if it is not one, or not one that this version can read."""
    manifest, status = read_manifest(path, "run"), None
    if (path / "status.json").exists():
        status = read_json(path / "status.json")
        check_status(path / "status.json", status)
    return StoredRun(path, manifest, read_history(path / "history.jsonl", ended=status is not None), status)


RUN_OF_FIT = "run"
"""Within the folder of a fit, beside its model, which can be taken away: the run that is verified and reported."""


def run_of(path: Path) -> Path:
    """The run in the folder of a fit; any other folder as it is."""
    inside = path / RUN_OF_FIT
    return inside if (inside / "manifest.json").exists() and not (path / "manifest.json").exists() else path


def check_collection(path: Path, kind: str) -> None:
    """Refuse a folder that holds anything else than such a collection."""
    if path.exists() and any(path.iterdir()):
        read_manifest(path, kind)


def write_collection(path: Path, kind: str, **entries: object) -> None:
    """The manifest of a folder of runs: a comparison or a reproduction."""
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / "manifest.json", {"schema": SCHEMA, "kind": kind, **provenance(), **entries})


def read_manifest(path: Path, kind: str | None = None) -> Json:
    """The manifest of a folder, of this kind if one is asked for."""
    file = path / "manifest.json"
    if not path.is_dir():
        raise ConfigurationError(f"there is no folder {str(path)!r}")
    if not file.exists():
        raise ConfigurationError(f"{path} is not a folder that fedualex wrote: it has no manifest.json")
    manifest = read_json(file)
    schema = manifest.get("schema")
    if not isinstance(schema, int):
        raise ConfigurationError(f"{file} is not a manifest of fedualex: it has no schema number")
    if schema != SCHEMA:
        age = "a newer" if schema > SCHEMA else "an older"
        raise ConfigurationError(f"{path} has schema {schema}, written by {age} fedualex; this one reads {SCHEMA}")
    if manifest.get("kind") not in KINDS:
        raise ConfigurationError(f"{file} is not a manifest of fedualex: it says kind {manifest.get('kind')!r}")
    if kind is not None and manifest["kind"] != kind:
        raise ConfigurationError(f"{path} is a folder of kind {manifest['kind']!r}; one of kind {kind!r} is needed")
    check_manifest(file, manifest)
    return manifest
