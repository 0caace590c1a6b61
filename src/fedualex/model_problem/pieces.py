"""The pieces of psi as an interior point method sees them: pairs of positive numbers, and second-order cones."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ..regularizers.base import ModelForm
from .blocks import Floats, Separate
from .newton import Model

BOUNDARY = 0.995
"""Which share of the way to the boundary a step may go."""
INSIDE = 0.9
"""Which share of its radius a ball's first point may have."""
TINY = 1e-13


# Groups are cones with the scaling of Nesterov and Todd.


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

    def scale(self, head: Floats, tail: Floats) -> "Arrows":
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
        here, across, there = self.depth() ** 2, _turn(self).dot(move), _turn(move).dot(move)
        # here + 2 across s + there s^2 = 0, the smaller positive root; nothing where the direction stays inside.
        root = np.sqrt(np.maximum(across**2 - there * here, 0.0))
        leaves = (there < 0) | ((across < 0) & (across**2 >= there * here))
        steps = here[leaves] / np.maximum(root - across, np.finfo(float).tiny)[leaves]
        heads = -self.head[move.head < 0] / move.head[move.head < 0]
        return float(min(np.min(steps, initial=np.inf), np.min(heads, initial=np.inf)))


def _turn(a: Arrows) -> Arrows:
    return Arrows(a.head, -a.tail, a.label)


class Scaling:
    """W with W v = W^-1 u = middle, for u = (tau, x_g) and v = (strength, -q): W = beta (2 h h' - diag(1, -1))."""

    def __init__(self, u: Arrows, v: Arrows):
        one, other = u.scale(1 / u.depth(), 1 / u.depth()), v.scale(1 / v.depth(), 1 / v.depth())
        size = np.sqrt((1 + one.dot(other)) / 2)
        point = one.plus(_turn(other)).scale(1 / (2 * size), 1 / (2 * size))
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
            self.half.scale(along, along)
            .plus(a.scale(-np.ones_like(along), np.ones_like(along)))
            .scale(self.beta, self.beta)
        )

    def over(self, a: Arrows) -> Arrows:
        """W^-1 a."""
        mirror = _turn(self.half)
        along = 2 * mirror.dot(a)
        return (
            mirror.scale(along, along)
            .plus(a.scale(-np.ones_like(along), np.ones_like(along)))
            .scale(1 / self.beta, 1 / self.beta)
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


@dataclass
class Point:
    """The variables of the method, and equally a direction; all but x, q_g and free multipliers stay positive."""

    x: Floats
    p: Floats
    m: Floats
    a: Floats
    """l1 + nu - q."""
    b: Floats
    """l1 + nu + q."""
    wl: Floats
    zl: Floats
    wu: Floats
    zu: Floats
    w: Floats
    """Slacks of l1 balls; 1 for sums, which have none."""
    nu: Floats
    qg: Floats
    tau: Floats
    qb: Floats
    hb: Floats
    """Of the balls: slopes, and heads of the cones."""

    def move(self, step: float, direction: "Point") -> "Point":
        """self + step direction."""
        return Point(*(getattr(self, f.name) + step * getattr(direction, f.name) for f in fields(self)))


PAIRS = (("p", "a"), ("m", "b"), ("wl", "zl"), ("wu", "zu"), ("w", "nu"))


@dataclass(frozen=True)
class Coupled:
    """One coupling: its kind, its radius and its entries."""

    kind: str
    radius: float
    at: slice


class Pieces:
    """The pieces of psi over all blocks, as index sets into one vector."""

    def __init__(self, model: Model):
        self.model, self.split = model, model.split
        forms = [(block.form, at) for block, at in model.parts()]
        sizes = [at.stop - at.start for _, at in forms]
        members = [block for block in model.blocks if isinstance(block, Separate)]
        l1, entropy, inside = (
            np.repeat([float(part(form)) for form, _ in forms], sizes)
            for part in (lambda f: f.l1, lambda f: f.entropy, lambda f: f.coupling == "l1")
        )
        self.l1_at, self.entropy_at = np.flatnonzero(l1 + inside), np.flatnonzero(entropy)
        self.l1, self.entropy = l1[self.l1_at], entropy[self.entropy_at]
        self.prior = np.concatenate([block.prior for block in members])[self.entropy_at]
        self._set_bounds(*(np.concatenate([getattr(b, end) for b in members]) for end in ("lower", "upper")))
        coupled = [_couple(form, at, model) for form, at in forms if form.coupling is not None]
        self.couplings = [one for one in coupled if one.kind != "l2"]
        self.free_sums = np.array([one.kind == "sum" for one in self.couplings], bool)
        self.tied = np.array([_index(self.couplings, int(i)) for i in self.l1_at], np.intp)
        self._set_cones([one for one in coupled if one.kind == "l2"])

    def _set_bounds(self, lower: Floats, upper: Floats) -> None:
        """Where lower = upper there is no inside; a little room is left to Newton's method."""
        narrow = 1e-9 * np.minimum(np.sqrt(self.model.t), np.maximum(np.abs(upper), np.abs(lower)) + 1)
        room = np.where(upper - lower <= narrow, narrow, 0.0)
        self.low_at, self.up_at = np.flatnonzero(np.isfinite(lower)), np.flatnonzero(np.isfinite(upper))
        self.lower, self.upper = (lower - room)[self.low_at], (upper + room)[self.up_at]

    def _set_cones(self, balls: list[Coupled]) -> None:
        places, labels, strengths, count = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)], [np.zeros(0)], 0
        for block, at in self.model.parts():
            if isinstance(block, Separate) and block.labels is not None and block.form.weights is not None:
                kept = np.flatnonzero(block.form.weights[block.labels] > 0)
                used, own = np.unique(block.labels[kept], return_inverse=True)
                places.append(at.start + kept)
                labels.append(count + own)
                strengths.append(block.form.weights[used])
                count += used.size
        self.group_at, self.label = np.concatenate(places), np.concatenate(labels)
        self.strength = np.concatenate(strengths)
        self.radii = np.array([ball.radius for ball in balls])
        whole = np.arange(self.model.g.size)
        self.ball_at = np.concatenate([whole[ball.at] for ball in balls] or [np.zeros(0, np.intp)])
        self.ball_label = np.repeat(np.arange(len(balls)), [ball.at.stop - ball.at.start for ball in balls])

    def start(self, x: Floats, mu: float) -> Point:
        """A centered point near x: only F and the couplings are left to be met."""
        floor = np.sqrt(mu * self.model.t)
        x = x.copy()
        norms = np.sqrt(np.bincount(self.ball_label, x[self.ball_at] ** 2, self.radii.size))
        x[self.ball_at] *= np.minimum(1, INSIDE * self.radii / np.maximum(norms, TINY * self.radii))[self.ball_label]
        x[self.entropy_at] = np.maximum(x[self.entropy_at], floor[self.entropy_at])
        wl = np.maximum(x[self.low_at] - self.lower, floor[self.low_at])
        wu = np.maximum(self.upper - x[self.up_at], floor[self.up_at])
        w = np.array([self._room(coupled, x, floor) for coupled in self.couplings])
        nu = np.where(self.free_sums, 0.0, mu / w) if w.size else w
        w = np.where(self.free_sums, 1.0, w)
        strength = self.l1 + np.append(nu, 0.0)[self.tied]
        own = x[self.l1_at]
        total = mu / strength + np.hypot(mu / strength, own)
        p, m = _halves(total, own, mu / strength)
        qg, tau = self._groups_start(x, mu)
        deep = mu / Arrows(self.radii, x[self.ball_at], self.ball_label).depth() ** 2
        qb, hb = x[self.ball_at] * deep[self.ball_label], self.radii * deep
        return Point(x, p, m, mu / p, mu / m, wl, mu / wl, wu, mu / wu, w, nu, qg, tau, qb, hb)

    def _room(self, coupled: Coupled, x: Floats, floor: Floats) -> float:
        own, radius = x[coupled.at], coupled.radius
        left = radius - float(np.sum(np.abs(own)))
        return max(left, 0.1 * min(radius, float(np.linalg.norm(floor[coupled.at]))))

    def _groups_start(self, x: Floats, mu: float) -> tuple[Floats, Floats]:
        own, half = x[self.group_at], mu / (2 * self.strength)
        tau = half + np.hypot(half, np.sqrt(np.bincount(self.label, own * own, half.size)))
        return own * (self.strength / tau)[self.label], tau

    def cones(self, at: Point) -> tuple[Arrows, Arrows]:
        """(tau, x_g) and (strength, -q) of the groups, then (radius, x) and (h, -q) of the balls."""
        u = self.arrows(at.tau, self.radii, at.x)
        return u, Arrows(np.append(self.strength, at.hb), -np.append(at.qg, at.qb), u.label)

    def cone_moves(self, direction: Point) -> tuple[Arrows, Arrows]:
        """The same of a direction, along which strengths and radii stay."""
        u = self.arrows(direction.tau, 0 * self.radii, direction.x)
        return u, Arrows(np.append(0 * self.strength, direction.hb), -np.append(direction.qg, direction.qb), u.label)

    def arrows(self, tau: Floats, radii: Floats, x: Floats) -> Arrows:
        """(tau, x_g) and (radius, x)."""
        label = np.append(self.label, self.ball_label + self.strength.size)
        return Arrows(np.append(tau, radii), np.append(x[self.group_at], x[self.ball_at]), label)

    @property
    def has_cones(self) -> bool:
        """Whether there are groups or balls."""
        return bool(self.strength.size + self.radii.size)

    def slopes(self, at: Point) -> Floats:
        """The part of d psi that the multipliers stand for."""
        slopes = np.zeros_like(at.x)
        slopes[self.l1_at] += (at.b - at.a) / 2
        slopes[self.low_at] -= at.zl
        slopes[self.up_at] += at.zu
        slopes[self.group_at] += at.qg
        slopes[self.ball_at] += at.qb
        e = self.entropy_at
        slopes[e] += self.entropy * (1 + np.log(at.x[e] / self.prior))
        for coupled, nu in zip(self.couplings, at.nu, strict=True):
            if coupled.kind == "sum":
                slopes[coupled.at] += nu
        return slopes

    def mu(self, at: Point) -> float:
        """The mean product of all pairs."""
        total, count = 0.0, 0
        for one, other in PAIRS:
            total += float(getattr(at, one) @ getattr(at, other))
            count += getattr(at, one).size
        if self.has_cones:
            u, v = self.cones(at)
            total, count = total + float(np.sum(u.dot(v))), count + u.head.size
        total -= float(np.sum(at.nu[self.free_sums]))
        count -= int(np.sum(self.free_sums))
        return total / count if count else 0.0

    def longest(self, at: Point, direction: Point) -> float:
        """The step to the boundary, at most 1 / BOUNDARY."""
        step = 1 / BOUNDARY
        for name in (name for pair in PAIRS for name in pair):
            here, move = getattr(at, name), getattr(direction, name)
            if name == "nu":
                here, move = here[~self.free_sums], move[~self.free_sums]
            falling = move < 0
            if np.any(falling):
                step = min(step, float(np.min(-here[falling] / move[falling])))
        if self.has_cones:
            cones = zip(self.cones(at), self.cone_moves(direction), strict=True)
            step = min(step, *(cone.longest(move) for cone, move in cones))
        e = self.entropy_at
        falling = direction.x[e] < 0
        if np.any(falling):
            step = min(step, float(np.min(-at.x[e][falling] / direction.x[e][falling])))
        return step


def _couple(form: ModelForm, at: slice, model: Model) -> Coupled:
    """A ball of radius 0 gets a little room, as bounds do."""
    least = 1e-9 * float(np.sqrt(np.min(model.t[at], initial=1.0)))
    return Coupled(str(form.coupling), max(form.radius, least), at)


def _index(couplings: list[Coupled], i: int) -> int:
    """Which l1 ball an entry is in; -1 for none."""
    return next((k for k, c in enumerate(couplings) if c.kind == "l1" and c.at.start <= i < c.at.stop), -1)


def _halves(total: Floats, x: Floats, slack: Floats) -> tuple[Floats, Floats]:
    """p and m with p + m = total and p - m = x, the smaller one without cancellation: 4 p m = 2 slack total."""
    larger = (total + np.abs(x)) / 2
    smaller = slack * total / (2 * larger)
    return np.where(x >= 0, larger, smaller), np.where(x >= 0, smaller, larger)
