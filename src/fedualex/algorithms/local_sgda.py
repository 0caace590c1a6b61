"""Local SGDA: its own step for each block."""

from typing import Any

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..tree import Saddle, Scalar, Tree
from .base import Oracle, step_size
from .plain import AbstractPlainMethod
from .primal import Primal


class LocalSGDA(AbstractPlainMethod):
    """Local stochastic gradient descent ascent with its own step for each block: `FedAvgS` with eta_x and eta_y."""

    eta_x: Any
    eta_y: Any
    eta_s: Any

    def __init__(self, eta_x: Any = None, eta_y: Any = None, eta_s: Any = 1.0):
        self.eta_x, self.eta_y = step_size("eta_x", eta_x), step_size("eta_y", eta_y)
        self.eta_s = step_size("eta_s", eta_s)

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The new point is the probe, with weight 1: the two blocks have no common step."""
        slope = tree.add(oracle(local.z, 0), geometry.subgradient(local.z))
        step = Saddle(tree.scale(self.eta_x, slope.x), tree.scale(self.eta_y, slope.y))
        omega = tree.subtract(geometry.dual(local.z).omega, step)
        z = geometry.primal(Dual(omega, 0 * self.eta_x))
        return local.moved(z, self.eta_x), z, 1.0
