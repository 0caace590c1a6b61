"""Regression of several targets that share few directions."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

from numpy.typing import NDArray

from ..problems import AbstractProblem, low_rank
from ..validation import positive
from .base import checked_data
from .regressor import FederatedRegressor


@dataclass(eq=False, repr=False)
class FederatedMultiTask(FederatedRegressor):
    """min_{W, b} mean ||W row + b - y||^2 / 2 + nuclear ||W||_* over the rows of all clients.

    y has a row of targets for each row of X; a column of targets is one task. coef_, of shape (targets, features), and
    intercept_, of shape (targets,), are W and b; of one task they are an array and a number, as everywhere.
    For all else see `AbstractFederated`.
    fit_intercept: whether there is a b; it is 0 otherwise.
    """

    nuclear: Any = 0.01
    _: KW_ONLY
    fit_intercept: Any = True
    tol: Any = 1e-4

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _checked(self, X: Any, y: Any) -> Any:
        return checked_data(self, X, y, y_numeric=True, multi_output=True)

    def _problem(
        self, X: NDArray[Any], y: NDArray[Any], clients: Any, size: float, sample_weight: Any
    ) -> AbstractProblem:
        nuclear, targets = positive("nuclear", self.nuclear) / size, y.reshape(len(y), -1)
        return low_rank(X, targets, clients, nuclear=nuclear, intercept=self.fit_intercept, sample_weight=sample_weight)
