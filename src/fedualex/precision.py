"""float64 inside our entry points, without touching the caller's global flag."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax


def double() -> AbstractContextManager[None]:
    """A scope in which jax computes in float64; the caller's setting returns at its end."""
    scope: AbstractContextManager[None] = jax.enable_x64(True)
    return scope


def keep_precision(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with the precision that jax has here and now wherever it is called: our scope is not a user's."""
    setting = double_available()

    def in_that_precision(*arguments: Any) -> Any:
        with jax.enable_x64(setting):
            return function(*arguments)

    return in_that_precision


def double_available() -> bool:
    """Whether jax computes in float64 here and now."""
    return bool(jax.config.read("jax_enable_x64"))
