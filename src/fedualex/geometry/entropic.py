"""The entropic mirror map on the unit simplex."""

from dataclasses import replace
from typing import Any

import numpy as np

from ..arrays import Array, ascending, put_back, sums_from_the_end, xp
from ..regularizers import KL, L1, AbstractRegularizer, CappedSimplex, Simplex, WithQuadratic, Zero, constant_of, split
from ..regularizers.base import ModelForm, capped_profile, nonzero
from ..tree import Scalar, Vector, as_real, cast_like
from ..validation import short
from .base import AbstractGeometry, Dual, zero_weight

# Softmax under a cap, and relative entropies that keep their digits.


NEAR, TERMS = 0.1, 15
"""Where the divergence is a series, and its last power: NEAR^TERMS is below the rounding of float64."""


def capped_softmax(omega: Array, cap: Scalar) -> Array:
    """min(cap, exp(omega - kappa)) with kappa such that the sum is 1.

    If the j largest entries sit at the cap, the others share 1 - j cap in proportion to exp(omega); the first j
    for which none of those exceeds the cap is the right one.
    """
    cap = xp.minimum(xp.asarray(cap, omega.dtype), 1)
    negative, order = ascending(-omega)
    falling = -negative
    left = xp.maximum(1 - cap * xp.arange(omega.size, dtype=omega.dtype), 0)
    fits = left / _tail_ratios(falling) <= cap
    first = xp.argmax(xp.append(fits[:-1], True))  # the last entry gets what is left, whatever the rounding
    shares = xp.where(xp.arange(omega.size) < first, 0, xp.exp(falling - falling[first]))
    sorted_x = xp.where(xp.arange(omega.size) < first, cap, shares / xp.sum(shares) * left[first])
    return put_back(sorted_x, order, omega)


def _tail_ratios(falling: Array) -> Array:
    """T_j = sum_{i >= j} exp(w_i - w_j) for falling w, from T_j = 1 + exp(w_{j+1} - w_j) T_{j+1}.

    Made of differences alone, so that it stays accurate for w of any size.
    """
    return sums_from_the_end(xp.exp(xp.append(xp.diff(falling), -xp.inf)))


def relative_entropy(z: Vector, reference: Vector) -> Array:
    """z log(z / r) - z + r, entry by entry; near z = r by the series of (1 + u) log(1 + u) - u, u = (z - r) / r.

    There the difference is of the order u^2 and would be lost to rounding, and with it what backtracking compares.
    """
    u = xp.asarray(z - reference) / nonzero(xp.asarray(reference))
    near = (xp.abs(u) < NEAR) & (reference > 0)
    small = xp.where(near, u, 0)
    series = xp.zeros_like(small)
    for k in range(TERMS, 1, -1):
        series = (-1) ** k / (k * (k - 1)) + small * series
    logarithm = xp.log(nonzero(xp.asarray(z))) - xp.log(nonzero(xp.asarray(reference)))
    plain = xp.where(z > 0, xp.where(reference > 0, z * logarithm, xp.inf), 0)
    return xp.where(near, reference * small**2 * series, plain - z + reference)


class EntropicSimplex(AbstractGeometry):
    """ell(x) = sum x log x on {x >= 0, sum x = 1}, 1-strongly convex in ||.||_1 (Pinsker).

    The regularizer is one of: none, `Linear`, `L1` (a constant here), `Entropy`, `KL`, `CappedSimplex`, and
    `Linear` added to any of these. All but the cap are <c, x> + lam sum x log(x / q) for some c, lam and q.
    """

    regularizer: AbstractRegularizer

    def __init__(self, regularizer: Any = None):
        psi = Zero() if regularizer is None else regularizer
        core, lam, c = split(psi)
        if not isinstance(core, Zero | L1 | KL | CappedSimplex) or np.any(lam):
            raise TypeError(
                f"EntropicSimplex: regularizer={short(psi)} has no closed form with the entropic mirror map; "
                "accepted are nothing, Linear, L1, Entropy, KL, CappedSimplex, and Linear + one of them"
            )
        self.regularizer = WithQuadratic(Zero(), lam, c, core.lam) if isinstance(core, L1) else psi

    def primal(self, dual: Dual) -> Array:
        """softmax((w + tau lam log q) / (1 + tau lam)), w = omega - tau c; with a cap, min(cap, exp(w - kappa))."""
        core, _, c = split(self.regularizer)
        omega = as_real(dual.omega)
        tau = cast_like(dual.tau, omega)
        omega = omega - tau * cast_like(c, omega)
        if isinstance(core, CappedSimplex):
            core.check_size(omega.size)
            return capped_softmax(omega, core.cap)
        lam, log_q = _entropy_of(core, omega)
        weight = tau * lam
        # Shifted before the division, and log q with weight/(1 + weight) <= 1: nothing overflows.
        tilted = (omega - xp.max(omega)) / (1 + weight) + weight / (1 + weight) * log_q
        shares = xp.exp(tilted - xp.max(tilted))
        return shares / xp.sum(shares)

    def dual(self, z: Vector) -> Dual:
        """(log z, 0), up to a constant that nothing depends on; z is kept above the smallest normal number."""
        return Dual(xp.log(xp.maximum(as_real(z), xp.finfo(xp.result_type(as_real(z))).tiny)), zero_weight(z))

    def interior(self, z: Vector) -> Array:
        """99% of z and 1% of the uniform point: no divergence from there exceeds log(100 size)."""
        return 0.99 * as_real(z) + 0.01 / xp.size(z)

    def ell(self, z: Vector) -> Array:
        """sum z log z, with 0 log 0 = 0."""
        z = xp.maximum(z, 0)
        return xp.sum(z * xp.log(nonzero(z)))

    def psi(self, z: Vector) -> Array:
        return self.regularizer.value(z)

    def psi_conjugate(self, s: Vector) -> Array:
        """max(s - c) - constant; lam logsumexp((s - c) / lam + log q) with an entropy; row 20's sum with a cap."""
        core, _, c = split(self.regularizer)
        slope, constant = as_real(s) - cast_like(c, s), cast_like(constant_of(self.regularizer), s)
        if isinstance(core, CappedSimplex):
            return core.conjugate(slope) - constant
        lam, log_q = _entropy_of(core, slope)
        tilted = slope + lam * log_q
        top = xp.max(tilted)
        return top + lam * xp.log(xp.sum(xp.exp((tilted - top) / nonzero(lam)))) - constant

    def subgradient(self, z: Vector) -> Array:
        return self.regularizer.subgradient(z)

    def violation(self, z: Vector) -> Array:
        """The simplex's, or the capped simplex's."""
        core, _, _ = split(self.regularizer)
        return core.violation(z) if isinstance(core, CappedSimplex) else Simplex().violation(z)

    def divergence(self, z: Vector, reference: Vector) -> Array:
        """KL(z || reference) = sum z log(z / reference) - z + reference."""
        z, reference = xp.maximum(z, 0), xp.maximum(reference, 0)
        return xp.sum(relative_entropy(z, reference))

    def norm(self, z: Vector) -> Array:
        """||z||_1."""
        return xp.sum(xp.abs(z))

    def dual_norm(self, g: Vector) -> Array:
        """max |g|."""
        return xp.max(xp.abs(g), initial=0)

    def B0(self, omega0: Vector) -> Array:
        """logsumexp(omega0) - min omega0, at a vertex; with a cap, at the capped extreme point."""
        omega0 = as_real(omega0)
        core, _, _ = split(self.regularizer)
        domain = core if isinstance(core, CappedSimplex) else Simplex()
        profile = capped_profile(omega0.size, core.cap if isinstance(core, CappedSimplex) else 1.0, omega0.dtype)
        # All extreme points have the same entropy, so the supremum is at the one with the least <omega0, x>.
        return self.potential(Dual(omega0, zero_weight(omega0))) + self.ell(profile) + domain.support(-omega0)

    def diameter(self, like: Vector) -> Array:
        """2 in the l1 norm; with a cap, between an extreme point and the one in the opposite order."""
        core, _, _ = split(self.regularizer)
        cap = core.cap if isinstance(core, CappedSimplex) else 1.0
        profile = capped_profile(np.size(like), cap, xp.result_type(as_real(like)))
        return xp.sum(xp.abs(profile - profile[::-1]))

    @property
    def finite_conjugate(self) -> bool:
        """True: the simplex is bounded."""
        return True

    def sizes(self, z: Array, g: Array, psi: Array, conjugate: Array) -> Array:
        """Constants, lam |z log z|, lam |z log q|, |c z|, |g| + |c|, lam (1 + |log q|)."""
        core, _, c = split(self.regularizer)
        z, tilt = xp.maximum(z, 0), xp.abs(cast_like(c, z))
        constant = xp.abs(cast_like(constant_of(self.regularizer), z))
        sizes = xp.sum(tilt * z) + 5 * xp.max(xp.abs(g) + tilt) + 2 * constant
        if isinstance(core, KL):
            lam, log_q = cast_like(core.lam, z), xp.abs(xp.log(cast_like(core.q, z)))
            inside = xp.sum(xp.abs(z * xp.log(nonzero(z))) + z * log_q)
            return sizes + lam * (inside + xp.max(log_q) + xp.log(z.size) + 1)
        return sizes

    @property
    def rounding_is_bound(self) -> bool:
        """True: `sizes` counts every term."""
        return True

    @property
    def power(self) -> float:
        return 1.0

    def radius(self, like: Vector) -> Array:
        """1: no point has another norm, and half a diameter may be less, down to 0 where C is one point."""
        return xp.ones(())

    def __repr__(self) -> str:
        return f"EntropicSimplex({'' if isinstance(self.regularizer, Zero) else repr(self.regularizer)})"

    def model_form(self) -> ModelForm:
        return replace(self.regularizer.model_form(), lower=0.0, coupling="sum", radius=1.0)


def _entropy_of(core: AbstractRegularizer, like: Array) -> tuple[Array, Array]:
    """lam and log q of lam sum x log(x / q); lam = 0 where there is no entropy."""
    lam, q = (core.lam, core.q) if isinstance(core, KL) else (0.0, 1.0)
    return cast_like(lam, like), xp.log(cast_like(q, like))
