"""Formulas that are written once for two libraries: they call `xp`, which is jax.numpy, and numpy within `by_numpy`.

What a server computes alone for a small problem takes numpy less than a millisecond, and jax, which traces and compiles
a program first, a hundred times as long.
"""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Real
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

P = ParamSpec("P")
R = TypeVar("R")

_library: ContextVar[ModuleType] = ContextVar("_library", default=jnp)


class _Library:
    """The functions of jax.numpy, or of numpy within `by_numpy`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_library.get(), name)


if TYPE_CHECKING:  # checkers know jax's functions, and numpy's are used in the same way
    xp = jnp
    Reals = NDArray[np.floating | np.integer]
    Values = NDArray[np.generic]
    Array = jax.Array | Reals
    RealMatrix = Reals | csr_array
else:
    xp = _Library()
    Values = np.ndarray | np.generic
    Reals = Real[np.ndarray, "..."] | NDArray[np.longdouble] | np.generic
    Array = jax.Array | np.ndarray | np.generic
    RealMatrix = Any
"""`Values` are what a column holds, numbers or words; `Reals` real numbers of numpy; `Array` is of either library."""


def by_numpy(function: Callable[P, R]) -> Callable[P, R]:
    """The function computed by numpy, in the precision of its arguments: all arrays in them become numpy's.

    Like jax, it warns of nothing: what overflows is infinite.
    """

    @functools.wraps(function)
    def compute(*arguments: P.args, **keywords: P.kwargs) -> R:
        arguments, keywords = jax.tree.map(_as_numpy, (arguments, keywords))
        before = _library.set(np)
        try:
            with np.errstate(all="ignore"):
                return function(*arguments, **keywords)
        finally:
            _library.reset(before)

    return compute


def _as_numpy(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf


def is_numpy() -> bool:
    """Whether numpy computes here and now."""
    return _library.get() is np


class Module(eqx.Module):
    """A module whose methods are plain ones within `by_numpy`.

    Elsewhere equinox makes a pytree of a method wherever it is asked for, which takes longer than most formulas do.
    """

    if not TYPE_CHECKING:

        def __getattribute__(self, name: str, /) -> Any:
            return object.__getattribute__(self, name) if is_numpy() else super().__getattribute__(name)


# What the two libraries have no common name for.


def without_slope(a: Array) -> Array:
    """a, as a constant for derivatives."""
    return a if is_numpy() else jax.lax.stop_gradient(a)


def ascending(omega: Array) -> tuple[Array, Array]:
    """The entries of omega in rising order, and the place of each in omega.

    Both come from one sort, whose results XLA stores. Entries gathered or mapped once more under jit may be computed
    once more, with another rounding: beside 1e33 the two differ by more than the whole simplex.
    """
    entries = omega.ravel()
    if is_numpy():
        places: Any = np.argsort(entries, kind="stable")
        return entries[places], places
    rising, order = jax.lax.sort((jnp.asarray(entries), jnp.arange(omega.size)), num_keys=1)
    return rising, order


def put_back(entries: Array, order: Array, like: Array) -> Array:
    """The array whose entries, in the order of `ascending`, are these."""
    if is_numpy():
        placed: Any = np.empty_like(entries)
        placed[order] = entries
        return placed.reshape(like.shape)
    return jnp.zeros_like(entries).at[order].set(entries, unique_indices=True).reshape(like.shape)


def largest_of_groups(a: Array, labels: Any, count: int) -> Array:
    """The largest of the numbers >= 0 with each of the labels 0, 1, ..., which are as many as `count` and all used."""
    if is_numpy():
        largest: Any = np.zeros(count, a.dtype)
        np.maximum.at(largest, labels, a)
        return largest
    return jax.ops.segment_max(a, labels, count)


def sums_of_groups(a: Array, labels: Any, count: int) -> Array:
    """The sum of the numbers with each label."""
    if is_numpy():
        sums: Any = np.bincount(labels, a, count).astype(a.dtype)
        return sums
    return jax.ops.segment_sum(a, labels, count)


def sums_from_the_end(ratios: Array) -> Array:
    """T_j = 1 + ratio_j T_{j+1}, from the last j on, where T_{j+1} is 0."""
    if is_numpy():
        totals: Any = np.ones_like(ratios)
        for j in reversed(range(ratios.size - 1)):
            totals[j] += ratios[j] * totals[j + 1]
        return totals

    def compose(later: tuple[Array, Array], step: tuple[Array, Array]) -> tuple[Array, Array]:
        """The affine maps t -> offset + ratio t, one after the other."""
        return step[0] + step[1] * later[0], step[1] * later[1]

    sums, _ = jax.lax.associative_scan(compose, (jnp.ones_like(ratios), ratios), reverse=True)
    return sums


def choose(condition: Array, one: Callable[..., Array], other: Callable[..., Array], *arguments: Array) -> Array:
    """one(*arguments) if the condition holds, else other(*arguments), of which one alone is computed."""
    if is_numpy():
        return (one if condition else other)(*arguments)
    chosen: Array = jax.lax.cond(condition, one, other, *arguments)
    return chosen


def repeat(count: int, step: Callable[[Any, Array], Array], start: Array) -> Array:
    """step(k, a) for k = 0, 1, ..., count - 1, from a = start."""
    if is_numpy():
        return functools.reduce(lambda a, k: step(k, a), range(count), start)
    end: Array = jax.lax.fori_loop(0, count, step, start)
    return end
