"""The primal-dual method of Chambolle and Pock."""

from typing import Any, ClassVar

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..tree import Saddle, Scalar
from .base import Oracle, step_size
from .sequential import AbstractSequential


class ChambollePock(AbstractSequential):
    """The primal-dual method of Chambolle and Pock (2011) for bilinear games in Euclidean geometry.

        x+ = prox(x - tau_x A^T y, tau_x);   y+ = prox(y + tau_y (A (2 x+ - x) - b), tau_y)

    tau_x tau_y ||A||^2 <= 1; the probe is the new pair. The operator at (x+, y) gives A x+ - b, at (x, y) the rest.
    """

    tau_x: Any
    tau_y: Any
    one_machine: ClassVar[bool] = True

    def __init__(self, tau_x: Any = None, tau_y: Any = None):
        self.tau_x, self.tau_y = step_size("tau_x", tau_x), step_size("tau_y", tau_y)

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Saddle:
        """The primal point."""
        return geometry.primal(dual)

    def local_step(self, local: Saddle, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Saddle, Saddle, Scalar]:
        """The new point is the probe."""
        here = oracle(local, 0)
        step = Saddle(tree.scale(self.tau_x, here.x), tree.scale(0.0, here.y))
        x = geometry.primal(Dual(tree.subtract(local, step), self.tau_x)).x
        ahead = oracle(Saddle(x, local.y), 1).y
        extrapolated = tree.subtract(tree.scale(2.0, ahead), here.y)
        y = geometry.primal(Dual(Saddle(x, tree.subtract(local.y, tree.scale(self.tau_y, extrapolated))), self.tau_y)).y
        return Saddle(x, y), Saddle(x, y), 1.0

    def point(self, server: Saddle, geometry: AbstractGeometry) -> Saddle:
        """The pair."""
        return server
