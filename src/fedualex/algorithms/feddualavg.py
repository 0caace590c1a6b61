"""FedDualAvg: federated dual averaging."""

from typing import Any

from ..geometry import AbstractGeometry, Dual
from ..tree import Scalar
from .base import Oracle, step_size
from .dual import AbstractDualMethod


class FedDualAvg(AbstractDualMethod):
    """Federated dual averaging (Yuan, Zaheer and Reddi): one dual step, no extrapolation.

        local <- (omega - eta_c g(P(omega, tau)),  tau + eta_c)

    For convex problems; on saddle points it descends and ascends at once, and its last point cycles. The probe is the
    pair before the step.
    """

    eta_c: Any
    eta_s: Any
    last_call = 0

    def __init__(self, eta_c: Any = None, eta_s: Any = 1.0):
        self.eta_c, self.eta_s = step_size("eta_c", eta_c), step_size("eta_s", eta_s)

    def local_step(self, local: Dual, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Dual, Dual, Scalar]:
        """The pair before the step is the probe."""
        return local.descend(self.eta_c, oracle(geometry.primal(local), 0)), local, self.eta_c
