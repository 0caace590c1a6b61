"""What the scores of a linear model say of a row: a class with its probability, an order of rows, or a number."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..accepted import Column, Numbers
from ..arrays import Reals, Values
from ..validation import classes, real_array
from .risk_sets import concordance_sums
from .rows import two_classes

if TYPE_CHECKING:
    from .families.numbers import NumberFamily

OF = " of "
"""Between a measure and the target or class that it is of, where there are several."""
SMALLER_IS_BETTER = ("loss", "mae", "mse", "errors", "deviance")
MEANS = ("positives", "accuracy", "loss", "mae", "mse", "deviance", "log-likelihood")
"""What is a mean over rows."""
NEUTRAL = ("rows", "positives", "observed/expected")
"""What is said of the rows, and not of the model."""

Measured = dict[str, float | int | None]


@runtime_checkable
class Scale(Protocol):
    """What a reading needs to know of a model beside its scores."""

    @property
    def labels(self) -> Values: ...
    @property
    def threshold(self) -> float: ...
    @property
    def center(self) -> Reals | float: ...
    @property
    def scale(self) -> Reals | float: ...


class Reading(ABC):
    """What scores mean; it has no numbers of its own.

    name: as files have it. title: what such a model is called. labelled: whether targets are labels of classes.
    standardized: whether targets are centered and scaled before a fit. timed: whether a target is a time and an event.
    effect: what exp(coefficient), or the
    coefficient itself, is called. estimator: scikit-learn's class with the same predictions, as (module, name).
    """

    name: ClassVar[str]
    title: ClassVar[str]
    labelled: ClassVar[bool] = False
    standardized: ClassVar[bool] = False
    timed: ClassVar[bool] = False
    has_probabilities: ClassVar[bool] = False
    effect: ClassVar[str] = ""
    estimator: ClassVar[tuple[str, str]]

    @abstractmethod
    def predict(self, scores: Reals, scale: Scale) -> Values:
        """The answer for each row."""

    def probabilities(self, scores: Reals) -> Reals:
        """One column for each class; refused where scores are none of a probability model."""
        raise ValueError(f"this model has no probabilities: {self.why_no_probabilities}")

    why_no_probabilities: ClassVar[str] = "it predicts numbers"

    @abstractmethod
    def measures(self, truth: NDArray[Any], scores: Reals, scale: Scale) -> Measured:
        """How good the answers are, by name; None where these rows do not define a measure."""

    @abstractmethod
    def columns(self, scores: Reals, scale: Scale) -> dict[str, Values]:
        """What a file of predictions holds beside them."""

    @abstractmethod
    def adds_to(self, targets: tuple[str, ...], scale: Scale, several: bool) -> str:
        """What coefficients add up to, in words; several: whether a row has several scores."""

    @abstractmethod
    def check_labels(self, what: str, labels: Values) -> None:
        """Refuse targets that cannot be of this kind. what: how they are called."""


class ClassReading(Reading):
    """A score above a threshold is the second of two classes; of more, the class of the largest score."""

    name = "classes"
    title = "model of classes"
    labelled = True
    has_probabilities = True
    effect = "odds ratio"
    estimator = ("sklearn.linear_model", "LogisticRegression")

    def predict(self, scores: Reals, scale: Scale) -> Values:
        number = (scores > scale.threshold).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(scale.labels[number])

    def probabilities(self, scores: Reals) -> Reals:
        from scipy.special import expit, softmax  # a site of a deployment starts without them

        if scores.ndim > 1:
            return np.asarray(softmax(scores, axis=1))
        return np.stack([expit(-scores), expit(scores)], axis=1)

    def measures(self, truth: NDArray[Any], scores: Reals, scale: Scale) -> Measured:
        """accuracy, and loss, the mean -log(probability of the truth); of two classes also positives, the share of
        rows in the second one, and auc.
        """
        return measure_ranking(self, truth, scores, scale) | {"loss": _log_loss(truth, scores, scale)}

    def columns(self, scores: Reals, scale: Scale) -> dict[str, Values]:
        shares = zip(scale.labels.tolist(), self.probabilities(scores).T, strict=True)
        return RankReading().columns(scores, scale) | {f"probability of {label}": share for label, share in shares}

    def adds_to(self, targets: tuple[str, ...], scale: Scale, several: bool) -> str:
        if several:
            return "the scores, of which the largest wins"
        return f"the score, which is above 0 for {targets[0]} = {scale.labels.tolist()[1]}"

    def check_labels(self, what: str, labels: Values) -> None:
        classes(what, labels)


class RankReading(ClassReading):
    """As classes, of which there are two; but only the order of scores has a meaning, so there are no probabilities."""

    has_probabilities = False
    name = "ranking"
    title = "ranking"
    effect = ""
    estimator = ("sklearn.svm", "LinearSVC")
    why_no_probabilities = "its scores only order rows"

    def probabilities(self, scores: Reals) -> Reals:
        return Reading.probabilities(self, scores)

    def measures(self, truth: NDArray[Any], scores: Reals, scale: Scale) -> Measured:
        """As of classes, but for the loss."""
        return measure_ranking(self, truth, scores, scale)

    def columns(self, scores: Reals, scale: Scale) -> dict[str, Values]:
        return {"score": scores} if scores.ndim == 1 else {}


class NumberReading(Reading):
    """center + scale * score, in the units of the target; one of each for several targets."""

    name = "numbers"
    title = "model of numbers"
    standardized = True
    effect = "difference"
    estimator = ("sklearn.linear_model", "LinearRegression")

    def predict(self, scores: Reals, scale: Scale) -> Values:
        return np.asarray(scale.center + scale.scale * scores)

    def measures(self, truth: NDArray[Any], scores: Reals, scale: Scale) -> Measured:
        """r2, mae and mse."""
        return measure_distance(truth, np.asarray(scale.center + scale.scale * scores))

    def columns(self, scores: Reals, scale: Scale) -> dict[str, Values]:
        return {}

    def adds_to(self, targets: tuple[str, ...], scale: Scale, several: bool) -> str:
        return ", ".join(targets)

    def check_labels(self, what: str, labels: Values) -> None:
        real_array(what, labels, "real numbers")


class RiskReading(Reading):
    """The logarithm of a hazard, relative to rows of the same stratum whose score is 0."""

    name = "risk"
    timed = True
    title = "proportional hazards model"
    effect = "hazard ratio"
    estimator = ("sklearn.linear_model", "LinearRegression")
    why_no_probabilities = "its scores are logarithms of relative hazards"

    def predict(self, scores: Reals, scale: Scale) -> Values:
        return np.asarray(scores)

    def measures(self, truth: NDArray[Any], scores: Reals, scale: Scale) -> Measured:
        """c-index: the share of pairs whose order in time scores tell, of those whose order is known."""
        sums = concordance_sums(truth[:, 0], truth[:, 1], scores)
        return {"c-index": sums["concordant"] / sums["comparable"] if sums["comparable"] > 0 else None}

    def columns(self, scores: Reals, scale: Scale) -> dict[str, Values]:
        return {"relative hazard": np.exp(scores)}

    def adds_to(self, targets: tuple[str, ...], scale: Scale, several: bool) -> str:
        return "the logarithm of the hazard (exp of a coefficient is a hazard ratio)"

    def check_labels(self, what: str, labels: Values) -> None:
        real_array(what, labels, "real numbers")


class MeanReading(Reading):
    """The mean of a target whose family has a link: mean(score)."""

    def __init__(self, family: "NumberFamily"):
        self.family = family
        self.name: str = family.name  # type: ignore[misc]
        self.title: str = f"{family.name} model"  # type: ignore[misc]
        self.effect: str = family.effect  # type: ignore[misc]
        self.estimator: tuple[str, str] = family.estimator  # type: ignore[misc]

    def predict(self, scores: Reals, scale: Scale) -> Values:
        return np.asarray(self.family.mean(scores))

    def measures(self, truth: NDArray[Any], scores: Reals, scale: Scale) -> Measured:
        """r2, mae and mse, and loss, the mean loss of the family."""
        loss = float(np.mean(self.family.loss(scores, np.asarray(truth, float))))
        return measure_distance(truth, np.asarray(self.family.mean(scores))) | {"loss": loss}

    def columns(self, scores: Reals, scale: Scale) -> dict[str, Values]:
        return {"score": scores}

    def adds_to(self, targets: tuple[str, ...], scale: Scale, several: bool) -> str:
        link = f" (exp of a coefficient is a {self.effect})" if self.effect else ""
        return f"the score of {', '.join(targets)}{link}"

    def check_labels(self, what: str, labels: Values) -> None:
        self.family.check_targets(real_array(what, labels, self.family.accepted), what)


# Measures.


def roc_auc(scores: Numbers, y: Column) -> float:
    """The share of (positive, negative) pairs that the scores rank rightly, ties counted half.

    The second of the two labels in sorted order is the positive one.
    scores, y: a score and a label for each row.
    """
    score = real_array("scores", scores, truth=True)
    if score.ndim != 1:
        raise ValueError(f"scores must be one number for each row, got an array of shape {score.shape}")
    positive = two_classes(y, len(score)) > 0
    negatives = np.sort(score[~positive])
    below, up_to = (np.searchsorted(negatives, score[positive], side) for side in ("left", "right"))
    return float(np.mean(below + up_to) / 2 / len(negatives))


def measure_ranking(reading: Reading, truth: Values, scores: Reals, scale: Scale) -> Measured:
    """accuracy, and of two classes positives and auc."""
    accuracy = float(np.mean(reading.predict(scores, scale) == truth))
    if scores.ndim > 1:
        return {"accuracy": accuracy}
    return {
        "positives": float(np.mean(truth == scale.labels[1])),
        "accuracy": accuracy,
        "auc": roc_auc(scores, truth) if len(np.unique(truth)) == 2 else None,
    }


def measure_distance(truth: Reals, answers: Reals) -> Measured:
    """r2, mae and mse."""
    distance = truth - answers
    return {
        "r2": r2(truth, answers),
        "mae": float(np.mean(np.abs(distance))),
        "mse": float(np.mean(distance**2)),
    }


def r2(truth: Reals, answers: Reals) -> float | None:
    """The share of the variance that is explained; None where there is none."""
    spread, error = float(np.mean((truth - truth.mean()) ** 2)), float(np.mean((truth - answers) ** 2))
    return 1 - error / spread if spread > 0 else None


def _log_loss(truth: Values, scores: Reals, scale: Scale) -> float | None:
    """The mean of -log(probability of the truth), from the scores: log(sum_c exp(s_c)) - s_truth.

    None where some truth is a class that was not there in training.
    """
    if not np.all(np.isin(truth, scale.labels)):
        return None
    # With one score s, those of the two classes are 0 and s.
    each = scores if scores.ndim > 1 else np.stack([np.zeros_like(scores), scores], axis=1)
    chosen = np.searchsorted(scale.labels, truth)
    return float(np.mean(np.logaddexp.reduce(each, axis=1) - each[np.arange(len(truth)), chosen]))
