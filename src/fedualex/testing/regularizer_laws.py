"""The laws of a regularizer."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..precision import double
from ..regularizers import AbstractRegularizer
from .sampling import FAR, ROUNDING, expect, samples_of, size


def check_regularizer(psi: AbstractRegularizer, like: Any, *, samples: int = 20, seed: int = 0) -> None:
    """Check every law of a regularizer at random points shaped as the array `like`."""
    laws = RegularizerLaws(psi, like)
    laws.check_extremes()
    for omega, other, weight in samples_of(like, samples, seed):
        laws.check(omega, other, weight)


class RegularizerLaws:
    """The laws of one regularizer, compiled once for arrays of one shape."""

    def __init__(self, psi: AbstractRegularizer, like: Any):
        self.psi, self.like = psi, np.asarray(like)
        self.value, self.prox = eqx.filter_jit(psi.value), eqx.filter_jit(psi.prox)
        self.conjugate = eqx.filter_jit(psi.conjugate)

    def check(self, omega: Any, other: Any, weight: float) -> None:
        """All laws at one pair of points and one weight."""
        with double():
            omega, other = jnp.asarray(omega), jnp.asarray(other)
            x, u = self.prox(omega, weight), self.prox(other, 0.0)
            self._check_prox(omega, other, weight, x, u)
            self._check_conjugate(omega, weight, x, u, s=other)
            self._check_subgradient(x, u)
            self._check_distances(omega, x, u)

    def check_extremes(self) -> None:
        """Zero, huge and tiny arguments give finite feasible points, and float32 stays float32."""
        direction = np.random.default_rng(0).normal(size=self.like.shape)
        with double():
            for omega in (0 * direction, 1e30 * direction, 1e-30 * direction):
                for weight in (0.0, 1.0, 1e30):
                    x = self.prox(omega, weight)
                    expect(bool(jnp.all(jnp.isfinite(x))), "prox is finite", self.psi, omega=omega, weight=weight, x=x)
                    self._check_feasible(x)
        # Traced anew: outside the float64 scope the same function is another program.
        x = eqx.filter_jit(self.psi.prox)(jnp.asarray(direction, jnp.float32), jnp.float32(0.5))
        expect(x.dtype == jnp.float32 and x.shape == self.like.shape, "prox keeps dtype and shape", self.psi, x=x)

    def _check_feasible(self, x: Any) -> None:
        violation = float(self.psi.violation(x))
        expect(violation <= 1e-12, "prox lands in the domain", self.psi, x=x, violation=violation)

    def _check_prox(self, omega: Any, other: Any, weight: float, x: Any, u: Any) -> None:
        """x = prox(omega) exactly if <omega - x, u - x> <= weight (psi(u) - psi(x)) for all feasible u."""
        self._check_feasible(x)
        self._check_feasible(u)
        slack = weight * (self.value(u) - self.value(x)) - jnp.vdot(omega - x, u - x)
        scale = (1 + size(omega) + size(x)) * (1 + size(u) + size(x)) + weight * size(self.value(u) - self.value(x))
        expect(slack >= -ROUNDING * scale, "prox is the argmin", self.psi, omega=omega, weight=weight, x=x, u=u)
        second = self.prox(other, weight)
        firm = jnp.vdot(omega - other, x - second) - jnp.sum((x - second) ** 2)
        scale = (1 + size(omega) + size(other)) ** 2
        expect(firm >= -ROUNDING * scale, "prox is firmly nonexpansive", self.psi, omega=omega, other=other)
        again = self.prox(u, 0.0)
        expect(size(again - u) <= 1e-12 * (1 + size(u)), "weight 0 projects", self.psi, u=u, again=again)

    def _check_conjugate(self, omega: Any, weight: float, x: Any, u: Any, s: Any) -> None:
        """psi^*(s) >= <s, u> - psi(u), with equality at its maximizer; equality for s = (omega - prox) / weight."""
        conjugate = self.conjugate(s)
        below = jnp.vdot(s, u) - self.value(u)
        scale = 1 + size(s) * (1 + size(u)) + abs(below)
        expect(conjugate >= below - ROUNDING * scale, "Fenchel-Young", self.psi, s=s, u=u, conjugate=conjugate)
        maximizer = self.prox(FAR * s, FAR)
        attained = jnp.vdot(s, maximizer) - self.value(maximizer)
        if jnp.isfinite(conjugate) and size(maximizer) ** 2 <= FAR:  # farther out, FAR is not far enough
            scale = 1 + size(s) * (1 + size(maximizer)) + abs(attained)
            near = jnp.abs(conjugate - attained) <= ROUNDING * scale + (1 + size(maximizer) ** 2) / FAR
            expect(near, "the conjugate is attained", self.psi, s=s, conjugate=conjugate, attained=attained)
        elif not jnp.isfinite(conjugate):
            expect(not self.psi.finite_conjugate, "finite_conjugate tells the truth", self.psi, s=s)
            expect(attained > 1, "an infinite conjugate is unbounded", self.psi, s=s, attained=attained)
        if weight > 1e-6 and self.psi.finite_conjugate:
            slope = (omega - x) / weight
            touch = self.conjugate(slope) + self.value(x) - jnp.vdot(slope, x)
            scale = (1 + size(slope)) * (1 + size(x)) + self.value(x)
            expect(
                jnp.abs(touch) <= 1e-8 * scale,
                "Fenchel-Young is tight at the prox",
                self.psi,
                omega=omega,
                weight=weight,
            )

    def _check_subgradient(self, x: Any, u: Any) -> None:
        s = self.psi.subgradient(x)
        slack = self.value(u) - self.value(x) - jnp.vdot(s, u - x)
        scale = (1 + size(s)) * (1 + size(u) + size(x))
        expect(slack >= -ROUNDING * scale, "subgradient inequality", self.psi, x=x, u=u, subgradient=s)

    def _check_distances(self, center: Any, x: Any, u: Any) -> None:
        farthest, diameter = self.psi.farthest(center), self.psi.diameter(self.like)
        slack = 1e-12 * (1 + size(center) + size(u))
        expect(size(u - center) <= farthest + slack, "no point is beyond the farthest", self.psi, center=center, u=u)
        expect(size(u - x) <= diameter + slack, "no pair is beyond the diameter", self.psi, x=x, u=u)
