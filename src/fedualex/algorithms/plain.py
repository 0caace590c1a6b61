"""Without a proximal step: psi enters through a subgradient, the domain through a projection."""

from typing import Any

import equinox as eqx

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..tree import Scalar, Tree
from .base import Oracle
from .primal import AbstractPrimalMethod, Primal


class AbstractPlainMethod(AbstractPrimalMethod):
    """The server projects: z <- project(z + eta_s mean increment)."""

    eta_s: eqx.AbstractVar[Any]

    def server_step(self, server: Primal, message: Primal, geometry: AbstractGeometry, fraction: Scalar) -> Primal:
        """project(z + eta_s Delta)."""
        moved = tree.add(server, tree.scale(self.eta_s, message))
        return Primal(geometry.project(moved.z), moved.elapsed)


def descend(start: Tree, at: Tree, eta: Scalar, oracle: Oracle, sample: int, geometry: AbstractGeometry) -> Tree:
    """project(start - eta (g + s)(at)), as a mirror step of weight 0."""
    slope = tree.add(oracle(at, sample), geometry.subgradient(at))
    omega = tree.subtract(geometry.dual(start).omega, tree.scale(eta, slope))
    return geometry.primal(Dual(omega, 0 * eta))
