"""The family of methods that average in the primal space."""

import equinox as eqx

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..tree import Scalar, Tree
from .base import AbstractMethod


class Primal(eqx.Module):
    """A primal point and the step sizes that led to it, so that a server needs no K."""

    z: Tree
    elapsed: Scalar

    def moved(self, z: Tree, eta: Scalar) -> "Primal":
        """The next point, one step of size eta later."""
        return Primal(z, self.elapsed + eta)


class AbstractPrimalMethod(AbstractMethod):
    """State is a primal point, messages are increments of it, probes are primal points."""

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Primal:
        """The primal point of the pair."""
        return Primal(geometry.primal(dual), dual.tau)

    def local_init(self, server: Primal, memory: None) -> Primal:
        """The server's point."""
        return server

    def local_final(self, local: Primal, server: Primal, memory: None) -> tuple[Primal, None]:
        """The increment, and the step sizes behind it."""
        return tree.subtract(local, server), None

    def point(self, server: Primal, geometry: AbstractGeometry) -> Tree:
        """The point."""
        return server.z

    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        """The probe: means of primal points are primal points."""
        return probe

    def memory(self, server: Primal) -> None:
        """None."""
        return
