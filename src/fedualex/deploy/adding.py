"""How the answers of sites are added up: which factor each has, and who multiplies by it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..runtime.state import Setup
from ..tree import Tree
from .wire import reading

Factors = Callable[[str], Mapping[str, float]]
"""Of a task: what the arrays of a site are multiplied by before they are added, by the first parts of their names."""


def round_factors(setup: Setup, weights: Any, ids: Sequence[int]) -> dict[str, NDArray[Any]]:
    """What each of these sites' arrays in a round are multiplied by before they are added, by their names."""
    kind, p = np.dtype(setup.weights.dtype), np.asarray(weights)
    a, steps = (p / p.sum()).astype(kind), np.asarray(setup.steps)[list(ids)].astype(kind)
    scaled = a * (a @ steps) / steps  # increments count a step of everybody alike (unequal local steps)
    factors = dict.fromkeys(("message", "points", "point_weight"), scaled)
    return factors | dict.fromkeys(("probes", "probe_weights", "shares"), a)


def own_factors(setup: Setup, weights: Any, site: int) -> dict[str, float]:
    """The same for one site in exchanges that all sites take part in, surveys included."""
    in_rounds = round_factors(setup, weights, range(len(weights)))
    factors = {name: float(each[site]) for name, each in in_rounds.items()}
    return factors | dict.fromkeys(("operators", "values"), float(weights[site]))


class Adding:
    """Adds up replies. weighted: whether each site has multiplied by its factor, as in secure sums."""

    def __init__(self, weighted: bool):
        self.weighted = weighted

    def reading(self, **likes: Tree) -> Callable[[Mapping[str, Any]], dict[str, Tree]]:
        """How replies with trees of these shapes are read; secure sums are float64 always."""
        dtype = jnp.float64 if self.weighted else None
        shapes = {
            name: jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, dtype or leaf.dtype), like)
            for name, like in likes.items()
        }
        return reading(**shapes)

    def total(self, factors: Any, trees: Sequence[Tree], like: Tree) -> Tree:
        """sum_i factor_i tree_i, in the precision of `like`, in the order of the trees."""
        own = np.ones(len(trees)) if self.weighted else factors

        def add(shape: Any, *leaves: Any) -> NDArray[Any]:
            total = sum(leaf.dtype.type(f) * leaf for f, leaf in zip(own, leaves, strict=True))
            return np.asarray(total, shape.dtype)

        return jax.tree.map(add, like, *trees)
