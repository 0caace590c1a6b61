"""FedDualAvg: federated dual averaging."""

from typing import Literal

from ..geometry import AbstractGeometry, Dual
from ..tree import Scalar
from .base import Oracle, StepSize, choice, step
from .dual import AbstractDualMethod


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
