"""Regularizers in decimal arithmetic of a hundred digits, written anew: nothing here is the library's.

A conjugate is the value at a maximizer, so that it is never above the true one: what a certificate is held against is a
lower bound of the gap, and equal to it up to the last of the digits.
"""

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from .suprema import (
    INFINITE,
    ONE,
    ZERO,
    Vector,
    dot,
    entropic_entry,
    in_ball1,
    in_ball2,
    in_interval,
    in_simplex,
    length,
    soft,
)


@dataclass(frozen=True)
class Psi:
    """The indicator of a set plus l1 ||x||_1 + group sum_g w_g ||x_g|| + l2/2 ||x||^2 + <c, x> + kl sum x log(x / q).

    kind: "space", "orthant", "box", "ball2", "ball1", "simplex" (of a radius) or "capped" (simplex of radius 1 with a cap).
    """

    kind: str
    size: int
    radius: Decimal = ONE
    cap: Decimal = INFINITE
    lower: Vector | None = None
    upper: Vector | None = None
    l1: Decimal = ZERO
    l2: Decimal = ZERO
    kl: Decimal = ZERO
    q: Vector | None = None
    c: Vector | None = None
    group: Decimal = ZERO
    labels: tuple[int, ...] = ()
    weights: Vector | None = None

    def value(self, x: Vector) -> Decimal:
        """psi(x), for x in the domain; where x is negative by rounding its entropy is that of 0."""
        # On a simplex l1 is a constant, also for an x whose sum is the radius up to rounding only.
        size = self.radius if self.kind in ("simplex", "capped") else sum(map(abs, x), ZERO)
        total = self.l1 * size + self.l2 / 2 * dot(x, x) + dot(self.slopes, x)
        if self.group:
            total += self.group * sum(
                (w * length(part) for w, part in zip(self.weights, self.groups(x), strict=True)), ZERO
            )
        if self.kl:
            total += self.kl * sum((t * (t / q).ln() for t, q in zip(x, self.q, strict=True) if t > 0), ZERO)
        return total

    def conjugate(self, s: Vector) -> Decimal:
        """max <s, x> - psi(x)."""
        u = self.maximizer(s)
        return dot(s, u) - self.value(u)

    def fenchel(self, x: Vector, g: Vector) -> Decimal:
        """<g, x> + psi(x) + psi^*(-g)."""
        return dot(g, x) + self.value(x) + self.conjugate([-t for t in g])

    def prox(self, omega: Vector, weight: Decimal) -> Vector:
        """argmin ||x - omega||^2 / 2 + weight psi(x): the maximizer for a psi with one more quadratic."""
        c = [weight * t for t in self.slopes]
        terms = {
            "l1": weight * self.l1,
            "l2": ONE + weight * self.l2,
            "kl": weight * self.kl,
            "group": weight * self.group,
        }
        return replace(self, c=c, **terms).maximizer(omega)

    def maximizer(self, s: Vector) -> Vector:
        """Where <s, x> - psi(x) is largest."""
        v = [t - c for t, c in zip(s, self.slopes, strict=True)]
        if self.kl:
            return self._entropic(v)
        if self.kind in ("simplex", "capped"):
            return in_simplex(v, self.l2, self.radius, self.cap)
        if self.kind in ("space", "orthant", "box"):
            least = ZERO if self.kind == "orthant" else -INFINITE
            lower, upper = self.lower or [least] * self.size, self.upper or [INFINITE] * self.size
            if self.group:
                return [t / self.l2 for t in self._shrunk(v)]
            return [in_interval(*entry, self.l1, self.l2) for entry in zip(v, lower, upper, strict=True)]
        w = self._shrunk(v)
        return in_ball2(w, self.l2, self.radius) if self.kind == "ball2" else in_ball1(w, self.l2, self.radius)

    def outside(self, x: Vector) -> Decimal:
        """How far x is outside the domain, over the domain's size."""
        if self.kind == "box":
            bounds = zip(x, self.lower, self.upper, strict=True)
            return max(
                (max(low - t, t - high, ZERO) / (max(_finite(low), _finite(high)) or ONE)) for t, low, high in bounds
            )
        size = self.radius or ONE
        if self.kind == "ball2":
            return max(length(x) - self.radius, ZERO) / size
        if self.kind == "ball1":
            return max(sum(map(abs, x), ZERO) - self.radius, ZERO) / size
        below = ZERO if self.kind == "space" else max(map(Decimal.copy_negate, x))
        if self.kind in ("space", "orthant"):
            return max(below, ZERO)
        above = max(t - self.cap for t in x)
        return max(abs(sum(x, ZERO) - self.radius), below, above, ZERO) / size

    @property
    def slopes(self) -> Vector:
        """c, or zeros."""
        return self.c or [ZERO] * self.size

    def groups(self, x: Vector) -> list[Vector]:
        """The entries of each group."""
        return [[t for t, label in zip(x, self.labels, strict=True) if label == g] for g in range(len(self.weights))]

    def _shrunk(self, v: Vector) -> Vector:
        if not self.group:
            return [soft(t, self.l1) for t in v]
        norms = [length(part) for part in self.groups(v)]
        left = [max(n - self.group * w, ZERO) / (n or ONE) for n, w in zip(norms, self.weights, strict=True)]
        return [t * left[label] for t, label in zip(v, self.labels, strict=True)]

    def _entropic(self, v: Vector) -> Vector:
        if self.kind == "simplex":
            top = max(v)
            shares = [q * ((t - top) / self.kl).exp() for t, q in zip(v, self.q, strict=True)]
            return [share / sum(shares, ZERO) for share in shares]
        return [entropic_entry(t, q, self.kl, self.l2) for t, q in zip(v, self.q, strict=True)]


def _finite(bound: Decimal) -> Decimal:
    return abs(bound) if bound.is_finite() else ZERO


@dataclass(frozen=True)
class OfSingularValues:
    """psi of the singular values of a matrix with two columns."""

    inner: Psi

    def fenchel(self, x: Vector, g: Vector) -> Decimal:
        """<g, x> + psi(x) + psi^*(-g)."""
        return dot(g, x) + self.inner.value(singular_values(x)) + self.inner.conjugate(singular_values(g))

    def outside(self, x: Vector) -> Decimal:
        """As its singular values are."""
        return self.inner.outside(singular_values(x))


def singular_values(x: Vector) -> Vector:
    """Both, of a matrix with two columns, from its Gram matrix."""
    first, second = x[0::2], x[1::2]
    a, b, c = dot(first, first), dot(first, second), dot(second, second)
    root = ((a - c) ** 2 / 4 + b * b).sqrt()
    larger = (a + c) / 2 + root
    return [larger.sqrt(), max((a * c - b * b) / larger, ZERO).sqrt() if larger else ZERO]


def is_number(value: Any) -> bool:
    """Whether a reported number is one: finite and not below 0."""
    return isinstance(value, float) and math.isfinite(value) and value >= 0
