"""A classifier with a limit on the loss of one class."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing as rows_of

from ..display import rounded_up
from ..problems import AbstractProblem, constrained
from ..tree import Saddle
from ..validation import positive, refuse_mixed, short
from .base import checked_data
from .calibration import Threshold, a_share, held_out, order_statistic, threshold
from .classifier import FederatedClassifier
from .weights import weighed

SMALLEST = 1e-15
"""Below about this the multiplier, which is up to loss / limit, makes rounding errors as large as the loss."""


@dataclass(eq=False, repr=False)
class NeymanPearsonClassifier(FederatedClassifier):
    """The least logistic loss of one class + l1 ||w||_1 + l2/2 ||w||^2 with that of the other <= limit.

    limited: the class whose loss is limited; None is the first in sorted order. A loss of at most `limit` leaves at
    most a share limit / log 2 of that class's rows on the wrong side. Some model meets every limit: a large enough
    bias alone does. A fit also sets violation_, by how much the limit is exceeded in training at most. Weights
    of classes would change nothing. radius: None, or a bound of ||w||_2.

    rate: None, or the largest share of the limited class that may be on the wrong side. A share `calibration` of that
    class's rows is then held out of training, as nearly as can be the same one of each client, and the intercept is
    moved by threshold_, an order statistic of their scores. Proved: if held-out rows and further rows of the class are
    independent and of one distribution, the rate among further rows is above `rate` with a probability of at most
    1 - confidence; rate_bound_ says so with the probability itself. Nothing is proved for one client, for rows that
    are drawn otherwise, or for the other class; weights of rows do not count here. Between parties clients would send
    how many of their scores are below some thresholds; here the scores are in one process.
    For all else see `AbstractFederated`.
    """

    multiclass: ClassVar[bool] = False

    limit: Any = 0.1
    limited: Any = None
    l1: Any = 0.01
    l2: Any = 0.0
    _: KW_ONLY
    rate: Any = None
    confidence: Any = 0.95
    calibration: Any = 0.3
    radius: Any = None
    tol: Any = 1e-2

    def fit(self, X: Any, y: Any, clients: Any = None, sample_weight: Any = None) -> "NeymanPearsonClassifier":
        """Fit to rows X with labels y; clients: whose row it is; sample_weight: how much it counts in training."""
        if self.rate is None:
            self._fit(X, y, sample_weight, clients=clients)
            return self
        rate, confidence = a_share("rate", self.rate), a_share("confidence", self.confidence)
        held = self._held_out(X, y, clients, sample_weight)
        order_statistic(int(held.sum()), rate, confidence)  # refused before the run
        kept = [None if v is None else rows_of(v, np.flatnonzero(~held)) for v in (X, y, clients, sample_weight)]
        self._fit(kept[0], kept[1], kept[3], clients=kept[2])
        sign = 1 if self._limited_class() == 0 else -1  # rows of the first class are wrong above the threshold
        found = threshold(sign * self.decision_function(rows_of(X, np.flatnonzero(held))), rate, confidence)
        self._cut(sign * found.score, found)
        return self

    def _cut(self, score: float, found: Threshold) -> None:
        self.threshold_ = score
        self.intercept_ = self.intercept_ - score
        self.rate_bound_ = (
            f"P(more than {self.rate:g} of class {self.classes_[self._limited_class()]} is on the wrong side) "
            f"<= {rounded_up(found.risk)}, of {found.rows} held-out rows"
        )

    def _held_out(self, X: Any, y: Any, clients: Any, sample_weight: Any) -> NDArray[np.bool_]:
        refuse_mixed("y", y)
        rows, y = checked_data(self, X, y)
        weighed(rows, y, sample_weight, clients=clients)  # refused here, where all rows are there
        label = self._labels(y)
        there = True if sample_weight is None else np.asarray(sample_weight) > 0
        return held_out((label == self._limited_class()) & there, clients, a_share("calibration", self.calibration))

    def _problem(
        self, X: NDArray[Any], label: NDArray[Any], clients: Any, size: float, sample_weight: Any
    ) -> AbstractProblem:
        limit = positive("limit", self.limit)
        if limit < SMALLEST:
            raise ValueError(f"limit must be at least {SMALLEST:g}, about the rounding of a loss, got {self.limit!r}")
        limits = {self._limited_class(): limit}
        given = {"limits": limits, "sample_weight": sample_weight, **self._penalty(size)}
        return constrained(X, label, clients, groups="classes", **given)

    def _keep(self, problem: AbstractProblem, z: Saddle) -> None:
        self.violation_, self.threshold_, self.rate_bound_ = self.run_.violation, 0.0, ""

    def _limited_class(self) -> int:
        found = [0] if self.limited is None else np.flatnonzero(self.classes_ == self.limited)
        if len(found) != 1:
            raise ValueError(f"limited must be one of the classes {list(self.classes_)}, got {short(self.limited)}")
        return int(found[0])
