"""Sparse logistic regression."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from ..problems import AbstractProblem, sparse_glm
from .base import FederatedClassifier


@dataclass(eq=False, repr=False)
class FederatedLogisticRegression(FederatedClassifier):
    """min_{w, b} mean logistic loss + l1 ||w||_1 + l2/2 ||w||^2 over the rows of all clients; softmax for more classes.

    With l2 = 0 this is scikit-learn's with C = 1 / (l1 n). For all else see `AbstractFederated`.
    """

    l1: Any = 0.01
    l2: Any = 0.0
    _: KW_ONLY
    tol: Any = 1e-4

    def _problem(self, X: NDArray[Any], label: NDArray[Any], clients: Any, size: float) -> AbstractProblem:
        return sparse_glm("logistic", X, label, clients, **self._penalty(size))

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The probability of each class."""
        scores = self.decision_function(X)
        scores = np.stack([np.zeros_like(scores), scores], axis=1) if scores.ndim == 1 else scores
        return np.asarray(softmax(scores, axis=1))
