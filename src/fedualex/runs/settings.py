"""Settings of runs from files and from Python: names, tables, defaults, refusals."""

import importlib
import inspect
import math
import re
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from .. import algorithms, geometry, problems, regularizers, theory
from ..algorithms import Method
from ..data import sources as tables
from ..problems import AbstractOracle, AbstractProblem, AbstractRecipe, Exact, GaussianNoise, Minibatch
from ..problems.recipe import sources_of
from ..runtime.options import RunOptions, SolveOptions, file_defaults
from ..runtime.prepare import check_simulation
from ..storage import Json, read_arrays
from ..theory import Bound
from ..tree import Saddle
from ..validation import hint, positive, short

# What a configuration file can name: the public methods, regularizers and geometries, and the problems that say so.


PROTOCOL = ("AbstractMethod", "Facts", "LocalSteps", "Method", "Stepped", "Survey")
"""Of the names in `algorithms`: what methods are made of."""
METHODS: dict[str, Callable[..., Method]] = {
    name: getattr(algorithms, name) for name in algorithms.__all__ if name not in PROTOCOL
}

REGULARIZERS: dict[str, Callable[..., Any]] = {
    name: getattr(regularizers, name) for name in regularizers.__all__ if name[0].isupper() and "Abstract" not in name
}
GEOMETRIES: dict[str, Callable[..., Any]] = {"EntropicSimplex": geometry.EntropicSimplex, "PNorm": geometry.PNorm}

PROBLEMS: dict[str, Callable[..., AbstractProblem]] = {
    name: getattr(problems, name) for name in problems.__all__ if sources_of(getattr(problems, name)) is not None
}

T = TypeVar("T")


class ConfigurationError(ValueError):
    """Something a file asks for does not exist or does not fit; the message is one line for a person."""


def check_keys(where: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a key that does not exist, with the one that was probably meant."""
    known = list(known)
    for key in given:
        if key not in known:
            raise ConfigurationError(f"{where} has no key {key!r}; {hint(key, known)}")


def find_named(kind: str, name: object, table: Mapping[str, T]) -> T:
    """The entry of a table, or a refusal with the name that was probably meant."""
    if name is None:
        raise ConfigurationError(f'[{kind}] needs name = "...", one of {", ".join(table)}')
    if isinstance(name, str) and name in table:
        return table[name]
    raise ConfigurationError(f"there is no {kind} {short(name)}; {hint(name, table)}")


def arrays_of(name: str) -> tuple[str, ...]:
    """The arguments of a problem of the catalogue that are arrays, and come from files."""
    sources = sources_of(PROBLEMS[name]) if name in PROBLEMS else None
    return () if sources is None else sources.arrays


def build_method(settings: Json, where: str = "[method]") -> Method:
    """A method from `name` and its constructor's arguments."""
    constructor = find_named("method", settings.get("name"), METHODS)
    arguments = {key: value for key, value in settings.items() if key != "name"}
    check_keys(where, arguments, inspect.signature(constructor).parameters)
    return _call(where, constructor, arguments)


def table_rows(settings: Json, folder: Path) -> tables.TableRows | None:
    """The rows of the table that a problem's settings name; None if they name none."""
    if not any(key in settings for key in tables.KEYS) or not tables.target_array(arrays_of(str(settings.get("name")))):
        return None
    return _call("[problem]", tables.load, {"settings": settings, "folder": folder})


def build_problem(settings: Json, folder: Path, rows: tables.TableRows | None = None) -> AbstractProblem:
    """A problem of the catalogue by `name`, or what the Python function `entry = "module:function"` returns.

    Other keys are the function's arguments. Where a problem is made of arrays, `file` names an .npz file that holds
    them, relative to the configuration's folder, or `bundled`, `csv` or `parquet` a table whose rows `partition` gives
    to clients; rows: those of that table, if it was read already. An entry's module is also looked for in that folder.
    """
    if ("name" in settings) == ("entry" in settings):
        raise ConfigurationError('[problem] needs either name = "..." or entry = "module:function"')
    if "entry" in settings:
        return _own_problem(settings["entry"], folder, {key: settings[key] for key in settings if key != "entry"})
    name = settings["name"]
    constructor = find_named("problem", name, PROBLEMS)
    arrays = arrays_of(name)
    origin = ["file"] * bool(arrays) + list(tables.KEYS) * bool(tables.target_array(arrays))
    arguments = {key: value for key, value in settings.items() if key not in ("name", *origin)}
    known = [key for key in inspect.signature(constructor).parameters if key not in arrays]
    check_keys("[problem]", [key for key in settings if key != "name"], known + origin)
    for block in ("x", "y"):  # an array of these names cannot be among the settings
        if block in arguments:
            arguments[block] = build_regularizer(arguments[block], f"[problem] {block}")
    if (own := rows or table_rows(settings, folder)) is not None:
        if own.groups is not None and not recipe_of(settings).row_groups:
            raise ConfigurationError(f"[problem] groups_column: {name} has no groups of rows")
        arguments |= _call("[problem]", own.arguments, {"target": tables.target_array(arrays)})
    elif arrays:
        arguments |= _load_arrays(settings.get("file"), arrays, folder)
    return _call("[problem]", constructor, arguments)


def recipe_class(name: object) -> Any:
    """The class of recipes of a problem of the catalogue that is made of rows."""
    sources = sources_of(find_named("problem", name, PROBLEMS))
    if sources is None or sources.recipe is None:
        raise ConfigurationError(f"{name} is not made of rows, so that it has no model")
    return sources.recipe


def recipe_of(settings: Json) -> AbstractRecipe:
    """The recipe of a problem of the catalogue that is made of rows, with what its settings say."""
    kind = recipe_class(settings.get("name"))
    chosen = {field.name: settings[field.name] for field in fields(kind) if field.name in settings}
    return _call("[problem]", kind, chosen)


def build_regularizer(terms: object, where: str) -> Any:
    """A sum from a table of its terms: {L1 = 0.1, Box = 0.05}, {Spectral = {L1 = 0.1, Box = 0.05}}; or a name alone.

    A number is the first argument, a list all of them in order, a table the named ones; a table within such a table is
    again a regularizer: {EntropicSimplex = {regularizer = {Entropy = 0.1}}}.
    """
    if isinstance(terms, str):
        terms = {terms: []}
    if not isinstance(terms, dict) or not terms:
        raise ConfigurationError(f'{where} must be such as {{L1 = 0.1, Box = 0.05}} or "Zero", got {short(terms)}')
    built = [_build_term(name, value, f"{where}.{name}") for name, value in terms.items()]
    geometries = [name for name in terms if name in GEOMETRIES]
    if geometries and len(terms) > 1:
        name = geometries[0]
        raise ConfigurationError(f"{where}: {name} takes a regularizer as {{{name} = {{regularizer = {{...}}}}}}")
    total = built[0]
    for term in built[1:]:
        total = _call(where, lambda left=total, right=term: left + right, {})
    return total


def _build_term(name: str, value: object, where: str) -> Any:
    constructor = find_named("regularizer", name, {**REGULARIZERS, **GEOMETRIES})
    if name == "Spectral":
        return _call(where, constructor, {"psi": build_regularizer(value, where)})
    if isinstance(value, dict):
        check_keys(where, value, inspect.signature(constructor).parameters)
        inner = {key: build_regularizer(v, f"{where}.{key}") if isinstance(v, dict) else v for key, v in value.items()}
        return _call(where, constructor, inner)
    arguments = value if isinstance(value, list) else [value]
    return _call(where, lambda: constructor(*arguments), {})


def _call(where: str, function: Callable[..., Any], arguments: Mapping[str, object]) -> Any:
    """function(**arguments), its refusals as ours."""
    try:
        return function(**arguments)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{where}: {' '.join(str(error).split())}") from None


def call_entry(entry: object, folder: Path, arguments: Mapping[str, object], what: str = "entry") -> Any:
    """What a user's function "module:function" returns, its module also looked for in the folder.

    Whatever the module or the function raises becomes one line that says where.
    """
    name, _, function = str(entry).partition(":")
    if not name or not function:
        raise ConfigurationError(f'{what} must be "module:function", got {short(entry)}')
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return getattr(importlib.import_module(name), function)(**arguments)
    except Exception as error:  # it is the user's own code
        file = getattr(sys.modules.get(name), "__file__", None) or f"{folder / name}.py"
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        place = f" ({Path(file).name}, line {lines[-1]})" if lines else ""
        raise ConfigurationError(f"{what} {entry!r}: {type(error).__name__}: {error}{place}") from None


def _own_problem(entry: object, folder: Path, arguments: Mapping[str, object]) -> AbstractProblem:
    problem = call_entry(entry, folder, arguments)
    if not isinstance(problem, AbstractProblem):
        raise ConfigurationError(f"entry {entry!r} must return a problem, got {short(problem)}")
    return problem


def _load_arrays(file: object, names: tuple[str, ...], folder: Path) -> Json:
    if not isinstance(file, str):
        raise ConfigurationError(f'[problem] needs file = "....npz" with the arrays {", ".join(names)}')
    try:
        arrays = read_arrays(folder / file, names.__contains__)
    except Exception as error:  # a missing, truncated or foreign file can fail in many ways
        raise ConfigurationError(f"{file} cannot be read as an .npz file: {error}") from None
    for name in names:
        if name not in arrays:
            raise ConfigurationError(f"{file} must hold the arrays {', '.join(names)}; {name!r} is missing")
    return arrays


# Labels of methods side by side, and the folders of their runs.


RESERVED = ("manifest.json", "exact.json", "report.html", "figures")
"""What a folder of runs holds besides them."""


def unique(names: Sequence[str]) -> list[str]:
    """The same names, with a number behind those that were there before: FedAvg, FedAvg 2."""
    taken: list[str] = []
    for name in names:
        others = (f"{name} {number}" for number in range(2, len(names) + 2))
        taken.append(next(one for one in (name, *others) if one not in taken and (one == name or one not in names)))
    return taken


def folder_names(labels: Iterable[str]) -> dict[str, str]:
    """For each label a name that every file system takes, without what would lead to another folder."""
    labels = list(labels)
    plain = [re.sub(r"[^\w.+-]+", "-", label).strip("-.") or "method" for label in labels]
    # Some file systems do not tell capital letters apart, so neither do the names.
    numbered = unique([*RESERVED, *(name.casefold() for name in plain)])[len(RESERVED) :]
    names = [name + number[len(name) :].replace(" ", "-") for name, number in zip(plain, numbered, strict=True)]
    return dict(zip(labels, names, strict=True))


OptionsT = TypeVar("OptionsT", bound=RunOptions)

IN_FILES: Json = {"noise": None, "minibatch": None, "start": None}
"""What a file has in place of the options noise and z0: noise = sigma, minibatch = size, start = {uniform = radius}."""


def run_defaults(kind: type) -> Json:
    """The keys of [run] for this kind of options, with their defaults."""
    return file_defaults(kind) | IN_FILES


RUN_DEFAULTS = run_defaults(SolveOptions)


@dataclass(frozen=True)
class Configuration:
    """A run as a file describes it: what to give to `fx.solve`, and the same as plain data with all defaults."""

    problem: AbstractProblem
    method: Method
    options: SolveOptions
    resolved: Json
    rows: tables.TableRows | None = None
    """Of the table that the problem is made from, if it is."""


def read_toml(path: Path) -> Json:
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


def configure(given: Json, folder: Path, rows: tables.TableRows | None = None) -> Configuration:
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
    _check_built("[run]", lambda: check_simulation(problem, method, options))
    resolved: Json = {
        "problem": with_defaults(given["problem"], PROBLEMS),
        "method": with_defaults(given["method"], METHODS),
        "run": {**run, "rounds": options.rounds, "tol": options.tol},
        "folder": str(folder.resolve()),
    }
    return Configuration(problem, method, options, resolved, rows)


def weighted_problem(
    settings: Json, folder: Path, weights: object, rows: tables.TableRows | None = None
) -> AbstractProblem:
    """The problem of [problem] with the weights of [run]."""
    problem = build_problem(settings, folder, rows)
    return problem if weights is None else _check_built("[run]", lambda: problem.reweighted(weights))


def check_tables(tables: Json, names: tuple[str, ...]) -> None:
    """All tables are there, and no others."""
    check_keys("the file", tables, names)
    for name in names:
        if not isinstance(tables.get(name), dict):
            raise ConfigurationError(f"the file needs a table [{name}]")


def run_options(kind: type[OptionsT], run: Json, problem: AbstractProblem, **others: Any) -> OptionsT:
    """[run] as options of this kind."""
    for key, value in run.items():
        if isinstance(value, bool) and not isinstance(run_defaults(kind).get(key), bool):
            raise ConfigurationError(f"[run] {key} must not be {str(value).lower()}: it is not a switch")
    given = {key: value for key, value in run.items() if key not in IN_FILES}
    options = _check_built("[run]", lambda: kind(**given, noise=run_oracle(run), **others))
    if run["minibatch"] is not None and problem.data is None:
        raise ConfigurationError("[run] minibatch: this problem has no examples to draw from; use noise")
    return replace(options, z0=start_point(run["start"], problem, options.seed))


def start_point(start: object, problem: AbstractProblem, seed: int) -> Saddle | None:
    """{uniform = r}: entries uniform on [-r, r], from the run's seed; nothing: the run's own start, 0."""
    if start is None:
        return None
    if not isinstance(start, dict) or list(start) != ["uniform"]:
        raise ConfigurationError(f"[run] start must be {{uniform = radius}}, got {start!r}")
    radius = float(_check_built("[run]", lambda: positive("start.uniform", start["uniform"])))
    rng = np.random.default_rng(seed)
    point: Saddle = jax.tree.map(lambda leaf: rng.uniform(-radius, radius, np.shape(leaf)), problem.like)
    return point


def with_defaults(settings: Json, table: Mapping[str, Callable[..., object]]) -> Json:
    """The settings, and the default of every argument that was left out."""
    if "entry" in settings:
        return dict(settings)
    parameters = inspect.signature(find_named("name", settings["name"], table)).parameters.values()
    arrays = arrays_of(settings["name"])
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty and p.name not in arrays}
    given = tables.with_defaults(settings) if "partition" in settings else settings
    return {"name": settings["name"], **defaults, **given}


def run_oracle(run: Json) -> AbstractOracle | None:
    """noise or minibatch of [run] as an oracle; None for exact operators."""
    if run["noise"] is not None and run["minibatch"] is not None:
        raise ConfigurationError("[run] takes noise or minibatch, not both")
    if run["minibatch"] is not None:
        return _check_built("[run] minibatch", lambda: Minibatch(run["minibatch"]))
    return None if run["noise"] is None else _check_built("[run] noise", lambda: GaussianNoise(run["noise"]))


def _check_built(where: str, build: Callable[[], Any]) -> Any:
    """What build() returns, its refusals as ours."""
    try:
        return build()
    except ConfigurationError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _check_values(value: object, where: str = "") -> None:
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


# What theory says about a configured run, as plain data.


def bounds_of(configuration: Configuration) -> Json:
    """Constants, and every theorem that speaks about such a run, as printed and as corrected."""
    problem, options = configuration.problem, configuration.options
    oracle = options.noise or Exact()
    constants = theory.constants(problem, oracle, options.z0)
    names = ("beta", "sigma", "grad_bound", "B", "B0", "diameter", "kappa")
    result: Json = {
        "constants": {
            name: {"value": _finite(getattr(constants, name)), "how": constants.how.get(name, "")} for name in names
        },
        "bounds": [],
        "notes": [],
    }
    if options.steps is not None:
        theorem = theory.theorem3 if constants.sigma > 0 else theory.theorem4
        proved = theorem(constants, steps=options.steps)
        bounds = [(proved.name, "printed", proved.printed), (proved.name, "corrected", proved.corrected)]
    else:
        eta_s = configuration.resolved["method"].get("eta_s") or 1.0
        sizes: Json = {
            "clients": problem.clients or options.clients or 1,
            "local_steps": int(np.max(options.local_steps)),
            "rounds": options.rounds,
            "eta_s": eta_s,
        }
        saddle = problem.like.y is not None
        proved = (theory.theorem1 if saddle else theory.theorem2)(constants, **sizes)
        own = theory.proposition_b(constants, **sizes)
        bounds = [
            (proved.name, "printed", proved.printed),
            (proved.name, "corrected", proved.corrected),
            (own.name, "ours", own),
        ]
        if problem.clients not in (None, 1):
            result["notes"].append(
                "The clients have data of their own: these bounds are proved for equal clients only."
            )
    result["bounds"] = [{"result": name, "version": version, **_plain(bound)} for name, version, bound in bounds]
    return result


def _plain(bound: Bound) -> Json:
    step = bound.best_step
    known = isfinite(step) and step > 0
    return {
        "step_limit": _finite(bound.step_limit),
        "best_step": _finite(step),
        "total": _finite(bound.total(step)) if known else None,
        "terms": {name: _finite(value) for name, value in bound.terms(step).items()} if known else {},
    }


def _finite(value: float) -> float | None:
    return float(value) if isfinite(value) else None
