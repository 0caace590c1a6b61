"""Rows that a configuration describes: where they come from, whose they are, which are held out, and on which scale."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import data
from ..arrays import Reals, Values
from ..storage import Json
from ..validation import encode_labels, missing, one_of, real_array, row_weights, rows_of, short
from .partitions import choose_held_out

FILES: dict[str, Callable[..., data.Table]] = {
    "csv": data.read_csv,
    "parquet": data.read_parquet,
    "npz": data.read_npz_table,
}
SWITCHES = {"standardize": False, "standardize_target": False}
BESIDE = ("groups_column", "weights_column")
"""Columns that are no features: the group of each row, and how much it counts."""
KEYS = ("bundled", *FILES, "target", "partition", *BESIDE, "ignore", "holdout", *SWITCHES)

PARTITIONS: dict[str, Callable[..., Any]] = {
    "iid": data.iid,
    "dirichlet": data.dirichlet,
    "by_size": data.by_size,
    "by_column": data.by_column,
}


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of a table as a problem takes them, and what a model needs to meet other rows of such a table."""

    X: Reals
    y: Values
    clients: Values
    encoder: data.Encoder
    """From columns to X."""
    target_scale: data.Standardizer | None
    """Of y, where y is (target - mean) / deviation."""
    trained: data.Table
    held_out: data.Table | None
    """Columns as they were, the target among them."""
    owners: tuple[Values, Reals]
    """Whose rows those of `trained` and of `held_out` are, by name."""
    target: str | tuple[str, ...]
    """A column, or several, of which y has one each."""
    groups: Values | None = None
    """Of each row, where a column says so."""
    weights: Reals | None = None
    """How much each row counts, where a column says so."""

    def arguments(self, target: str) -> dict[str, Values]:
        """What a problem of the catalogue is built from. target: "y", or "Y" where it takes several targets."""
        if isinstance(self.target, str) != (target == "y"):
            kind = "one column" if target == "y" else 'a list of columns, such as ["a", "b"],'
            raise ValueError(f"target must be {kind} for this problem, got {short(self.target)}")
        columns = {"groups": self.groups, "sample_weight": self.weights}
        given = {name: column for name, column in columns.items() if column is not None}
        return {"X": self.X, target: self.y, "clients": self.clients, **given}


def target_array(arrays: tuple[str, ...]) -> str:
    """The array of targets among those of a problem; empty if they are no rows of tables."""
    return next((name for name in arrays if name in ("y", "Y")), "")


def load(settings: Json, folder: Path) -> TableRows:
    """The rows that settings describe."""
    full = with_defaults(settings)
    return prepare_rows(full, read(full, folder))


def prepare_rows(settings: Json, table: data.Table) -> TableRows:
    """The rows of a table, as settings with all defaults want them."""
    for key in SWITCHES:
        if not isinstance(settings[key], bool):
            raise TypeError(f"{key} must be true or false, got {short(settings[key])}")
    target = _target(settings.get("target"), table)
    names = (target,) if isinstance(target, str) else target
    try:
        clients, used = _clients(table, names, **settings["partition"])
        beside = {key: table[name] for key in BESIDE if (name := settings.get(key)) is not None}
        used += [settings[key] for key in beside] + _check_ignored(settings.get("ignore", []), names)
        features, labels = table.without(*dict.fromkeys([*names, *used])), table.pick(target)
    except KeyError as error:  # of a column that is not there
        raise ValueError(error.args[0]) from None
    for name in names:
        if gone := int(missing(table[name]).sum()):
            raise ValueError(f"the target {name!r} must be known in every row, but it is missing in {gone}")
    train, test = _split_held_out(labels, clients, settings["holdout"])
    known, owners = features.take(train), (clients[train], clients[test])
    groups, weights = (beside[key][train] if key in beside else None for key in BESIDE)
    weights = None if weights is None else row_weights(weights, len(train), f"the column {settings[BESIDE[1]]!r}")
    if settings["standardize"]:
        encoder = data.Encoder.fit(known, owners[0], weights)
    elif text := [name for name in known if known[name].dtype.kind == "U"]:
        raise ValueError(f"the column {text[0]!r} is text: only with standardize = true do its words become features")
    else:
        encoder = data.Encoder(tuple(known), {}, data.Standardizer(np.zeros(len(known)), np.ones(len(known))))
    X, y, scale = encoder.transform(known), labels[train], None
    if settings["standardize_target"]:
        numbers = real_array("the target", y, "real numbers").reshape(len(y), -1)
        scale = data.Standardizer.fit(numbers, owners[0], weights)
        y = scale.transform(numbers).reshape(y.shape)
    rest = table.take(test) if len(test) else None
    return TableRows(X, y, owners[0], encoder, scale, table.take(train), rest, owners, target, groups, weights)


def _target(given: object, table: data.Table) -> str | tuple[str, ...]:
    """The column, or the columns of a list."""
    if isinstance(given, list) and given and all(isinstance(name, str) for name in given):
        return tuple(given)
    if not isinstance(given, str):
        raise TypeError(f"target must name a column of {table.source}, or a list of them, got {short(given)}")
    return given


def _check_ignored(names: object, target: tuple[str, ...]) -> list[str]:
    """The columns that take no part by choice."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError(f'ignore must be a list of columns such as ["patient_id"], got {short(names)}')
    if both := [name for name in target if name in names]:
        raise ValueError(f"ignore must not name the target, got {both[0]!r}")
    return names


def with_defaults(settings: Mapping[str, Any]) -> Json:
    """The settings, with the partition's seed and all else that decides the rows."""
    partition = settings.get("partition")
    if not isinstance(partition, dict):
        raise TypeError(f'partition must be such as {{ kind = "iid", clients = 5, seed = 0 }}, got {short(partition)}')
    draw = PARTITIONS[one_of("partition.kind", partition.get("kind"), tuple(PARTITIONS))]
    defaults = {p.name: p.default for p in inspect.signature(draw).parameters.values() if p.default is not p.empty}
    target = {"target": "target"} if "bundled" in settings else {}
    return {**SWITCHES, "holdout": 0.0, **target, **settings, "partition": {**defaults, **partition}}


def read(settings: Json, folder: Path) -> data.Table:
    """The table that settings name as bundled, csv, parquet or npz."""
    given = [key for key in ("file", "bundled", *FILES) if key in settings]
    if len(given) != 1 or given == ["file"]:
        raise ValueError(f"partition needs one source of bundled, {', '.join(FILES)}, got {', '.join(given) or 'none'}")
    source = settings[given[0]]
    if given == ["bundled"]:
        return data.bundled_table(source)
    if not isinstance(source, str):
        raise TypeError(f"{given[0]} must name a file, got {short(source)}")
    return FILES[given[0]](folder / source)


def _clients(table: data.Table, target: tuple[str, ...], kind: str, **arguments: Any) -> tuple[Values, list[str]]:
    """For each row whose it is, and the column that says so, which is no feature; neither is that of groups.

    The clients of such a column keep its values as their names, so that limits can name them.
    """
    if kind == "by_column":
        column = arguments.pop("column", None)
        if column in target:
            raise ValueError(
                f"partition.column must not be the target, which no client could learn from, got {column!r}"
            )
        data.by_column(table[column], **arguments)
        return table[column], [column]
    first = table[target[0]] if kind == "dirichlet" else table.rows
    return PARTITIONS[kind](first, **arguments), []


def _split_held_out(labels: Values, clients: Values, share: object) -> tuple[Reals, Reals]:
    """Rows to train on and rows to test on: of every client those that it would choose alone."""
    own = rows_of(encode_labels("clients", clients)[1])
    test = np.concatenate([rows[choose_held_out(labels[rows], share)] for rows in own])
    return np.setdiff1d(np.arange(len(labels)), test), np.sort(test)
