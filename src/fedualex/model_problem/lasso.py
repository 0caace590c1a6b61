"""Squares with l1: the whole path of one loss from its second derivative, each point with a bound on its gap.

    f(w, u) + l1 |w|_1,   f(z) = value + <slope, z> + z' H z / 2 >= floor for every z,   u free

The free entries are taken at their best for each w, which leaves a function of w alone. One value after the other is
solved from the one before by active sets: the entries that are not 0 solve a linear system.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..regularizers.fenchel import UNIT

Floats = NDArray[np.float64]
STEPS = 1000
"""Linear systems for one value at most."""
SINGULAR = 1e-12
"""Of the free entries' second derivative: the share of its diagonal below which it is not inverted."""


class Squares(NamedTuple):
    """The loss.

    floor: a lower bound of it. weights: which entries of z are w. terms: of how many terms its sums are, at most; by so
    many units of rounding they may be off. error: by how much more, because of the way in which they were added up.
    """

    value: float
    slope: Floats
    second: Floats
    floor: float
    weights: slice
    terms: int
    error: float = 0.0


class Reduced(NamedTuple):
    """The loss as a function of w alone.

    slope_size, second_size: the sizes of what was added up. free, linear: the best u is free + linear w.
    """

    value: float
    slope: Floats
    second: Floats
    slope_size: Floats
    second_size: Floats
    free: Floats
    linear: Floats


class Path(NamedTuple):
    """For each value the point z, the value of f there plus the penalty, and the gap that is proved of it."""

    points: Floats
    values: Floats
    gaps: Floats


def solve_lasso_path(squares: Squares, strengths: Floats) -> Path | None:
    """All strengths of l1, in falling order. None where the free entries have no best value.

    A gap is infinite where nothing is proved.
    """
    if (reduced := _profile(squares)) is None:
        return None
    w, points, values, gaps = np.zeros(len(reduced.slope)), [], [], []
    for l1 in strengths:
        w = _solve(reduced, float(l1), w)
        value, gap = _certify(reduced, float(l1), w, squares)
        z = np.empty(len(squares.slope))
        z[squares.weights] = w
        z[_free(squares)] = reduced.free + reduced.linear @ w
        points.append(z)
        values.append(value)
        gaps.append(gap)
    return Path(np.stack(points), np.array(values), np.array(gaps))


def _free(squares: Squares) -> NDArray[np.bool_]:
    kept = np.ones(len(squares.slope), bool)
    kept[squares.weights] = False
    return kept


def _profile(squares: Squares) -> Reduced | None:
    """f with the free entries at their best: H_ww - H_wu H_uu^-1 H_uw, and so the slope and the value."""
    free, own = _free(squares), squares.weights
    slope, second = squares.slope[own], squares.second[own, own]
    plain = Reduced(squares.value, slope, second, np.abs(slope), np.abs(second), np.zeros(0), np.zeros((0, len(slope))))
    if not free.any():
        return plain
    inner, cross = squares.second[np.ix_(free, free)], squares.second[free][:, own]
    if np.linalg.eigvalsh(inner)[0] <= SINGULAR * np.max(np.diag(inner)):
        return None
    linear = np.asarray(-np.linalg.solve(inner, cross), np.float64)
    best = np.asarray(-np.linalg.solve(inner, squares.slope[free]), np.float64)
    reach = np.abs(cross.T) @ np.abs(linear), np.abs(cross.T) @ np.abs(best)
    return Reduced(
        squares.value + float(squares.slope[free] @ best) / 2,
        slope + cross.T @ best,
        second + cross.T @ linear,
        np.abs(slope) + reach[1],
        np.abs(second) + reach[0],
        best,
        linear,
    )


def _solve(loss: Reduced, l1: float, w: Floats) -> Floats:
    """From w on: Newton's method for the equation of the prox, and single entries where it does not descend."""
    curvature = np.diagonal(loss.second)
    for _ in range(STEPS):
        moved = curvature * w - (loss.slope + loss.second @ w)
        active = np.flatnonzero(np.abs(moved) > l1)
        trial = _solve_among(loss, l1, active, np.sign(moved[active]))
        if trial is not None and _is_solution(loss, l1, trial, active, np.sign(moved[active])):
            return trial
        before = w
        w = w if trial is None else _move(loss, l1, w, trial)
        if w is before:
            w = _descend(loss, l1, w)
        if w is before:
            return w
    return w


def _solve_among(loss: Reduced, l1: float, active: NDArray[np.intp], sign: Floats) -> Floats | None:
    """The least point of f + l1 <sign, w> over these entries, all others being 0; None if there is none."""
    solution = np.zeros(len(loss.slope))
    if active.size:
        try:
            solution[active] = np.linalg.solve(loss.second[np.ix_(active, active)], -(loss.slope[active] + l1 * sign))
        except np.linalg.LinAlgError:
            return None
    return solution


def _is_solution(loss: Reduced, l1: float, w: Floats, active: NDArray[np.intp], sign: Floats) -> bool:
    """Whether these are the entries that are not 0 there, with these signs."""
    moved = np.diagonal(loss.second) * w - (loss.slope + loss.second @ w)
    return np.array_equal(np.flatnonzero(np.abs(moved) > l1), active) and np.array_equal(np.sign(moved[active]), sign)


def _move(loss: Reduced, l1: float, w: Floats, trial: Floats) -> Floats:
    """The best of trial and of the points on the way to it where an entry becomes 0; w itself if none is better."""
    step = trial - w
    crossed = np.flatnonzero(w * trial < 0)
    lengths = np.append(w[crossed] / (w[crossed] - trial[crossed]), 1.0)
    bent, slope = step @ (loss.second @ step), (loss.slope + loss.second @ w) @ step
    used = np.flatnonzero((w != 0) | (trial != 0))
    norms = np.abs(w[used] + lengths[:, None] * step[used]).sum(axis=1) - np.abs(w[used]).sum()
    gains = lengths * slope + lengths**2 * bent / 2 + l1 * norms
    best = int(np.argmin(gains))
    if not gains[best] < -UNIT * abs(loss.value):
        return w
    if lengths[best] == 1:
        return trial
    moved = w + lengths[best] * step
    moved[crossed[best]] = 0.0
    return moved


def _descend(loss: Reduced, l1: float, w: Floats) -> Floats:
    """To the least point of the signs of w; from that, with the entry that is 0 and has the steepest slope.

    In both directions f falls, unless w is a solution (Lee, Battle, Raina, Ng 2007); then it is returned itself.
    """
    slope, signs = loss.slope + loss.second @ w, np.sign(w)
    steep = np.where(w == 0, np.abs(slope) - l1, -np.inf)
    first = int(np.argmax(steep))
    more = np.where(np.arange(len(w)) == first, -np.sign(slope), signs)
    for sign in (signs, more) if steep[first] > 0 else (signs,):
        active = np.flatnonzero(sign)
        trial = _solve_among(loss, l1, active, sign[active])
        if trial is not None and (moved := _move(loss, l1, w, trial)) is not w:
            return moved
    return w


def _certify(loss: Reduced, l1: float, w: Floats, squares: Squares) -> tuple[float, float]:
    """An upper bound of f plus penalty at w, and of its gap: <g, w> + l1 |w|_1 + R max(0, max |g_j| - l1).

    R bounds the norm of a solution: l1 |w*|_1 <= the value at w less the floor. Each slope may be off by so many units
    of rounding of what it is the sum of, and by the error of the sums; so may the value, from which the gap is taken.
    """
    sizes, norm = np.abs(w), float(np.abs(w).sum())
    unit = UNIT * squares.terms
    slope = loss.slope + loss.second @ w
    seen = 1 + np.abs(loss.linear).sum(axis=0)  # of an entry with those of the free ones that follow it
    reach = 1 + float(np.abs(loss.free).sum() + seen @ sizes)
    off = unit * (loss.slope_size + loss.second_size @ sizes) + squares.error * seen * reach
    value = loss.value + float(loss.slope @ w + w @ (loss.second @ w) / 2) + l1 * norm
    allowance = unit * (abs(loss.value) + float(loss.slope_size @ sizes + sizes @ loss.second_size @ sizes))
    allowance += squares.error * reach**2
    value += allowance
    radius = max(value - squares.floor, 0.0) / l1
    over = max(float(np.max(np.abs(slope) + off, initial=0.0)) - l1, 0.0)
    gap = max(float(slope @ w) + l1 * norm, 0.0) + float(off @ sizes) + radius * over + 2 * allowance
    return value, float(gap) if np.isfinite(gap) else np.inf
