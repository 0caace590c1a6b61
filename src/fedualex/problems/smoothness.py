"""How fast the operators of a problem's clients change: bounds where f knows them, each from one client's examples."""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..compiling import quickly
from ..precision import double
from ..regularizers import for_reports
from ..tree import Tree


class Smoothness(NamedTuple):
    """What holds for every client m of a problem, whose operator is g_m.

    beta: ||g_m(z) - g_m(z')||_* <= beta ||z - z'|| for all z and z' of the domain.
    slope: ||g_m||_* at the point of the domain nearest to 0.
    """

    beta: Any
    slope: Any


class Smooth(eqx.Module):
    """A loss of one example that can tell how fast a client's operator changes."""

    @abstractmethod
    def jacobian_bound(self, examples: Any, problem: Any) -> float:
        """A number >= ||Jacobian of g_m||, from the geometry's norm to its dual, at every point of the domain.

        examples: all of one client, as numpy arrays, each of which counts alike. problem: has the domain.
        """


def beta_of(problem: Any) -> float | None:
    """The largest bound of a client, as `Smoothness` has it; None where f cannot tell, or its data is elsewhere."""
    if problem.smoothness is not None:
        return float(problem.smoothness.beta)
    if not isinstance(getattr(problem, "f", None), Smooth) or not problem.clients:
        return None
    with double():
        each = (_examples(problem.data, m) for m in range(problem.clients))
        return float(max(problem.f.jacobian_bound(examples, problem) for examples in each))


def slope_of(problem: Any) -> float:
    """The largest slope of a client, as `Smoothness` has it."""
    with double():
        return float(_largest_slope(problem) if problem.smoothness is None else problem.smoothness.slope)


def smoothness_of(problem: Any) -> Smoothness | None:
    """Both numbers; None where f cannot tell."""
    beta = beta_of(problem)
    return None if beta is None else Smoothness(np.asarray(beta), np.asarray(slope_of(problem)))


def with_smoothness(problem: Any, known: Smoothness | None) -> Any:
    """The problem with what is known of all clients, whoever holds their data."""
    return eqx.tree_at(lambda p: p.smoothness, problem, known, is_leaf=lambda node: node is None)


def norm_of_blocks(x: float, xy: float, y: float = 0.0) -> float:
    """The largest eigenvalue of [[x, xy], [xy, y]]: a bound on a Jacobian whose blocks have at most these norms."""
    return float((x + y) / 2 + np.hypot((x - y) / 2, xy))


def _examples(data: Any, m: int) -> Tree:
    count = int(np.asarray(data.counts)[m])
    return jax.tree.map(lambda leaf: np.asarray(leaf)[m][:count], data.examples)


@quickly
def _largest_slope(problem: Any) -> Array:
    geometry = for_reports(problem.geometry)
    start = geometry.project(jax.tree.map(lambda leaf: jnp.zeros(jnp.shape(leaf)), problem.like))
    return jnp.max(jax.lax.map(lambda client: geometry.dual_norm(problem.client_operator(client, start)), problem.data))
