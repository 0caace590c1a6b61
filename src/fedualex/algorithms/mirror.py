"""What FedMiP and FedMiD have in common: the rule of their server."""

from typing import Any, Literal

import equinox as eqx

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..tree import Scalar
from .primal import AbstractPrimalMethod, Primal

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
