"""The primal-dual method of Chambolle and Pock."""

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..tree import Saddle, Scalar
from .base import Oracle, StepSize, step
from .sequential import AbstractGameMethod


class ChambollePock(AbstractGameMethod):
    """The primal-dual method of Chambolle and Pock (2011) for bilinear games in Euclidean geometry.

        x+ = prox(x - tau_x A^T y, tau_x);   y+ = prox(y + tau_y (A (2 x+ - x) - b), tau_y)

    tau_x tau_y ||A||^2 <= 1; the probe is the new pair. The operator at (x+, y) gives A x+ - b, at (x, y) the rest.
    """

    tau_x: StepSize = step("tau_x")
    tau_y: StepSize = step("tau_y")

    def theory_steps(self, eta: float, beta: float, rounds: int) -> dict[str, float]:
        """tau_x tau_y beta^2 = 1."""
        x, y = (1 / beta if tau is None else 1 / (float(tau) * beta**2) for tau in (self.tau_y, self.tau_x))
        return {"tau_x": x, "tau_y": y}

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
