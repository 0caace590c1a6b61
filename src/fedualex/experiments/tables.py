"""Rows that a configuration describes: where they come from, whose they are, and on which scale."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import data
from ..validation import one_of, short

FILES: dict[str, Callable[..., data.Table]] = {"csv": data.read_csv, "parquet": data.read_parquet}
KEYS = ("bundled", *FILES, "target", "partition", "standardize")

PARTITIONS: dict[str, Callable[..., Any]] = {
    "iid": data.iid,
    "dirichlet": data.dirichlet,
    "by_size": data.by_size,
    "by_column": data.by_column,
}


def load(settings: Mapping[str, Any], folder: Path) -> dict[str, NDArray[Any]]:
    """X, y and clients from settings with all defaults."""
    if not isinstance(settings["standardize"], bool):
        raise TypeError(f"standardize must be true or false, got {short(settings['standardize'])}")
    table, target = _table(settings, folder), settings["target"]
    try:
        clients, used = _clients(table, target, **settings["partition"])
        features, y = table.without(target, *used), table[target]
    except KeyError as error:  # of a column that is not there
        raise ValueError(error.args[0]) from None
    if settings["standardize"]:
        return {"X": data.Encoder.fit(features, clients).transform(features), "y": y, "clients": clients}
    if text := [name for name in features if features[name].dtype.kind == "U"]:
        raise ValueError(f"the column {text[0]!r} is text: only with standardize = true do its words become features")
    return {"X": np.stack([features[name] for name in features], axis=1), "y": y, "clients": clients}


def with_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with the partition's seed and all else that decides the rows."""
    partition = settings.get("partition")
    if not isinstance(partition, dict):
        raise TypeError(f'partition must be such as {{ kind = "iid", clients = 5, seed = 0 }}, got {short(partition)}')
    draw = PARTITIONS[one_of("partition.kind", partition.get("kind"), tuple(PARTITIONS))]
    defaults = {p.name: p.default for p in inspect.signature(draw).parameters.values() if p.default is not p.empty}
    target = {"target": "target"} if "bundled" in settings else {}
    return {"standardize": False, **target, **settings, "partition": {**defaults, **partition}}


def _table(settings: Mapping[str, Any], folder: Path) -> data.Table:
    given = [key for key in ("file", "bundled", *FILES) if key in settings]
    if len(given) != 1 or given == ["file"]:
        raise ValueError(f"partition needs one source of bundled, {', '.join(FILES)}, got {', '.join(given) or 'none'}")
    source, target = settings[given[0]], settings.get("target")
    if given == ["bundled"]:
        X, y = data.bundled(source)
        return data.Table({f"column {i}": x for i, x in enumerate(X.T)} | {"target": y}, source)
    if not isinstance(source, str) or not isinstance(target, str):
        raise TypeError(f"{given[0]} and target must name a file and its column, got {short(source)}, {short(target)}")
    return FILES[given[0]](folder / source)


def _clients(table: data.Table, target: str, kind: str, **arguments: Any) -> tuple[NDArray[Any], list[str]]:
    """For each row whose it is, and the column that says so, which is no feature.

    The clients of such a column keep its values as their names, so that limits can name them.
    """
    if kind == "by_column":
        column = arguments.pop("column", None)
        if column == target:
            raise ValueError(
                f"partition.column must not be the target, which no client could learn from, got {target!r}"
            )
        data.by_column(table[column], **arguments)
        return table[column], [column]
    first = table[target] if kind == "dirichlet" else table.rows
    return PARTITIONS[kind](first, **arguments), []
