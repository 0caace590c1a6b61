"""A classifier for the worst mixture of the clients."""

from typing import Any

from numpy.typing import NDArray

from ..problems import AbstractProblem, agnostic
from .base import FederatedClassifier


class AgnosticClassifier(FederatedClassifier):
    """min_x max_y sum_m y_m loss_m(x) + l1 ||w||_1 + l2/2 ||w||^2 - kl KL(y || uniform) (`fx.problems.agnostic`).

    One client is plain logistic regression. For all else see `AbstractFederated`.
    """

    def __init__(
        self,
        l1: Any = 0.01,
        l2: Any = 0.0,
        kl: Any = 0.0,
        *,
        tol: Any = 1e-2,
        max_rounds: Any = 2000,
        local_steps: Any = 10,
        method: Any = None,
    ):
        super().__init__(tol, max_rounds, local_steps, method)
        self.l1, self.l2, self.kl = l1, l2, kl

    def _problem(self, X: NDArray[Any], label: NDArray[Any], clients: Any, size: float) -> AbstractProblem:
        return agnostic(X, label, clients, kl=self.kl, **self._penalty(size))
