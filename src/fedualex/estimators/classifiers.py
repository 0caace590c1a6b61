"""Classifiers: sparse logistic models, the best ranking, a limit on errors of one class."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import _safe_indexing as rows_of
from sklearn.utils.validation import check_is_fitted

from ..accepted import ClassWeight, Column, Folds, Matrix, Number, Penalty, Switch
from ..arrays import RealMatrix, Reals, Values
from ..display import round_up
from ..inference.rates import Threshold, a_share, order_statistic, threshold
from ..problems import (
    AbstractProblem,
    AbstractRecipe,
    AucRecipe,
    ConstrainedRecipe,
    Problem,
    SparseGlmRecipe,
    split_rows,
)
from ..problems.auc import CenteredSquare, middle_bias
from ..problems.rows import features
from ..regularizers.fenchel import UNIT
from ..tree import Saddle, Tree
from ..validation import classes, encode_labels, issparse, positive, refuse_mixed, short
from .base import AbstractFederated, Scale, by_client, check_data, drop_weightless_rows, with_class_weight
from .effects import EffectsMixin, Fitted
from .penalties import Setting

if TYPE_CHECKING:
    from sklearn.utils import Tags


class FederatedClassifier(ClassifierMixin, AbstractFederated):  # type: ignore[misc]
    """A linear classifier: scores <w, row> + b, of one column for two classes and one column a class for more.

    A subclass says what problem it solves for rows in a common scale.
    """

    multiclass: ClassVar[bool] = True
    class_weight: ClassWeight | None = None
    fit_intercept: Switch = True
    radius: Number | None = None

    penalized: ClassVar[str] = "l1"

    def _problem(
        self,
        X: RealMatrix,
        label: Values,
        clients: Column | None,
        size: float,
        sample_weight: Reals | None,
        center: Reals | None = None,
        groups: Values | None = None,
    ) -> AbstractProblem:
        """The problem for rows that were divided by `size`; sample_weight is None if all rows weigh alike."""
        parts = split_rows(features(X), label, clients, sample_weight, self._groups(label, groups))
        at = Setting(getattr(self, self.penalized), size, center=center, grouped=groups is not None)
        return self._assemble(parts, clients, at)

    def _groups(self, label: Values, groups: Values | None) -> Values | None:
        """The group of each row, of which the problem has something to say; None if there are none."""
        return groups

    def _bias(self, x: Tree, problem: AbstractProblem) -> Reals | float:
        """What is added to the scores of rows in the common scale."""
        return x.get("bias", 0.0)

    def _keep(self, problem: AbstractProblem, z: Saddle) -> None:
        """Set more attributes after a fit."""

    def __sklearn_tags__(self) -> "Tags":
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.multiclass
        return tags

    def fit(
        self, X: Matrix, y: Column, clients: Column | None = None, sample_weight: Column | None = None
    ) -> "FederatedClassifier":
        """Fit to rows X with labels y; clients: whose row it is; sample_weight: how much it counts."""
        return self._fit(X, y, sample_weight, clients=clients)

    def _fit(
        self, X: Matrix, y: Column, sample_weight: Column | None, **columns: Column | None
    ) -> "FederatedClassifier":
        """columns: what `_problem` is given for each row beside its weight."""
        refuse_mixed("y", y)
        checked, labels = check_data(self, X, y)
        kept, labels, rows = drop_weightless_rows(checked, labels, sample_weight, columns)
        label = self._labels(labels)
        weight = with_class_weight(self.class_weight, self.classes_, label, rows["sample_weight"])
        rows |= {
            "sample_weight": weight,
            "clients": np.zeros(len(label)) if rows["clients"] is None else rows["clients"],
        }
        scale = Scale(kept, rows["clients"], self.fit_intercept, weight, self.centers)
        order = by_client(rows["clients"], len(label))
        rows = {name: None if column is None else column[order] for name, column in rows.items()}
        rows |= {"center": scale.center} if self.centers else {}
        # The rows in the common scale are not kept during the run: they are as large as the data.
        problem = self._problem(scale.rows(kept, order), label[order], size=scale.size, **rows)
        x = (z := self._solve(problem)).x
        weights = np.atleast_2d(np.asarray(x["weights"] / scale.size).T)
        self._keep_model(scale.mean, weights, np.broadcast_to(self._bias(x, problem), len(weights)).copy())
        self._keep_rows(Fitted(problem, z, scale.size, 0.0))
        self._keep(problem, z)
        return self

    def _labels(self, y: Values) -> NDArray[np.int32]:
        """The number of each row's class; sets the classes, of which there are enough and not too many."""
        self.classes_, label = classes("y", y)
        if len(self.classes_) < 2:
            raise ValueError(f"y must hold at least two classes, but there is only one class, {self.classes_[0]!r}")
        if len(self.classes_) > 2 and not self.multiclass:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"y holds {len(self.classes_)} classes, {type(self).__name__} accepts two"
            )
        return label

    def decision_function(self, X: Matrix) -> Reals:
        """The score of each row: above 0 for the second of two classes; one column a class for more."""
        check_is_fitted(self)
        scores = self._scores(check_data(self, X, reset=False))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Matrix) -> Values:
        """The class of each row."""
        scores = self.decision_function(X)
        number = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[number])


class ProbabilisticClassifier(FederatedClassifier):
    """A classifier whose scores are those of the logistic or the softmax loss."""

    def predict_proba(self, X: Matrix) -> Reals:
        """The probability of each class."""
        scores = self.decision_function(X)
        scores = np.stack([np.zeros_like(scores), scores], axis=1) if scores.ndim == 1 else scores
        return np.asarray(softmax(scores, axis=1))


# Rows held out of training, whose scores bound the rate of errors on one class.


def rounding_of_scores(X: RealMatrix, model: AbstractFederated) -> float:
    """Twice how far a score of these rows may be from the exact one, in whatever order its terms are added."""
    reach = abs(X if issparse(X) else X - model.center_) @ np.abs(model.coef_[0]) + abs(np.ravel(model.offset_)[0])
    return float(2 * (X.shape[1] + 8) * UNIT * np.max(reach))


def hold_out(limited: NDArray[np.bool_], clients: object, share: float) -> NDArray[np.bool_]:
    """A share of the limited rows, of each client up to one row; which ones depends on the order of the rows alone."""
    number = np.zeros(len(limited), int) if clients is None else encode_labels("clients", clients, len(limited))[1]
    rows = np.random.default_rng(0).permutation(np.flatnonzero(limited))
    rows = rows[np.argsort(number[rows], kind="stable")]
    count = np.floor(share * np.arange(len(rows) + 1) + 1e-9)
    held = np.zeros(len(limited), bool)
    held[rows[np.diff(count) > 0]] = True
    return held


# Sparse logistic regression.


@dataclass(eq=False, repr=False)
class FederatedLogisticRegression(EffectsMixin, ProbabilisticClassifier):
    """min_{w, b} mean logistic loss + l1 ||w||_1 + l2/2 ||w||^2 over the rows of all clients; softmax for more classes.

    With l2 = 0 this is scikit-learn's with C = 1 / (l1 n). class_weight: None, "balanced" or a mapping from classes to
    numbers, by which the weights of their rows are multiplied. radius: None, or a bound of ||w||_2. fit_intercept=False
    leaves out b. l1 = l2 = 0 is the model without penalty: its gap_ is proved by self-concordance, run_ is None, and
    data that can be separated or columns that are combinations of others are refused by name.
    For all else see `AbstractFederated`; for `summary`, `conf_int` and `coef_std_`, `EffectsMixin`.
    """

    centers: ClassVar[bool] = True

    l1: Penalty = 0.01
    l2: Number = 0.0
    _: KW_ONLY
    class_weight: ClassWeight | None = None
    fit_intercept: Switch = True
    radius: Number | None = None
    folds: Folds = 5
    tol: Number = 1e-4

    def _recipe(self, at: Setting) -> AbstractRecipe:
        bounded = at.penalties(self.l2, self.radius, unbounded=True)
        return SparseGlmRecipe("logistic", intercept=self.fit_intercept, center=at.center, **bounded)

    @property
    def _has_no_penalty(self) -> bool:
        return bool(self.l1_ == 0 and self.l2 == 0 and self.radius is None)


# A classifier that ranks.


@dataclass(eq=False, repr=False)
class FederatedAUCClassifier(FederatedClassifier):
    """min_w mean over pairs of (1 - <w, row> + <w, row'>)^2 + l1 ||w||_1 + l2/2 ||w||^2 (`fx.problems.auc`).

    row is of the second class, row' of the first; the pairs are those of different clients too. Pairs decide
    no threshold: `predict` cuts halfway between the mean scores of the two classes. Weights of classes would change
    nothing. radius: None, or a bound of ||w||_2. For all else see `AbstractFederated`.
    """

    multiclass: ClassVar[bool] = False

    l1: Penalty = 0.01
    l2: Number = 0.01
    _: KW_ONLY
    radius: Number | None = None
    folds: Folds = 5
    tol: Number = 1e-2

    def _recipe(self, at: Setting) -> AbstractRecipe:
        return AucRecipe(saddle=False, **at.penalties(self.l2, self.radius))

    def _bias(self, x: Tree, problem: AbstractProblem) -> Reals:
        return middle_bias(cast(CenteredSquare, cast(Problem, problem).f).means, x["weights"])


# A classifier with a limit on the loss of one class.


SMALLEST = 1e-15
"""Below about this the multiplier, which is up to loss / limit, makes rounding errors as large as the loss."""


@dataclass(eq=False, repr=False)
class NeymanPearsonClassifier(EffectsMixin, FederatedClassifier):
    """The least logistic loss of one class + l1 ||w||_1 + l2/2 ||w||^2 with that of the other <= limit.

    limited: the class whose loss is limited; None is the first in sorted order. A loss of at most `limit` leaves at
    most a share limit / log 2 of that class's rows on the wrong side. Some model meets every limit: a large enough
    bias alone does. A fit also sets violation_, by how much the limit is exceeded in training at most. Weights
    of classes would change nothing. radius: None, or a bound of ||w||_2.

    rate: None, or the largest share of the limited class that may be on the wrong side. A share `calibration` of that
    class's rows is then held out of training, as nearly as can be the same one of each client, and scores are cut at
    threshold_, an order statistic of theirs and a little more for rounding; intercept_ has it taken off. Proved: if
    held-out rows and further rows of the class are independent and of one distribution, the rate among further rows is
    above `rate` with a probability of at most 1 - confidence; rate_bound_ says so with the probability itself. Nothing
    is proved for one client, for rows that are drawn otherwise, or for the other class; weights of rows do not count
    here. Between parties clients would send how many of their scores are below some thresholds; here the scores are in
    one process.
    For all else see `AbstractFederated`.
    """

    multiclass: ClassVar[bool] = False

    limit: Number = 0.1
    limited: object = None
    l1: Penalty = 0.01
    l2: Number = 0.0
    _: KW_ONLY
    rate: Number | None = None
    confidence: Number = 0.95
    calibration: Number = 0.3
    radius: Number | None = None
    folds: Folds = 5
    tol: Number = 1e-2

    def fit(
        self, X: Matrix, y: Column, clients: Column | None = None, sample_weight: Column | None = None
    ) -> "NeymanPearsonClassifier":
        """Fit to rows X with labels y; clients: whose row it is; sample_weight: how much it counts in training."""
        if self.rate is None:
            self._fit(X, y, sample_weight, clients=clients)
            return self
        rate, confidence = a_share("rate", self.rate), a_share("confidence", self.confidence)
        held = self._hold_out(X, y, clients, sample_weight)
        order_statistic(int(held.sum()), rate, confidence)  # refused before the run
        kept: list[Any] = [
            None if v is None else rows_of(v, np.flatnonzero(~held)) for v in (X, y, clients, sample_weight)
        ]
        self._fit(kept[0], kept[1], kept[3], clients=kept[2])
        sign = 1 if self._limited_class() == 0 else -1  # rows of the first class are wrong above the threshold
        apart = check_data(self, rows_of(X, np.flatnonzero(held)), reset=False)
        slack = rounding_of_scores(apart, self)
        cut = threshold(sign * self.decision_function(apart), rate, confidence, slack)
        self._cut(sign * cut.score, cut)
        return self

    def decision_function(self, X: Matrix) -> Reals:
        """The score of each row less the threshold: above 0 for the second class."""
        return super().decision_function(X) - getattr(self, "threshold_", 0.0)

    def _cut(self, score: float, cut: Threshold) -> None:
        self.threshold_ = score
        self.intercept_ = self.intercept_ - score
        self.rate_bound_ = (
            f"P(more than {self.rate:g} of class {self.classes_[self._limited_class()]} is on the wrong side) "
            f"<= {round_up(cut.risk)}, of {cut.rows} held-out rows"
        )

    def _hold_out(
        self, X: Matrix, y: Column, clients: Column | None, sample_weight: Column | None
    ) -> NDArray[np.bool_]:
        refuse_mixed("y", y)
        rows, labels = check_data(self, X, y)
        drop_weightless_rows(
            rows, labels, sample_weight, {"clients": clients}
        )  # refused here, where all rows are there
        label = self._labels(labels)
        there = True if sample_weight is None else np.asarray(sample_weight) > 0
        return hold_out((label == self._limited_class()) & there, clients, a_share("calibration", self.calibration))

    def _recipe(self, at: Setting) -> AbstractRecipe:
        limit = positive("limit", self.limit)
        if limit < SMALLEST:
            raise ValueError(f"limit must be at least {SMALLEST:g}, about the rounding of a loss, got {self.limit!r}")
        return ConstrainedRecipe({self._limited_class(): limit}, **at.penalties(self.l2, self.radius))

    def _groups(self, label: Values, groups: Values | None) -> Values | None:
        return label

    def _keep(self, problem: AbstractProblem, z: Saddle) -> None:
        self.violation_ = None if self.run_ is None else self.run_.violation
        self.threshold_, self.rate_bound_ = 0.0, ""

    def _limited_class(self) -> int:
        places = [0] if self.limited is None else np.flatnonzero(self.classes_ == self.limited)
        if len(places) != 1:
            raise ValueError(f"limited must be one of the classes {list(self.classes_)}, got {short(self.limited)}")
        return int(places[0])
