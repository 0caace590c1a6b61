"""The noise of the simulator: the published generator, and numbers that are normal and unrelated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedualex.compiling import double
from fedualex.random import fold_in, key_of, normal, threefry

# The known answers published with the generator (Random123, threefry2x32 with 20 rounds): key, counter, result.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("key", "counter", "answer"), KNOWN)
def test_threefry_gives_the_published_answers(key, counter, answer):
    words = [jnp.asarray([word], np.uint32) for word in counter]
    left, right = threefry(jnp.asarray(key, np.uint32), *words)
    assert (int(left[0]), int(right[0])) == answer


@pytest.mark.parametrize("number", [0, 1, 2**31 + 3])
def test_keys_are_those_of_jax(number):
    number = np.uint32(number)
    keys = jax.random.split(jax.random.key(7), 3)
    ours, theirs = (jax.vmap(lambda key, fold=fold: fold(key, number))(keys) for fold in (fold_in, jax.random.fold_in))
    np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(theirs))


@pytest.mark.parametrize("seed", [0, 5, 2**32 - 1, 2**32, 2**63 - 1])
def test_seeds_are_those_of_jax(seed):
    with jax.enable_x64(True):
        ours, theirs = key_of(seed), jax.random.key(seed, impl="threefry2x32")
        np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(theirs))
    assert ours.dtype == theirs.dtype


def test_rows_of_many_keys_are_those_of_each_key():
    keys = jax.random.split(jax.random.key(1), 5)
    rows = jax.vmap(lambda key: normal(key, (3, 7), jnp.float32, stream=2))(keys)
    for key, row in zip(keys, rows, strict=True):
        np.testing.assert_allclose(row, normal(key, (3, 7), jnp.float32, stream=2), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_are_standard_normal(dtype):
    n = 400_000
    with double():
        sample = np.asarray(normal(jax.random.key(7), (n,), jnp.dtype(dtype)), float)
    assert stats.kstest(sample, "norm").pvalue > 1e-3
    # Moments within five of their own standard deviations: var(x^k) = E x^2k - (E x^k)^2.
    for power, expected, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        assert abs(np.mean(sample**power) - expected) < 5 * np.sqrt(variance / n)
    assert 4 < np.abs(sample).max() < 6.7


def test_neighbours_keys_and_streams_are_unrelated():
    n = 200_000
    keys = [jax.random.fold_in(jax.random.key(0), i) for i in range(3)]
    draws = [np.asarray(normal(key, (n,), np.float32, stream)) for key in keys for stream in (0, 1)]
    bound = 5 / np.sqrt(n)
    for i, one in enumerate(draws):
        for lag in (1, 2, n // 2):  # the two numbers of one Box-Muller pair are n/2 apart
            assert abs(np.corrcoef(one[lag:], one[:-lag])[0, 1]) < 5 / np.sqrt(n - lag)
            assert abs(np.corrcoef(one[lag:] ** 2, one[:-lag] ** 2)[0, 1]) < 5 / np.sqrt(n - lag)
        for other in draws[:i]:
            assert abs(np.corrcoef(one, other)[0, 1]) < bound


def test_angles_are_those_of_the_library():
    """The series for cosine and sine against numpy's, on all quarters."""
    from fedualex.random import _unit_circle

    bits = np.random.default_rng(0).integers(0, 2**32, 10_000, dtype=np.uint32)
    low = ((bits << 2).view(np.int32) / 2.0**31) * np.pi / 4
    angle = low + (bits >> 31) * np.pi / 2 + ((bits >> 30) & 1) * np.pi
    for dtype, tolerance in ((np.float32, 2e-7), (np.float64, 1e-15)):
        with double():
            cosine, sine = _unit_circle(jnp.asarray(bits), dtype)
        np.testing.assert_allclose(cosine, np.cos(angle), atol=tolerance)
        np.testing.assert_allclose(sine, np.sin(angle), atol=tolerance)


def test_the_key_alone_decides_and_odd_sizes_are_fine():
    key = jax.random.key(3)
    whole = normal(key, (7, 3), np.float32)
    assert whole.shape == (7, 3)
    batched = jax.jit(jax.vmap(lambda k: normal(k, (7, 3), np.float32)))(jnp.stack([jax.random.key(9), key]))
    np.testing.assert_allclose(batched[1], whole, rtol=1e-5)
