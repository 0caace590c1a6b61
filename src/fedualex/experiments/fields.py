"""What the JSON files of a folder must hold: checked when they are read, so that nothing else is computed with."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from ..validation import short
from .registry import ConfigurationError

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
    "comparisons": {"title": text, "comparisons": list_of(text), "findings": list_of(text)},
    "experiment": {"title": text, "plan": table},
    "reproduction": {"experiments": list_of(text), "seeds": whole},
}


def read_json(file: Path) -> dict[str, Any]:
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


def check_manifest(file: Path, manifest: dict[str, Any]) -> None:
    """Refuse what is not the manifest of its kind."""
    check(file, manifest, {**COLLECTIONS, "run": RUN}[manifest["kind"]])
    if manifest["kind"] == "run":
        configuration = manifest["configuration"]
        check(file, configuration, CONFIGURATION)
        check(file, configuration["run"], {k: kind for k, kind in SETTINGS_OF_RUN.items() if k in configuration["run"]})
    if manifest["kind"] == "experiment":
        check(file, manifest["plan"], PLAN)
        check(file, manifest["plan"]["settings"], SETTINGS)


def check_status(file: Path, status: dict[str, Any]) -> None:
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
