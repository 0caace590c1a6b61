"""The family of methods that average in the dual space."""

from typing import Any

import equinox as eqx

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..tree import Scalar, Tree
from .base import AbstractMethod


class AbstractDualMethod(AbstractMethod):
    """State, probes and messages are dual pairs; the server adds eta_s times the mean increment."""

    eta_s: eqx.AbstractVar[Any]

    @property
    def recenter(self) -> bool:
        """Whether the server replaces its pair by that of its point alone, (grad ell(z), 0), after every step."""
        return False

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Dual:
        """The pair itself."""
        return dual

    def local_init(self, server: Dual, memory: None) -> Dual:
        """The server's pair."""
        return server

    def local_final(self, local: Dual, server: Dual, memory: None) -> tuple[Dual, None]:
        """The increment of omega and of its weight."""
        return tree.subtract(local, server), None

    def server_step(self, server: Dual, message: Dual, geometry: AbstractGeometry, fraction: Scalar) -> Dual:
        """(omega, tau) + eta_s (mean increment), recentered at its point if the method says so."""
        moved: Dual = tree.add(server, tree.scale(self.eta_s, message))
        return geometry.dual(geometry.primal(moved)) if self.recenter else moved

    def point(self, server: Dual, geometry: AbstractGeometry) -> Tree:
        """P_tau(omega)."""
        return geometry.primal(server)

    def read(self, probe: Dual, geometry: AbstractGeometry) -> Tree:
        """P_tau(omega) of the averaged pair."""
        return geometry.primal(probe)

    def memory(self, server: Dual) -> None:
        """None."""
        return
