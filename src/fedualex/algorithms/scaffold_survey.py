"""SCAFFOLD-S, first option: control variates by survey."""

from typing import Any, ClassVar

from ..geometry import AbstractGeometry
from ..tree import Scalar, Tree
from .base import Oracle, Survey, step_size
from .plain import AbstractPlainMethod, descend
from .primal import Primal


class ScaffoldS(AbstractPlainMethod):
    """SCAFFOLD on a saddle point (Hou et al. 2021), first option: the control variates are full-batch operators at z_r.

    z <- project(z - eta_c (g_m(z) + s(z) - c_m + c)), c_m = g_m(z_r), c their mean: the survey of `AbstractMethod`.
    """

    eta_c: Any
    eta_s: Any
    survey: ClassVar[Survey] = "fresh"

    def __init__(self, eta_c: Any = None, eta_s: Any = 1.0):
        self.eta_c, self.eta_s = step_size("eta_c", eta_c), step_size("eta_s", eta_s)

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The new point is the probe; the oracle is corrected."""
        z = descend(local.z, local.z, self.eta_c, oracle, 0, geometry)
        return local.moved(z, self.eta_c), z, self.eta_c
