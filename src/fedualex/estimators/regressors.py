"""Regressors: sparse, of low rank, robust."""

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..data import Standardizer
from ..problems import AbstractProblem, low_rank, robust_regression, sparse_glm
from ..validation import plain_array, positive, short
from .base import AbstractFederated, Scale, by_client, checked_data, penalty, scaled_radius, weighed


class FederatedRegressor(RegressorMixin, AbstractFederated):  # type: ignore[misc]
    """A linear model of one number: <w, row> + b.

    A subclass says what problem it solves for rows in a common scale and targets less their mean.
    """

    fit_intercept: Any = True

    @abstractmethod
    def _problem(
        self, X: NDArray[Any], y: NDArray[Any], clients: Any, size: float, sample_weight: Any
    ) -> AbstractProblem:
        """The problem for rows that were divided by `size`; sample_weight is None if all rows weigh alike."""

    def fit(self, X: Any, y: Any, clients: Any = None, sample_weight: Any = None) -> "FederatedRegressor":
        """Fit to rows X with targets y; clients: whose row it is; sample_weight: how much it counts."""
        return self._fit(X, y, sample_weight, clients=clients)

    def _fit(self, X: Any, y: Any, sample_weight: Any, **columns: Any) -> "FederatedRegressor":
        """columns: what `_problem` is given for each row beside its weight."""
        check_numbers(y)
        X, y = self._checked(X, y)
        X, y, rows = weighed(X, y, sample_weight, **columns)
        clients, weight = rows["clients"], rows["sample_weight"]
        scale = Scale(X, clients, self.fit_intercept, weight, self.centers)
        order = by_client(clients, len(y))
        rows = {name: None if column is None else column[order] for name, column in rows.items()}
        rows |= {"center": scale.center} if self.centers else {}
        shift = Standardizer.fit(y.reshape(len(y), -1), clients, weight).mean
        shift = (shift if self.fit_intercept else np.zeros_like(shift)).reshape(y.shape[1:])
        problem = self._problem(scale.rows(X, order), (y - shift)[order], size=scale.size, **rows)
        x = self._solve(problem).x
        weights = np.asarray(x["weights"] / scale.size).reshape(-1, *y.shape[1:]).T
        self._keep_model(scale.mean, weights, np.reshape(x.get("bias", 0.0) + shift, y.shape[1:])[()])
        return self

    def _checked(self, X: Any, y: Any) -> Any:
        return checked_data(self, X, y, y_numeric=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """<w, row> + b for each row."""
        check_is_fitted(self)
        scores = self._scores(checked_data(self, X, reset=False))
        return scores[:, 0] if np.ndim(self.coef_) == 1 else scores


def check_numbers(y: Any) -> None:
    """Refuse text; all else is scikit-learn's to check."""
    array = plain_array("y", y)
    try:
        np.asarray(array if array.dtype.kind in "USO" and y is not None else 0, float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"y must be real numbers, one for each row of X, got {short(y)}") from None


# Sparse linear regression.


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


# Regression of several targets that share few directions.


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


# Regression that outliers cannot pull.


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
