"""Extra Step Local SGD."""

from ..geometry import AbstractGeometry
from ..tree import Scalar, Tree
from .base import Oracle, StepSize, step
from .plain import AbstractPlainMethod, descend
from .primal import Primal


class ExtraStepLocalSGD(AbstractPlainMethod):
    """Extra Step Local SGD (Beznosikov et al. 2020): FedAvgS with an extra step, both from z. The probe is the half.

    half = project(z - eta_c (g + s)(z));  z <- project(z - eta_c (g + s)(half)).
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The half point is the probe."""
        half = descend(local.z, local.z, self.eta_c, oracle, 0, geometry)
        z = descend(local.z, half, self.eta_c, oracle, 1, geometry)
        return local.moved(z, self.eta_c), half, self.eta_c
