"""The penalty of an estimator for rows in a common scale: as it was given, or chosen by held-out rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Protocol, TypedDict, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..accepted import Folds, Number
from ..algorithms.newton import why_no_curvature
from ..arrays import Reals
from ..problems import AbstractRecipe, gather
from ..problems.rows import Rows
from ..tables.choosing import Curve, fold_rows, search
from ..validation import nonnegative, positive

AUTO = "auto"
"""A penalty that held-out rows choose."""
ANY = 1.0
"""A penalty, or a radius, in place of one that nothing depends on."""


class Penalties(TypedDict):
    """As recipes take them."""

    l1: Number
    l2: Number
    radius: Number | None


class Setting(NamedTuple):
    """What a recipe is made for: the penalty for rows as given, and what rows and targets were divided by.

    center: the row that the loss takes off; None for 0. grouped: whether rows have groups.
    """

    value: Number | str
    size: float
    unit: float = 1.0
    center: Reals | None = None
    grouped: bool = False

    def penalty(self, value: Number) -> float:
        """A multiple of a norm of the weights."""
        return float(value / (self.size * self.unit))

    def radius(self, radius: Number | None) -> Number | None:
        """The bound of the weights; None if there is none."""
        return None if radius is None else positive("radius", radius) * self.size / self.unit

    def penalties(self, l2: Number, radius: Number | None, unbounded: bool = False) -> Penalties:
        """l1, l2 and radius of a recipe. unbounded: whether there may be none of them, and any domain will do."""
        l1, l2, bound = nonnegative("l1", self.value), nonnegative("l2", l2), self.radius(radius)
        if l1 == l2 == 0 and bound is None:
            if not unbounded:
                raise ValueError(
                    "l1 or l2 must be > 0, or radius given: nothing else bounds the weights, and a certificate needs a "
                    "bound"
                )
            bound = ANY
        return {"l1": self.penalty(l1), "l2": l2 / self.size**2, "radius": bound}


@runtime_checkable
class Chooses(Protocol):
    """An estimator whose penalty held-out rows can choose."""

    folds: Folds
    shifts: ClassVar[bool]

    def _recipe(self, at: Setting) -> AbstractRecipe: ...


def choose_penalty(estimator: Chooses, parts: Sequence[Rows], names: Sequence[str], name: str, at: Setting) -> Curve:
    """What was measured along the path of penalties, in units of the rows and targets as given.

    parts, names: the rows of each client, and what it is called. name: of the penalty, as the estimator calls it.
    """
    rows, folds = sum(len(own.y) for own in parts), estimator.folds
    if isinstance(folds, int) and rows < folds:
        raise ValueError(f"{name}={AUTO!r} takes a row for each of {folds} folds, got n_samples={rows}")
    unit = spread_of(parts) if estimator.shifts else 1.0
    recipe = estimator._recipe(at._replace(value=ANY, unit=unit))
    parts = [rows._replace(y=rows.y / unit) for rows in parts] if unit != 1 else parts
    if why := why_no_curvature(recipe.problem(gather(recipe, parts), "elsewhere"), of_all=True):
        raise ValueError(f"{name}={AUTO!r} takes second derivatives, and {why}: give a number")
    curve = search(recipe, fold_rows(recipe, parts, folds=estimator.folds, names=names)).curve

    def scale(numbers: Sequence[float], by: float = unit**2) -> list[float]:
        return [by * number for number in numbers]

    return replace(
        curve,
        name=name,
        values=scale(curve.values, at.size * unit),
        measure=scale(curve.measure),
        error=scale(curve.error),
        excess=scale(curve.excess),
        gaps=scale(curve.gaps),
        tol=curve.tol * unit**2,
    )


def spread_of(parts: Sequence[Rows]) -> float:
    """The root mean square of targets that are numbers less their mean; 1 for classes, and where all are 0."""
    values: NDArray[Any] = np.concatenate([np.ravel(rows.y) for rows in parts])
    if values.dtype.kind != "f":
        return 1.0
    largest = float(np.max(np.abs(values)))
    return largest * float(np.sqrt(np.mean((values / largest) ** 2))) if largest > 0 else 1.0
