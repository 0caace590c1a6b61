"""Decimal arithmetic of a hundred digits, and where <v, x> - l1 ||x||_1 - l2/2 ||x||^2 is largest on simple sets."""

import decimal
from decimal import Decimal
from typing import Any

decimal.setcontext(decimal.Context(prec=100, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN))

Vector = list[Decimal]
ZERO, ONE, INFINITE = Decimal(0), Decimal(1), Decimal("Infinity")


def number(value: Any) -> Decimal:
    """A float64 as the number that it is."""
    return Decimal(float(value))


def vector(values: Any) -> Vector:
    """The entries of an array, in order."""
    return [number(value) for value in values.ravel()]


def dot(a: Vector, b: Vector) -> Decimal:
    """<a, b>."""
    return sum((p * q for p, q in zip(a, b, strict=True)), ZERO)


def length(a: Vector) -> Decimal:
    """||a||_2."""
    return dot(a, a).sqrt()


def clip(value: Decimal, lower: Decimal, upper: Decimal) -> Decimal:
    """The nearest number of an interval."""
    return min(max(value, lower), upper)


def soft(value: Decimal, threshold: Decimal) -> Decimal:
    """The soft threshold."""
    return max(abs(value) - threshold, ZERO).copy_sign(value)


def in_interval(v: Decimal, lower: Decimal, upper: Decimal, l1: Decimal, l2: Decimal) -> Decimal:
    """The maximizer of v x - l1 |x| - l2/2 x^2 on an interval; with a flat part, its entry nearest to 0."""
    w = soft(v, l1)
    if l2:
        return clip(w / l2, lower, upper)
    return clip(ZERO, lower, upper) if not w else upper if w > 0 else lower


def in_ball2(w: Vector, l2: Decimal, radius: Decimal) -> Vector:
    size = length(w)
    if not size:
        return w
    reach = min(size / l2, radius) if l2 else radius
    return [t / size * reach for t in w]


def in_ball1(w: Vector, l2: Decimal, radius: Decimal) -> Vector:
    sizes = list(map(abs, w))
    if not max(sizes):
        return w
    if l2 and sum(sizes, ZERO) <= l2 * radius:
        return [t / l2 for t in w]
    return [u.copy_sign(t) for u, t in zip(in_simplex(sizes, l2, radius, INFINITE), w, strict=True)]


def in_simplex(v: Vector, l2: Decimal, radius: Decimal, cap: Decimal) -> Vector:
    """The maximizer of <v, x> - l2/2 ||x||^2 over 0 <= x <= cap with sum x = radius."""
    if not l2:
        found, left = [ZERO] * len(v), radius
        for i in sorted(range(len(v)), key=v.__getitem__, reverse=True):
            found[i] = min(cap, left)
            left -= found[i]
        return found
    w = [t / l2 for t in v]

    def mass(kappa: Decimal) -> Decimal:
        return sum((clip(t - kappa, ZERO, cap) for t in w), ZERO)

    # Between two neighbors of these the mass is a linear function of kappa.
    bends = sorted({*w, *(t - cap for t in w if cap.is_finite()), max(w) - radius, min(w) - radius})
    last = max((k for k in bends if mass(k) >= radius), default=bends[0])
    free = [t for t in w if ZERO < t - last <= cap]
    kappa = last + (mass(last) - radius) / len(free) if free else last
    return [clip(t - kappa, ZERO, cap) for t in w]


def entropic_entry(v: Decimal, q: Decimal, kl: Decimal, l2: Decimal) -> Decimal:
    """The root of v = kl (1 + log(x / q)) + l2 x, by Newton's method on t = log(x / q), from its right."""
    t = v / kl - 1
    if not l2:
        return q * t.exp()
    t = min(t, max((max(v, kl) / (l2 * q)).ln(), ZERO) + 1)
    for _ in range(400):
        slope = l2 * q * t.exp()
        step = (kl * (1 + t) + slope - v) / (kl + slope)
        t -= step
        if abs(step) <= abs(t) * Decimal("1e-95"):
            break
    return q * t.exp()
