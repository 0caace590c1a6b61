"""The gap of the Fenchel-Young inequality in floating point: from differences, with a bound on its rounding."""

from typing import NamedTuple

from ..arrays import Array, xp
from ..tree import Vector, as_real, cast_like, depend_on
from .base import AbstractRegularizer, nonzero, norm
from .norms import KL
from .sets import Box
from .spectral import Spectral
from .sums import InBox, WithQuadratic, split

# How far rounding may reach: counts of operations, distances within a domain, and what an error of the slope costs.


UNIT, TINY = 2.0**-53, 2.0**-1022
"""Half the distance from 1 to the next number; below TINY numbers may become 0."""


def has_rounding_bound(psi: AbstractRegularizer) -> bool:
    """Whether the rounding of `fenchel` is a bound for this psi, rather than an estimate."""
    core, _, _ = split(psi)
    return has_rounding_bound(core.psi) if type(core) is Spectral else _roundings_of(core) is not None


def _roundings_of(psi: AbstractRegularizer) -> int | None:
    """What its own class declares: a class that inherits formulas may have changed some of them."""
    count: int | None = vars(type(psi)).get("roundings")
    return count


def cost_of_error(delta: Array, reach: Array, near: Array, lam: Array) -> Array:
    """What an error of length delta in the slope costs."""
    curved = xp.where(lam > 0, near + delta / (2 * nonzero(lam)), xp.inf)
    return xp.where(delta > 0, delta * xp.minimum(reach, curved), 0)


def distances(psi: AbstractRegularizer, x: Array, s: Array) -> tuple[Array, Array]:
    """Bounds on ||u - x|| for all u of the domain, and for the maximizer u of <s, u> - psi(u)."""
    if isinstance(psi, Spectral):  # symmetric, so that no LAPACK call is needed; ||u|| <= ||s|| / lam
        lam, radius = cast_like(split(psi.psi)[1], s), psi.diameter(x) / 2
        size = xp.where(lam > 0, norm(s) / nonzero(lam), radius)
        return norm(x) + radius, norm(x) + xp.minimum(size, radius)
    if isinstance(psi, KL):  # near s the maximizer q exp(s / lam - 1) at most doubles
        lam = nonzero(cast_like(psi.lam, s))
        reach: Array = norm(x) + 2 * norm(cast_like(psi.q, s) * xp.exp(s / lam - 1))
        return reach, reach
    reach = psi.farthest(x)
    if _roundings_of(psi) is None:
        # In an unbounded domain one step of size 1 tells roughly how far the maximizer is.
        reach = xp.where(xp.isfinite(reach), reach, norm(x) + norm(psi.prox(x + s, xp.ones((), x.dtype))))
    return reach, reach


def count_roundings(psi: AbstractRegularizer, x: Array) -> int:
    """How often an evaluation rounds: additions, and for singular values an allowance for LAPACK's backward error."""
    if isinstance(psi, Spectral):
        return 16 * (x.shape[0] + x.shape[1])
    return (psi.roundings or 1) * x.size + 16


class Fenchel(NamedTuple):
    """psi(x) + psi^*(s) - <s, x> as computed, and by how much the exact number may exceed it."""

    gap: Array
    rounding: Array


def fenchel(psi: AbstractRegularizer, x: Vector, s: Vector, error: Vector) -> Fenchel:
    """psi(x) + psi^*(s) - <s, x> >= 0 for an s that may be wrong by `error`, entry by entry.

    An error delta of s changes the gap by at most ||delta|| sup_{u in C} ||u - x||, and if psi is lam-strongly convex
    by at most ||delta|| (||u - x|| + ||delta|| / (2 lam)), u the maximizer of <s, u> - psi(u). To add n numbers of size
    t in total costs at most (n + 16) UNIT t.
    """
    x, s = as_real(x), as_real(s)
    if isinstance(psi, WithQuadratic):
        return _with_quadratic(psi, x, s, error)
    terms = _evaluate(psi, x, s)
    lam = cast_like(split(psi.psi)[1] if isinstance(psi, Spectral) else 0.0, s)
    return Fenchel(terms.gap, cost_of_error(norm(error), terms.reach, terms.near, lam) + terms.rounding)


def _with_quadratic(psi: WithQuadratic, x: Array, s: Array, error: Vector) -> Fenchel:
    """(psi_0 + lam/2 ||.||^2 + <c, .>)^*(s) <= psi_0^*(s - c - lam u) + lam/2 ||u||^2 for every u, = at the maximizer.

    So the gap of psi is that of its core psi_0 at r = s - c - lam u, plus lam/2 ||x - u||^2: two terms >= 0, and a
    wrong u cannot hide a gap. Where r is the core's own slope at u but for rounding, that slope is taken, lest a wide
    domain multiply the rounding. Where r is outside the domain of psi_0^* still, psi_0^*(r) becomes <r, u> - psi_0(u).
    Where the maximizer is beyond the largest float, u is x.
    """
    u, r = psi.divide(s)
    lam, beyond = cast_like(psi.lam, s), ~xp.all(xp.isfinite(u))
    u = xp.where(beyond, x, u)
    r, step = xp.where(beyond, s - cast_like(psi.c, s) - lam * x, r), x - u
    unit = UNIT * (xp.abs(s) + xp.abs(cast_like(psi.c, s)) + lam * xp.abs(u))
    if not isinstance(psi.core, Spectral):
        slope = psi.core.subgradient(u)
        r = xp.where(xp.abs(r - slope) <= 4 * unit, slope, r)
    core = _evaluate(psi.core, depend_on(x, xp.ravel(r)[0]), r)  # one LAPACK call at a time
    inside = xp.isfinite(core.gap) | (lam == 0) | beyond
    at_u = psi.core.value(depend_on(u, core.gap))
    gap = xp.where(inside, core.gap, core.value - at_u - xp.sum(r * step))
    square = xp.sum((xp.sqrt(lam) * step) ** 2) / 2  # a tiny lam may meet a huge step
    count = count_roundings(psi.core, x)
    terms = xp.abs(core.value) + xp.abs(at_u) + xp.sum(xp.abs(r * step))
    rounding = xp.where(inside, core.rounding, count * (UNIT * terms + TINY)) + count * UNIT * square
    delta = norm(error + xp.where(inside, 8, count) * unit)
    return Fenchel(gap + square, cost_of_error(delta, core.reach, norm(step), lam) + rounding)


class _Evaluation(NamedTuple):
    """A gap for the s that was given, its own rounding, psi(x), bounds on ||u - x|| over C and at the maximizer."""

    gap: Array
    rounding: Array
    value: Array
    reach: Array
    near: Array


def _evaluate(psi: AbstractRegularizer, x: Array, s: Array) -> _Evaluation:
    match psi:
        case Box():
            return _in_box(psi, xp.zeros_like(s), x, s)
        case InBox():
            return _in_box(psi.domain, xp.full_like(s, psi.penalty.lam), x, s)
    value = psi.value(x)
    conjugate = psi.conjugate(depend_on(s, value))
    reach, near = distances(psi, x, s)
    terms = xp.abs(value) + xp.abs(conjugate) + norm(s) * (norm(x) + xp.where(xp.isfinite(near), near, 0))
    rounding = count_roundings(psi, x) * (UNIT * terms + TINY)
    return _Evaluation(value + conjugate - xp.vdot(s, x), rounding, value, reach, near)


def _in_box(box: Box, lam: Array, x: Array, s: Array) -> _Evaluation:
    """sum_i max over u_i of s_i (u_i - x_i) - lam (|u_i| - |x_i|), u_i an end of the box or its point nearest to 0.

    With sign = sign(u_i) that is (s_i - lam sign) (u_i - x_i) + lam (|x_i| - sign x_i): a box far from 0 costs no
    digits, because the last term is 0 where the box does not straddle 0.
    """
    lower, upper = (xp.broadcast_to(cast_like(end, x), x.shape) for end in (box.lower, box.upper))
    best, turns = xp.full_like(x, -xp.inf), xp.zeros_like(x)
    for u in (lower, upper, xp.clip(xp.zeros_like(x), lower, upper)):
        slope = s - lam * xp.sign(u)
        turn = lam * (xp.abs(x) - xp.sign(u) * x)
        best = xp.maximum(best, xp.where(slope == 0, 0, slope * (u - x)) + turn)
        turns = xp.maximum(turns, turn)
    rounding = count_roundings(box, x) * (UNIT * xp.sum(xp.abs(best) + 2 * turns) + TINY)
    farthest = box.farthest(x)
    return _Evaluation(xp.sum(best), rounding, xp.sum(lam * xp.abs(x)), farthest, farthest)
