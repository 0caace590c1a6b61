"""FedAvg, for minimization and on saddle points."""

from ..geometry import AbstractGeometry
from ..tree import Scalar, Tree
from ..validation.accepted import Number
from .base import Oracle, StepSize, step
from .plain import AbstractPlainMethod, descend
from .primal import Primal


class FedAvgS(AbstractPlainMethod):
    """FedAvg on a saddle point, descending and ascending at once: z <- project(z - eta_c (g + s)(z)), s(z) in d psi(z).

    In another geometry than the Euclidean, the step is a mirror step. For plain minimization it is `FedAvg`; the probe
    is the new point. Hou et al. 2021.
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The new point is the probe."""
        z = descend(local.z, local.z, self.eta_c, oracle, 0, geometry)
        return local.moved(z, self.eta_c), z, self.eta_c


def FedAvg(eta_c: Number | None = None, eta_s: Number = 1.0) -> FedAvgS:
    """Local SGD with averaging, for plain minimization: `FedAvgS` on a problem without y.

    eta_c, eta_s: the step sizes of clients, from theory if None, and of the server.
    """
    return FedAvgS(eta_c, eta_s)
