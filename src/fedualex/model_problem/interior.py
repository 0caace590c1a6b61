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

from collections.abc import Iterator

import numpy as np

from .blocks import Floats
from .newton import Model, bordered_solver
from .pieces import BOUNDARY, PAIRS, TINY, Arrows, Pieces, Point, Scaling

ITERATIONS = 60
SHORT = 1e-4
"""After such a step the method has lost its digits."""


class Step:
    """One factorization at a point: directions for any products that are aimed at."""

    def __init__(self, pieces: Pieces, at: Point, regularization: float):
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
        pieces, at = self.pieces, self.at
        aims = {one: target - getattr(at, one) * getattr(at, other) for one, other in PAIRS}
        if before is not None:
            aims = {one: aims[one] - getattr(before, one) * getattr(before, other) for one, other in PAIRS}
        rp, rm = aims["p"] / at.a, aims["m"] / at.b
        q0 = self.E * (rm - rp)
        rl, ru = at.x[pieces.low_at] - pieces.lower - at.wl, pieces.upper - at.x[pieces.up_at] - at.wu
        rhs = -(pieces.model.operator(at.x) + pieces.slopes(at))
        rhs[pieces.l1_at] -= q0
        rhs[pieces.low_at] += (aims["wl"] - at.zl * rl) / at.wl
        rhs[pieces.up_at] -= (aims["wu"] - at.zu * ru) / at.wu
        aim = self._aim_of_cones(target, before, rhs)
        both = rp + rm + (self.P - self.M) * q0
        bottom = np.array([self._left(j, both, aims["w"]) for j in range(at.nu.size)])
        dx, dnu = self.solve(rhs, np.append(bottom, np.zeros(pieces.radii.size)))
        dnu = dnu[: at.nu.size]
        dL = np.append(dnu, 0.0)[pieces.tied]
        dq = self.E * dx[pieces.l1_at] + self.k * dL + q0
        dp, dm = rp - self.P * (dL - dq), rm - self.M * (dL + dq)
        dwl, dwu = dx[pieces.low_at] + rl, ru - dx[pieces.up_at]
        dzl, dzu = (aims["wl"] - at.zl * dwl) / at.wl, (aims["wu"] - at.zu * dwu) / at.wu
        nu = np.where(pieces.free_sums, 1.0, at.nu)
        dw = np.where(pieces.free_sums, 0.0, (aims["w"] - at.w * dnu) / nu)
        cones = (at.qg, at.tau, at.qb, at.hb) if aim is None else self._cone_directions(dx, aim)
        return Point(dx, dp, dm, dL - dq, dL + dq, dwl, dzl, dwu, dzu, dw, dnu, *cones)

    def _left(self, j: int, both: Floats, aims: Floats) -> float:
        """What a coupling's equation lacks, given what p + m change by themselves."""
        pieces, at, coupled = self.pieces, self.at, self.pieces.couplings[j]
        if coupled.kind == "sum":
            return coupled.radius - float(np.sum(at.x[coupled.at]))
        mine = pieces.tied == j
        return coupled.radius - at.w[j] - float(np.sum((at.p + at.m + both)[mine])) - float(aims[j] / at.nu[j])

    def _aim_of_cones(self, target: float, before: Point | None, rhs: Floats) -> Arrows | None:
        pieces = self.pieces
        if not pieces.has_cones:
            return None
        aim = self.scaling.aim(target, *(pieces.cone_moves(before) if before is not None else (None, None)))
        rhs[pieces.group_at] += self.scaling.into_slope(aim.tail)[: pieces.label.size]
        rhs[pieces.ball_at] += self.scaling.over(self.scaling.over(aim)).tail[pieces.label.size :]
        return aim

    def _cone_directions(self, dx: Floats, aim: Arrows) -> tuple[Floats, Floats, Floats, Floats]:
        pieces, scaling = self.pieces, self.scaling
        groups, entries = pieces.strength.size, pieces.label.size
        u = pieces.arrows(0 * pieces.strength, 0 * pieces.radii, dx)
        slopes = scaling.into_slope(u.tail - aim.tail)
        dtau = (aim.head - scaling.head_of(slopes))[:groups]
        left = Arrows(aim.head - u.head, aim.tail - u.tail, u.label)
        dv = scaling.over(scaling.over(left))
        return slopes[:entries], dtau, -dv.tail[entries:], dv.head[groups:]


def follow(model: Model, x: Floats, mu: float) -> Iterator[tuple[Floats, float]]:
    """The iterates of the method from a centered point near x, each with its mu."""
    pieces = Pieces(model)
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
        ahead = pieces.mu(at.move(reach, affine))
        sigma = (max(ahead, 0.0) / mu) ** 3 if mu > 0 else 0.0
        target = max(sigma, (1 - reach) ** 3 * 0.1) * mu
        direction = step.direction(target, affine)
        length = min(1.0, BOUNDARY * pieces.longest(at, direction))
        if not np.isfinite(length) or not np.all(np.isfinite(direction.x)):
            return
        at = at.move(length, direction)
        yield at.x, pieces.mu(at)
        if length < SHORT:
            return
