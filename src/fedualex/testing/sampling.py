"""Where laws are tried, and how a broken one is reported."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..tree import Tree

ROUNDING = 1e-10
FAR = 1e8
"""prox(FAR s, FAR) stands for the maximizer of <s, .> - psi that the conjugate is taken at."""


def samples_of(like: Tree, samples: int, seed: int) -> Iterator[tuple[Tree, Tree, float]]:
    """Pairs of points and weights over several scales, some with ties and zeros."""
    rng = np.random.default_rng(seed)

    def draw() -> Tree:
        scale, rounded = 10.0 ** rng.integers(-2, 3), rng.random() < 0.3
        point = jax.tree.map(lambda leaf: scale * rng.normal(size=np.shape(leaf)), like)
        return jax.tree.map(lambda leaf: np.round(leaf / scale) * scale, point) if rounded else point

    for index in range(samples):
        yield draw(), draw(), 0.0 if index == 0 else float(rng.choice([0.1, 1.0, 7.0, 300.0]))


def size(a: Tree) -> Any:
    """The Euclidean length of a pytree."""
    return jnp.sqrt(tree.dot(a, a))


def count(a: Tree) -> int:
    """The number of entries of a pytree."""
    return sum(np.size(leaf) for leaf in jax.tree.leaves(a))


def expect(holds: Any, law: str, subject: Any, **where: Any) -> None:
    """Fail with the law's name and the point where it does not hold."""
    if not bool(holds):
        shown = ", ".join(f"{name}={value!r}" for name, value in where.items())
        raise AssertionError(f"{subject!r} breaks the law '{law}' at {shown}")
