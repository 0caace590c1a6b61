"""The surveys that the certificate of an output follows from, as a folder holds them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .folder import StoredRun
from .registry import ConfigurationError

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class StoredEvidence:
    """Points of surveys along the first axis, leaf by leaf, and the weight of each in either bound."""

    points: Arrays
    upper: NDArray[Any]
    lower: NDArray[Any]
    floor: float

    def at(self, i: int) -> Arrays:
        """The point of one survey."""
        return {leaf: np.asarray(array[i]) for leaf, array in self.points.items()}


def read_evidence(run: StoredRun, output: str, z: Arrays) -> StoredEvidence | None:
    """The surveys of an output whose point is z; None where its certificate is that of the one at z."""
    points, weights = run.surveys(output)
    if not points and not weights:
        return None
    wrong = ConfigurationError(f"{run.path / 'solution.npz'} does not hold surveys of the output {output!r}")
    if weights.keys() != {"upper", "lower", "floor"} or points.keys() != z.keys():
        raise wrong
    numbers = [*weights.values(), *points.values()]
    if any(array.dtype.kind != "f" for array in numbers) or weights["floor"].shape != ():
        raise wrong
    count = weights["upper"].shape
    if len(count) != 1 or weights["lower"].shape != count:
        raise wrong
    if any(points[leaf].shape != (*count, *z[leaf].shape) for leaf in z):
        raise wrong
    return StoredEvidence(points, weights["upper"], weights["lower"], float(weights["floor"]))
