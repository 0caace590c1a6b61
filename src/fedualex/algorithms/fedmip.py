"""FedMiP: federated mirror prox (Algorithm 2)."""

from typing import Any

import equinox as eqx

from ..geometry import AbstractGeometry
from ..tree import Scalar, Tree
from ..validation import one_of
from .base import Oracle, step_size
from .mirror import AbstractMirrorMethod, ServerProx
from .primal import Primal


class FedMiP(AbstractMirrorMethod):
    """Federated mirror prox (Algorithm 2): two composite mirror steps, both from z.

        half = P(grad ell(z) - eta_c g(z),    eta_c)
        z   <- P(grad ell(z) - eta_c g(half), eta_c)

    `server_prox` is explained in `AbstractMirrorMethod`; "paper" is as printed. The probe is the half point.
    """

    eta_c: Any
    eta_s: Any
    server_prox: ServerProx = eqx.field(static=True)

    def __init__(self, eta_c: Any = None, eta_s: Any = 1.0, server_prox: Any = "paper"):
        self.eta_c, self.eta_s = step_size("eta_c", eta_c), step_size("eta_s", eta_s)
        self.server_prox = one_of("FedMiP: server_prox", server_prox, ("paper", "project", "none"))  # type: ignore[assignment]

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The half point is the probe."""
        center = geometry.dual(local.z)
        half = geometry.primal(center.descend(self.eta_c, oracle(local.z, 0)))
        z = geometry.primal(center.descend(self.eta_c, oracle(half, 1)))
        return local.moved(z, self.eta_c), half, self.eta_c
