"""Whether what a site says of its f can be true: a wrong but finite answer is not averaged in silence.

For f convex in x and concave in y, with operator g = (grad_x f, -grad_y f), any two points z_i, z_j obey

    f(z_i) - f(z_j)  <=  <g_x(z_i), x_i - x_j> + <g_y(z_j), y_j - y_i>,

because f(x_j, y_i) is at least the tangent of f(., y_i) at x_i and at most that of f(x_j, .) at y_j. In plain
minimization answers that obey this are those of some convex function: then a site that lies can do no more than a site
with other data could. A floor f(x, y_0) >= v of every example gives f(z) + <g_y(z), y - y_0> >= v in the same way.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ..certificates.surveys import Surveyed
from ..problems import AbstractProblem
from ..tree import Tree

SLACK = 1e-6
"""What rounding may have added, of the size of the terms."""
TINY = 1e-200
"""Numbers below this may have been taken for 0."""
MOST_KEPT, MOST_BYTES = 8, 2**28
"""Answers of each site that later ones are compared with: so many, or fewer if those of all sites take more memory."""

Vector = NDArray[Any]


class Answer(NamedTuple):
    """What a site said of one point, as vectors."""

    x: Vector
    y: Vector
    gx: Vector
    gy: Vector
    value: float


class Plausible:
    """Remembers what sites said and compares. problem: the server's view. bound: of an operator's Euclidean length."""

    def __init__(self, problem: AbstractProblem, bound: float | None):
        self.bound, self.compares = bound, not problem.why_uncertifiable()
        floor = problem.floor
        self.floor = None if floor is None or not floor.each else (_vector(floor.y), float(floor.value))
        self._kept: dict[str, deque[Answer]] = {}

    def doubts(self, points: Tree, found: Mapping[str, Surveyed]) -> dict[str, str]:
        """The sites whose answers cannot be true, each with the reason; nothing of the others is forgotten."""
        reasons = {}
        for site, said in found.items():
            new = _answers(points, said)
            if reason := self._reason(new, self._kept.get(site, ())):
                reasons[site] = reason
            else:
                size = sum(part.nbytes for part in new[0][:4]) * len(found)
                kept = self._kept.setdefault(site, deque(maxlen=min(MOST_KEPT, MOST_BYTES // max(size, 1))))
                kept.extend(new)
        return reasons

    def _reason(self, new: list[Answer], old: Any) -> str:
        for own in new:
            length = float(np.sqrt(own.gx @ own.gx + own.gy @ own.gy))
            if self.bound is not None and length > self.bound * (1 + SLACK):
                return f"its operator is {length:.3g} long, and at most {self.bound:g} is believed"
            if not self.compares:
                continue
            if self.floor is not None and _below_floor(own, *self.floor):
                return "its loss is below the least that this loss can be"
            if any(_contradict(own, other) or _contradict(other, own) for other in (*old, *new)):
                return "two of its answers cannot both be of a loss that is convex in x and concave in y"
        return ""


def _contradict(one: Answer, other: Answer) -> bool:
    """Whether the inequality above fails at (z_i, z_j) by more than rounding."""
    over = one.value - other.value - one.gx @ (one.x - other.x) - other.gy @ (other.y - one.y)
    terms = np.abs(one.gx) @ (np.abs(one.x) + np.abs(other.x)) + np.abs(other.gy) @ (np.abs(one.y) + np.abs(other.y))
    return bool(over > SLACK * (abs(one.value) + abs(other.value) + terms) + TINY)


def _below_floor(own: Answer, y: Vector, value: float) -> bool:
    low = own.value + own.gy @ (own.y - y)
    terms = abs(own.value) + abs(value) + np.abs(own.gy) @ (np.abs(own.y) + np.abs(y))
    return bool(low < value - SLACK * terms - TINY)


def _answers(points: Tree, said: Surveyed) -> list[Answer]:
    values, g = np.asarray(said.value, float), said.operator
    each = [jax.tree.map(lambda leaf, i=i: leaf[i], (points.x, points.y, g.x, g.y)) for i in range(values.size)]
    return [
        Answer(_vector(x), _vector(y), _vector(gx), _vector(gy), float(value))
        for (x, y, gx, gy), value in zip(each, values, strict=True)
    ]


def _vector(part: Tree) -> Vector:
    leaves = [np.asarray(leaf, float).reshape(-1) for leaf in jax.tree.leaves(part)]
    return np.concatenate(leaves) if leaves else np.zeros(0)
