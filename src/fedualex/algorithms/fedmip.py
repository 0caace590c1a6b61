"""FedMiP: federated mirror prox (Algorithm 2)."""

from ..geometry import AbstractGeometry
from ..tree import Scalar, Tree
from .base import Oracle, StepSize, choice, step
from .mirror import AbstractMirrorMethod, ServerProx
from .primal import Primal


class FedMiP(AbstractMirrorMethod):
    """Federated mirror prox (Algorithm 2): two composite mirror steps, both from z.

        half = P(grad ell(z) - eta_c g(z),    eta_c)
        z   <- P(grad ell(z) - eta_c g(half), eta_c)

    `server_prox` is explained in `AbstractMirrorMethod`; "paper" is as printed. The probe is the half point.
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)
    server_prox: ServerProx = choice("FedMiP: server_prox", "paper", "project", "none")

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The half point is the probe."""
        center = geometry.dual(local.z)
        half = geometry.primal(center.descend(self.eta_c, oracle(local.z, 0)))
        z = geometry.primal(center.descend(self.eta_c, oracle(half, 1)))
        return local.moved(z, self.eta_c), half, self.eta_c
