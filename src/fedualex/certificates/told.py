"""What rounding did to bounds where clients alone have the rows: each says it of its own surveys, and these add up."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ..arrays import by_numpy
from ..bundle import Bounds, Side
from ..geometry import is_geometry
from ..regularizers.fenchel import UNIT
from ..tree import Saddle, Tree
from .surveys import BoundErrors, CertifiableProblem, Surveyed, SurveyErrors

COUNT = 64
"""Roundings of all that bounds are made of, beside those of sums over rows and variables, generously."""
SECOND = 1.01
"""What products of errors, and the rounding of these errors themselves, may add."""
UNKNOWN, KNOWN = 2.0**40, 2.0**16
"""What a client says of an error at most, as masked sums hold no larger numbers; and from where on a weighted sum of
them is no bound: that of a client of weight 2^-24 or more stands for any number."""
KEPT, DIGEST = 4096, 16
"""Surveys whose errors are remembered, those that bounds were made of last before all others; bytes of their names."""

Numbers = NDArray[np.float64]


class Told(NamedTuple):
    """From what the rounding of a certificate follows, as it is kept."""

    upper: Numbers
    """Of each survey that the upper bound is made of its errors, one a row."""
    lower: Numbers
    offsets: Numbers
    """Of the upper bound, and of the lower one."""


class ToldErrors:
    """The errors of surveys as clients said them, and what follows for bounds.

    problem: the server's view. sum_error: by how much each number of a survey may differ from what clients add up to,
    because of the way in which it is added.
    """

    def __init__(self, problem: CertifiableProblem, sum_error: float):
        self.problem, self.sum_error = problem, float(sum_error)
        self._kept: dict[bytes, Numbers] = {}

    def remember(self, points: Sequence[Saddle], starts: Sequence[Saddle | None], surveys: Sequence[Surveyed]) -> None:
        """Of points, with where steps to them began whose cuts were asked for."""
        for point, start, survey in zip(points, starts, surveys, strict=True):
            if survey.errors is not None:
                at, errors = entries(point), self._total(point, survey, survey.errors)
                self._keep(_name(at, at), errors)
                if start is not None:
                    self._keep(_name(at, entries(start)), errors)
        while len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]

    def _total(self, point: Saddle, survey: Surveyed, told: SurveyErrors) -> Numbers:
        """What clients say, what the way of adding does to all numbers, and what is rounded where bounds are made."""
        reach = np.concatenate([np.abs(entries(point.x)), np.abs(entries(point.y)) + farthest(self.problem, point)[1]])
        slopes = np.abs(entries(survey.operator))
        size, steepest = abs(float(survey.value)) + float(slopes @ reach), np.max(np.abs(entries(survey.operator.x)))
        if survey.cut is not None:
            size = max(size, abs(float(survey.cut.offset)))
            steepest = max(steepest, np.max(np.abs(entries(survey.cut.slope))))
        own = 2 * (reach.size + COUNT) * UNIT
        offset, slope, moved = (SECOND * max(float(number), 0.0) + self.sum_error for number in told)
        offset += own * size + 2 * self.sum_error * (1 + float(np.sum(reach)))
        return np.array([offset, slope + own * float(steepest) + self.sum_error, moved])

    def _keep(self, name: bytes, errors: Numbers) -> None:
        self._kept.pop(name, None)
        self._kept[name] = errors

    def recall(self, bounds: Bounds) -> Told | None:
        """What clients said of the surveys that bounds are made of; None if they did not."""
        upper, lower = self._rows(bounds.upper), self._rows(bounds.lower)
        if upper is None or lower is None:
            return None
        return Told(upper, lower, np.array([float(bounds.upper.offset), float(bounds.lower.offset)]))

    def _rows(self, side: Side) -> Numbers | None:
        points, used = np.asarray(side.points), np.flatnonzero(np.asarray(side.weights)[:-1])
        starts = points if side.starts is None else np.asarray(side.starts)
        names = [_name(points[i], starts[i]) for i in used]
        if any(name not in self._kept for name in names):
            return None
        for name in names:
            self._keep(name, self._kept[name])
        return np.reshape([self._kept[name] for name in names], (len(names), len(SurveyErrors._fields)))

    def checkpoint_state(self) -> tuple[NDArray[np.uint8], Numbers]:
        """All that is remembered."""
        names = np.frombuffer(b"".join(self._kept), np.uint8).reshape(-1, DIGEST)
        return names, np.reshape(list(self._kept.values()), (len(names), len(SurveyErrors._fields)))

    def restore(self, kept: tuple[NDArray[np.uint8], Numbers]) -> None:
        """Continue with what `checkpoint_state` returned before."""
        names, errors = (np.asarray(part) for part in kept)
        self._kept = {name.tobytes(): row for name, row in zip(names, errors, strict=True)}


class _SideErrors(NamedTuple):
    """Of the bound of one side: f is off by at most offset + slope sum_j |v_j|."""

    offset: float
    slope: float


def errors_of_bounds(problem: CertifiableProblem, bounds: Bounds, told: Told) -> BoundErrors | None:
    """The errors of both sides; None where no number bounds them."""
    upper, lower = (np.where(rows < KNOWN, rows, np.inf) for rows in told[:2])
    floor = 0.0 if problem.floor is None else abs(float(problem.floor.value))
    above, below = _side_errors(bounds.upper, upper, floor), _side_errors(bounds.lower, lower, floor)
    offset, slope = above.offset + below.offset, np.full(np.size(bounds.lower.slope), below.slope)
    if np.count_nonzero(bounds.upper.weights) > 1:  # x itself was rounded
        offset += 4 * (len(upper) + 5) * float(np.max(upper[:, 2]))
    if np.count_nonzero(bounds.lower.weights) > 1:  # y, and so f by a share of itself
        share = 4 * (len(lower) + 5) * UNIT
        offset += share * abs(float(bounds.lower.offset))
        slope = slope + share * np.abs(np.asarray(bounds.lower.slope))
    known = (
        np.isfinite(offset)
        and np.all(np.isfinite(slope))
        and (len(upper) < 2 or np.all(np.isfinite(farthest(problem, problem.like)[0])))
    )
    nothing = np.zeros(np.size(bounds.upper.slope))
    return BoundErrors(SECOND * np.concatenate([slope, nothing]), SECOND * float(offset)) if known else None


def _side_errors(side: Side, rows: Numbers, floor: float) -> _SideErrors:
    """Of one survey its own; of a mean the largest, and a share of it for the mean's own rounding.

    The errors of a survey hold COUNT roundings of all its sizes.
    """
    weights = np.asarray(side.weights)
    if not len(rows):
        return _SideErrors(2 * UNIT * floor, 0.0)
    mixed = np.count_nonzero(weights) > 1 or np.max(weights) < 1
    more = 1 + 4 * (len(rows) + 5) / COUNT if mixed else 1.0
    offset, slope, _ = more * np.max(rows, axis=0)
    return _SideErrors(float(offset) + 4 * UNIT * floor, float(slope))


@by_numpy
def farthest(problem: CertifiableProblem, point: Saddle) -> tuple[Numbers, Numbers]:
    """How large the entries of x and of y can be in the domain, of which this is a point."""

    def largest(own: object, parts: object) -> Numbers:
        leaves, several = jax.tree.leaves(own), jax.tree.leaves(parts, is_leaf=is_geometry)
        pairs = zip(leaves, several, strict=True)
        far = [np.ravel(np.abs(np.asarray(leaf))) + float(part.diameter(leaf)) for leaf, part in pairs]
        return np.concatenate([np.zeros(0), *far])

    parts = problem.geometry.parts
    return largest(point.x, parts.x), largest(point.y, parts.y)


def entries(point: Tree) -> Numbers:
    """All of them, x first."""
    return np.concatenate([np.zeros(0), *(np.ravel(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(point))])


def _name(point: Numbers, start: Numbers) -> bytes:
    # What is 0 has one sign here: -0.0 is the same point.
    both = np.concatenate([point, start]) + 0.0
    return hashlib.blake2b(both.tobytes(), digest_size=DIGEST).digest()
