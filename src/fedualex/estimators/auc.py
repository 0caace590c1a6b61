"""A classifier that ranks."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, cast

from numpy.typing import NDArray

from ..problems import AbstractProblem, auc
from ..problems.auc import middle_bias
from ..tree import Tree
from .classifier import FederatedClassifier


@dataclass(eq=False, repr=False)
class FederatedAUCClassifier(FederatedClassifier):
    """min_w mean over pairs of (1 - <w, row> + <w, row'>)^2 + l1 ||w||_1 + l2/2 ||w||^2 (`fx.problems.auc`).

    row is of the second class, row' of the first; the pairs are those of different clients too. Pairs decide
    no threshold: `predict` cuts halfway between the mean scores of the two classes. Weights of classes would change
    nothing. radius: None, or a bound of ||w||_2. For all else see `AbstractFederated`.
    """

    multiclass: ClassVar[bool] = False

    l1: Any = 0.01
    l2: Any = 0.01
    _: KW_ONLY
    radius: Any = None
    tol: Any = 1e-2

    def _problem(
        self, X: NDArray[Any], label: NDArray[Any], clients: Any, size: float, sample_weight: Any
    ) -> AbstractProblem:
        return auc(X, label, clients, saddle=False, sample_weight=sample_weight, **self._penalty(size))

    def _bias(self, x: Tree, problem: AbstractProblem) -> Any:
        return middle_bias(cast(Any, problem).f.means, x["weights"])
