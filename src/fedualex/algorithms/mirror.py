"""Methods that average in the primal space, with a composite mirror step on the clients."""

from typing import Any, Literal

import equinox as eqx

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..tree import Scalar, Tree
from ..validation import one_of
from .base import AbstractPrimalMethod, Oracle, Primal, step_size

ServerProx = Literal["paper", "project", "none"]


class AbstractMirrorMethod(AbstractPrimalMethod):
    """The server's rule of FedMiP and FedMiD, with Delta the mean increment of a round of K local steps:

    server_prox="paper":   z <- P(grad ell(z) + eta_s Delta, weight eta_s eta_c K), as printed. Clients and server then
                           both apply psi, so for small steps the method solves the problem with psi doubled.
    server_prox="project": the same with weight 0. In Euclidean geometry this only returns to the domain; in another
                           one a primal difference is added to a dual vector, as in the paper: "none" is better.
    server_prox="none":    z <- z + eta_s Delta: plain averaging. It loses zeros and rank.
    """

    eta_s: eqx.AbstractVar[Any]
    server_prox: eqx.AbstractVar[ServerProx]

    def server_step(self, server: Primal, message: Primal, geometry: AbstractGeometry, fraction: Scalar) -> Primal:
        """By `server_prox`."""
        step = tree.scale(self.eta_s, message)
        if self.server_prox == "none":
            return tree.add(server, step)
        omega = tree.add(geometry.dual(server.z).omega, step.z)
        weight = step.elapsed if self.server_prox == "paper" else 0 * step.elapsed
        return server.moved(geometry.primal(Dual(omega, weight)), step.elapsed)


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
