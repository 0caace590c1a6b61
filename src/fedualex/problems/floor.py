"""A known lower bound of f over all x, at one y."""

from typing import Any, no_type_check

import equinox as eqx
import jax
import numpy as np

from ..geometry import Product
from ..precision import double
from ..regularizers import for_reports
from ..tree import Saddle, Tree
from ..validation import of_type, real_array
from .domains import point_like
from .rounding import FEASIBLE


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
