"""Runs that were made in Python, as run folders: the settings of which no file exists, as plain data."""

import inspect
from pathlib import Path
from typing import Any

from ..algorithms import AbstractMethod
from ..problems import AbstractOracle, AbstractProblem, GaussianNoise, Minibatch
from ..runtime import Run
from ..runtime.options import SolveOptions, file_defaults
from ..validation import short
from . import folder
from .history import plain
from .seal import CHECKPOINT

OBJECT = "object"
"""The key of [problem] that says what a problem was that no file names."""


def store(
    path: Path, problem: AbstractProblem, method: AbstractMethod, options: SolveOptions, run: Run, *, label: str
) -> None:
    """Write the folder of a run that has ended.

    problem: with the weights of the run. label: the name of the method among others.
    """
    resolved = {
        "label": label,
        "problem": {OBJECT: short(problem)},
        "method": _method_settings(method),
        "run": _run_settings(options),
    }
    folder.begin(path, problem, resolved)
    (path / CHECKPOINT).unlink(missing_ok=True)  # of another run that was here
    folder.finish(path, run, problem)


def _method_settings(method: AbstractMethod) -> dict[str, Any]:
    """The class of a method and the arguments that it was made with."""
    names = [name for name in inspect.signature(type(method)).parameters if hasattr(method, name)]
    return {"name": type(method).__name__, **{name: _as_data(getattr(method, name)) for name in names}}


def _run_settings(options: SolveOptions) -> dict[str, Any]:
    """[run] as a file has it; a text in place of what no file can name."""
    settings = {name: _as_data(getattr(options, name)) for name in file_defaults(SolveOptions)}
    return {**settings, **_oracle_settings(options.noise), "start": None if options.z0 is None else short(options.z0)}


def _oracle_settings(noise: AbstractOracle | None) -> dict[str, Any]:
    match noise:
        case GaussianNoise():
            return {"noise": _as_data(noise.sigma), "minibatch": None}
        case Minibatch():
            return {"noise": None, "minibatch": _as_data(noise.size)}
    return {"noise": None if noise is None else short(noise), "minibatch": None}


def _as_data(value: Any) -> Any:
    """A number, a list or a text."""
    found = plain(value)
    return found if found is None or isinstance(found, bool | int | float | str | list) else short(found)
