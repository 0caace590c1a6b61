"""FedDualAvg: federated dual averaging."""

from ..geometry import AbstractGeometry, Dual
from ..tree import Scalar
from .base import Oracle, StepSize, step
from .dual import AbstractDualMethod


class FedDualAvg(AbstractDualMethod):
    """Federated dual averaging (Yuan, Zaheer and Reddi): one dual step, no extrapolation.

        local <- (omega - eta_c g(P(omega, tau)),  tau + eta_c)

    For convex problems; on saddle points it descends and ascends at once, and its last point cycles. The probe is the
    pair before the step.
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)
    linear_sample = 0
    private = True

    def local_step(self, local: Dual, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Dual, Dual, Scalar]:
        """The pair before the step is the probe."""
        return local.descend(self.eta_c, oracle(geometry.primal(local), 0)), local, self.eta_c
