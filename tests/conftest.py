"""What all tests share: programs compiled quickly, processes that stay small, and large tables of which a few are run."""

import ctypes
import gc
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path

import jax
import pytest

QUICK = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
"""Most programs of a test run once: they are compiled five times as fast, to run half as fast. `make test-all` compiles
as users do."""
MEMORY = limit = 1.5 * 2**30
"""Bytes of a process above which its compiled programs are dropped."""

if os.environ.get("COMPILER", "quick") == "quick":  # read when jax computes for the first time
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK}".strip()


gc.set_threshold(50_000, 20, 100)
"""Python looks for cycles a hundred times less often than by default: in the large heap of a process that compiles, that
was a tenth of the time."""

LEAST_SHOWN = 3
"""Cases of a sampled table that are always fast."""


def pytest_collection_modifyitems(items):
    """Of a test that is marked `sampled(k)`, every k-th case is fast, but at least three; the others are slow."""
    quick = [item for item in items if item.get_closest_marker("slow") is None]
    sampled = [(item, mark.args[0]) for item in quick if (mark := item.get_closest_marker("sampled")) is not None]
    cases, seen = Counter(item.function for item, _ in sampled), Counter()
    for item, k in sampled:
        if seen[item.function] % min(k, max(1, (cases[item.function] - 1) // (LEAST_SHOWN - 1))):
            item.add_marker(pytest.mark.slow)
        seen[item.function] += 1


@pytest.fixture(autouse=True)
def _small_process():
    """Drop compiled programs between two tests where they have grown too many."""
    yield
    global limit
    if _resident() > limit:
        jax.clear_caches()
        gc.collect()
        _give_back()
        limit = max(MEMORY, _resident() + MEMORY / 4)  # what is not given back would have them dropped all the time


def _give_back():
    """Ask the C library for what Python no longer needs; where it has no such function, nothing."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _resident():
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else 0
