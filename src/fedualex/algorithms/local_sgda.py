"""Local SGDA: its own step for each block."""

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..tree import Saddle, Scalar, Tree
from .base import Oracle, StepSize, step
from .plain import AbstractPlainMethod
from .primal import Primal


class LocalSGDA(AbstractPlainMethod):
    """Local stochastic gradient descent ascent with its own step for each block: `FedAvgS` with eta_x and eta_y."""

    eta_x: StepSize = step("eta_x")
    eta_y: StepSize = step("eta_y")
    eta_s: StepSize = step("eta_s", 1.0)

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The new point is the probe, with weight 1: the two blocks have no common step."""
        slope = tree.add(oracle(local.z, 0), geometry.subgradient(local.z))
        step = Saddle(tree.scale(self.eta_x, slope.x), tree.scale(self.eta_y, slope.y))
        omega = tree.subtract(geometry.dual(local.z).omega, step)
        z = geometry.primal(Dual(omega, 0 * self.eta_x))
        return local.moved(z, self.eta_x), z, 1.0
