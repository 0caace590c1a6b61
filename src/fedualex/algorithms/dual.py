"""Methods whose state is a dual pair: FeDualEx, FedDualAvg, and their forms that average after every step."""

from typing import Any, ClassVar, Literal

import equinox as eqx
import numpy as np

from .. import tree
from ..accepted import Number, Numbers
from ..geometry import AbstractGeometry, Dual
from ..problems import AbstractProblem
from ..tree import Scalar, Tree
from ..validation import short
from .base import AbstractMethod, Correction, Oracle, StepSize, choice, step, step_size, switch


class AbstractDualMethod(AbstractMethod[Dual, Dual, Dual]):
    """State, probes and messages are dual pairs; the server adds eta_s times the mean increment."""

    eta_s: eqx.AbstractVar[Any]

    @property
    def recenter(self) -> bool:
        """Whether the server replaces its pair by that of its point alone, (grad ell(z), 0), after every step."""
        return False

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Dual:
        return dual

    def local_init(self, server: Dual, memory: None) -> Dual:
        return server

    def local_final(self, local: Dual, server: Dual, memory: None) -> tuple[Dual, None]:
        """The increment of omega and of its weight."""
        return tree.subtract(local, server), None

    def server_step(self, server: Dual, message: Dual, geometry: AbstractGeometry, fraction: Scalar) -> Dual:
        """(omega, tau) + eta_s (mean increment), recentered at its point if the method says so."""
        moved: Dual = tree.add(server, tree.scale(self.eta_s, message))
        return geometry.dual(geometry.primal(moved)) if self.recenter else moved

    def point(self, server: Dual, geometry: AbstractGeometry) -> Tree:
        """P_tau(omega)."""
        return geometry.primal(server)

    def read(self, probe: Dual, geometry: AbstractGeometry) -> Tree:
        """P_tau(omega) of the averaged pair."""
        return geometry.primal(probe)

    def memory(self, server: Dual) -> None:
        return


# FeDualEx: federated dual extrapolation (Algorithm 1), and its drift-corrected form.


class FeDualEx(AbstractDualMethod):
    """Federated dual extrapolation (Algorithm 1): a dual step to a half point, then the real one from it.

        half   = (omega - eta_c g(P(omega, tau)),  tau + eta_c)
        local <- (omega - eta_c g(P(half)),        tau + eta_c)
        server <- server + eta_s mean(local - server)

    The half point has the weight tau + eta_c, as Algorithm 1 and all proofs have it; Algorithms 3 and 4 print tau.
    Theorem 1 covers equal clients, eta_s = 1 and the `ergodic` output; proposition B covers eta_s <= 1, any cohort, and
    the `client_average` output. Without step sizes: eta_c from proposition B, eta_s = 1.
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)
    linear_sample = 1
    covered = True
    private = True

    def local_step(self, local: Dual, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Dual, Dual, Scalar]:
        """The half pair is the probe."""
        return extrapolate(local, self.eta_c, oracle, geometry)


class FeDualExCorrected(AbstractDualMethod):
    """FeDualEx with drift correction for heterogeneous clients: every operator is g_m(z) - g_m(z_ref) + g(z_ref).

    mode "fresh": z_ref is the round's server point, at the price of a second exchange a round; with K = 1 this is
    synchronous dual extrapolation. mode "stale": z_ref is the previous round's server point, whose operators all
    clients sent with that round's increments: one exchange is enough if all clients take part. The first round is
    fresh in both modes. No theorem is known: heuristic, with a certificate.

    recenter: the server ends every round with server <- (grad ell(z), 0), z = P(server), as if it started again there;
    psi then weighs eta_c K in a round, not the sum over all. Meant for eta_s = 1.
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)
    mode: Correction = choice("FeDualExCorrected: mode", "fresh", "stale")
    recenter: bool = switch("FeDualExCorrected: recenter")
    linear_sample = 1

    @property
    def survey(self) -> Correction:  # type: ignore[override]
        """The mode is when the reference is surveyed."""
        return self.mode

    def local_step(self, local: Dual, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Dual, Dual, Scalar]:
        """The half pair is the probe; the oracle is corrected."""
        return extrapolate(local, self.eta_c, oracle, geometry)


def extrapolate(local: Dual, eta: Scalar, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Dual, Dual, Scalar]:
    """One step of dual extrapolation: the next pair, the half pair, and its weight."""
    half = local.descend(eta, oracle(geometry.primal(local), 0))
    return local.descend(eta, oracle(geometry.primal(half), 1)), half, eta


# FedDualAvg: federated dual averaging.


class FedDualAvg(AbstractDualMethod):
    """Federated dual averaging (Yuan, Zaheer and Reddi): one dual step, no extrapolation.

        local <- (omega - eta_c g(P(omega, tau)),  tau + eta_c)

    For convex problems; on saddle points it descends and ascends at once, and its last point cycles.

    average: which points the averages are of, those "before" each step, the start among them, or "after" it. The
    iterates are the same. The paper does not say which it means (E36).
    """

    eta_c: StepSize = step("eta_c")
    eta_s: StepSize = step("eta_s", 1.0)
    average: Literal["before", "after"] = choice("FedDualAvg: average", "before", "after")
    private = True

    @property
    def linear_sample(self) -> int | None:  # type: ignore[override]
        """A point after the step depends on the sample through the prox, so it cannot be merged with the others'."""
        return 0 if self.average == "before" else None

    def local_step(self, local: Dual, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Dual, Dual, Scalar]:
        """The pair before or after the step is the probe."""
        following = local.descend(self.eta_c, oracle(geometry.primal(local), 0))
        return following, local if self.average == "before" else following, self.eta_c


# Many clients, every operator averaged over all of them: what one machine with all the data would do.


class SynchronousMirrorProx(AbstractMethod[Dual, Dual, Dual]):
    """Composite mirror prox on the mean operator, with K = 1 and two exchanges a round.

    half = P(grad ell(z) - eta g(z), eta);  z <- P(grad ell(z) - eta mean_m g_m(half), eta).
    The state is the pair (omega, eta) that z is read from.
    """

    eta: StepSize = step("eta")
    survey: ClassVar[Correction] = "fresh"

    def refusal(self, problem: AbstractProblem, clients: int, local_steps: Numbers) -> str:
        """Refused unless a round has one local step."""
        return f"SynchronousMirrorProx takes local_steps=1, got {short(local_steps)}" if np.max(local_steps) > 1 else ""

    def start(self, dual: Dual, geometry: AbstractGeometry) -> Dual:
        return dual

    def local_init(self, server: Dual, memory: None) -> Dual:
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
        return tree.add(server, message)

    def point(self, server: Dual, geometry: AbstractGeometry) -> Tree:
        """P of the pair."""
        return geometry.primal(server)

    def read(self, probe: Tree, geometry: AbstractGeometry) -> Tree:
        return probe

    def memory(self, server: Dual) -> None:
        return


def SynchronousDualExtrapolation(eta: Number | None = None) -> FeDualExCorrected:
    """Dual extrapolation on the mean operator: `FeDualExCorrected` in mode "fresh"; use it with local_steps=1.

    eta: the step size; from theory if None.
    """
    return FeDualExCorrected(eta_c=step_size("eta", eta), eta_s=1.0, mode="fresh")
