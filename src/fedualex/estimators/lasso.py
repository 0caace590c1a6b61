"""Sparse linear regression."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from ..problems import AbstractProblem, sparse_glm
from ..validation import positive
from .penalty import scaled_radius
from .regressor import FederatedRegressor


@dataclass(eq=False, repr=False)
class FederatedLasso(FederatedRegressor):
    """min_{w, b} mean (<w, row> + b - y)^2 / 2 + alpha ||w||_1 over the rows of all clients, as scikit-learn's Lasso.

    radius: None, or a bound of ||w||_2. coef_, intercept_: w and b. For all else see `AbstractFederated`.
    fit_intercept: whether there is a b; it is 0 otherwise.
    """

    centers: ClassVar[bool] = True

    alpha: Any = 1.0
    _: KW_ONLY
    fit_intercept: Any = True
    radius: Any = None
    tol: Any = 1e-4

    def _problem(
        self, X: NDArray[Any], y: NDArray[Any], clients: Any, size: float, sample_weight: Any, center: Any = None
    ) -> AbstractProblem:
        options = {"l1": positive("alpha", self.alpha) / size, "radius": scaled_radius(size, self.radius)}
        options |= {"intercept": self.fit_intercept, "sample_weight": sample_weight, "center": center}
        return sparse_glm("squared", X, y, clients, **options)


@dataclass(eq=False, repr=False)
class FederatedGroupLasso(FederatedRegressor):
    """min_{w, b} mean (<w, row> + b - y)^2 / 2 + alpha sum_g sqrt(d_g) ||w_g||_2 over the rows of all clients.

    groups: for each column its group, whose d_g weights vanish together; None makes each column a group.
    radius: None, or a bound of ||w||_2. coef_, intercept_: w and b. For all else see `AbstractFederated`.
    fit_intercept: whether there is a b; it is 0 otherwise.
    """

    centers: ClassVar[bool] = True

    alpha: Any = 1.0
    groups: Any = None
    _: KW_ONLY
    fit_intercept: Any = True
    radius: Any = None
    tol: Any = 1e-4

    def _problem(
        self, X: NDArray[Any], y: NDArray[Any], clients: Any, size: float, sample_weight: Any, center: Any = None
    ) -> AbstractProblem:
        groups = range(X.shape[1]) if self.groups is None else self.groups
        options = {"group": positive("alpha", self.alpha) / size, "radius": scaled_radius(size, self.radius)}
        options |= {"intercept": self.fit_intercept, "sample_weight": sample_weight, "center": center}
        return sparse_glm("squared", X, y, clients, groups=groups, **options)
