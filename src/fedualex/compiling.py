"""How jax computes for us: in float64 within our entry points alone, and in programs compiled by their size."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.monitoring
import numpy as np


def double() -> AbstractContextManager[None]:
    """A scope in which jax computes in float64; the caller's setting returns at its end."""
    scope: AbstractContextManager[None] = jax.enable_x64(True)
    return scope


def keep_precision(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with the precision that jax has here and now wherever it is called: our scope is not a user's."""
    setting = double_available()

    def in_that_precision(*arguments: object) -> Any:
        with jax.enable_x64(setting):
            return function(*arguments)

    return in_that_precision


def double_available() -> bool:
    """Whether jax computes in float64 here and now."""
    return bool(jax.config.read("jax_enable_x64"))


QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}
"""Compiled five times as fast, to run half as fast; small programs lose more by being split than threads win."""
MODERATE = {**QUICK, "xla_backend_optimization_level": 1}
"""Compiled twice as fast, to run about as fast: for loops of many small operations."""
WIDE = {"xla_cpu_prefer_vector_width": 512}
"""Vectors as wide as the processor has them, where the compiler would stop at half of that."""

SMALL = 2**17
"""Numbers in all arguments of a program up to which it is compiled quickly."""
TINY = 10_000
"""The same limit for a program that a run waits for again and again."""
LARGE = 2**21
"""The limit up to which a program is compiled moderately: beyond, the optimizer saves more than it costs."""

MAPS, LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
LOOK = 256
"""Programs that are compiled between two looks at the memory maps."""

P = ParamSpec("P")
R = TypeVar("R")


class Program(Generic[P, R]):
    """A function of trees that is compiled: arrays are traced, and whatever else is in them is part of the program.

    As `eqx.filter_jit` for a function that returns arrays, but trees are flattened once, and what is not computation
    takes 0.1 ms a call instead of 0.5. levels: how many numbers all arguments together may hold to be compiled with the
    options beside, the fewest first; beyond all of them the compiler optimizes all it can.
    """

    def __init__(self, function: Callable[P, R], *levels: tuple[int | float, dict[str, Any]]):
        def of_leaves(constant: tuple[Any, tuple[Any, ...]], arrays: list[Any]) -> R:
            (structure, others), following = constant, iter(arrays)
            leaves = [next(following) if other is None else other[1] for other in others]
            arguments, keywords = jax.tree.unflatten(structure, leaves)
            return function(*arguments, **keywords)

        of_leaves.__name__ = function.__name__  # by which the compiler calls it
        functools.update_wrapper(self, function)
        self._levels = [
            (limit, jit(of_leaves, compiler_options=options)) for limit, options in (*levels, (np.inf, WIDE))
        ]
        self._within = jit(of_leaves)
        """In another program, which has its own options; and for a compiler that does not know ours."""

    def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R:
        """The function, with as much optimization as the level of its arguments has."""
        _count_programs()
        constant, arrays = _flatten(arguments, keywords)
        size = numbers_in(arrays)
        fitting = next((program for limit, program in self._levels if size <= limit), self._within)
        try:
            return fitting(constant, arrays)
        except jax.errors.JaxRuntimeError as error:
            if "compile option" not in str(error):
                raise
            return self._within(constant, arrays)


def _flatten(arguments: object, keywords: object) -> tuple[tuple[Any, tuple[Any, ...]], list[Any]]:
    """What is part of a program, and the arrays that it is given."""
    leaves, structure = jax.tree.flatten((arguments, keywords))
    # With its type: True and 1 are equal and not the same.
    others = tuple(None if eqx.is_array(leaf) else (type(leaf), leaf) for leaf in leaves)
    return (structure, others), [leaf for leaf in leaves if eqx.is_array(leaf)]


def jit(function: Callable[..., R], **settings: Any) -> Callable[..., R]:
    """`jax.jit` with a first argument that is part of the program."""
    return jax.jit(function, static_argnums=0, **settings)


def compile_by_size(function: Callable[P, R]) -> Program[P, R]:
    """The function compiled with more optimization the larger all its arguments are together."""
    return Program(function, (SMALL, QUICK), (LARGE, MODERATE))


def compile_moderately(function: Callable[P, R]) -> Program[P, R]:
    """`compile_by_size` with more optimization for small arguments: for large programs that a run waits for."""
    return Program(function, (TINY, QUICK), (LARGE, MODERATE))


def compile_quickly(function: Callable[P, R]) -> Program[P, R]:
    """The function compiled with little optimization whatever its size: for what runs a few times."""
    return Program(function, (np.inf, QUICK))


def compile_fully(function: Callable[P, R]) -> Program[P, R]:
    """The function compiled with all optimization however small it is: for what a run waits for again and again."""
    return Program(function)


def drop_programs() -> None:
    """Drop the compiled programs of this process if they are too many, to be read or compiled again.

    Each takes a dozen memory maps of its process or more, and jax crashes where Linux has no more to give (65530): at
    half of that all are dropped. Runs and certificates call this, and every LOOK programs it looks at the maps.
    """
    if _since_look[0] >= LOOK:
        _since_look[0] = 0
        if _share_of_maps() > 0.5:
            jax.clear_caches()


_since_look = [0]


@functools.cache
def _count_programs() -> None:
    """Count what jax compiles from the first program of ours on."""

    def count(event: str, duration_secs: float, **kwargs: object) -> None:
        if event.endswith("backend_compile_duration"):
            _since_look[0] += 1

    jax.monitoring.register_event_duration_secs_listener(count)


def _share_of_maps() -> float:
    """The share of its memory maps that this process has used; 0 on systems that do not count them."""
    try:
        return MAPS.read_bytes().count(b"\n") / int(LIMIT.read_text())
    except OSError:
        return 0.0


def numbers_in(arrays: list[Any]) -> int | float:
    """How many numbers arrays hold; in part of another program nan, which no level admits, because that one decides."""
    return np.nan if any(isinstance(a, jax.core.Tracer) for a in arrays) else sum(array.size for array in arrays)
