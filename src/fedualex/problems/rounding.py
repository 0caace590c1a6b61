"""From the numbers that float64 computes to a certificate that is not below the exact one."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import tree
from ..geometry import Product
from ..regularizers.fenchel import Fenchel
from ..regularizers.rounding import UNIT
from ..tree import Saddle, Tree
from .certificate import Certificate

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
    adding = 8 * UNIT * (jnp.abs(x.gap) + jnp.abs(y.gap))
    size = tree.dot(*(jax.tree.map(jnp.abs, point) for point in (g, z)))
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
    found = jax.tree.leaves(block, is_leaf=lambda node: isinstance(node, Fenchel))
    return Fenchel(tree.total([part.gap for part in found]), tree.total([part.rounding for part in found]))
