"""FedGDA-GT: federated gradient descent ascent with gradient tracking, and a proximal step."""

from typing import ClassVar

from ..geometry import AbstractGeometry
from ..tree import Scalar, Tree
from .base import Oracle, StepSize, Survey, step
from .plain import AbstractPlainMethod
from .primal import Primal


class FedGDAGT(AbstractPlainMethod):
    """FedGDA-GT (Sun and Wei 2022): descent ascent from z_r with a tracked operator, here with a composite mirror step.

        z  <- P(grad ell(z) - eta_c (g_m(z) - g_m(z_r) + g(z_r)), eta_c)      K times on every client
        z_r <- project(z_r + eta_s mean(z - z_r))

    The tracked operator is the fresh survey of `AbstractMethod`. Without psi and domain, with eta_s = 1, it is
    FedGDA-GT as printed, which converges linearly for strongly convex-concave f and small eta_c; on a bilinear game
    descent ascent does not converge. `ScaffoldS` is the same with a subgradient of psi. The probe is the new point.
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)
    survey: ClassVar[Survey] = "fresh"

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The new point is the probe; the oracle is corrected."""
        z = geometry.primal(geometry.dual(local.z).descend(self.eta_c, oracle(local.z, 0)))
        return local.moved(z, self.eta_c), z, self.eta_c
