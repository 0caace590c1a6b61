"""How far rounding may have moved the bounds of a loss of scores: a running error analysis over its rows.

A bound from above says f(x, v) <= offset - <slope, v> for all v, one from below f(v, y) >= offset + <slope, v>. With
slopes and offsets as float64 computed them they hold up to offset error + <slope error, |v|>, and these two are what is
bounded here. u is UNIT; docs/rounding.md has the analysis in words.

- To add n terms in any order costs at most 1.01 n u of the sum of their sizes. COUNT and the numbers of variables and
  of surveys make up for all else that a term goes through: coefficients, products, weighted means.
- A score is computed to within `off` = (terms + 16) u of the size of its terms. At such a score a loss differs by at
  most |slope| off + curvature off^2 / 2, and a slope by curvature off.
- What a family's formulas lose at the very score that they are given, its `Accuracy` says.
- A dual cut may have any slopes a_i with a finite conjugate, so what rounding did to a_i itself is no error. Where one
  cut alone makes a bound, its sums are computed once more with the digits of LONG, and its error is what it differs by.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from ..arrays import Reals, by_numpy
from ..bundle import Bounds, Side
from ..certificates.surveys import BoundErrors, Surveyed, SurveyErrors
from ..certificates.told import COUNT, SECOND, UNKNOWN, entries, farthest
from ..geometry import is_geometry
from ..regularizers.fenchel import TINY, UNIT
from ..tree import Saddle, Tree
from ..validation import issparse
from .base import AbstractProblem
from .curvature import Block, RowLosses, as_columns, newton_slopes, per_row, score_sums
from .families import Family
from .scores import ScoreRows, ScoreSum
from .stored import slices

SAME = 2.0**-20
"""How much of its terms a slope may differ by that another program computes."""
LONG, LONG_UNIT = np.longdouble, float(np.finfo(np.longdouble).eps) / 2
"""Numbers of 64 binary digits or more on most machines; where they have no more than float64, nothing is gained."""
AT_ONCE = 2**16
"""Entries of rows that are turned into LONG at a time."""
KEPT = 64
"""Points whose errors are remembered: the surveys that bounds are made of stay for many records."""


ADDED = 8
"""Roundings of a number on its way into a sum over clients, beside one for each of them."""


class _Errors(NamedTuple):
    """How far slope and offset of one bound may be off."""

    slope: Reals
    offset: float


class _LongCut(NamedTuple):
    """A dual cut whose sums have the digits of LONG, and what they may be off by."""

    slope: Reals
    offset: np.longdouble
    errors: _Errors


def _sent_cuts(at: Reals, start: Reals, survey: Surveyed) -> list[tuple[Reals, _LongCut]]:
    """The survey's own cut, and that of the step from `start`; the errors of each are the sizes of its parts."""
    x, gx, value = at[: at.size - entries(survey.operator.y).size], entries(survey.operator.x), float(survey.value)
    own = _Errors(np.abs(gx), abs(value) + float(np.abs(gx) @ np.abs(x)))
    cuts = [(at, _LongCut(gx, LONG(value) - np.sum(gx.astype(LONG) * x), own))]
    if survey.cut is not None:
        slope, offset = entries(survey.cut.slope), LONG(float(survey.cut.offset))
        cuts.append((start, _LongCut(slope, offset, _Errors(np.abs(slope), abs(float(offset))))))
    return cuts


def _coarse(size: float) -> float:
    """The least power of two that is not below it."""
    mantissa, power = np.frexp(max(size, TINY))
    return float(np.ldexp(1.0, int(power) - (mantissa == 0.5)))


class ScoreErrors:
    """The errors of bounds of one problem; `parts` are its clients' weights and sums of losses of scores."""

    def __init__(self, problem: AbstractProblem, parts: list[tuple[float, ScoreSum]]):
        self.problem, self.parts = problem, parts
        self.rows = sum(len(own.target) for _, own in parts)
        self._kept: dict[tuple[str, bytes, bytes], _Errors] = {}
        self._moved: float | None = None

    @by_numpy
    def of(self, bounds: Bounds) -> BoundErrors | None:
        """None where the domain is unbounded and a mean of several points was rounded."""
        above = self._side(bounds.upper, self._upper, self._of_mean_x)
        below = self._measured_side(bounds.lower) or self._side(bounds.lower, self._lower, self._of_mean_y)
        offset = SECOND * (above.offset + below.offset) + TINY
        slope = SECOND * np.concatenate([below.slope, above.slope]) + TINY
        return BoundErrors(slope, offset) if np.isfinite(offset) and np.all(np.isfinite(slope)) else None

    @by_numpy
    def tell(self, z: Saddle, start: Saddle | None, survey: Surveyed, clients: int) -> SurveyErrors:
        """What a client says of its own survey: powers of two, of which few are different.

        survey: at z, with the cut of a step from `start` if there is one. Beside its own rounding it counts that of
        weighted sums over so many clients, which may be larger than the sums are.
        """
        at, unit, most = entries(z), (clients + ADDED) * UNIT, farthest(self.problem, z)[1]
        offset, slope = self._excess_of_sent(at, survey, most, unit), 0.0
        for where, cut in _sent_cuts(at, at if start is None else entries(start), survey):
            errors = self._of_sent(at, where, cut)
            offset = max(offset, errors.offset + unit * float(cut.errors.offset))
            slope = max(slope, float(np.max(errors.slope + unit * cut.errors.slope)))
        offset += self._of_mixed_y(at, most)
        self._moved = self._largest_change(z) if self._moved is None else self._moved
        return SurveyErrors(*(min(_coarse(SECOND * number), UNKNOWN) for number in (offset, slope, self._moved)))

    def _excess_of_sent(self, at: Reals, survey: Surveyed, most: Reals, unit: float) -> float:
        """By how much f(x, .) may exceed what value and slope in y say, at any y with entries of at most this size."""
        above, (_, y) = self._of_survey(self._upper, at, at), self._vectors(at)
        sizes = abs(float(survey.value)) + float(np.abs(entries(survey.operator.y)) @ (np.abs(y) + most))
        return float(above.offset + above.slope @ most) + unit * sizes

    def _of_sent(self, point: Reals, start: Reals, sent: "_LongCut") -> _Errors:
        """How far a cut may be off that was sent: measured where coefficients are what they seem, else bounded."""
        if LONG_UNIT >= UNIT or not self._is_never_negative(point[None]):
            return _Errors(*self._of_survey(self._lower, point, start))
        exact: _LongCut = self._of_survey(self._long_cut, point, start)
        slope = np.abs(sent.slope - exact.slope) + exact.errors.slope
        return _Errors(slope.astype(float), float(abs(sent.offset - exact.offset) + exact.errors.offset))

    def _of_mixed_y(self, at: Reals, most: Reals) -> float:
        """What a mean of y that was rounded COUNT times changes of f, beside a share of f itself (`_of_mean_y`)."""
        if self._is_never_negative(at[None]):
            return 2 * COUNT * UNIT * float(self._level @ most)
        return (
            COUNT * UNIT / self._unit * self._change_in_y(most, np.concatenate([at[: at.size - most.size], most])[None])
        )

    def _largest_change(self, z: Saddle) -> float:
        """`SurveyErrors.moved`; 0 where the domain has no end, which everybody knows."""
        far, most = farthest(self.problem, z)
        if not np.all(np.isfinite(far)):
            return 0.0
        total, entry = 0.0, far.reshape(self._shape)
        for weight, own in self.parts:
            for few in map(own.of, slices(len(own.target))):
                sizes, counts = _sizes_of(few.rows), weight * _sizes_of_coefficients(few, most)
                reach = sizes.scores(entry)
                steepest = as_columns(np.asarray(few.family.steepest(-reach, reach, few.target)))
                total += float(np.vdot(sizes.add_up(counts[:, None] * steepest), entry))
        return UNIT * total

    def of_slopes(self, point: Reals) -> Reals:
        """How far the slope in y of a survey of this point may be from that of f."""
        return np.asarray(SECOND * self._of_survey(self._upper, point, point).slope + TINY)

    def of_mean_slopes(self, bounds: Bounds) -> Reals:
        """How far the slope in y of f at upper.point may be above -upper.slope, the mean over its surveys."""
        side, points = bounds.upper, np.asarray(bounds.upper.points)[np.asarray(bounds.upper.weights)[:-1] > 0]
        own = SECOND * self._side(side, self._upper, lambda *mean: _Errors(np.zeros(1), 0.0)).slope + TINY
        moved = self._change_in_x(np.asarray(side.point), points, np.ones(self._level.size)) if len(points) > 1 else 0.0
        return np.asarray(own + 2 * moved)

    def _side(self, side: Side, errors: Any, moved: Any) -> _Errors:
        """The weighted mean of the errors of its surveys; the floor alone has none."""
        points, weights = np.asarray(side.points), np.asarray(side.weights)
        starts = points if side.starts is None else np.asarray(side.starts)
        used = np.flatnonzero(weights[:-1])
        slope, offset = np.zeros(np.shape(side.slope)), 2 * self._unit * abs(self._floor_value) * float(weights[-1])
        for i in used:
            own = self._of_survey(errors, points[i], starts[i])
            slope, offset = slope + weights[i] * own.slope, offset + weights[i] * own.offset
        if np.count_nonzero(weights) == 1 and np.max(weights) == 1:  # one survey, or the floor: nothing was mixed
            return _Errors(slope, float(offset))
        # Errors hold one `_unit` of all sizes at least, so that a share of them makes up for the rounding of the mean.
        more = 1 + 4 * (weights.size + 4) * UNIT / self._unit
        mean = moved(side, points[used])
        return _Errors(more * (slope + mean.slope), float(more * (offset + mean.offset)))

    def _measured_side(self, side: Side) -> _Errors | None:
        """What a bound from below by one cut, or by one and the floor, differs by from the same with LONG sums.

        A survey's own cut is the dual cut of a step that ends where it begins, by Fenchel and Young. None where several
        cuts make the bound, or LONG has no more digits.
        """
        weights, points = np.asarray(side.weights), np.asarray(side.points)
        used = np.flatnonzero(weights[:-1])
        starts = points if side.starts is None else np.asarray(side.starts)
        if LONG_UNIT >= UNIT or used.size != 1 or not self._is_never_negative(points[used]):
            return None
        cut: _LongCut = self._of_survey(self._long_cut, points[used[0]], starts[used[0]])
        share, rest = LONG(weights[used[0]]), LONG(weights[-1])
        slope = np.abs(np.asarray(side.slope) - share * cut.slope) + share * cut.errors.slope
        offset = abs(float(side.offset) - share * cut.offset - rest * LONG(self._floor_value))
        offset += share * LONG(cut.errors.offset) + 4 * UNIT * abs(self._floor_value) * rest
        # Coefficients are rounded as well, each by a share of itself, and so is f where nothing but <level, y> is
        # negative; the weights of the cut and of the floor add up to 1 but for a rounding.
        tilt = float(self._level @ np.abs(points[used[0], points.shape[1] - self._level.size :]))
        slope += self._unit * np.abs(np.asarray(side.slope))
        offset += self._unit * (abs(float(side.offset)) + 2 * tilt)
        mean = self._of_mean_y(side, points[used]) if rest else _Errors(np.zeros(1), 0.0)
        return _Errors(slope.astype(float) + mean.slope, float(offset) + mean.offset)

    @property
    def _floor_value(self) -> float:
        return 0.0 if self.problem.floor is None else float(self.problem.floor.value)

    def _of_survey(self, errors: Any, point: Reals, start: Reals) -> Any:
        key = errors.__name__, point.tobytes(), start.tobytes()
        if key not in self._kept:
            while len(self._kept) >= KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = errors(point, start)
        return self._kept[key]

    @property
    def _unit(self) -> float:
        """What sums over rows and variables, and all that rounds a constant number of times, lose of their terms."""
        size = sum(np.size(leaf) for leaf in jax.tree.leaves(self.problem.like))
        return (self.rows + 2 * size + COUNT) * UNIT

    # One survey.

    def _upper(self, point: Reals, start: Reals) -> _Errors:
        """offset = f + <g_y, y> and slope = g_y = -(sum mixed_i loss_i + level) at one point."""
        x, y = self._vectors(point)
        value, slope, size = 0.0, np.zeros(y.size), np.zeros(y.size)
        for rows in self._evaluate(x, y):
            value += float(rows.counts @ (rows.loss_error + 2 * self._unit * rows.loss))
            if rows.mixed is not None:
                slope += np.asarray(rows.mixed.T @ (rows.loss_error + self._unit * rows.loss))
                size += np.asarray(rows.mixed.T @ rows.loss)
        slope, size = slope + self._unit * self._level, size + self._level
        return _Errors(slope, value + float((slope + 4 * self._unit * size) @ np.abs(y)))

    def _lower(self, point: Reals, start: Reals) -> _Errors:
        """Of the dual cut of a step; one that ends where it begins may be a survey's own cut as well."""
        step = self._of_step(point, start)
        if not np.array_equal(point, start):
            return step
        survey = self._of_own_cut(point)
        return _Errors(np.maximum(step.slope, survey.slope), max(step.offset, survey.offset))

    def _of_own_cut(self, point: Reals) -> _Errors:
        """offset = f - <g_x, x> and slope = g_x = sum c_i slope_i row_i."""
        x, y = self._vectors(point)
        slope, offset = np.zeros(x.shape), 2 * self._unit * float(self._level @ np.abs(y))
        for rows in self._evaluate(x, y):
            slope += rows.spread(rows.slope_error + self._unit * np.abs(rows.slope))
            offset += float(rows.counts @ (rows.loss_error + 2 * self._unit * rows.loss))
            offset += 2 * self._unit * float(rows.counts @ per_row(np.abs(rows.slope) * rows.reach))
        return _Errors(slope.ravel(), offset + float(np.vdot(slope, np.abs(x))))

    def _of_step(self, point: Reals, start: Reals) -> _Errors:
        """offset = <level, y> - sum c_i conjugate(a_i) and slope = sum c_i a_i row_i, with the a_i of a step."""
        x, y = self._vectors(point)
        slope, offset = np.zeros(x.shape), 2 * self._unit * float(self._level @ np.abs(y))
        for rows, a, size in self._evaluate_step(x, y, *self._vectors(start)):
            accuracy = rows.family.conjugate_accuracy(a, rows.target)
            slope += rows.spread(UNIT * as_columns(accuracy.slope) + self._unit * as_columns(size))
            conjugate = per_row(np.abs(rows.family.conjugate(a, rows.target)))
            offset += float(rows.counts @ (UNIT * per_row(accuracy.value) + self._unit * conjugate))
        return _Errors(slope.ravel(), offset)

    def _long_cut(self, point: Reals, start: Reals) -> _LongCut:
        """The dual cut of a step, with the a_i of float64, brought into their domain; conjugates are of float64."""
        (x, y), (x0, y0) = self._vectors(point), self._vectors(start)
        slope, sizes, off = np.zeros(x.shape, LONG), np.zeros(x.shape), np.zeros(x.shape)
        offset, terms, wrong = LONG(0), float(self._level @ np.abs(y)), 0.0
        for weight, own in self.parts:
            for few in map(own.of, slices(len(own.target), max(1, AT_ONCE // len(x)))):
                counts, before = weight * few.coefficients(y), weight * few.coefficients(y0)
                exact, bound = _long_coefficients(few, weight, y), weight * _sizes_of_coefficients(few, np.abs(y))
                block, all_sizes, target = Block.of(few.rows), _sizes_of(few.rows), few.target
                at = RowLosses(block, few.family, target, block.scores(x), counts)
                a = np.asarray(newton_slopes(at, block.scores(x0), before)[0])
                conjugate = per_row(np.asarray(few.family.conjugate(a, target)))
                accuracy, inside = few.family.conjugate_accuracy(a, target), few.family.inside(a.astype(LONG), target)
                slope += _long_block(few.rows).add_up(exact[:, None] * as_columns(inside))
                sizes += all_sizes.add_up(bound[:, None] * np.abs(as_columns(a)))
                off += all_sizes.add_up(bound[:, None] * as_columns(accuracy.slope))
                offset -= LONG(exact @ conjugate)
                terms += float(bound @ np.abs(conjugate))
                wrong += float(bound @ per_row(accuracy.value))
            if own.level is not None:
                offset += LONG(weight) * LONG(own.level.astype(LONG) @ y)
        unit = self._unit / UNIT * LONG_UNIT
        errors = _Errors((LONG_UNIT * off + unit * sizes).ravel(), UNIT * wrong + unit * terms)
        return _LongCut(slope.ravel(), offset, errors)

    def _evaluate(self, x: Reals, y: Reals) -> Iterator["_Rows"]:
        """The rows of all clients, block by block, with the sizes and the errors of what they add."""
        for weight, own in self.parts:
            for few in map(own.of, slices(len(own.target))):
                mixed = None if few.mixed is None else weight * abs(few.mixed)
                yield _Rows.of(few, x, weight * _sizes_of_coefficients(few, np.abs(y)), mixed)

    def _evaluate_step(self, x: Reals, y: Reals, x0: Reals, y0: Reals) -> Iterator[tuple["_Rows", Reals, Reals]]:
        """The same with the slopes of a dual cut, and the sizes that they may have elsewhere."""
        for weight, own in self.parts:
            for few in map(own.of, slices(len(own.target))):
                counts, before = weight * few.coefficients(y), weight * few.coefficients(y0)
                rows = _Rows.of(few, x, weight * _sizes_of_coefficients(few, np.abs(y)), None)
                at = RowLosses(rows.block, few.family, rows.target, rows.scores, counts)
                a, terms = newton_slopes(at, rows.block.scores(x0), before)
                yield rows, a, np.abs(a) + SAME * terms

    # A mean of several points is rounded, so that f is wanted beside it.

    def _of_mean_x(self, side: Side, points: Reals) -> _Errors:
        return _Errors(np.zeros(1), self._change_in_x(np.asarray(side.point), points))

    def _of_mean_y(self, side: Side, points: Reals) -> _Errors:
        """Where nothing is negative, a mean of y is off by a share u of itself, and so is f but for <level, y>.

        Then f(v, y) >= (1 - u) f(v, exact mean) - 2 u <|level|, y>, and the bound of the exact mean is one of f there.
        """
        moved = self._change_in_y(np.asarray(side.point), points)
        if moved <= self._unit * abs(float(side.offset)) or not self._is_never_negative(points):
            return _Errors(np.zeros(1), moved)
        tilted = 2 * float(self._level @ np.max(points[:, points.shape[1] - self._level.size :], axis=0))
        if (known := self._floor_y).size:
            tilted += 2 * float(self._level @ known)
        return _Errors(self._unit * np.abs(side.slope), self._unit * (abs(float(side.offset)) + tilted))

    def _is_never_negative(self, points: Reals) -> bool:
        """Whether y, its coefficients and all losses are at least 0: -conjugate(0) is the least loss of a row."""
        if np.any(points[:, points.shape[1] - self._level.size :] < 0) or np.any(self._floor_y < 0):
            return False
        for _, own in self.parts:
            mixed = own.mixed.data if issparse(own.mixed) else own.mixed
            if np.any(own.fixed < 0) or (mixed is not None and np.any(mixed < 0)):
                return False
            for target in map(own.target.__getitem__, slices(len(own.target))):
                zeros = np.zeros((len(target), self._shape[1]))[:, 0 if self._shape[1] == 1 else slice(None)]
                if not np.all(per_row(own.family.conjugate(zeros, target)) <= 0):
                    return False
        return True

    @property
    def _floor_y(self) -> Reals:
        """The y of the floor, if one is known."""
        known = getattr(self.problem.floor, "y", None)
        return np.concatenate([np.zeros(0), *map(np.ravel, jax.tree.leaves(known))])

    def _change_in_x(self, point: Reals, points: Reals, most: Reals | None = None) -> float:
        """<sup_v |grad_x f(x, v)|, how far x may be from the mean>: by convexity f exceeds the mean's by no more.

        most: how large entries of v are, those of the domain if None.
        """
        x, split = point.reshape(self._shape), len(point)
        if most is None:
            most = self._farthest(self.problem.like.y, self.problem.geometry.parts.y, points[:, split:])
        off = self._unit * np.max(np.abs(points[:, :split]), axis=0, initial=0.0)
        return sum(
            float(np.vdot(rows.spread(np.abs(rows.slope) + rows.slope_error), off.reshape(x.shape)))
            for rows in self._evaluate(x, most)
        )

    def _change_in_y(self, point: Reals, points: Reals) -> float:
        """<sup_v |grad_y f(v, y)|, how far y may be from the mean>; nothing where there is no y."""
        if not point.size:
            return 0.0
        split, floor = points.shape[1] - point.size, self._floor_y
        farthest = self._farthest(self.problem.like.x, self.problem.geometry.parts.x, points[:, :split])
        entries = np.max(np.abs(points[:, split:]), axis=0, initial=0.0)
        off = self._unit * (np.maximum(entries, np.abs(floor)) if floor.size else entries)
        total = float(self._level @ off)
        for weight, own in self.parts:
            for few in map(own.of, slices(len(own.target))) if own.mixed is not None else ():
                reach, target = _sizes_of(few.rows).scores(farthest.reshape(self._shape)), few.target
                steepest = as_columns(np.asarray(few.family.steepest(-reach, reach, target)))
                start = per_row(few.family.loss(np.zeros_like(reach), target))
                largest = start + per_row(steepest * per_row(as_columns(reach))[:, None])
                total += weight * float((abs(few.mixed) @ off) @ largest)
        return total

    def _farthest(self, like: Tree, parts: Tree, points: Reals) -> Reals:
        """How large the entries of one variable can be in its domain: those of a point of it, and the diameter."""
        leaves, several = jax.tree.leaves(like), jax.tree.leaves(parts, is_leaf=is_geometry)
        wide = [np.full(np.size(leaf), float(part.diameter(leaf))) for leaf, part in zip(leaves, several, strict=True)]
        return np.concatenate([np.zeros(0), *wide]) + np.max(np.abs(points), axis=0, initial=0.0)

    @property
    def _shape(self) -> tuple[int, int]:
        """x as a matrix, with a column for each score."""
        return -1, int(np.prod(np.shape(self.problem.like.x["weights"])[1:], dtype=int))

    def _vectors(self, point: Reals) -> tuple[Reals, Reals]:
        split = sum(np.size(leaf) for leaf in jax.tree.leaves(self.problem.like.x))
        return point[:split].reshape(self._shape), point[split:]

    @property
    def _level(self) -> Reals:
        """The sizes of what y is multiplied by beside the rows."""
        entries = sum(np.size(leaf) for leaf in jax.tree.leaves(self.problem.like.y))
        return sum(
            (weight * np.abs(own.level) for weight, own in self.parts if own.level is not None), np.zeros(entries)
        )


class _Rows(NamedTuple):
    """Some rows at one point: scores with the sizes of their terms, losses and slopes with their errors."""

    block: Block
    sizes: Block
    family: Family
    target: Reals
    scores: Reals
    reach: Reals
    counts: Reals
    """The sizes of the coefficients."""
    mixed: Any
    """The sizes of what y is multiplied by."""
    loss: Reals
    slope: Reals
    loss_error: Reals
    slope_error: Reals

    @classmethod
    def of(cls, own: ScoreSum, x: Reals, counts: Reals, mixed: Any) -> "_Rows":
        family, target = own.family, own.target
        block, sizes = Block.of(own.rows), _sizes_of(own.rows)
        scores, reach = block.scores(x), sizes.scores(np.abs(x))
        off = (_terms(block) + 16) * UNIT * reach
        losses, slopes = per_row(family.loss(scores, target)), family.slope(scores, target)
        if (accuracy := family.accuracy(scores, target)) is None:
            raise NotImplementedError(f"{type(family).__name__} defines accuracy, but does not say how accurate it is")
        curved = np.asarray(family.curvature(scores - off, scores + off, target))
        curved = as_columns(np.broadcast_to(curved, target.shape[:1] if curved.ndim < 2 else curved.shape))
        apart = np.linalg.norm(as_columns(off), axis=1, keepdims=True)
        by_score = per_row(as_columns(np.abs(slopes) * off)) + per_row(curved * apart**2) / 2
        loss_error = UNIT * per_row(accuracy.value) + by_score
        slope_error = UNIT * as_columns(accuracy.slope) + curved * apart
        slopes, reach = as_columns(slopes), as_columns(reach)
        return cls(block, sizes, family, target, scores, reach, counts, mixed, losses, slopes, loss_error, slope_error)

    def spread(self, sizes: Reals) -> Reals:
        """sum_i counts_i sizes_i |row_i|."""
        return self.sizes.add_up(self.counts[:, None] * sizes)


def _sizes_of(rows: ScoreRows) -> Block:
    """|row| + |center| and |beside|: at least the sizes of all that scores and sums over rows are made of."""
    own, center = abs(rows.rows), None if rows.center is None else np.abs(np.asarray(rows.center, float))
    beside = np.abs(rows.beside)
    if center is None or issparse(own):
        return Block(own, beside, None if center is None else -center)
    return Block(own + center, beside, None)


def _terms(block: Block) -> int:
    """How many terms a score has at most."""
    features = int(block.rows.shape[1])
    if issparse(block.rows) and block.center is None:
        features = int(np.max(np.diff(block.rows.indptr), initial=0))
    return 2 * features + block.beside.shape[1]


def _sizes_of_coefficients(own: ScoreSum, y: Reals) -> Reals:
    fixed = np.abs(own.fixed)
    return fixed if own.mixed is None else fixed + np.asarray(abs(own.mixed) @ y)


def _long_coefficients(own: ScoreSum, weight: float, y: Reals) -> Reals:
    """weight c_i(y) in LONG."""
    fixed = own.fixed.astype(LONG)
    return LONG(weight) * (fixed if own.mixed is None else fixed + np.asarray(own.mixed.astype(LONG) @ y.astype(LONG)))


def _long_block(rows: ScoreRows) -> Block:
    """Rows in LONG, not shifted."""
    center = None if rows.center is None else np.asarray(rows.center).astype(LONG)
    return Block(rows.rows.astype(LONG), rows.beside.astype(LONG), center)


def tells_errors(problem: AbstractProblem) -> bool:
    """Whether clients of this problem can bound the rounding of their surveys; known without data as well."""
    family = getattr(getattr(problem, "f", None), "family", None)
    if family is None or "accuracy" not in vars(type(family)) or not problem.geometry.rounding_is_bound:
        return False
    return bool(np.all(np.isfinite(farthest(problem, problem.like)[1])))


def score_errors(problem: AbstractProblem) -> ScoreErrors | None:
    """The errors of a problem's bounds, if its data is here, f a sum of losses of scores, and all of it analyzed."""
    sums = score_sums(problem) if problem.geometry.rounding_is_bound else None
    if sums is None or not all(_is_analyzed(own) for _, own in sums):
        return None
    return ScoreErrors(problem, sums)


def _is_analyzed(own: ScoreSum) -> bool:
    """Whether the family's own class says so: one that inherits formulas may have changed some of them."""
    return "accuracy" in vars(type(own.family))
