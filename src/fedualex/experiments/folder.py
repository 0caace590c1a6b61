"""A run on disk: manifest.json, history.jsonl, solution.npz, status.json. Readable with pandas and numpy alone."""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..precision import double
from ..problems import AbstractProblem
from ..runtime import Run, fingerprint
from ..storage import read_arrays, write_atomically, write_json
from .description import describe
from .fields import check_manifest, check_status, read_json
from .history import finite, lines, plain, read_history
from .outputs import output_summary, stored_arrays
from .provenance import provenance
from .registry import ConfigurationError
from .seal import sealed

SCHEMA = 3
KINDS = ("run", "experiment", "comparison", "comparisons", "reproduction")


@dataclass(frozen=True)
class StoredRun:
    """What a run folder holds, as plain data."""

    path: Path
    manifest: dict[str, Any]
    history: list[dict[str, Any]]
    status: dict[str, Any] | None
    """None if the run has not ended."""

    def points(self, output: str) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """z and g of an output, array by array."""
        groups = self._arrays(output)
        return groups["z"], groups["g"]

    def surveys(self, output: str) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Where the surveys were made that an output's certificate follows from, and their weights; empty if at z."""
        groups = self._arrays(output)
        return groups["surveys"], groups["weights"]

    def _arrays(self, output: str) -> dict[str, dict[str, NDArray[Any]]]:
        groups: dict[str, dict[str, NDArray[Any]]] = {"z": {}, "g": {}, "surveys": {}, "weights": {}}

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


def begin(path: Path, problem: AbstractProblem, resolved: dict[str, Any]) -> None:
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


def append(path: Path, record: dict[str, Any]) -> None:
    """One more line of history, on disk before the next round begins."""
    with open(path / "history.jsonl", "a") as file:
        file.write(json.dumps(record, allow_nan=False) + "\n")


def reopen(path: Path, known: StoredRun, resolved: dict[str, Any]) -> None:
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
    write_json(path / "status.json", sealed(path, status))


def load(path: Path) -> StoredRun:
    """A run folder; one clear line if it is not one, or not one that this version can read."""
    manifest, status = read_manifest(path, "run"), None
    if (path / "status.json").exists():
        status = read_json(path / "status.json")
        check_status(path / "status.json", status)
    return StoredRun(path, manifest, read_history(path / "history.jsonl", ended=status is not None), status)


def check_collection(path: Path, kind: str) -> None:
    """Refuse a folder that holds anything else than such a collection."""
    if path.exists() and any(path.iterdir()):
        read_manifest(path, kind)


def write_collection(path: Path, kind: str, **entries: Any) -> None:
    """The manifest of a folder of runs: a comparison or a reproduction."""
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / "manifest.json", {"schema": SCHEMA, "kind": kind, **provenance(), **entries})


def read_manifest(path: Path, kind: str | None = None) -> dict[str, Any]:
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
