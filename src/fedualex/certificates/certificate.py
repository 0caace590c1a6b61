"""An upper bound on the duality gap of one point: the numbers that float64 computes, and a bound on their rounding."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np

from .. import tree
from ..arrays import Array, xp
from ..display import round_up
from ..geometry import Product
from ..regularizers.fenchel import UNIT, Fenchel
from ..tree import Saddle, Tree


@dataclass(frozen=True)
class Certificate:
    """<g, z> + psi(z) + psi^*(-g) at a point z, split over x and y; it bounds the duality gap from above.

    From several surveys with weights (`evidence`), g is their weighted mean, and `shift` is added to the parts.
    x, y: the parts as float64 computed them; each is >= 0 up to rounding. A point outside the domain has infinite
        parts. Where no bound may be claimed there is no number: the parts are None. `reason` says why in both cases.
    rounding: how far x + y may be below the number that exact arithmetic would give.
    estimated: whether `rounding` is an estimate; otherwise it is a bound (docs/rounding.md).
    """

    x: float | None
    y: float | None
    reason: str = ""
    rounding: float = 0.0
    estimated: bool = False
    shift: float = 0.0

    @property
    def gap(self) -> float | None:
        """The certified bound, max(x + y + shift, 0) + rounding; None where there is no certificate."""
        return None if self.x is None or self.y is None else max(self.x + self.y + self.shift, 0.0) + self.rounding

    def __str__(self) -> str:
        if self.x is None or self.y is None or self.gap is None:
            return f"not certifiable: {self.reason}"
        bound = f"gap <= {round_up(self.gap, 6)}"
        if self.reason:
            return f"{bound}: {self.reason}"
        kind = "an estimate" if self.estimated else "a bound"
        parts = f"x part {round_up(self.x, 6)}, y part {round_up(self.y, 6)}"
        if self.shift:
            parts += f", shift {self.shift:.6g}"
        return f"{bound} ({parts}, rounding {round_up(self.rounding, 2)}, {kind})"


# From the numbers that float64 computes to a certificate that is not below the exact one.


FEASIBLE = 1e-12
"""A point whose relative violation is at most this lies in the domain: rounding, not infeasibility."""


class Measured(NamedTuple):
    """What a certificate is made of."""

    x: Array
    y: Array
    rounding: Array
    size: Array
    """<|g|, |z|>."""
    violation: Array
    finite: Array
    """Whether z and g are."""


def measure(geometry: Product, z: Saddle, g: Saddle, error: Saddle) -> Measured:
    """The certificate's numbers at z for an operator g that may be wrong by `error`, entry by entry; compilable."""
    violation = geometry.violation(z)
    parts = geometry.fenchel(tree.depend_on(z, violation), g, error)  # one LAPACK call at a time
    x, y = _total(parts.x), _total(parts.y)
    adding = 8 * UNIT * (xp.abs(x.gap) + xp.abs(y.gap))
    size = tree.dot(*(jax.tree.map(xp.abs, point) for point in (g, z)))
    return Measured(x.gap, y.gap, x.rounding + y.rounding + adding, size, violation, tree.is_finite((z, g)))


def certificate_of(measured: Measured, estimated: bool, shift: float = 0.0) -> Certificate:
    """The certificate; infinite outside the domain, and a `FloatingPointError` where float64 has no number to trust.

    shift: what is added to the sum of its parts.
    """
    x, y, rounding, size, violation = (float(number) for number in measured[:-1])
    if not measured.finite:
        raise FloatingPointError("the operator of this problem is not finite at z, so z has no certificate")
    if not violation <= FEASIBLE:
        return Certificate(np.inf, np.inf, f"z is outside the domain by {violation:.2g} of its size")
    for name, part in (("x", x), ("y", y)):
        if not np.isfinite(part + rounding):
            raise FloatingPointError(
                f"the {name} part of the certificate is {part:.3g} with a rounding of {rounding:.3g}: numbers of this "
                "problem are beyond float64, so z has no certificate"
            )
        if part < -(rounding + FEASIBLE * size):
            raise FloatingPointError(
                f"the {name} part of the certificate is {part:.3g}, and rounding explains {-rounding:.3g} only: a "
                "conjugate is wrong in float64, so z has no certificate"
            )
    return Certificate(x, y, "", rounding, estimated, shift)


def _total(block: Tree) -> Fenchel:
    parts = jax.tree.leaves(block, is_leaf=lambda node: isinstance(node, Fenchel))
    return Fenchel(tree.total([part.gap for part in parts]), tree.total([part.rounding for part in parts]))
