"""A classifier with a limit on the loss of one class."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..problems import AbstractProblem, constrained
from ..tree import Saddle
from ..validation import positive, short
from .base import FederatedClassifier

SMALLEST = 1e-15
"""Below about this the multiplier, which is up to loss / limit, makes rounding errors as large as the loss."""


@dataclass(eq=False, repr=False)
class NeymanPearsonClassifier(FederatedClassifier):
    """The least logistic loss of one class + l1 ||w||_1 + l2/2 ||w||^2 with that of the other <= limit.

    limited: the class whose loss is limited; None is the first in sorted order. A loss of at most `limit` leaves at
    most a share limit / log 2 of that class's rows on the wrong side. Some model meets every limit: a large enough
    bias alone does. A fit also sets violation_, by how much the limit is exceeded. For all else see
    `AbstractFederated`.
    """

    multiclass: ClassVar[bool] = False

    limit: Any = 0.1
    limited: Any = None
    l1: Any = 0.01
    l2: Any = 0.0
    _: KW_ONLY
    tol: Any = 1e-2

    def _problem(self, X: NDArray[Any], label: NDArray[Any], clients: Any, size: float) -> AbstractProblem:
        limit = positive("limit", self.limit)
        if limit < SMALLEST:
            raise ValueError(f"limit must be at least {SMALLEST:g}, about the rounding of a loss, got {self.limit!r}")
        limits = {self._limited_class(): limit}
        return constrained(X, label, clients, groups="classes", limits=limits, **self._penalty(size))

    def _keep(self, problem: AbstractProblem, z: Saddle) -> None:
        self.violation_ = self.run_.violation

    def _limited_class(self) -> int:
        found = [0] if self.limited is None else np.flatnonzero(self.classes_ == self.limited)
        if len(found) != 1:
            raise ValueError(f"limited must be one of the classes {list(self.classes_)}, got {short(self.limited)}")
        return int(found[0])
