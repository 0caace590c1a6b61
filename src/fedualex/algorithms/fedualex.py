"""FeDualEx: federated dual extrapolation (Algorithm 1), and its drift-corrected form."""

from ..geometry import AbstractGeometry, Dual
from ..tree import Scalar
from .base import Oracle, StepSize, Survey, choice, step, switch
from .dual import AbstractDualMethod


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
    mode: Survey = choice("FeDualExCorrected: mode", "fresh", "stale")
    recenter: bool = switch("FeDualExCorrected: recenter")
    linear_sample = 1

    @property
    def survey(self) -> Survey:  # type: ignore[override]
        """The mode is when the reference is surveyed."""
        return self.mode

    def local_step(self, local: Dual, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Dual, Dual, Scalar]:
        """As FeDualEx; the oracle is corrected."""
        return extrapolate(local, self.eta_c, oracle, geometry)


def extrapolate(local: Dual, eta: Scalar, oracle: Oracle, geometry: AbstractGeometry) -> tuple[Dual, Dual, Scalar]:
    """One step of dual extrapolation: the next pair, the half pair, and its weight."""
    half = local.descend(eta, oracle(geometry.primal(local), 0))
    return local.descend(eta, oracle(geometry.primal(half), 1)), half, eta
