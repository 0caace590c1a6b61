"""float64 inside our entry points, without touching the caller's global flag."""

from contextlib import AbstractContextManager

import jax


def double() -> AbstractContextManager[None]:
    """A scope in which jax computes in float64; the caller's setting returns at its end."""
    scope: AbstractContextManager[None] = jax.enable_x64(True)
    return scope


def double_available() -> bool:
    """Whether jax computes in float64 here and now."""
    return bool(jax.config.read("jax_enable_x64"))
