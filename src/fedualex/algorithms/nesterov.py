"""Nesterov's dual extrapolation."""

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..tree import Scalar, Tree
from .base import Oracle, StepSize, step
from .sequential import AbstractSequential


class NesterovDualExtrapolation(AbstractSequential):
    """Nesterov's dual extrapolation (2007) for psi = 0; a psi that is there enters through its subgradient.

        half  = P(grad ell(z) - eta g(z), 0),  z = P(omega, 0);   omega <- omega - eta g(half)

    Algorithm 4 with psi = 0 starts its half step from omega instead: the two agree while the domain is not active.
    """

    eta: StepSize = step("eta")

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Dual:
        """The pair itself; its weight stays what it is."""
        return dual

    def local_step(self, local: Dual, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Dual, Tree, Scalar]:
        """The half point is the probe."""
        z = geometry.primal(local)
        slope = tree.add(oracle(z, 0), geometry.subgradient(z))
        half = geometry.generalized_prox(geometry.dual(z), tree.scale(self.eta, slope))
        slope = tree.add(oracle(half, 1), geometry.subgradient(half))
        return Dual(tree.subtract(local.omega, tree.scale(self.eta, slope)), local.tau), half, self.eta

    def point(self, server: Dual, geometry: AbstractGeometry) -> Tree:
        """P(omega, 0)."""
        return geometry.primal(server)
