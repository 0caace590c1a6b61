"""What regressors share."""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..data import Standardizer
from ..problems import AbstractProblem
from ..validation import plain_array, short
from .base import AbstractFederated, Scale, checked_data
from .weights import by_client, weighed


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
        weights, bias = scale.model(x["weights"], x.get("bias", 0.0))
        self.coef_ = weights.reshape(-1, *y.shape[1:]).T
        self.intercept_ = np.reshape(bias + shift, y.shape[1:])[()]
        return self

    def _checked(self, X: Any, y: Any) -> Any:
        return checked_data(self, X, y, y_numeric=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """<w, row> + b for each row."""
        check_is_fitted(self)
        return np.asarray(checked_data(self, X, reset=False) @ self.coef_.T + self.intercept_)


def check_numbers(y: Any) -> None:
    """Refuse text; all else is scikit-learn's to check."""
    array = plain_array("y", y)
    try:
        np.asarray(array if array.dtype.kind in "USO" and y is not None else 0, float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"y must be real numbers, one for each row of X, got {short(y)}") from None
