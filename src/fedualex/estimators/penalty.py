"""Penalties and bounds of the weights, for rows in a common scale."""

from typing import Any

from ..validation import nonnegative, positive


def penalty(size: float, l1: Any, l2: Any, radius: Any) -> dict[str, Any]:
    """l1, l2 and radius for rows that were divided by `size`, so that they mean the same for rows as given."""
    l1, l2, bound = nonnegative("l1", l1), nonnegative("l2", l2), scaled_radius(size, radius)
    if l1 == l2 == 0 and bound is None:
        raise ValueError(
            "l1 or l2 must be > 0, or radius given: nothing else bounds the weights, and a certificate needs a bound"
        )
    return {"l1": l1 / size, "l2": l2 / size**2, "radius": bound}


def scaled_radius(size: float, radius: Any) -> Any:
    """The bound of the weights for rows that were divided by `size`; None if there is none."""
    return None if radius is None else positive("radius", radius) * size
