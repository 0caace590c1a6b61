"""A classifier that ranks."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..problems import AbstractProblem, auc
from ..tree import Tree
from .base import FederatedClassifier, Scale


@dataclass(eq=False, repr=False)
class FederatedAUCClassifier(FederatedClassifier):
    """min_w mean over pairs of (1 - <w, row> + <w, row'>)^2 + l1 ||w||_1 + l2/2 ||w||^2 (`fx.problems.auc`).

    row is of the second class, row' of the first; the pairs are those of different clients too. Pairs decide
    no threshold: `predict` cuts halfway between the mean scores of the two classes.
    For all else see `AbstractFederated`.
    """

    multiclass: ClassVar[bool] = False

    l1: Any = 0.01
    l2: Any = 0.01
    _: KW_ONLY
    tol: Any = 1e-2

    def _problem(self, X: NDArray[Any], label: NDArray[Any], clients: Any, size: float) -> AbstractProblem:
        return auc(X, label, clients, saddle=False, **self._penalty(size))

    def _bias(self, x: Tree, scale: Scale, X: NDArray[Any], label: NDArray[Any]) -> Any:
        scores = scale.rows(X) @ np.asarray(x["weights"])
        return -(scores[label == 0].mean() + scores[label == 1].mean()) / 2
