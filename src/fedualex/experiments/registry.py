"""What a configuration file can name: the public methods, regularizers and geometries, and the problems that say so."""

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from .. import algorithms, geometry, problems, regularizers
from ..algorithms import AbstractMethod
from ..problems import AbstractProblem, AbstractRecipe
from ..problems.recipe import sources_of
from ..storage import read_arrays
from ..validation import hint, short
from . import tables

METHODS: dict[str, Callable[..., AbstractMethod]] = {
    name: getattr(algorithms, name) for name in algorithms.__all__ if name != "AbstractMethod"
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


def named(kind: str, name: object, table: Mapping[str, T]) -> T:
    """The entry of a table, or a refusal with the name that was probably meant."""
    if name is None:
        raise ConfigurationError(f'[{kind}] needs name = "...", one of {", ".join(table)}')
    if isinstance(name, str) and name in table:
        return table[name]
    raise ConfigurationError(f"there is no {kind} {short(name)}; {hint(name, table)}")


def arrays_of(name: str) -> tuple[str, ...]:
    """The arguments of a problem of the catalogue that are arrays, and come from files."""
    found = sources_of(PROBLEMS[name]) if name in PROBLEMS else None
    return () if found is None else found.arrays


def build_method(settings: Mapping[str, Any], where: str = "[method]") -> AbstractMethod:
    """A method from `name` and its constructor's arguments."""
    constructor = named("method", settings.get("name"), METHODS)
    arguments = {key: value for key, value in settings.items() if key != "name"}
    check_keys(where, arguments, inspect.signature(constructor).parameters)
    return _call(where, constructor, arguments)


def table_rows(settings: Mapping[str, Any], folder: Path) -> tables.TableRows | None:
    """The rows of the table that a problem's settings name; None if they name none."""
    if not any(key in settings for key in tables.KEYS) or not tables.target_array(arrays_of(str(settings.get("name")))):
        return None
    return _call("[problem]", tables.load, {"settings": settings, "folder": folder})


def build_problem(settings: Mapping[str, Any], folder: Path, rows: tables.TableRows | None = None) -> AbstractProblem:
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
    constructor = named("problem", name, PROBLEMS)
    arrays = arrays_of(name)
    origin = ["file"] * bool(arrays) + list(tables.KEYS) * bool(tables.target_array(arrays))
    arguments = {key: value for key, value in settings.items() if key not in ("name", *origin)}
    known = [key for key in inspect.signature(constructor).parameters if key not in arrays]
    check_keys("[problem]", [key for key in settings if key != "name"], known + origin)
    for block in ("x", "y"):  # an array of these names cannot be among the settings
        if block in arguments:
            arguments[block] = build_regularizer(arguments[block], f"[problem] {block}")
    if (found := rows or table_rows(settings, folder)) is not None:
        if found.groups is not None and not recipe_of(settings).row_groups:
            raise ConfigurationError(f"[problem] groups_column: {name} has no groups of rows")
        arguments |= _call("[problem]", found.arguments, {"target": tables.target_array(arrays)})
    elif arrays:
        arguments |= _load_arrays(settings.get("file"), arrays, folder)
    return _call("[problem]", constructor, arguments)


def recipe_class(name: object) -> Any:
    """The class of recipes of a problem of the catalogue that is made of rows."""
    found = sources_of(named("problem", name, PROBLEMS))
    if found is None or found.recipe is None:
        raise ConfigurationError(f"{name} is not made of rows, so that it has no model")
    return found.recipe


def recipe_of(settings: Mapping[str, Any]) -> AbstractRecipe:
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


def _build_term(name: str, value: Any, where: str) -> Any:
    constructor = named("regularizer", name, {**REGULARIZERS, **GEOMETRIES})
    if name == "Spectral":
        return _call(where, constructor, {"psi": build_regularizer(value, where)})
    if isinstance(value, dict):
        check_keys(where, value, inspect.signature(constructor).parameters)
        inner = {key: build_regularizer(v, f"{where}.{key}") if isinstance(v, dict) else v for key, v in value.items()}
        return _call(where, constructor, inner)
    arguments = value if isinstance(value, list) else [value]
    return _call(where, lambda: constructor(*arguments), {})


def _call(where: str, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """function(**arguments), its refusals as ours."""
    try:
        return function(**arguments)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{where}: {' '.join(str(error).split())}") from None


def call_entry(entry: object, folder: Path, arguments: Mapping[str, Any], what: str = "entry") -> Any:
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


def _own_problem(entry: Any, folder: Path, arguments: Mapping[str, Any]) -> AbstractProblem:
    problem = call_entry(entry, folder, arguments)
    if not isinstance(problem, AbstractProblem):
        raise ConfigurationError(f"entry {entry!r} must return a problem, got {short(problem)}")
    return problem


def _load_arrays(file: Any, names: tuple[str, ...], folder: Path) -> dict[str, Any]:
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
