"""Regression that outliers cannot pull."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

from numpy.typing import NDArray

from ..problems import AbstractProblem, robust_regression
from .penalty import penalty
from .regressor import FederatedRegressor


@dataclass(eq=False, repr=False)
class FederatedRobustRegression(FederatedRegressor):
    """min_{w, b} mean |<w, row> + b - y| + l1 ||w||_1 + l2/2 ||w||^2 over the rows of all clients.

    radius: None, or a bound of ||w||_2. coef_, intercept_: w and b. For all else see `AbstractFederated`.
    fit_intercept: whether there is a b; it is 0 otherwise.
    """

    l1: Any = 0.01
    l2: Any = 0.0
    _: KW_ONLY
    fit_intercept: Any = True
    radius: Any = None
    tol: Any = 1e-2

    def _problem(
        self, X: NDArray[Any], y: NDArray[Any], clients: Any, size: float, sample_weight: Any
    ) -> AbstractProblem:
        bounded = penalty(size, self.l1, self.l2, self.radius)
        return robust_regression(X, y, clients, intercept=self.fit_intercept, sample_weight=sample_weight, **bounded)
