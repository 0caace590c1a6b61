"""An interior point method for the model problem: what brings Newton's method near the solution.

Every piece of psi is a pair of positive numbers whose product is mu on the central path:

    l1 |x|           x = p - m,  p (l1 - q) = m (l1 + q) = mu, q the slope
    lower <= x       (x - lower) z = mu, and the same from above
    ||x||_1 <= r     (r - sum(p + m)) nu = mu, and nu joins l1
    ||x||_2 <= r     (r, x) o (h, -q) = (mu, 0), Jordan's product of second-order cones, q the slope
    w_g ||x_g||      (tau, x_g) o (w_g, -q) = (mu, 0)
    entropies        join F, and x >= 0 beside them is a bound as above

Mehrotra's predictor and corrector with one step length, because J ties primal and dual together. All pairs are
eliminated: a step factorizes J + (a positive diagonal), bordered by one column for each coupling.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from .blocks import Floats, Separate
from .cones import Arrows, Scaling
from .newton import Model

Indices = NDArray[np.intp]

ITERATIONS = 60
BOUNDARY = 0.995
"""Which share of the way to the boundary a step may go."""
TINY = 1e-13
INSIDE = 0.9
"""Which share of its radius a ball's first point may have."""
SHORT = 1e-4
"""After such a step the method has lost its digits."""


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

    def moved(self, step: float, direction: "Point") -> "Point":
        """self + step direction."""
        return Point(*(getattr(self, f.name) + step * getattr(direction, f.name) for f in fields(self)))


PAIRS = (("p", "a"), ("m", "b"), ("wl", "zl"), ("wu", "zu"), ("w", "nu"))


@dataclass(frozen=True)
class Coupled:
    """One coupling: its kind, its radius and its entries."""

    kind: str
    radius: float
    at: slice


class Interior:
    """The pieces of psi over all blocks, as index sets into one vector."""

    def __init__(self, model: Model):
        size = model.g.size
        self.model = model
        self.split = model.split
        l1, lower, upper = np.zeros(size), np.full(size, -np.inf), np.full(size, np.inf)
        entropy, prior = np.zeros(size), np.ones(size)
        label, strengths, tied, self.couplings = np.full(size, -1), [np.zeros(0)], np.zeros(size, bool), []
        balls: list[Coupled] = []
        for block, at in model.parts():
            assert isinstance(block, Separate)
            form = block.form
            l1[at], lower[at], upper[at], entropy[at], prior[at] = (
                form.l1,
                block.lower,
                block.upper,
                form.entropy,
                block.prior,
            )
            if block.labels is not None:
                label[at] = block.labels + sum(map(len, strengths))
                strengths.append(np.asarray(form.weights))
            if form.coupling is not None:
                radius = max(form.radius, 1e-9 * float(np.sqrt(np.min(model.t[at], initial=1.0))))
                (balls if form.coupling == "l2" else self.couplings).append(Coupled(form.coupling, radius, at))
                tied[at] = form.coupling == "l1"
        self.l1_at = np.flatnonzero((l1 > 0) | tied)
        self.l1, self.entropy_at = l1[self.l1_at], np.flatnonzero(entropy > 0)
        self.entropy, self.prior = entropy[self.entropy_at], prior[self.entropy_at]
        narrow = 1e-9 * np.minimum(np.sqrt(model.t), np.maximum(np.abs(upper), np.abs(lower)) + 1)
        pinched = upper - lower <= narrow
        lower, upper = np.where(pinched, lower - narrow, lower), np.where(pinched, upper + narrow, upper)
        self.low_at, self.up_at = np.flatnonzero(np.isfinite(lower)), np.flatnonzero(np.isfinite(upper))
        self.lower, self.upper = lower[self.low_at], upper[self.up_at]
        strength = np.concatenate(strengths)
        grouped = (label >= 0) & (np.append(strength, 0)[label] > 0)
        self.group_at = np.flatnonzero(grouped)
        used, self.label = np.unique(label[self.group_at], return_inverse=True)
        self.strength = strength[used]
        self.radii = np.array([ball.radius for ball in balls])
        self.ball_at = np.concatenate([np.arange(size)[ball.at] for ball in balls] or [np.zeros(0, np.intp)])
        self.ball_label = np.repeat(np.arange(len(balls)), [ball.at.stop - ball.at.start for ball in balls])
        self.free_sums = np.array([coupled.kind == "sum" for coupled in self.couplings], bool)
        self.tied = np.array([_index(self.couplings, i) for i in self.l1_at], np.intp)

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
        u = self._arrows(at.tau, self.radii, at.x)
        return u, Arrows(np.append(self.strength, at.hb), -np.append(at.qg, at.qb), u.label)

    def cone_moves(self, direction: Point) -> tuple[Arrows, Arrows]:
        """The same of a direction, along which strengths and radii stay."""
        u = self._arrows(direction.tau, 0 * self.radii, direction.x)
        return u, Arrows(np.append(0 * self.strength, direction.hb), -np.append(direction.qg, direction.qb), u.label)

    def _arrows(self, tau: Floats, radii: Floats, x: Floats) -> Arrows:
        label = np.append(self.label, self.ball_label + self.strength.size)
        return Arrows(np.append(tau, radii), np.append(x[self.group_at], x[self.ball_at]), label)

    @property
    def has_cones(self) -> bool:
        """Whether there are groups or balls."""
        return bool(self.strength.size + self.radii.size)

    def slopes(self, at: Point) -> Floats:
        """The part of d psi that the multipliers stand for."""
        found = np.zeros_like(at.x)
        found[self.l1_at] += (at.b - at.a) / 2
        found[self.low_at] -= at.zl
        found[self.up_at] += at.zu
        found[self.group_at] += at.qg
        found[self.ball_at] += at.qb
        e = self.entropy_at
        found[e] += self.entropy * (1 + np.log(at.x[e] / self.prior))
        for coupled, nu in zip(self.couplings, at.nu, strict=True):
            if coupled.kind == "sum":
                found[coupled.at] += nu
        return found

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
        for name in {name for pair in PAIRS for name in pair}:
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


def _index(couplings: list[Coupled], i: int) -> int:
    """Which l1 ball an entry is in; -1 for none."""
    return next((k for k, c in enumerate(couplings) if c.kind == "l1" and c.at.start <= i < c.at.stop), -1)


def _halves(total: Floats, x: Floats, slack: Floats) -> tuple[Floats, Floats]:
    """p and m with p + m = total and p - m = x, the smaller one without cancellation: 4 p m = 2 slack total."""
    larger = (total + np.abs(x)) / 2
    smaller = slack * total / (2 * larger)
    return np.where(x >= 0, larger, smaller), np.where(x >= 0, smaller, larger)


class Step:
    """One factorization at a point: directions for any products that are aimed at."""

    def __init__(self, pieces: Interior, at: Point, regularization: float):
        self.pieces, self.at, model = pieces, at, pieces.model
        size = at.x.size
        self.P, self.M = at.p / at.a, at.m / at.b
        self.E = 1 / (self.P + self.M)
        self.k = (self.P - self.M) * self.E
        diagonal = np.zeros(size)
        diagonal[pieces.l1_at] += self.E
        diagonal[pieces.low_at] += at.zl / at.wl
        diagonal[pieces.up_at] += at.zu / at.wu
        diagonal[pieces.entropy_at] += pieces.entropy / at.x[pieces.entropy_at]
        borders, corner = np.zeros((size, at.nu.size)), np.zeros(at.nu.size)
        for j, coupled in enumerate(pieces.couplings):
            ratio = at.w[j] / at.nu[j] if coupled.kind != "sum" else 0.0
            if coupled.kind == "l1":
                mine = pieces.tied == j
                borders[pieces.l1_at[mine], j] = self.k[mine]
                corner[j] = ratio + float(np.sum(4 * (self.P * self.M * self.E)[mine]))
            else:
                borders[coupled.at, j] = 1.0
        matrix = model.J.copy()
        borders, corner = self._add_cones(matrix, borders, corner)
        matrix[np.diag_indices(size)] += diagonal + regularization / model.t
        self.solve = bordered_solver(matrix, borders, corner, pieces.split)

    def _add_cones(self, matrix: Floats, borders: Floats, corner: Floats) -> tuple[Floats, Floats]:
        """Groups: the inverse of W^2's tails; balls: W^-2's tails, beta^-2 (1 + 2 p p'), one more border each."""
        pieces = self.pieces
        if not pieces.has_cones:
            return borders, corner
        self.scaling = scaling = Scaling(*pieces.cones(self.at))
        tails, groups, balls = scaling.point.tail, pieces.strength.size, pieces.radii.size
        for g in range(groups):
            mine = np.flatnonzero(pieces.label == g)
            i, tail = pieces.group_at[mine], tails[mine]
            matrix[np.ix_(i, i)] += scaling.stiff[g] * (np.eye(i.size) - scaling.inward[g] * np.outer(tail, tail))
        matrix[pieces.ball_at, pieces.ball_at] += scaling.stiff[groups:][pieces.ball_label]
        more = np.zeros((len(matrix), balls))
        more[pieces.ball_at, pieces.ball_label] = tails[pieces.label.size :]
        return np.hstack([borders, more]), np.append(corner, scaling.beta[groups:] ** 2 / 2)

    def direction(self, target: float, before: Point | None = None) -> Point:
        """Towards products that are `target`, and all equations; with the second order of a direction before."""
        pieces, at, model = self.pieces, self.at, self.pieces.model
        aims = {one: target - getattr(at, one) * getattr(at, other) for one, other in PAIRS}
        if before is not None:
            aims = {one: aims[one] - getattr(before, one) * getattr(before, other) for one, other in PAIRS}
        E, P, M = self.E, self.P, self.M
        rp, rm = aims["p"] / at.a, aims["m"] / at.b
        q0 = E * (rm - rp)
        rl = at.x[pieces.low_at] - pieces.lower - at.wl
        ru = pieces.upper - at.x[pieces.up_at] - at.wu
        zl0, zu0 = (aims["wl"] - at.zl * rl) / at.wl, (aims["wu"] - at.zu * ru) / at.wu
        rhs = -(model.operator(at.x) + pieces.slopes(at))
        rhs[pieces.l1_at] -= q0
        rhs[pieces.low_at] += zl0
        rhs[pieces.up_at] -= zu0
        if pieces.has_cones:
            aim = self.scaling.aim(target, *(pieces.cone_moves(before) if before is not None else (None, None)))
            rhs[pieces.group_at] += self.scaling.into_slope(aim.tail)[: pieces.label.size]
            back = self.scaling.over(self.scaling.over(aim))
            rhs[pieces.ball_at] += back.tail[pieces.label.size :]
        bottom = np.zeros(at.nu.size)
        both = rp + rm + (P - M) * q0
        for j, c in enumerate(pieces.couplings):
            own = at.x[c.at]
            if c.kind == "sum":
                bottom[j] = c.radius - float(np.sum(own))
                continue
            mine = pieces.tied == j
            rc = c.radius - at.w[j] - float(np.sum((at.p + at.m)[mine]))
            bottom[j] = rc - aims["w"][j] / at.nu[j] - float(np.sum(both[mine]))
        dx, dnu = self.solve(rhs, np.append(bottom, np.zeros(pieces.radii.size)))
        dnu = dnu[: at.nu.size]
        dL = np.append(dnu, 0.0)[pieces.tied]
        dq = E * dx[pieces.l1_at] + self.k * dL + q0
        dp, dm = rp - P * (dL - dq), rm - M * (dL + dq)
        dwl, dwu = dx[pieces.low_at] + rl, ru - dx[pieces.up_at]
        dzl, dzu = (aims["wl"] - at.zl * dwl) / at.wl, (aims["wu"] - at.zu * dwu) / at.wu
        nu = np.where(pieces.free_sums, 1.0, at.nu)
        dw = np.where(pieces.free_sums, 0.0, (aims["w"] - at.w * dnu) / nu)
        dqg, dtau, dqb, dhb = at.qg, at.tau, at.qb, at.hb
        if pieces.has_cones:
            dqg, dtau, dqb, dhb = self._cone_directions(dx, aim)
        return Point(dx, dp, dm, dL - dq, dL + dq, dwl, dzl, dwu, dzu, dw, dnu, dqg, dtau, dqb, dhb)

    def _cone_directions(self, dx: Floats, aim: Arrows) -> tuple[Floats, Floats, Floats, Floats]:
        pieces, scaling = self.pieces, self.scaling
        groups, entries = pieces.strength.size, pieces.label.size
        u = pieces._arrows(0 * pieces.strength, 0 * pieces.radii, dx)
        slopes = scaling.into_slope(u.tail - aim.tail)
        dtau = (aim.head - scaling.head_of(slopes))[:groups]
        left = Arrows(aim.head - u.head, aim.tail - u.tail, u.label)
        dv = scaling.over(scaling.over(left))
        return slopes[:entries], dtau, -dv.tail[entries:], dv.head[groups:]


def bordered_solver(
    matrix: Floats, borders: Floats, corner: Floats, split: int
) -> Callable[[Floats, Floats], tuple[Floats, Floats]]:
    """Solves [[matrix, borders], [borders', -corner]] by the Cholesky factor of x's part and what is left beside it."""
    A, rest = matrix[:split, :split], matrix.shape[0] - split
    factor = scipy.linalg.cho_factor(A, lower=True, check_finite=False)
    right = np.hstack([matrix[:split, split:], borders[:split]])
    left = np.vstack([matrix[split:, :split], borders[:split].T])
    through = scipy.linalg.cho_solve(factor, right, check_finite=False) if right.shape[1] else right
    outer = np.zeros((right.shape[1], right.shape[1]))
    outer[:rest, :rest], outer[:rest, rest:], outer[rest:, :rest] = (
        matrix[split:, split:],
        borders[split:],
        borders[split:].T,
    )
    outer[np.arange(rest, len(outer)), np.arange(rest, len(outer))] = -corner
    schur = outer - left @ through
    lu = scipy.linalg.lu_factor(schur, check_finite=False) if len(schur) else None

    def solve(rhs: Floats, bottom: Floats) -> tuple[Floats, Floats]:
        top = scipy.linalg.cho_solve(factor, rhs[:split], check_finite=False)
        below = np.concatenate([rhs[split:], bottom])
        if lu is not None:
            below = scipy.linalg.lu_solve(lu, below - left @ top, check_finite=False)
            top = top - through @ below
        return np.concatenate([top, below[:rest]]), below[rest:]

    return solve


def follow(model: Model, x: Floats, mu: float) -> Iterator[tuple[Floats, float]]:
    """The iterates of the method from a centered point near x, each with its mu."""
    pieces = Interior(model)
    at = pieces.start(x, mu)
    regularization = TINY
    for _ in range(ITERATIONS):
        try:
            step = Step(pieces, at, regularization)
        except np.linalg.LinAlgError:
            regularization *= 100
            if regularization > 1:
                return
            continue
        mu = pieces.mu(at)
        affine = step.direction(0.0)
        reach = min(1.0, pieces.longest(at, affine))
        ahead = pieces.mu(at.moved(reach, affine))
        sigma = (max(ahead, 0.0) / mu) ** 3 if mu > 0 else 0.0
        target = max(sigma, (1 - reach) ** 3 * 0.1) * mu
        direction = step.direction(target, affine)
        length = min(1.0, BOUNDARY * pieces.longest(at, direction))
        if not np.isfinite(length) or not np.all(np.isfinite(direction.x)):
            return
        at = at.moved(length, direction)
        yield at.x, pieces.mu(at)
        if length < SHORT:
            return
