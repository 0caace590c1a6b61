"""Programs compiled by their size: in a small one, what the optimizer costs is far more than what it saves."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np

QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Compiled five times as fast, to run half as fast."""

SMALL = 2**17
"""Numbers in all arguments of a program up to which it is compiled quickly."""

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F, *, small: float | int = SMALL) -> F:
    """`eqx.filter_jit`, with little optimization where all arguments together hold at most `small` numbers."""
    quick = eqx.filter_jit(function, compiler_options=QUICK)  # type: ignore[call-overload]  # handed on to jax
    thorough = eqx.filter_jit(function)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if not is_small((arguments, keywords), small):
            return thorough(*arguments, **keywords)
        try:
            return quick(*arguments, **keywords)
        except jax.errors.JaxRuntimeError as error:
            if "compile option" not in str(error):  # of another version of the compiler, which does not know them
                raise
            return thorough(*arguments, **keywords)

    return call  # type: ignore[return-value]


def quickly(function: F) -> F:
    """The function compiled with little optimization whatever its size: for what runs a few times."""
    return compiled(function, small=np.inf)


def is_small(arguments: Any, small: float | int) -> bool:
    """Whether arguments hold at most so many numbers; part of another program is none, as that decides."""
    leaves = [leaf for leaf in jax.tree.leaves(arguments) if eqx.is_array(leaf)]
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves) and sum(map(np.size, leaves)) <= small
