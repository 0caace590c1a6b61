"""Named coefficients of a linear model for rows as people have them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data import Encoder


class Coefficient(NamedTuple):
    """What one feature adds to the score, one number for each score of the model."""

    feature: str
    per_unit: NDArray[np.float64]
    """For one more of what the column holds; for a category, for being in it."""
    per_deviation: NDArray[np.float64]
    """For one standard deviation more; of a category, whose deviation nobody is told, the same as per_unit."""

    @property
    def size(self) -> float:
        """The largest |per_deviation|, by which features can be compared."""
        return float(np.max(np.abs(self.per_deviation)))


def named(encoder: Encoder, weights: NDArray[np.float64]) -> list[Coefficient]:
    """All coefficients, the largest first: w_j / deviation_j for a number, w_j for a category."""
    deviations = np.ones(len(encoder.features))
    if encoder.standardizer is not None:
        deviations[: len(encoder.numbers)] = encoder.standardizer.deviation
    found = []
    for name, w, deviation in zip(encoder.features, np.atleast_2d(weights.T).T, deviations, strict=True):
        found.append(Coefficient(name, w / deviation if deviation > 0 else 0 * w, w))
    return sorted(found, key=lambda c: -c.size)


def intercept(encoder: Encoder, weights: NDArray[np.float64], bias: NDArray[np.float64]) -> NDArray[np.float64]:
    """b - sum_j w_j mean_j / deviation_j: the score of a row of zeros that is in no category."""
    if encoder.standardizer is None:
        return np.asarray(bias)
    mean, deviation = encoder.standardizer.mean, encoder.standardizer.deviation
    share = np.where(deviation > 0, mean / np.where(deviation > 0, deviation, 1.0), 0.0)
    return np.asarray(bias - share @ weights[: len(encoder.numbers)])
