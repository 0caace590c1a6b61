"""What the scores of a linear model mean: classes with probabilities, a ranking, or numbers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Standardizer
from ..problems.recipe import CLASSES, NUMBERS, RANKING

KINDS = (CLASSES, RANKING, NUMBERS)


@dataclass(frozen=True, eq=False)
class Answers:
    """kind "classes": a score above `threshold` is the second of two classes; of more, the class of the largest score.

    "ranking": the same for two classes, but only the order of scores has a meaning, so there are no probabilities.
    "numbers": center + scale * score, in the units of the target; one of each for several targets.

    labels: the classes in sorted order; none of "numbers".
    """

    kind: str
    labels: NDArray[Any] = field(default_factory=lambda: np.zeros(0))
    threshold: float = 0.0
    center: Any = 0.0
    scale: Any = 1.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"the kind of a model's answers must be one of {', '.join(KINDS)}, got {self.kind!r}")

    def of(self, scores: NDArray[Any]) -> NDArray[Any]:
        """The answer for each row."""
        if self.kind == NUMBERS:
            return np.asarray(self.center + self.scale * scores)
        number = (scores > self.threshold).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.labels[number])

    def probabilities(self, scores: NDArray[Any]) -> NDArray[Any]:
        """One column for each class; refused where scores are none of a probability model."""
        if self.kind != CLASSES:
            reason = "its scores only order rows" if self.kind == RANKING else "it predicts numbers"
            raise ValueError(f"this model has no probabilities: {reason}")
        from scipy.special import expit, softmax  # a site of a deployment starts without them

        link: Callable[..., Any] = softmax
        if scores.ndim > 1:
            return np.asarray(link(scores, axis=1))
        return np.stack([expit(-scores), expit(scores)], axis=1)


def standardized(kind: str, scale: Standardizer, several: bool) -> Answers:
    """Numbers for targets that were standardized so; one number for each score if there are several targets."""
    center, size = scale.mean, np.where(scale.deviation > 0, scale.deviation, 1.0)
    return Answers(kind, center=center, scale=size) if several else Answers(kind, center=center[0], scale=size[0])
