"""One-machine names of federated methods: with M = 1, eta_s = 1 they are the same method."""

from ..validation.accepted import Number
from .base import step_size
from .extra_step import ExtraStepLocalSGD
from .fedavg import FedAvgS
from .feddualavg import FedDualAvg
from .fedmid import FedMiD
from .fedmip import FedMiP
from .fedualex import FeDualEx


def StochasticDualExtrapolation(eta: Number | None = None) -> FeDualEx:
    """Algorithm 3: `FeDualEx` on one machine.

    eta: the step size; from theory if None.
    """
    return FeDualEx(eta_c=step_size("eta", eta))


def CompositeDualExtrapolation(eta: Number | None = None) -> FeDualEx:
    """Algorithm 4: `FeDualEx` on one machine, without noise. Theorem 4: gap <= B0 / (eta T) for eta <= 1 / beta."""
    return FeDualEx(eta_c=step_size("eta", eta))


def DualAveraging(eta: Number | None = None) -> FedDualAvg:
    """Regularized dual averaging (Xiao 2010), constant step: `FedDualAvg` on one machine.

    eta: the step size; from theory if None.
    """
    return FedDualAvg(eta_c=step_size("eta", eta))


def CompositeMirrorDescent(eta: Number | None = None) -> FedMiD:
    """Composite mirror descent (Duchi et al. 2010): `FedMiD` on one machine without a server prox.

    eta: the step size; from theory if None.
    """
    return FedMiD(eta_c=step_size("eta", eta), server_prox="none")


def CoMP(eta: Number | None = None) -> FedMiP:
    """Composite mirror prox (He, Juditsky, Nemirovski 2015), constant step: `FedMiP` on one machine, no server prox.

    eta: the step size; from theory if None.
    """
    return FedMiP(eta_c=step_size("eta", eta), server_prox="none")


def StochasticMirrorProx(eta: Number | None = None) -> FedMiP:
    """Stochastic mirror prox (Juditsky, Nemirovski and Tauvel 2011): `CoMP` with a noisy oracle.

    eta: the step size; from theory if None.
    """
    return CoMP(eta)


def MirrorDescent(eta: Number | None = None) -> FedAvgS:
    """Mirror descent, z <- P(grad ell(z) - eta (g + s)(z), 0): `FedAvgS` on one machine."""
    return FedAvgS(eta_c=step_size("eta", eta))


def MirrorProx(eta: Number | None = None) -> ExtraStepLocalSGD:
    """Mirror prox (Nemirovski 2004), psi through its subgradient: `ExtraStepLocalSGD` on one machine.

    eta: the step size; from theory if None.
    """
    return ExtraStepLocalSGD(eta_c=step_size("eta", eta))
