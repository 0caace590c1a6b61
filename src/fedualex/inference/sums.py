"""What a party sends of its rows for the table of effects: sums over them, at one point of the parameters.

The parameters are a vector: for each column (the common intercept first) one number, or for a family of several scores
one for each class but the first, whose score is 0. With an intercept of each party's own, the party finds it for the
given parameters and never sends it: the sums are those of the *profile* f(b) = min_a F(a, b), whose gradient and second
derivative are partial gradient and Schur complement (docs/inference.md).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Reals
from ..problems.families import Family
from ..problems.stored import chosen_rows, slices

STRETCH = 2**14
"""How many rows, of all columns, are computed at a time."""
UNIT = float(np.finfo(np.float64).eps) / 2
FAR = 500.0
"""A score at which a slope is that of infinity, and exp() still finite."""
LEAST_EXPONENT = -20
EXPONENTS = 64
"""Powers of two that a bound may be: 2^-20 to 2^43."""
HUGE = 1e25
"""What is sent in place of anything larger, or infinite: sums in fixed point hold it, and no search goes on there."""
STEPS = 200
"""Newton steps for a party's own intercept, of which some ten are taken."""

Sums = dict[str, Reals]


class Design(NamedTuple):
    """The rows of one party, for the table of effects.

    rows: (n, p), one column for each effect and none for the intercept: standardized numbers, categories without their
    reference level. target: as the family's loss takes it. weight: of each row, >= 0; rows of weight 0 do not count.
    """

    rows: Reals
    target: Reals
    weight: Reals


def summarize_effects(
    family: Family,
    design: Design,
    beta: Reals,
    own_intercept: bool = False,
    *,
    meat: bool = False,
    common_intercept: bool = True,
) -> Sums:
    """The sums of a party at beta: of value, slope and second derivative, and what statuses are decided by.

    own_intercept: the party has an intercept of its own, which is profiled out; else the first parameters are those of
    the common intercept. common_intercept=False: there is none of either kind. meat: send the sums of the sandwich too.

    rows, parties, intercepts: how many rows and parties there are, and own intercepts that were found. uninformative:
    rows that say nothing, and are not counted, because their party's best intercept is infinite. events: rows by class;
    rows, or those whose target is not 0, for numbers. value, slope, second (a triangle), mass (the sum of second
    derivatives of losses). rounding: how far each entry of slope may be off. against, along: by how much the losses
    grow, and fall, far away in the direction beta (`along_direction`), as powers of two: where they grow in one row
    alone, more would be its score. constant: one-hot, the power of two above the constant of self-concordance.
    row_meat, party_meat: sums of outer products of the scores of rows, and of the party's whole score. pearson:
    Pearson's statistic, for families of counts.
    """
    used = np.asarray(design.weight) > 0
    rows = design.rows if used.all() else chosen_rows(design.rows, used)
    target, weight = (np.asarray(part)[used] for part in design[1:])
    matrix = _Matrix(rows, ones=common_intercept and not own_intercept)
    block = np.asarray(beta, float).reshape(matrix.columns, -1)
    losses = _losses_of(family, target, weight, block.shape[1])
    sums = _count_rows(family, target, block.shape[1])
    if own_intercept and not losses.has_finite_intercept():
        none = {name: np.zeros_like(count) for name, count in sums.items()} | _nothing(len(rows), beta.size, meat)
        none |= {"pearson": np.zeros(())} if meat and family.counts else {}
        return {name: none[name] for name in sorted(none)}
    losses = losses.only_present() if own_intercept else losses
    sums |= {"uninformative": np.zeros(()), "intercepts": np.asarray(float(own_intercept * losses.intercepts))}
    against, along = losses.along_direction(matrix @ block, own_intercept)
    sums |= {"against": _power_above(against), "along": _power_above(along) / 2}
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        sums |= _derivatives(losses, matrix, block, own_intercept, meat)
    # Under masks sums are added up by their places, so that these are the same whatever a party's rows are.
    return {name: np.clip(np.nan_to_num(sums[name], nan=HUGE), -HUGE, HUGE) for name in sorted(sums)}


def _power_above(size: float) -> Reals:
    """The least power of two that is not below the size; 0 stays 0."""
    return np.asarray(2.0 ** np.ceil(np.log2(size)) if 0 < size < HUGE else size)


class _Matrix:
    """The columns of all parameters, some rows at a time: one of ones before those of the rows, where there is one."""

    def __init__(self, rows: Any, ones: bool):
        self.rows, self.ones, self.columns = rows, int(ones), rows.shape[1] + int(ones)

    def parts(self) -> Iterator[tuple[slice, Reals]]:
        for part in slices(len(self.rows), STRETCH) if len(self.rows) else [slice(0, 0)]:
            own = np.asarray(self.rows[part], float)
            yield part, np.concatenate([np.ones((len(own), self.ones)), own], axis=1) if self.ones else own

    def __matmul__(self, block: Reals) -> Reals:
        return np.concatenate([own @ block for _, own in self.parts()])


def triangle(matrix: Reals) -> Reals:
    """The upper triangle of a symmetric matrix, as one vector."""
    return np.asarray(matrix[np.triu_indices(len(matrix))])


def from_triangle(entries: Reals) -> Reals:
    """The symmetric matrix of these entries."""
    size = int(np.sqrt(2 * len(entries)))
    whole = np.zeros((size, size))
    whole[np.triu_indices(size)] = entries
    return whole + np.triu(whole, 1).T


def largest_constant(counts: Reals) -> float:
    """The largest power of two that some party named."""
    named = np.flatnonzero(np.asarray(counts) > 0.5)
    return float(2.0 ** (named[-1] + LEAST_EXPONENT)) if named.size else 0.0


def add_up(parts: "list[Sums]") -> Sums:
    """The sums of several parties together."""
    return {name: np.asarray(sum(part[name] for part in parts)) for name in parts[0]}


# Losses of free scores: one for each row, or those of all classes but the first.


class _Losses:
    """The losses of some rows, as functions of their free scores, (n, free)."""

    def __init__(self, family: Family, target: Reals, weight: Reals, free: int):
        self.family, self.target, self.weight, self.free = family, target, weight, free

    def loss(self, score: Reals) -> Reals:
        return np.asarray(self.family.loss(score[:, 0], self.target))

    def slope(self, score: Reals) -> Reals:
        return np.asarray(self.family.slope(score[:, 0], self.target))[:, None]

    def second(self, score: Reals) -> Reals:
        return np.asarray(self.family.second(score[:, 0], self.target))[:, None, None]

    @property
    def intercepts(self) -> int:
        """How many own intercepts are finite."""
        return 1

    def has_finite_intercept(self) -> bool:
        """Whether losses grow on both sides of all constants."""
        down, up = self._grows()
        return bool(np.any(down) and np.any(up))

    def only_present(self) -> "_Losses":
        """Those of a party whose intercepts are its own: the best ones of classes that it does not have are -inf."""
        return self

    def concordance(self, own_intercept: bool) -> float:
        """R / (the largest norm of a row, centered where the intercept is own): docs/inference.md, Lemma 1."""
        return 2.0 if own_intercept else 1.0

    def along_direction(self, score: Reals, own_intercept: bool) -> tuple[float, float]:
        """How fast the losses grow in the end if scores go in this direction, and how far rows go whose losses do not.

        The first is 0 and the second is not if and only if the losses have no least point on the line, and none at all:
        the direction separates. Of own intercepts the best one is taken.
        """
        moved, (down, up) = score[:, 0], self._grows()
        if own_intercept:
            lower, upper = np.max(-moved[down]), np.min(-moved[up])
            moved = moved + (lower + upper) / 2
        grows = np.where(moved < 0, down, up)
        far = self.weight * np.abs(moved)
        return float(far[grows].sum()), float(far[~grows].sum())

    def _grows(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """For which rows the loss grows without bound as the score goes to -inf, and to +inf."""
        far = np.full((len(self.target), 1), FAR)
        return self.slope(-far)[:, 0] < -1e-30, self.slope(far)[:, 0] > 1e-30


class _ClassLosses(_Losses):
    """Of classes with one score each, of which the first is 0.

    present: the classes whose scores are not -inf.
    """

    def __init__(self, family: Family, target: Reals, weight: Reals, free: int):
        super().__init__(family, target.astype(int), weight, free)
        self.present = np.arange(free + 1)

    def only_present(self) -> "_ClassLosses":
        losses = _ClassLosses(self.family, self.target, self.weight, self.free)
        losses.present = np.unique(self.target)
        return losses

    def loss(self, score: Reals) -> Reals:
        return np.asarray(self.family.loss(*self._own(score)))

    def slope(self, score: Reals) -> Reals:
        whole = np.zeros((len(score), self.free + 1))
        whole[:, self.present] = self.family.slope(*self._own(score))
        return whole[:, 1:]

    def second(self, score: Reals) -> Reals:
        whole = np.zeros((len(score), self.free + 1, self.free + 1))
        whole[:, self.present[:, None], self.present] = self.family.second(*self._own(score))
        return whole[:, 1:, 1:]

    @property
    def intercepts(self) -> int:
        return len(self.present) - 1

    def has_finite_intercept(self) -> bool:
        return len(np.unique(self.target)) > 1

    def concordance(self, own_intercept: bool) -> float:
        return float(np.sqrt(2)) * (self.free + 1 if own_intercept else 1)

    def along_direction(self, score: Reals, own_intercept: bool) -> tuple[float, float]:
        moved = _with_reference(score)[:, self.present]
        number = np.searchsorted(self.present, self.target)
        if own_intercept:
            moved = moved + _class_shifts(moved, number)
        own = moved[np.arange(len(moved)), number]
        grows = self.weight * (moved.max(axis=1) - own)
        return float(grows.sum()), float(self.weight @ (own - moved.min(axis=1)))

    def _own(self, score: Reals) -> tuple[Reals, Reals]:
        return _with_reference(score)[:, self.present], np.searchsorted(self.present, self.target)


def _losses_of(family: Family, target: Reals, weight: Reals, free: int) -> _Losses:
    return (_Losses if family.one_score else _ClassLosses)(family, target, weight, free)


def _with_reference(score: Reals) -> Reals:
    return np.concatenate([np.zeros((len(score), 1)), score], axis=1)


def _class_shifts(moved: Reals, number: Reals) -> Reals:
    """Shifts a of the classes with moved_k + a_k <= moved_c + a_c for every row of class c, if there are any.

    These are difference constraints a_k - a_c <= least_ck, solved by the shortest paths of Bellman and Ford.
    """
    classes = moved.shape[1]
    least = np.array(
        [
            [np.min((moved[:, c] - moved[:, k])[number == c], initial=np.inf) for k in range(classes)]
            for c in range(classes)
        ]
    )
    shift = np.zeros(classes)
    for _ in range(classes):
        shift = np.minimum(shift, (shift[:, None] + least).min(axis=0))
    return shift


# Sums.


def _count_rows(family: Family, target: Reals, free: int) -> Sums:
    rows = np.asarray(float(len(target)))
    if not family.one_score:
        events = np.bincount(target.astype(int), minlength=free + 1).astype(float)
    elif family.reading.labelled:
        events = np.array([np.sum(target < 0), np.sum(target > 0)], float)
    elif family.reading.standardized:
        events = rows[None]
    else:
        events = np.array([np.sum(target != 0)], float)
    return {"rows": rows, "parties": np.asarray(float(len(target) > 0)), "events": events}


def _nothing(rows: int, size: int, meat: bool) -> Sums:
    """The sums of rows that carry no information about the parameters."""
    entries = size * (size + 1) // 2
    sizes = {"slope": size, "rounding": size, "second": entries, "constant": EXPONENTS}
    sizes |= {"row_meat": entries, "party_meat": entries} if meat else {}
    scalars = dict.fromkeys(("intercepts", "value", "mass", "against", "along"), ())
    zeros = {name: np.zeros(shape) for name, shape in (scalars | sizes).items()}
    return zeros | {"uninformative": np.asarray(float(rows))}


def _derivatives(losses: _Losses, matrix: _Matrix, block: Reals, own_intercept: bool, meat: bool) -> Sums:
    score, center = matrix @ block, np.zeros(matrix.columns)
    shift = _find_intercept(losses, score) if own_intercept else np.zeros(losses.free)
    score = score + shift
    weight, slope, second = losses.weight, losses.slope(score), losses.second(score)
    mass = np.einsum("i,ikk->i", weight, second)
    if own_intercept and mass.sum() > 0:
        center = sum(mass[part] @ own for part, own in matrix.parts()) / mass.sum()
    farthest, rounding, whole = 0.0, np.zeros(block.size), np.zeros((block.size, block.size))
    total, cross = np.zeros(block.size), np.zeros((block.size, losses.free))
    terms = len(score) + matrix.columns + 16
    for part, rows in matrix.parts():
        size = np.abs(rows) + np.abs(center)
        reach, own = size @ np.abs(block) + np.abs(shift), rows - center
        rounding += _rounding(size, reach, slope[part], second[part], weight[part], terms)
        farthest = max(farthest, float(np.max(np.linalg.norm(own, axis=1), initial=0.0)))
        whole += _second_derivative(own, weight[part, None, None] * second[part])
        total += weight[part] @ _scores_of(own, slope[part])
        if own_intercept:
            cross += np.einsum("i,ij,iab->jab", weight[part], own, second[part]).reshape(block.size, -1)
    inner = np.zeros((losses.free, losses.free))  # without an intercept of its own nothing is taken off
    if own_intercept:
        inner = np.linalg.pinv(np.einsum("i,iab->ab", weight, second), rcond=1e-13, hermitian=True)
    total = total - (weight @ slope) @ (cross @ inner).T
    sums = {
        "value": np.asarray(weight @ losses.loss(score)),
        "slope": total,
        "second": triangle(whole - cross @ inner @ cross.T),
        "mass": np.asarray(mass.sum()),
        "rounding": rounding,
        "constant": one_hot(losses.concordance(own_intercept) * losses.family.concordance * farthest),
    }
    if meat:
        every = _squares_of_scores(matrix, center, slope, weight, (cross @ inner).T)
        sums |= {"row_meat": triangle(every), "party_meat": triangle(np.outer(total, total))}
        if losses.family.counts:
            sums |= {"pearson": np.asarray(weight @ (slope[:, 0] ** 2 / second[:, 0, 0]))}
    return sums


def _squares_of_scores(matrix: _Matrix, center: Reals, slope: Reals, weight: Reals, taken_off: Reals) -> Reals:
    """sum_i w_i^2 s_i s_i', s_i the slope of a row in all parameters, less what an own intercept takes."""
    total: Reals = np.zeros((taken_off.shape[1], taken_off.shape[1]))
    for part, rows in matrix.parts():
        scores = weight[part, None] * (_scores_of(rows - center, slope[part]) - slope[part] @ taken_off)
        total = total + scores.T @ scores
    return total


def _scores_of(matrix: Reals, slope: Reals) -> Reals:
    """The slope of each row in all parameters."""
    return (matrix[:, :, None] * slope[:, None, :]).reshape(len(matrix), matrix.shape[1] * slope.shape[1])


def _second_derivative(matrix: Reals, second: Reals) -> Reals:
    """sum_i x_i x_i' (x) S_i, the parameters of one column side by side."""
    columns, free = matrix.shape[1], second.shape[1]
    whole = np.empty((columns, free, columns, free))
    for a in range(free):
        for b in range(a, free):
            whole[:, a, :, b] = whole[:, b, :, a] = matrix.T @ (second[:, a, b, None] * matrix)
    return whole.reshape(columns * free, columns * free)


def _rounding(
    matrix: Reals,
    reach: Reals,
    slope: Reals,
    second: Reals,
    weight: Reals,
    terms: int,
) -> Reals:
    """How far the slope may be off: each score by its sum, each slope by the score and by its own formula, the sum.

    To first order in the unit of rounding; `reach` is the sum of absolute terms of a score.
    """
    each = np.abs(slope) + np.einsum("iab,ib->ia", np.abs(second), 1 + reach)
    return np.asarray(UNIT * terms * (np.abs(matrix).T @ (weight[:, None] * each))).ravel()


def one_hot(bound: float) -> Reals:
    """The power of two that is not below a bound, as a vector that adds over parties."""
    counts = np.zeros(EXPONENTS)
    if bound > 0:
        counts[np.clip(int(np.ceil(np.log2(bound))) - LEAST_EXPONENT, 0, EXPONENTS - 1)] = 1.0
    return counts


def _find_intercept(losses: _Losses, score: Reals) -> Reals:
    """The best constants to add to the scores of all rows, to rounding: Newton's method with steps that are halved."""
    weight, shift = losses.weight, np.zeros(losses.free)
    value, slope = weight @ losses.loss(score), np.inf
    for _ in range(STEPS):
        before, slopes = slope, weight @ losses.slope(score + shift)
        slope = float(np.max(np.abs(slopes)))
        second = np.einsum("i,iab->ab", weight, losses.second(score + shift))
        step = -np.linalg.pinv(second, rcond=1e-13, hermitian=True) @ slopes
        size = np.max(np.abs(step))
        if size <= 4 * UNIT * (1 + np.max(np.abs(shift))) or (size < 1e-9 and slope >= before / 2):
            break
        for _ in range(60):
            with np.errstate(over="ignore"):
                trial = weight @ losses.loss(score + shift + step)
            if trial <= value + 1e-12 * abs(value):
                break
            step = step / 2
        value, shift = trial, shift + step
    return shift
