"""Gaps of games in exact rational arithmetic (roots to 100 digits), straight from the definitions: nothing of ours computes."""

from decimal import Decimal, localcontext
from fractions import Fraction
from math import inf

import numpy as np

from fedualex.geometry import EntropicSimplex
from fedualex.regularizers import (
    L1,
    Box,
    CappedSimplex,
    GroupL2,
    InBall,
    InBox,
    L1Ball,
    L2Ball,
    Simplex,
    Zero,
    split,
)


def rational(array):
    """A float64 array as a flat list of fractions, for float64 numbers are rational; infinite ends of boxes as they are."""
    return [Fraction(float(entry)) if np.isfinite(entry) else float(entry) for entry in np.ravel(array)]


def dot(a, b):
    return sum((u * v for u, v in zip(a, b, strict=True)), Fraction(0))


def root(number):
    """The square root of a fraction, to 100 digits."""
    with localcontext() as context:
        context.prec = 100
        return Fraction((Decimal(number.numerator) / Decimal(number.denominator)).sqrt())


def exact_gap(game, z):
    """The duality gap of the float64 point z in a bilinear game of vectors."""
    A = [rational(row) for row in game.A]
    b, x, y = rational(game.b), rational(z.x), rational(z.y)
    at_x = [sum((A[i][j] * y[i] for i in range(len(y))), Fraction(0)) for j in range(len(x))]
    at_y = [b[i] - dot(A[i], x) for i in range(len(y))]
    parts = game.geometry.parts
    return fenchel_gap(parts.x, x, at_x) + fenchel_gap(parts.y, y, at_y)


def fenchel_gap(part, z, g):
    """<g, z> + psi(z) + psi^*(-g)."""
    psi = part.regularizer
    core, lam, c = split(psi)
    lam = Fraction(float(lam))
    c = rational(np.broadcast_to(c, len(z)))
    if isinstance(part, EntropicSimplex):
        assert isinstance(core, Zero)
        core = Simplex(1.0)
    slope = [-a - b for a, b in zip(g, c, strict=True)]
    return value(core, z) + lam / 2 * dot(z, z) - dot(slope, z) + conjugate(core, slope, lam)


def value(core, x):
    match core:
        case L1():
            return Fraction(float(core.lam)) * sum(map(abs, x))
        case InBox() | InBall():
            return value(core.penalty, x)
        case GroupL2():
            strengths = rational(core.lam * core.weights)
            return dot(strengths, [root(square) for square in group_squares(core, x)])
    return Fraction(0)


def group_squares(core, x):
    squares = [Fraction(0)] * len(core.weights)
    for group, entry in zip(np.ravel(core.groups), x, strict=True):
        squares[group] += entry**2
    return squares


def conjugate(core, s, lam):
    """sup over the core's set of <s, x> - core(x) - lam/2 ||x||^2."""
    match core:
        case Zero():
            return in_boxes(s, [-inf] * len(s), [inf] * len(s), 0, lam)
        case L1():
            return in_boxes(s, [-inf] * len(s), [inf] * len(s), Fraction(float(core.lam)), lam)
        case Box():
            ends = (rational(np.broadcast_to(end, len(s))) for end in (core.lower, core.upper))
            return in_boxes(s, *ends, 0, lam)
        case InBox():
            ends = (rational(np.broadcast_to(end, len(s))) for end in (core.domain.lower, core.domain.upper))
            return in_boxes(s, *ends, Fraction(float(core.penalty.lam)), lam)
        case Simplex():
            return on_simplex(s, Fraction(float(core.radius)), lam)
        case CappedSimplex() if lam == 0:
            return on_capped_simplex(s, Fraction(float(core.cap)))
        case L1Ball():
            return in_l1_ball(s, Fraction(float(core.radius)), Fraction(0), lam)
        case L2Ball():
            return in_l2_ball(root(dot(s, s)), Fraction(float(core.radius)), lam)
        case InBall(L1(), L1Ball()):
            return in_l1_ball(s, Fraction(float(core.domain.radius)), Fraction(float(core.penalty.lam)), lam)
        case InBall(L1(), L2Ball()):
            left = [max(abs(a) - Fraction(float(core.penalty.lam)), Fraction(0)) for a in s]
            return in_l2_ball(root(dot(left, left)), Fraction(float(core.domain.radius)), lam)
    raise NotImplementedError(repr(core))


def in_boxes(s, lower, upper, l1, lam):
    total = Fraction(0)
    for i, slope in enumerate(s):
        free = [Fraction(0)]
        if lam > 0:
            free.append(max(abs(slope) - l1, Fraction(0)) / lam * (1 if slope > 0 else -1))
        points = [min(max(u, lower[i]), upper[i]) for u in [*free, lower[i], upper[i]]]
        total += max(slope * u - l1 * abs(u) - lam / 2 * u * u for u in points if abs(u) < inf)
    return total


def on_simplex(s, radius, lam):
    if lam == 0:
        return radius * max(s)
    falling = sorted(s, reverse=True)
    kappa = max((sum(falling[: j + 1]) - lam * radius) / (j + 1) for j in range(len(s)))
    x = [max((slope - kappa) / lam, Fraction(0)) for slope in s]
    assert sum(x) == radius
    return dot(s, x) - lam / 2 * dot(x, x)


def on_capped_simplex(s, cap):
    total, left = Fraction(0), Fraction(1)
    for slope in sorted(s, reverse=True):
        share = min(cap, left)
        total, left = total + share * slope, left - share
    return total


def in_l1_ball(s, radius, l1, lam):
    left = [max(abs(slope) - l1, Fraction(0)) for slope in s]
    if lam == 0:
        return radius * max(left)
    if sum(left) <= lam * radius:
        return dot(left, left) / (2 * lam)
    return on_simplex(left, radius, lam)


def in_l2_ball(length, radius, lam):
    size = radius if length >= lam * radius else length / lam
    return length * size - lam / 2 * size**2
