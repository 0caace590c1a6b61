"""What an option accepts: each is given the option's name and value, and returns what is kept or refuses it."""

from pathlib import Path
from typing import Any

import numpy as np
from jax.sharding import Mesh

from ..problems import AbstractOracle
from ..validation import of_type, one_of, plain_array, positive, short, whole_number
from .keywords import Check


def optional(check: Check) -> Check:
    """None, or what the check accepts."""
    return lambda name, value: None if value is None else check(name, value)


def a_positive(name: str, value: Any) -> float:
    """A number above 0."""
    return float(positive(name, value))


def anything(name: str, value: object) -> Any:
    """What can be checked only where it is used."""
    return value


def one_word_of(*choices: str) -> Check:
    """One of these words."""
    return lambda name, value: one_of(name, value, choices)


def steps_of_clients(name: str, value: Any) -> Any:
    """A whole number, or one for each client."""
    steps = plain_array(name, value)
    if steps.dtype.kind not in "iu" or steps.ndim > 1 or np.any(steps < 1):
        raise ValueError(f"{name} must be a whole number >= 1, or one for each client, got {short(value)}")
    return steps.tolist()


def an_oracle(name: str, value: Any) -> AbstractOracle:
    """A kind of noise."""
    return of_type(name, value, AbstractOracle, "fx.GaussianNoise(sigma), fx.Minibatch(size) or None")


def a_mesh(name: str, value: Any) -> Mesh:
    """Devices."""
    return of_type(name, value, Mesh, "a jax.sharding.Mesh such as jax.make_mesh((2,), ('clients',))")


def a_seed(name: str, value: Any) -> int:
    """What random numbers are counted from."""
    if (seed := whole_number(name, value, least=0)) >= 2**63:
        raise ValueError(f"{name} must be a whole number below 2^63, got {value}")
    return seed


def a_precision(name: str, value: Any) -> str:
    """One of the two precisions, by its name."""
    try:
        kind = str(np.dtype(value))
    except (TypeError, ValueError):
        kind = ""
    if kind not in ("float32", "float64"):
        raise ValueError(f"{name} must be 'float32' or 'float64', got {short(value)}")
    return kind


def a_function(name: str, value: object) -> Any:
    """Something to call with a record."""
    if not callable(value):
        raise TypeError(f"{name} must be a function of one record, got {short(value)}")
    return value


def a_path(name: str, value: object) -> Path:
    """A path, as a text or as it is."""
    if not isinstance(value, str | Path):
        raise TypeError(f"{name} must be the path of a file, got {short(value)}")
    return Path(value)
