"""Where laws are tried, and how a broken one is reported."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from ..arrays import Array
from ..compiling import double
from ..geometry import Product, calls_lapack, is_geometry
from ..tree import Tree
from ..validation import real_array, short, whole_number

ROUNDING = 1e-10
FEASIBLE = 1e-12
FAR = 1e8
"""prox(FAR s, FAR) stands for the maximizer of <s, .> - psi that the conjugate is taken at."""

Margins = dict[str, Array]
"""By how much each law holds: a law is broken where its margin is negative or nan."""


class Laws:
    """The laws of one subject, compiled once for points of one shape and evaluated in float64.

    subject: what the laws are of. like: arrays of the shape of its points. margins: the laws as a function.
    """

    def __init__(self, subject: object, like: Tree, margins: Callable[..., Margins]):
        self.subject = subject
        self.like = jax.tree.map(np.asarray, like)

        # Closed over, not traced: some properties, such as finite_conjugate, depend on the parameters' values.
        def evaluate(*point: object) -> Margins:
            return margins(subject, self.like, *point)

        # Op by op where LAPACK is called: in one program its calls could run at the same time.
        self._margins = evaluate if calls_lapack(subject) else eqx.filter_jit(evaluate)

    def check(self, omega: Tree, other: Tree, weight: float) -> None:
        """All laws at one pair of points and one weight; an `AssertionError` names the law that fails, and where."""
        with double():
            arguments = tree.cast((omega, other, weight), jnp.float64)
            margins = self._margins(*arguments)
        require(self.subject, margins, f"omega={omega!r}, other={other!r}, weight={weight!r}")

    def check_samples(self, samples: int, seed: int) -> None:
        """All laws at random points over several scales, some with ties and zeros."""
        for point in _samples(self.like, samples, seed):
            self.check(*point)


def check_like(subject: object, like: Tree) -> Tree:
    """An array, or for a product one for each of its parts; those that fit, if None."""
    if like is None:
        return default_like(subject)
    if not isinstance(subject, Product):
        return real_array("like", like)
    structure: Any = jax.tree.structure(subject.parts, is_leaf=is_geometry)
    if jax.tree.structure(like) != structure:
        raise ValueError(f"like must have one array for each part of the product, got {short(like)}")
    return jax.tree.map(lambda leaf: real_array("like", leaf), like)


def require(subject: object, margins: Mapping[str, Any], where: str) -> None:
    """An `AssertionError` that names every law whose margin is negative or nan, and where that was."""
    broken = {law: float(margin) for law, margin in margins.items() if not float(margin) >= 0}
    if broken:
        raise AssertionError(f"{subject!r} breaks {broken} (negative: by how much) at {where}")


def holds(condition: object) -> float:
    """The margin of a law that holds or does not: 0 or -1."""
    return 0.0 if condition else -1.0


def same_arrays(computed: Tree, expected: Tree) -> float:
    """The margin of: two trees have one structure, and equal shapes and precisions leaf by leaf."""
    structures: list[Any] = [jax.tree.structure(computed), jax.tree.structure(expected)]
    if structures[0] != structures[1]:
        return holds(False)
    pairs = zip(jax.tree.leaves(computed), jax.tree.leaves(expected), strict=True)
    return holds(all(a.shape == b.shape and a.dtype == b.dtype for a, b in pairs))


def default_like(subject: object) -> Tree:
    """Arrays of a shape that fits: a parameter's own, a matrix for what is spectral, else five entries."""
    if isinstance(subject, Product):
        return jax.tree.map(default_like, subject.parts, is_leaf=is_geometry)
    if calls_lapack(subject):
        return np.zeros((4, 3))
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(subject) if np.ndim(leaf)]
    return np.zeros(max(shapes, key=np.prod) if shapes else 5)


def _samples(like: Tree, samples: int, seed: int) -> Iterator[tuple[Tree, Tree, float]]:
    rng = np.random.default_rng(whole_number("seed", seed, 0))

    def draw() -> Tree:
        scale, rounded = 10.0 ** rng.integers(-2, 3), rng.random() < 0.3
        point = jax.tree.map(lambda leaf: scale * rng.normal(size=np.shape(leaf)), like)
        return jax.tree.map(lambda leaf: np.round(leaf / scale) * scale, point) if rounded else point

    for index in range(whole_number("samples", samples)):
        yield draw(), draw(), 0.0 if index == 0 else float(rng.choice([0.1, 1.0, 7.0, 300.0]))


def size(a: Tree) -> Array:
    """The Euclidean length of a pytree."""
    return jnp.sqrt(tree.dot(a, a))


def equal(a: Array, b: Array, tolerance: Array) -> Array:
    """The margin of |a - b| <= tolerance."""
    return tolerance - jnp.abs(a - b)
