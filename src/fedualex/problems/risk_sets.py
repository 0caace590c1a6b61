"""The partial likelihood of one stratum in numpy: sums over risk sets, from sums that grow from the latest row on.

Rows are in the order of falling times. The risk set of a row is all rows up to the last one of its time (ties as
Breslow's), with shares p = weight exp(score), divided by their sum. An event counts with a coefficient c and has the
loss

    log(sum over its risk set of weight exp(score)) - score - log(weight),

which is >= 0 and a log-sum-exp: convex, with the rows of its risk set less its own as slopes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Reals

SPAN = 300.0
"""By how much the largest score so far may exceed that with which a segment began: exp() of it is finite."""
Array = Reals


class RiskSets(NamedTuple):
    """The rows of one stratum. last: for each row the last one of its risk set. weight: > 0."""

    rows: Array
    event: Array
    """1 for an event, else 0."""
    weight: Array
    last: NDArray[np.intp]

    @classmethod
    def of(cls, rows: Reals, time: Reals, event: Reals, weight: Reals) -> "RiskSets":
        """Rows as they come, put into order; less their mean row, which changes no loss."""
        order = np.argsort(-np.asarray(time), kind="stable")
        falling = -np.asarray(time)[order]
        last = np.searchsorted(falling, falling, side="right") - 1
        rows = np.asarray(rows, float)
        center = rows.mean(axis=0) if len(rows) else 0.0
        return cls(rows[order] - center, np.asarray(event, float)[order], np.asarray(weight, float)[order], last)

    @property
    def null(self) -> Array:
        """The loss of each event at score 0; 0 of other rows."""
        log = np.log(self.weight)
        return np.where(self.event > 0, np.log(np.cumsum(self.weight)[self.last]) - log, 0.0)

    @property
    def reach(self) -> Array:
        """For each risk set the largest norm of a row, which bounds the deviation of shares along any unit vector."""
        return np.asarray(np.maximum.accumulate(np.linalg.norm(self.rows, axis=1))[self.last])


class Shares:
    """The shares of all rows in all risk sets at some scores.

    Rows are cut into segments, with exponents relative to the largest score where a segment begins, so that nothing
    overflows and no risk set is lost below the smallest number of float64.
    """

    def __init__(self, own: RiskSets, scores: Array):
        self.last, self.scores = own.last, scores
        log = scores + np.log(own.weight)
        top = np.maximum.accumulate(log)
        starts = [0]
        while (start := int(np.searchsorted(top, top[starts[-1]] + SPAN, side="right"))) < len(top):
            starts.append(start)
        self.segments = [slice(*ends) for ends in zip(starts, [*starts[1:], len(top)], strict=True)]
        self.base = np.repeat(top[starts], [part.stop - part.start for part in self.segments])
        self.size = np.exp(log - self.base)
        self.total = self._accumulate(self.size[:, None])[:, 0]
        self.log_sums = (self.base + np.log(self.total))[self.last]

    def losses(self, own: RiskSets) -> Array:
        """Of each event; 0 of other rows."""
        return np.where(own.event > 0, self.log_sums - self.scores - np.log(own.weight), 0.0)

    def means(self, columns: Array) -> Array:
        """sum_j p_j column_j over the risk set of each row."""
        grown = self._accumulate(self.size[:, None] * columns)
        return np.asarray((grown / self.total[:, None])[self.last])

    def pull(self, values: Array) -> Array:
        """For each row j the sum over all events e of value_e p_j, where it is in the risk set of e."""
        ended = np.zeros(len(values))
        np.add.at(ended, self.last, values)
        totals, carry, base = np.empty(len(values)), 0.0, np.inf
        for part in reversed(self.segments):
            own = self.base[part.start]
            carry *= np.exp(own - base) if np.isfinite(base) else 0.0
            sums = carry + np.cumsum((ended[part] / self.total[part])[::-1])[::-1]
            totals[part], carry, base = sums, sums[0], own
        return np.asarray(totals * self.size)

    def _accumulate(self, columns: Array) -> Array:
        """Sums of all columns up to each row, relative to the base of its segment."""
        sums, carry, base = np.empty_like(columns), np.zeros(columns.shape[1]), -np.inf
        for part in self.segments:
            own = self.base[part.start]
            carry = carry * (np.exp(base - own) if np.isfinite(base) else 0.0)
            sums[part] = carry + np.cumsum(columns[part], axis=0)
            carry, base = sums[part.stop - 1], own
        return sums


def find_losses_of_rows(time: Reals, event: Reals, scores: Reals) -> tuple[Array, Array]:
    """The loss of each row's event at its score, and at score 0; both 0 of a row without event."""
    own = RiskSets.of(scores[:, None], time, event, np.ones(len(time)))
    order = np.argsort(-np.asarray(time), kind="stable")
    losses = np.zeros((2, len(time)))
    losses[:, order] = Shares(own, scores[order]).losses(own), own.null
    return losses[0], losses[1]


def slope_of(own: RiskSets, shares: Shares, counts: Array) -> Array:
    """sum_e c_e (the mean row of its risk set - its row)."""
    return np.asarray(own.rows.T @ (shares.pull(counts) - counts))


def second_of(rows: Array, shares: Shares, counts: Array) -> Array:
    """sum_e c_e times the covariance of its risk set."""
    events = np.flatnonzero(counts)
    means = shares.means(rows)[events]
    spread = rows.T @ (shares.pull(counts)[:, None] * rows)
    return np.asarray(spread - means.T @ (counts[events, None] * means))


class StepCut(NamedTuple):
    """sum_e c_e loss_e >= <slope, w> + offset for every w."""

    slope: Array
    offset: float


def cut_of_step(own: RiskSets, begun: Array, ended: Array, before: Array, counts: Array) -> StepCut:
    """The cut by Fenchel and Young at shares that follow a Newton step from the scores `begun` to `ended`.

    For any shares a of a risk set: log sum_j v_j exp(s_j) >= sum_j a_j s_j - sum_j a_j log(a_j / v_j). Here
    a_j = p_j (1 + u_j), u_j = t (d_j - its mean), d the change of the score, with t = before / counts, or less where a
    share would be negative. Then sum_j a_j log(a_j / v_j) = sum_j a_j log(p_j / v_j) + KL(a, p), of which the last is
    at most m_2 / 2 - m_3 / 6 + m_4 / 3 with m_k = sum_j p_j u_j^k: (1 + u) log(1 + u) is at most u + u^2/2 - u^3/6 +
    u^4/3 for u >= -1, as its series shows. So all sums are moments of shares, and none has a term for each pair.
    before, counts: the coefficients of events where the step begins, and at its end.
    """
    events = np.flatnonzero(counts)
    if not events.size:
        return StepCut(np.zeros(own.rows.shape[1]), 0.0)
    shares, d = Shares(own, begun), ended - begun
    d, level = d - d.mean(), begun - begun.mean()
    means = shares.means(np.stack([d, d**2, d**3, d**4, level, level * d], axis=1))[events].T
    mean, least = means[0], np.minimum.accumulate(d)[own.last][events]
    ratio = np.divide(before[events], counts[events])
    falls = mean - least
    t = np.where(ratio * falls > 1, 1 / np.where(falls > 0, falls, 1.0), ratio)
    m2 = np.maximum(means[1] - mean**2, 0.0)
    m3 = means[2] - 3 * mean * means[1] + 2 * mean**3
    m4 = np.maximum(means[3] - 4 * mean * means[2] + 6 * mean**2 * means[1] - 3 * mean**4, 0.0)
    distance = np.maximum(t**2 * m2 / 2 - t**3 * m3 / 6 + t**4 * m4 / 3, 0.0)
    mixed = means[4] + t * (means[5] - mean * means[4]) + begun.mean()
    each = mixed - shares.log_sums[events] + distance + np.log(own.weight[events])
    steady, moving = np.zeros(len(d)), np.zeros(len(d))
    steady[events], moving[events] = counts[events] * (1 - t * mean), counts[events] * t
    pulled = shares.pull(steady) + d * shares.pull(moving)
    return StepCut(np.asarray(own.rows.T @ (pulled - counts)), -float(counts[events] @ each))


def cumulative_hazard(time: Reals, event: Reals, weight: Reals, scores: Array) -> tuple[Array, Array]:
    """Breslow's estimate for a row of score 0: the times of events, and the cumulative hazard from each of them on."""
    time, event, weight = (np.asarray(one, float) for one in (time, event, weight))
    own = RiskSets.of(scores[:, None], time, event, weight)
    order = np.argsort(-time, kind="stable")
    jumps = own.event * own.weight * np.exp(-Shares(own, scores[order]).log_sums)
    times, number = np.unique(time[order][own.event > 0], return_inverse=True)
    return times, np.cumsum(np.bincount(number, jumps[own.event > 0], len(times)))


# How well scores order rows in time.


PAIRS = 2**22
"""Pairs that are looked at together."""


def concordance_sums(time: Reals, event: Reals, scores: Reals) -> dict[str, float]:
    """Pairs of rows whose order in time is known, how many scores order rightly, and what an interval needs of them.

    A pair is comparable if the earlier time is that of an event, or if at the same time one has its event and the other
    is censored, and so later. It is concordant if the earlier row has the larger score; equal scores count half.
    With c_i and p_i the concordant and comparable pairs that row i is in: the sums of c_i^2, c_i p_i and p_i^2.
    """
    time, event, scores = (np.asarray(one, float) for one in (time, event, scores))
    happened = np.flatnonzero(event > 0)
    right, known = np.zeros(len(time)), np.zeros(len(time))
    step = max(1, PAIRS // max(1, len(time)))
    for start in range(0, len(happened), step):
        i = happened[start : start + step]
        later = (time[i, None] < time) | ((time[i, None] == time) & (event == 0))
        order = np.sign(scores[i, None] - scores)
        won = later * (order + 1) / 2
        np.add.at(right, i, won.sum(axis=1))
        np.add.at(known, i, later.sum(axis=1).astype(float))
        right += won.sum(axis=0)
        known += later.sum(axis=0)
    return {
        "concordant": right.sum() / 2,
        "comparable": known.sum() / 2,
        "concordant_squares": right @ right,
        "concordant_comparable": right @ known,
        "comparable_squares": known @ known,
    }
