"""Standard normals from counters: the Threefry generator of `jax.random`, unrolled, and the Box-Muller transform.

The noise of a simulation costs more than its mathematics, and `jax.random.normal` is not at its best on a CPU:
its rounds are a loop that writes arrays at every turn, and it inverts the error function. `docs/performance.md`
has the measured ratio, tests/test_normals.py the quality.
"""

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Complex, Float, UInt32

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)
SIGN = np.uint32(0x80000000)
VECTOR = 8
"""Rows are as long as a multiple of this, so that no tail of a row is computed number by number."""


def key_of(seed: int) -> Array:
    """`jax.random.key` of a seed from 0 to 2^63 - 1, bit for bit, without the two programs that it compiles."""
    words = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
    return jax.random.wrap_key_data(jax.device_put(words), impl="threefry2x32")


def fold_in(key: Array, number: object) -> Array:
    """`jax.random.fold_in`, bit for bit, without its loop: a step of a run makes several keys for each client."""
    left, right = threefry(jax.random.key_data(key), jnp.zeros(1, np.uint32), jnp.asarray(number, np.uint32)[None])
    return jax.random.wrap_key_data(jnp.concatenate([left, right]), impl="threefry2x32")


def normal(key: Array, shape: tuple[int, ...], dtype: object, stream: int = 0) -> Float[Array, "..."]:
    """Standard normals, decided by the key and the stream alone; different streams are independent."""
    size = math.prod(shape)
    row = functools.partial(_pairs, count=-(-size // (2 * VECTOR)) * VECTOR, dtype=dtype, stream=stream)

    @custom_vmap
    def draw(words: Array) -> Array:
        rows = _materialize(jax.vmap(row), words.reshape(-1, 2))
        return rows.reshape(*words.shape[:-1], -1)

    @draw.def_vmap
    def draw_more(_size: int, _batched: object, words: Array) -> tuple[Array, bool]:
        return draw(words), True

    pairs = draw(jax.random.key_data(key))[: (size + 1) // 2]
    return jnp.concatenate([pairs.real, pairs.imag])[:size].reshape(shape)


def _materialize(draw: Callable[[Array], Array], words: UInt32[Array, "rows 2"]) -> Array:
    """draw(words) as an array in memory, which XLA would otherwise fuse into every consumer, element by element.

    An optimization barrier is gone before fusion on a CPU; a branch stays, even if both ways lead to the same.
    It must not be mapped over, or it becomes a choice of entries: hence rows, however often `normal` is.
    """
    return jax.lax.cond(words[0, 0] == 0, draw, draw, words)


def _pairs(words: UInt32[Array, "2"], count: int, dtype: Any, stream: int) -> Complex[Array, " {count}"]:
    """Pairs of normals by Box and Muller, as complex numbers: for two real arrays XLA would do the work twice."""
    counter = jax.lax.iota(np.uint32, count)
    first, second = threefry(words, counter, jnp.full_like(counter, stream))
    # -log of a uniform number of (0, 1) is never infinite: 32 bits and a half.
    radius = jnp.sqrt(-2 * jnp.log((first.astype(dtype) + 0.5) * 2.0**-32))
    cosine, sine = _unit_circle(second, dtype)
    return jax.lax.complex(radius * cosine, radius * sine)


def threefry(
    key: UInt32[Array, "2"], left: UInt32[Array, " n"], right: UInt32[Array, " n"]
) -> tuple[UInt32[Array, " n"], UInt32[Array, " n"]]:
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011): two words of a counter become two random words."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    left, right = left + keys[0], right + keys[1]
    for group in range(5):
        for bits in ROTATIONS[group % 2]:
            left = left + right
            right = left ^ ((right << bits) | (right >> (32 - bits)))
        left, right = left + keys[(group + 1) % 3], right + keys[(group + 2) % 3] + np.uint32(group + 1)
    return left, right


def _unit_circle(bits: UInt32[Array, " n"], dtype: Any) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Cosine and sine of a uniform angle: 30 bits place it in a quarter turn around 0, two choose the quarter.

    Within a quarter turn, |t| <= pi/4, the Taylor series need no reduction of the angle, which is what makes the
    library's own cosine four times as slow as all the rest of a normal.
    """
    t = jax.lax.bitcast_convert_type(bits << 2, np.int32).astype(dtype) * (math.pi / 4 * 2.0**-31)
    terms = 5 if jnp.dtype(dtype).itemsize <= 4 else 9
    cosine = _polynomial(t * t, ((-1) ** i / math.factorial(2 * i) for i in range(terms)))
    sine = t * _polynomial(t * t, ((-1) ** i / math.factorial(2 * i + 1) for i in range(terms)))
    # The two highest bits: a quarter turn maps (c, s) to (-s, c), a half turn to (-c, -s).
    quarter = bits >= SIGN
    cosine, sine = jnp.where(quarter, -sine, cosine), jnp.where(quarter, cosine, sine)
    half = (bits << 1) >= SIGN
    return jnp.where(half, -cosine, cosine), jnp.where(half, -sine, sine)


def _polynomial(x: Float[Array, " n"], coefficients: Iterable[float]) -> Float[Array, " n"]:
    result = jnp.zeros_like(x)
    for coefficient in reversed(list(coefficients)):
        result = result * x + coefficient
    return result
