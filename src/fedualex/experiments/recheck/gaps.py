"""Gap, penalty and violation of a point, leaf by leaf."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .forms import Description, Psi, build
from .suprema import Array

NUDGE = 1e-9
"""A share of a slope that shows how far its conjugate moves with it."""


@dataclass(frozen=True)
class Gap:
    """<g, z> + psi(z) + psi^*(-g) of one leaf, and the sum of the sizes of its terms: rounding is a share of that."""

    value: float
    size: float


def fenchel_gaps(description: Description, z: Mapping[str, Array], g: Mapping[str, Array]) -> dict[str, Gap]:
    """The gap of each leaf."""
    return {name: _gap(build(part), _vector(z[name]), _vector(g[name])) for name, part in description.items()}


def _gap(psi: Psi, z: Array, g: Array) -> Gap:
    with np.errstate(over="ignore", invalid="ignore"):  # a conjugate beyond the largest float is an honest infinity
        value, conjugate = psi.value(z), psi.conjugate(-g, 0.0)
        # A conjugate may be what is left of a slope after a difference: what a share of the slope makes of it counts.
        left, right = (psi.conjugate(-(1 + share) * g, 0.0) for share in (-NUDGE, NUDGE))
        slack = np.nan_to_num((right - left) / NUDGE, nan=0.0, posinf=0.0, neginf=0.0)
        size = np.sum(np.abs(g * z)) + abs(value) + psi.mixed(z) + abs(conjugate) + abs(slack)
        return Gap(float(np.vdot(g, z) + value + conjugate), float(size))


def penalty_size(description: Description, z: Mapping[str, Array]) -> float:
    """The sum of the sizes of the terms of psi(z)."""
    psis = [(build(part), _vector(z[name])) for name, part in description.items()]
    return float(sum(abs(psi.value(point)) + psi.mixed(point) for psi, point in psis))


def violation(description: Description, z: Mapping[str, Array]) -> float:
    """How far z is outside the domain, relative to its size: the largest over the leaves."""
    # numpy's maximum, because Python's may lose a nan.
    return float(np.max([build(part).violation(_vector(z[name])) for name, part in description.items()]))


def _vector(leaf: Array) -> Array:
    return np.atleast_1d(np.asarray(leaf, dtype=np.float64))
