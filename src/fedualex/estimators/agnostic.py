"""A classifier for the worst mixture of the clients."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

from numpy.typing import NDArray

from ..problems import AbstractProblem, agnostic
from .base import FederatedClassifier


@dataclass(eq=False, repr=False)
class AgnosticClassifier(FederatedClassifier):
    """min_x max_y sum_m y_m loss_m(x) + l1 ||w||_1 + l2/2 ||w||^2 - kl KL(y || prior) (`fx.problems.agnostic`).

    prior has a number for each client, in sorted order of their ids; cvar is the share of clients that is served
    worst, None for the worst one. One client is plain logistic regression. For all else see `AbstractFederated`.
    """

    l1: Any = 0.01
    l2: Any = 0.0
    kl: Any = 0.0
    _: KW_ONLY
    prior: Any = None
    cvar: Any = None
    tol: Any = 1e-2

    def _problem(self, X: NDArray[Any], label: NDArray[Any], clients: Any, size: float) -> AbstractProblem:
        return agnostic(X, label, clients, kl=self.kl, prior=self.prior, cvar=self.cvar, **self._penalty(size))
