"""Many clients, every operator averaged over all of them: what one machine with all the data would do."""

from typing import Any, ClassVar

import numpy as np

from .. import tree
from ..geometry import AbstractGeometry, Dual
from ..problems import AbstractProblem
from ..tree import Scalar, Tree
from ..validation import short
from ..validation.accepted import Number
from .base import AbstractMethod, Oracle, StepSize, Survey, step, step_size
from .fedualex import FeDualExCorrected


class SynchronousMirrorProx(AbstractMethod):
    """Composite mirror prox on the mean operator, with K = 1 and two exchanges a round.

    half = P(grad ell(z) - eta g(z), eta);  z <- P(grad ell(z) - eta mean_m g_m(half), eta).
    The state is the pair (omega, eta) that z is read from.
    """

    eta: StepSize = step("eta")
    survey: ClassVar[Survey] = "fresh"

    def refusal(self, problem: AbstractProblem, clients: int, local_steps: Any) -> str:
        """It has one step a round."""
        return f"SynchronousMirrorProx takes local_steps=1, got {short(local_steps)}" if np.max(local_steps) > 1 else ""

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Dual:
        """The pair itself."""
        return dual

    def local_init(self, server: Dual, memory: None) -> Dual:
        """The server's pair."""
        return server

    def local_step(self, local: Dual, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Dual, Tree, Scalar]:
        """The half point is the probe."""
        z = geometry.primal(local)
        center = geometry.dual(z)
        half = geometry.primal(center.descend(self.eta, oracle(z, 0)))
        return center.descend(self.eta, oracle(half, 1)), half, self.eta

    def local_final(self, local: Dual, server: Dual, memory: None) -> tuple[Dual, None]:
        """The increment of the pair."""
        return tree.subtract(local, server), None

    def server_step(self, server: Dual, message: Dual, geometry: AbstractGeometry, fraction: Scalar) -> Dual:
        """The mean pair."""
        return tree.add(server, message)

    def point(self, server: Dual, geometry: AbstractGeometry) -> Tree:
        """P of the pair."""
        return geometry.primal(server)

    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        """The half point."""
        return probe

    def memory(self, server: Dual) -> None:
        """None."""
        return


def SynchronousDualExtrapolation(eta: Number | None = None) -> FeDualExCorrected:
    """Dual extrapolation on the mean operator: `FeDualExCorrected` in mode "fresh"; use it with local_steps=1.

    eta: the step size; from theory if None.
    """
    return FeDualExCorrected(eta_c=step_size("eta", eta), eta_s=1.0, mode="fresh")
