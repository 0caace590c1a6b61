"""FedMiD: federated mirror descent."""

from typing import Any

import equinox as eqx

from ..geometry import AbstractGeometry
from ..tree import Scalar, Tree
from ..validation import one_of
from .base import Oracle, step_size
from .mirror import AbstractMirrorMethod, ServerProx
from .primal import Primal


class FedMiD(AbstractMirrorMethod):
    """Federated mirror descent (Yuan, Zaheer, Reddi): a composite mirror step, z <- P(grad ell(z) - eta_c g(z), eta_c).

    `server_prox` is explained in `AbstractMirrorMethod`; "paper" is as printed. The probe is the new point.
    """

    eta_c: Any
    eta_s: Any
    server_prox: ServerProx = eqx.field(static=True)

    def __init__(self, eta_c: Any = None, eta_s: Any = 1.0, server_prox: Any = "paper"):
        self.eta_c, self.eta_s = step_size("eta_c", eta_c), step_size("eta_s", eta_s)
        self.server_prox = one_of("FedMiD: server_prox", server_prox, ("paper", "project", "none"))  # type: ignore[assignment]

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The new point is the probe."""
        z = geometry.primal(geometry.dual(local.z).descend(self.eta_c, oracle(local.z, 0)))
        return local.moved(z, self.eta_c), z, self.eta_c
