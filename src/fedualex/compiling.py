"""Programs compiled by their size: in a small one, what the optimizer costs is far more than what it saves."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.monitoring
import numpy as np

QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Compiled five times as fast, to run half as fast."""

SMALL = 2**17
"""Numbers in all arguments of a program up to which it is compiled quickly."""

MAPS, LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
LOOK = 256
"""Programs that are compiled between two looks at the memory maps."""

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


def drop_programs() -> None:
    """Drop the compiled programs of this process if they are too many, to be read or compiled again.

    Each takes a dozen memory maps of its process or more, and jax crashes where Linux has no more to give (65530): at
    half of that all are dropped. It is looked every LOOK programs, by whoever calls this: runs and certificates.
    """
    if _since_look[0] >= LOOK:
        _since_look[0] = 0
        if _share_of_maps() > 0.5:
            jax.clear_caches()


_since_look = [0]


def _count(event: str, duration_secs: float, **kwargs: Any) -> None:
    if event.endswith("backend_compile_duration"):
        _since_look[0] += 1


jax.monitoring.register_event_duration_secs_listener(_count)


def _share_of_maps() -> float:
    """Of the memory maps that this process may have, the share it has; 0 on systems that do not count them."""
    try:
        return MAPS.read_bytes().count(b"\n") / int(LIMIT.read_text())
    except OSError:
        return 0.0


def quickly(function: F) -> F:
    """The function compiled with little optimization whatever its size: for what runs a few times."""
    return compiled(function, small=np.inf)


def is_small(arguments: Any, small: float | int) -> bool:
    """Whether arguments hold at most so many numbers; part of another program is none, as that decides."""
    leaves = [leaf for leaf in jax.tree.leaves(arguments) if eqx.is_array(leaf)]
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves) and sum(map(np.size, leaves)) <= small
