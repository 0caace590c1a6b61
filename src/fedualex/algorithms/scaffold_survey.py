"""SCAFFOLD-S, first option: control variates by survey."""

from typing import ClassVar

from ..geometry import AbstractGeometry
from ..tree import Scalar, Tree
from .base import Oracle, StepSize, Survey, step
from .plain import AbstractPlainMethod, descend
from .primal import Primal


class ScaffoldS(AbstractPlainMethod):
    """SCAFFOLD on a saddle point (Hou et al. 2021), first option: the control variates are full-batch operators at z_r.

    z <- project(z - eta_c (g_m(z) + s(z) - c_m + c)), c_m = g_m(z_r), c their mean: the survey of `AbstractMethod`.
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)
    survey: ClassVar[Survey] = "fresh"

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The new point is the probe; the oracle is corrected."""
        z = descend(local.z, local.z, self.eta_c, oracle, 0, geometry)
        return local.moved(z, self.eta_c), z, self.eta_c
