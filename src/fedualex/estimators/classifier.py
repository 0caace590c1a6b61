"""What classifiers share."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ..problems import AbstractProblem
from ..tree import Saddle, Tree
from ..validation import classes, refuse_mixed
from .base import AbstractFederated, Scale, checked_data
from .penalty import penalty
from .weights import by_client, weighed, with_class_weight


class FederatedClassifier(ClassifierMixin, AbstractFederated):  # type: ignore[misc]
    """A linear classifier: scores <w, row> + b, of one column for two classes and one column a class for more.

    A subclass says what problem it solves for rows in a common scale.
    """

    multiclass: ClassVar[bool] = True
    class_weight: Any = None
    fit_intercept: Any = True
    radius: Any = None

    def _penalty(self, size: float) -> dict[str, Any]:
        """l1, l2 and radius for rows that were divided by `size`."""
        return penalty(size, self.l1, self.l2, self.radius)

    @abstractmethod
    def _problem(
        self, X: NDArray[Any], label: NDArray[Any], clients: Any, size: float, sample_weight: Any
    ) -> AbstractProblem:
        """The problem for rows that were divided by `size`; sample_weight is None if all rows weigh alike."""

    def _bias(self, x: Tree, problem: AbstractProblem) -> Any:
        """What is added to the scores of rows in the common scale."""
        return x.get("bias", 0.0)

    def _keep(self, problem: AbstractProblem, z: Saddle) -> None:
        """Set more attributes after a fit."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.multiclass
        return tags

    def fit(self, X: Any, y: Any, clients: Any = None, sample_weight: Any = None) -> "FederatedClassifier":
        """Fit to rows X with labels y; clients: whose row it is; sample_weight: how much it counts."""
        return self._fit(X, y, sample_weight, clients=clients)

    def _fit(self, X: Any, y: Any, sample_weight: Any, **columns: Any) -> "FederatedClassifier":
        """columns: what `_problem` is given for each row beside its weight."""
        refuse_mixed("y", y)
        X, y = checked_data(self, X, y)
        X, y, rows = weighed(X, y, sample_weight, **columns)
        label = self._labels(y)
        weight = with_class_weight(self.class_weight, self.classes_, label, rows["sample_weight"])
        rows |= {"sample_weight": weight, "clients": np.zeros(len(y)) if rows["clients"] is None else rows["clients"]}
        scale = Scale(X, rows["clients"], self.fit_intercept, weight, self.centers)
        order = by_client(rows["clients"], len(label))
        rows = {name: None if column is None else column[order] for name, column in rows.items()}
        rows |= {"center": scale.center} if self.centers else {}
        # The rows in the common scale are not kept during the run: they are as large as the data.
        problem = self._problem(scale.rows(X, order), label[order], size=scale.size, **rows)
        x = (z := self._solve(problem)).x
        weights, bias = scale.model(x["weights"], self._bias(x, problem))
        self.coef_ = np.atleast_2d(weights.T)
        self.intercept_ = np.broadcast_to(bias, len(self.coef_)).copy()
        self._keep(problem, z)
        return self

    def _labels(self, y: NDArray[Any]) -> NDArray[Any]:
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

    def decision_function(self, X: Any) -> NDArray[Any]:
        """The score of each row: above 0 for the second of two classes; one column a class for more."""
        check_is_fitted(self)
        scores = checked_data(self, X, reset=False) @ self.coef_.T + self.intercept_
        return np.asarray(scores[:, 0] if scores.shape[1] == 1 else scores)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        scores = self.decision_function(X)
        number = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[number])


class ProbabilisticClassifier(FederatedClassifier):
    """A classifier whose scores are those of the logistic or the softmax loss."""

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The probability of each class."""
        scores = self.decision_function(X)
        scores = np.stack([np.zeros_like(scores), scores], axis=1) if scores.ndim == 1 else scores
        return np.asarray(softmax(scores, axis=1))
