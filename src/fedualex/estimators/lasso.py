"""Sparse linear regression."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..data import Standardizer
from ..problems import sparse_glm
from ..validation import plain_array, positive, short
from .base import AbstractFederated, Scale, checked_data


@dataclass(eq=False, repr=False)
class FederatedLasso(RegressorMixin, AbstractFederated):  # type: ignore[misc]
    """min_{w, b} mean (<w, row> + b - y)^2 / 2 + alpha ||w||_1 over the rows of all clients, as scikit-learn's Lasso.

    coef_, intercept_: w and b. For all else see `AbstractFederated`.
    """

    alpha: Any = 1.0
    _: KW_ONLY
    fit_intercept: Any = True
    tol: Any = 1e-4

    def fit(self, X: Any, y: Any, clients: Any = None) -> "FederatedLasso":
        """Fit to rows X with targets y; clients: whose row it is."""
        _check_numbers(y)
        X, y = checked_data(self, X, y, y_numeric=True)
        scale = Scale(X, clients, self.fit_intercept)
        shift = float(Standardizer.fit(y[:, None], clients).mean[0]) if self.fit_intercept else 0.0
        l1 = positive("alpha", self.alpha) / scale.size
        problem = sparse_glm("squared", scale.rows(X), y - shift, clients, l1=l1, intercept=self.fit_intercept)
        x = self._solve(problem).x
        self.coef_, bias = scale.model(x["weights"], x.get("bias", 0.0))
        self.intercept_ = float(bias) + shift
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """<w, row> + b for each row."""
        check_is_fitted(self)
        return np.asarray(checked_data(self, X, reset=False) @ self.coef_ + self.intercept_)


def _check_numbers(y: Any) -> None:
    """Refuse text; all else is scikit-learn's to check."""
    array = plain_array("y", y)
    try:
        np.asarray(array if array.dtype.kind in "USO" and y is not None else 0, float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"y must be real numbers, one for each row of X, got {short(y)}") from None
