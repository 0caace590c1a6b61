"""FedMiD: federated mirror descent."""

from ..geometry import AbstractGeometry
from ..tree import Scalar, Tree
from .base import Oracle, StepSize, choice, step
from .mirror import AbstractMirrorMethod, ServerProx
from .primal import Primal


class FedMiD(AbstractMirrorMethod):
    """Federated mirror descent (Yuan, Zaheer, Reddi): a composite mirror step, z <- P(grad ell(z) - eta_c g(z), eta_c).

    `server_prox` is explained in `AbstractMirrorMethod`; "paper" is as printed. The probe is the new point.
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)
    server_prox: ServerProx = choice("FedMiD: server_prox", "paper", "project", "none")

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The new point is the probe."""
        z = geometry.primal(geometry.dual(local.z).descend(self.eta_c, oracle(local.z, 0)))
        return local.moved(z, self.eta_c), z, self.eta_c
