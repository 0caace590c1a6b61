"""Sparse logistic regression."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from ..problems import AbstractProblem, sparse_glm
from .classifier import ProbabilisticClassifier


@dataclass(eq=False, repr=False)
class FederatedLogisticRegression(ProbabilisticClassifier):
    """min_{w, b} mean logistic loss + l1 ||w||_1 + l2/2 ||w||^2 over the rows of all clients; softmax for more classes.

    With l2 = 0 this is scikit-learn's with C = 1 / (l1 n). class_weight: None, "balanced" or a mapping from classes to
    numbers, by which the weights of their rows are multiplied. radius: None, or a bound of ||w||_2. fit_intercept=False
    leaves out b. For all else see `AbstractFederated`.
    """

    centers: ClassVar[bool] = True

    l1: Any = 0.01
    l2: Any = 0.0
    _: KW_ONLY
    class_weight: Any = None
    fit_intercept: Any = True
    radius: Any = None
    tol: Any = 1e-4

    def _problem(
        self, X: NDArray[Any], label: NDArray[Any], clients: Any, size: float, sample_weight: Any, center: Any = None
    ) -> AbstractProblem:
        rows = {"sample_weight": sample_weight, "center": center}
        return sparse_glm("logistic", X, label, clients, intercept=self.fit_intercept, **rows, **self._penalty(size))
