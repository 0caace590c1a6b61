"""Group norms for the interior point method: second-order cones with the scaling of Nesterov and Todd."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .blocks import Floats


@dataclass(frozen=True)
class Arrows:
    """One vector (head, tail) for each group; the tails of all groups lie in one array, with a label for each entry."""

    head: Floats
    tail: Floats
    label: NDArray[np.intp]

    def dot(self, other: "Arrows") -> Floats:
        """The inner products, group by group."""
        return self.head * other.head + np.bincount(self.label, self.tail * other.tail, self.head.size)

    def depth(self) -> Floats:
        """sqrt(head^2 - |tail|^2): 0 at the boundary of the cone."""
        length = np.sqrt(np.bincount(self.label, self.tail**2, self.head.size))
        return np.sqrt(np.maximum((self.head - length) * (self.head + length), np.finfo(float).tiny))

    def scaled(self, head: Floats, tail: Floats) -> "Arrows":
        """Heads and tails times one number a group."""
        return Arrows(head * self.head, tail[self.label] * self.tail, self.label)

    def plus(self, other: "Arrows") -> "Arrows":
        """The sum."""
        return Arrows(self.head + other.head, self.tail + other.tail, self.label)

    def product(self, other: "Arrows") -> "Arrows":
        """Jordan's product (a'b, a_0 b_1 + b_0 a_1)."""
        tail = self.head[self.label] * other.tail + other.head[self.label] * self.tail
        return Arrows(self.dot(other), tail, self.label)

    def quotient(self, other: "Arrows") -> "Arrows":
        """The c with self o c = other."""
        crossed = self.head * other.head - np.bincount(self.label, self.tail * other.tail, self.head.size)
        head = crossed / self.depth() ** 2
        return Arrows(head, (other.tail - head[self.label] * self.tail) / self.head[self.label], self.label)

    def longest(self, move: "Arrows") -> float:
        """The largest step along a direction that stays in the cone."""
        here, across, there = self.depth() ** 2, _turned(self).dot(move), _turned(move).dot(move)
        # here + 2 across s + there s^2 = 0, the smaller positive root; nothing where the direction stays inside.
        root = np.sqrt(np.maximum(across**2 - there * here, 0.0))
        leaves = (there < 0) | ((across < 0) & (across**2 >= there * here))
        steps = here[leaves] / np.maximum(root - across, np.finfo(float).tiny)[leaves]
        heads = -self.head[move.head < 0] / move.head[move.head < 0]
        return float(min(np.min(steps, initial=np.inf), np.min(heads, initial=np.inf)))


def _turned(a: Arrows) -> Arrows:
    return Arrows(a.head, -a.tail, a.label)


class Scaling:
    """W with W v = W^-1 u = middle, for u = (tau, x_g) and v = (strength, -q): W = beta (2 h h' - diag(1, -1))."""

    def __init__(self, u: Arrows, v: Arrows):
        one, other = u.scaled(1 / u.depth(), 1 / u.depth()), v.scaled(1 / v.depth(), 1 / v.depth())
        size = np.sqrt((1 + one.dot(other)) / 2)
        point = one.plus(_turned(other)).scaled(1 / (2 * size), 1 / (2 * size))
        self.beta, self.point = np.sqrt(u.depth() / v.depth()), point
        half = 1 / np.sqrt(2 * (point.head + 1))
        self.half = Arrows((point.head + 1) * half, point.tail * half[point.label], point.label)
        self.middle = self.times(v)
        squares = np.bincount(point.label, point.tail**2, point.head.size)
        self.stiff, self.inward = 1 / self.beta**2, 2 / (1 + 2 * squares)

    def times(self, a: Arrows) -> Arrows:
        """W a."""
        along = 2 * self.half.dot(a)
        return (
            self.half.scaled(along, along)
            .plus(a.scaled(-np.ones_like(along), np.ones_like(along)))
            .scaled(self.beta, self.beta)
        )

    def over(self, a: Arrows) -> Arrows:
        """W^-1 a."""
        mirror = _turned(self.half)
        along = 2 * mirror.dot(a)
        return (
            mirror.scaled(along, along)
            .plus(a.scaled(-np.ones_like(along), np.ones_like(along)))
            .scaled(1 / self.beta, 1 / self.beta)
        )

    def aim(self, target: float, u: Arrows | None, v: Arrows | None) -> Arrows:
        """r of du + W^2 dv = r: towards products of `target`, with the second order of a direction (u, v)."""
        wanted = self.middle.product(self.middle)
        wanted = Arrows(target - wanted.head, -wanted.tail, wanted.label)
        if u is not None and v is not None:
            second = self.over(u).product(self.times(v))
            wanted = Arrows(wanted.head - second.head, wanted.tail - second.tail, wanted.label)
        return self.times(self.middle.quotient(wanted))

    def into_slope(self, moved: Floats) -> Floats:
        """The change of q that belongs to a change of x: the inverse of W^2's tails, beta^2 (1 + 2 p p')."""
        point = self.point
        along = np.bincount(point.label, point.tail * moved, point.head.size) * self.inward
        return self.stiff[point.label] * (moved - point.tail * along[point.label])

    def head_of(self, dq: Floats) -> Floats:
        """What W^2 (0, -dq) has for its head."""
        point = self.point
        return -2 * self.beta**2 * point.head * np.bincount(point.label, point.tail * dq, point.head.size)
