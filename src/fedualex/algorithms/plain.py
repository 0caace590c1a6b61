"""Methods without a proximal step: psi enters through a subgradient, the domain through a projection."""

from typing import Any, ClassVar

import equinox as eqx

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..tree import Saddle, Scalar, Tree
from .base import AbstractPrimalMethod, Oracle, Primal, Survey, step_size


class AbstractPlainMethod(AbstractPrimalMethod):
    """The server projects: z <- project(z + eta_s mean increment)."""

    eta_s: eqx.AbstractVar[Any]

    def server_step(self, server: Primal, message: Primal, geometry: AbstractGeometry, fraction: Scalar) -> Primal:
        """project(z + eta_s Delta)."""
        moved = tree.add(server, tree.scale(self.eta_s, message))
        return Primal(geometry.project(moved.z), moved.elapsed)


class FedAvgS(AbstractPlainMethod):
    """FedAvg on a saddle point, descending and ascending at once: z <- project(z - eta_c (g + s)(z)), s(z) in d psi(z).

    In another geometry than the Euclidean, the step is a mirror step. For plain minimization it is `FedAvg`; the probe
    is the new point. Hou et al. 2021.
    """

    eta_c: Any
    eta_s: Any

    def __init__(self, eta_c: Any = None, eta_s: Any = 1.0):
        self.eta_c, self.eta_s = step_size("eta_c", eta_c), step_size("eta_s", eta_s)

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The new point is the probe."""
        z = descend(local.z, local.z, self.eta_c, oracle, 0, geometry)
        return local.moved(z, self.eta_c), z, self.eta_c


def FedAvg(eta_c: Any = None, eta_s: Any = 1.0) -> FedAvgS:
    """Local SGD with averaging, for plain minimization: `FedAvgS` on a problem without y."""
    return FedAvgS(eta_c, eta_s)


class LocalSGDA(AbstractPlainMethod):
    """Local stochastic gradient descent ascent with its own step for each block: `FedAvgS` with eta_x and eta_y."""

    eta_x: Any
    eta_y: Any
    eta_s: Any

    def __init__(self, eta_x: Any = None, eta_y: Any = None, eta_s: Any = 1.0):
        self.eta_x, self.eta_y = step_size("eta_x", eta_x), step_size("eta_y", eta_y)
        self.eta_s = step_size("eta_s", eta_s)

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The new point is the probe, with weight 1: the two blocks have no common step."""
        slope = tree.add(oracle(local.z, 0), geometry.subgradient(local.z))
        step = Saddle(tree.scale(self.eta_x, slope.x), tree.scale(self.eta_y, slope.y))
        omega = tree.subtract(geometry.dual(local.z).omega, step)
        z = geometry.primal(Dual(omega, 0 * self.eta_x))
        return local.moved(z, self.eta_x), z, 1.0


class ExtraStepLocalSGD(AbstractPlainMethod):
    """Extra Step Local SGD (Beznosikov et al. 2020): FedAvgS with an extra step, both from z. The probe is the half.

    half = project(z - eta_c (g + s)(z));  z <- project(z - eta_c (g + s)(half)).
    """

    eta_c: Any
    eta_s: Any

    def __init__(self, eta_c: Any = None, eta_s: Any = 1.0):
        self.eta_c, self.eta_s = step_size("eta_c", eta_c), step_size("eta_s", eta_s)

    def local_step(self, local: Primal, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Primal, Tree, Scalar]:
        """The half point is the probe."""
        half = descend(local.z, local.z, self.eta_c, oracle, 0, geometry)
        z = descend(local.z, half, self.eta_c, oracle, 1, geometry)
        return local.moved(z, self.eta_c), half, self.eta_c


def descend(start: Tree, at: Tree, eta: Any, oracle: Oracle, sample: int, geometry: AbstractGeometry) -> Tree:
    """project(start - eta (g + s)(at)), as a mirror step of weight 0."""
    slope = tree.add(oracle(at, sample), geometry.subgradient(at))
    omega = tree.subtract(geometry.dual(start).omega, tree.scale(eta, slope))
    return geometry.primal(Dual(omega, 0 * eta))


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
