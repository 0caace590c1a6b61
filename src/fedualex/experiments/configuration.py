"""From a TOML file to a run: strict keys, and every default written out."""

import inspect
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from ..algorithms import AbstractMethod
from ..problems import AbstractOracle, AbstractProblem, GaussianNoise, Minibatch
from ..runtime.options import RunOptions, SolveOptions, file_defaults
from ..runtime.prepare import check_simulation
from ..tree import Saddle
from ..validation import positive
from . import tables
from .registry import (
    METHODS,
    PROBLEMS,
    ConfigurationError,
    arrays_of,
    build_method,
    build_problem,
    check_keys,
    named,
    table_rows,
)

T = TypeVar("T", bound=RunOptions)

IN_FILES: dict[str, Any] = {"noise": None, "minibatch": None, "start": None}
"""What a file has in place of the options noise and z0: noise = sigma, minibatch = size, start = {uniform = radius}."""


def run_defaults(kind: type) -> dict[str, Any]:
    """The keys of [run] for this kind of options, with their defaults."""
    return file_defaults(kind) | IN_FILES


RUN_DEFAULTS = run_defaults(SolveOptions)


@dataclass(frozen=True)
class Configuration:
    """A run as a file describes it: what to give to `fx.solve`, and the same as plain data with all defaults."""

    problem: AbstractProblem
    method: AbstractMethod
    options: SolveOptions
    resolved: dict[str, Any]
    rows: tables.TableRows | None = None
    """Of the table that the problem is made from, if it is."""


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file, or one line about why there are none."""
    try:
        with open(path, "rb") as file:
            tables = tomllib.load(file)
    except FileNotFoundError:
        raise ConfigurationError(f"there is no file {str(path)!r}") from None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read as TOML: {error}") from None
    _check_values(tables)
    return tables


def configure(given: Mapping[str, Any], folder: Path, rows: tables.TableRows | None = None) -> Configuration:
    """The run that the tables [problem], [method] and [run] describe; relative paths start from the folder.

    rows: those of the problem's table, if it was read already.

    The folder is kept in the resolved configuration, so that `verify` can reach the data again.
    """
    check_tables(given, ("problem", "method", "run"))
    check_keys("[run]", given["run"], RUN_DEFAULTS)
    method, run = build_method(given["method"]), {**RUN_DEFAULTS, **given["run"]}
    rows = rows or table_rows(given["problem"], folder)
    problem = weighted_problem(given["problem"], folder, run["weights"], rows)
    # The problem has the weights already, and so have the operators and objectives that are stored.
    options = run_options(SolveOptions, {**run, "weights": None}, problem)
    _checked("[run]", lambda: check_simulation(problem, method, options))
    resolved: dict[str, Any] = {
        "problem": with_defaults(given["problem"], PROBLEMS),
        "method": with_defaults(given["method"], METHODS),
        "run": {**run, "rounds": options.rounds, "tol": options.tol},
        "folder": str(folder.resolve()),
    }
    return Configuration(problem, method, options, resolved, rows)


def weighted_problem(
    settings: Mapping[str, Any], folder: Path, weights: object, rows: tables.TableRows | None = None
) -> AbstractProblem:
    """The problem of [problem] with the weights of [run]."""
    problem = build_problem(settings, folder, rows)
    return problem if weights is None else _checked("[run]", lambda: problem.reweighted(weights))


def check_tables(tables: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """All tables are there, and no others."""
    check_keys("the file", tables, names)
    for name in names:
        if not isinstance(tables.get(name), dict):
            raise ConfigurationError(f"the file needs a table [{name}]")


def run_options(kind: type[T], run: Mapping[str, Any], problem: AbstractProblem, **others: Any) -> T:
    """[run] as options of this kind."""
    for key, value in run.items():
        if isinstance(value, bool) and not isinstance(run_defaults(kind).get(key), bool):
            raise ConfigurationError(f"[run] {key} must not be {str(value).lower()}: it is not a switch")
    given = {key: value for key, value in run.items() if key not in IN_FILES}
    options = _checked("[run]", lambda: kind(**given, noise=run_oracle(run), **others))
    if run["minibatch"] is not None and problem.data is None:
        raise ConfigurationError("[run] minibatch: this problem has no examples to draw from; use noise")
    return replace(options, z0=start_point(run["start"], problem, options.seed))


def start_point(start: object, problem: AbstractProblem, seed: int) -> Saddle | None:
    """{uniform = r}: entries uniform on [-r, r], from the run's seed; nothing: the run's own start, 0."""
    if start is None:
        return None
    if not isinstance(start, dict) or list(start) != ["uniform"]:
        raise ConfigurationError(f"[run] start must be {{uniform = radius}}, got {start!r}")
    radius = float(_checked("[run]", lambda: positive("start.uniform", start["uniform"])))
    rng = np.random.default_rng(seed)
    point: Saddle = jax.tree.map(lambda leaf: rng.uniform(-radius, radius, np.shape(leaf)), problem.like)
    return point


def with_defaults(settings: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, and the default of every argument that was left out."""
    if "entry" in settings:
        return dict(settings)
    parameters = inspect.signature(named("name", settings["name"], table)).parameters.values()
    arrays = arrays_of(settings["name"])
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty and p.name not in arrays}
    given = tables.with_defaults(settings) if "partition" in settings else settings
    return {"name": settings["name"], **defaults, **given}


def run_oracle(run: Mapping[str, Any]) -> AbstractOracle | None:
    """noise or minibatch of [run] as an oracle; None for exact operators."""
    if run["noise"] is not None and run["minibatch"] is not None:
        raise ConfigurationError("[run] takes noise or minibatch, not both")
    if run["minibatch"] is not None:
        return _checked("[run] minibatch", lambda: Minibatch(run["minibatch"]))
    return None if run["noise"] is None else _checked("[run] noise", lambda: GaussianNoise(run["noise"]))


def _checked(where: str, build: Callable[[], Any]) -> Any:
    """What build() returns, its refusals as ours."""
    try:
        return build()
    except ConfigurationError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _check_values(value: Any, where: str = "") -> None:
    """Refuse what TOML has and JSON has not, because a run folder keeps its configuration as JSON."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            _check_values(inner, f"{where}.{key}" if where else str(key))
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigurationError(f"{where} must be finite, got {value}; a bound that does not exist is left out")
    elif isinstance(value, int) and abs(value) >= 2**63:
        raise ConfigurationError(f"{where} must be a number of 64 bits, got {value}")
    elif not isinstance(value, str | int | float):
        raise ConfigurationError(f"{where} must be a number, a text, a list or a table, got {value}")
