"""What is known of f before any run: a lower bound, and how smooth it is."""

from abc import abstractmethod
from typing import Any, NamedTuple, no_type_check

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..certificates.certificate import FEASIBLE
from ..compiling import quickly
from ..geometry import Product
from ..precision import double
from ..regularizers import for_reports
from ..tree import Saddle, Tree
from ..validation import of_type, real_array
from .domains import point_like


@no_type_check  # `checked_floor` refuses what is wrong
class Floor(eqx.Module):
    """f(x, y) >= value for EVERY x of the domain, in exact arithmetic: what is known of f before any run.

    y: a point of y's domain; None for plain minimization, where f(x) >= value.
    value: the bound, without psi. One that f attains should be lowered by what rounding may add to the data.
    each: whether f of every example alone obeys it, whatever the example's weight, as a loss >= 0 does. Then a client's
        own problem, a sample and other weights have it as well; otherwise only the problem that it was given for.
    """

    y: Tree
    value: Any
    each: bool = eqx.field(static=True, default=False)


def checked_floor(floor: object, geometry: Product, like: Saddle) -> Floor | None:
    """A floor in float64 whose y is in the domain of y; a clear refusal otherwise. None stays None."""
    if floor is None:
        return None
    floor = of_type(
        "floor", floor, Floor, "fx.problems.Floor(y, value), with f(x, y) >= value for every x of the domain"
    )
    value = real_array("floor.value", floor.value, "one finite number")
    if value.shape != ():
        raise ValueError(f"floor.value must be one finite number, got an array of shape {value.shape}")
    of_type("floor.each", floor.each, bool, "True or False")
    with double():
        y = point_like(like, Saddle(like.x, floor.y), "floor").y
        outside = 0.0 if y is None else float(Product(for_reports(geometry).parts.y).violation(y))
        if not outside <= FEASIBLE:
            raise ValueError(f"floor.y must be in the domain of y, got a point outside it by {outside:.2g} of its size")
        return Floor(jax.tree.map(np.asarray, y), np.asarray(value, np.float64), floor.each)


def floor_of_views(floor: Floor | None) -> Floor | None:
    """What is left of a floor where other examples or weights count."""
    return floor if floor is not None and floor.each else None


def with_floor(problem: Any, floor: Floor | None) -> Any:
    """The problem with this floor in place of its own."""
    return eqx.tree_at(lambda p: p.floor, problem, floor, is_leaf=lambda node: node is None)


# How fast the operators of a problem's clients change: bounds where f knows them, each from one client's examples.


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


def is_affine(problem: Any) -> bool:
    """Whether every client's operator is an affine function of z, as f declares (`affine`)."""
    return problem.shared_affine or bool(getattr(getattr(problem, "f", None), "affine", False))


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
