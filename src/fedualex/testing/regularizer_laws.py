"""The laws of a regularizer."""

import itertools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..arrays import Array
from ..compiling import double
from ..geometry import calls_lapack
from ..regularizers import AbstractRegularizer, SquaredL2
from ..regularizers.fenchel import fenchel, has_rounding_bound
from ..tree import Tree
from ..validation import of_type
from .sampling import FAR, FEASIBLE, ROUNDING, Laws, Margins, check_like, equal, size

QUADRATICS = (0.0, 1e-33, 1e-160, 1e-300, 1e150)
"""None, one that is lost beside anything, and those with which squares leave the range of floats."""


def check_regularizer(psi: AbstractRegularizer, like: Tree | None = None, *, samples: int = 20, seed: int = 0) -> None:
    """Check every law of a regularizer at random points shaped as the array `like` (a shape that fits, if None).

    psi: what is checked. samples, seed: how many points, and which.
    Raises: an AssertionError that names the broken law and its point.
    """
    of_type("psi", psi, AbstractRegularizer, "a regularizer such as fx.L1(0.1)")
    like = check_like(psi, like)
    check_extremes(psi, like)
    Laws(psi, like, regularizer_laws).check_samples(samples, seed)


def regularizer_laws(psi: AbstractRegularizer, like: Tree, omega: Array, other: Array, weight: Array) -> Margins:
    """The margins of all laws at one pair of points.

    psi, like: what is checked, and an array of the shape of its points. omega, other, weight: where.
    """
    x, u = psi.prox(omega, weight), psi.prox(other, jnp.zeros(()))
    return {
        **_prox_laws(psi, omega, other, weight, x, u),
        **_conjugate_laws(psi, omega, weight, x, u, s=other),
        **_domain_laws(psi, like, omega, x, u),
        **_check_declared(psi, omega, weight, x, s=other),
        **_fenchel_laws(psi, u, s=other, meant=omega),
    }


def _prox_laws(psi: AbstractRegularizer, omega: Array, other: Array, weight: Array, x: Array, u: Array) -> Margins:
    """x = prox(omega) exactly if <omega - x, v - x> <= weight (psi(v) - psi(x)) for all v in the domain."""

    def argmin(v: Array) -> Array:
        gain = weight * (psi.value(v) - psi.value(x))
        scale = (1 + size(omega) + size(x)) * (1 + size(v) + size(x)) + jnp.abs(gain)
        return gain - jnp.vdot(omega - x, v - x) + ROUNDING * scale

    # A point that is not the minimizer is beaten by a small step down its own slope.
    downhill = omega - x - weight * psi.subgradient(x)
    rivals = [u, *(psi.prox(x + step * downhill, jnp.zeros(())) for step in (0.1, 1e-3))]
    second = psi.prox(other, weight)
    firm = jnp.vdot(omega - other, x - second) - jnp.sum((x - second) ** 2)
    again = psi.prox(u, jnp.zeros(()))
    return {
        "prox is the argmin": jnp.min(jnp.stack([argmin(v) for v in rivals])),
        "prox lands in the domain": FEASIBLE - psi.violation(x),
        "prox is firmly nonexpansive": firm + ROUNDING * (1 + size(omega) + size(other)) ** 2,
        "prox with weight 0 projects": equal(size(again - u), jnp.zeros(()), FEASIBLE * (1 + size(u))),
    }


def _conjugate_laws(psi: AbstractRegularizer, omega: Array, weight: Array, x: Array, u: Array, s: Array) -> Margins:
    """psi^*(s) >= <s, u> - psi(u) with equality at its maximizer, and at the prox for s = (omega - x) / weight."""
    conjugate = psi.conjugate(s)
    below = jnp.vdot(s, u) - psi.value(u)
    scale = 1 + size(s) * (1 + size(u)) + jnp.abs(below)
    best = psi.prox(FAR * s, jnp.asarray(FAR))
    attained = jnp.vdot(s, best) - psi.value(best)
    near = ROUNDING * (1 + size(s) * (1 + size(best)) + jnp.abs(attained)) + (1 + jnp.square(size(best))) / FAR
    reached = jnp.isfinite(conjugate) & (size(best) ** 2 <= FAR)  # farther out, FAR is not far enough
    slope = (omega - x) / jnp.maximum(weight, 1e-6)
    touch = psi.conjugate(slope) + psi.value(x) - jnp.vdot(slope, x)
    tight = 1e-8 * ((1 + size(slope)) * (1 + size(x)) + jnp.abs(psi.value(x)))
    # An infinite conjugate is on the edge of its domain at the prox: rounding alone decides there.
    touching = (weight >= 1e-6) & psi.finite_conjugate & jnp.isfinite(touch)
    return {
        "Fenchel-Young": conjugate - below + ROUNDING * scale,
        "the conjugate is attained": jnp.where(reached, equal(conjugate, attained, near), 0),
        "an infinite conjugate is unbounded": jnp.where(jnp.isinf(conjugate) & (size(s) > 1e-3), attained - 1, 0),
        "Fenchel-Young is tight at the prox": jnp.where(touching, equal(touch, jnp.zeros(()), tight), 0),
    }


def _fenchel_laws(psi: AbstractRegularizer, u: Array, s: Array, meant: Array) -> Margins:
    """`fenchel` is psi(u) + psi^*(s) - <s, u>, and its rounding is no less than what another slope makes of it."""
    bound, other = fenchel(psi, u, s, jnp.abs(meant - s)), fenchel(psi, u, meant, jnp.zeros_like(meant))
    plain = psi.value(u) + psi.conjugate(s) - jnp.vdot(s, u)
    tight = ROUNDING * (1 + size(s) * (1 + size(u)) + jnp.abs(psi.value(u)) + jnp.abs(plain))
    slack = bound.gap + bound.rounding - other.gap + tight
    bounded = has_rounding_bound(psi) and psi.finite_conjugate
    return {
        "the Fenchel gap is psi + psi^* - <s, x>": jnp.where(jnp.isfinite(plain), equal(bound.gap, plain, tight), 0),
        "an error of the slope costs at most its rounding": slack if bounded else jnp.zeros(()),
    }


def _domain_laws(psi: AbstractRegularizer, like: Any, center: Array, x: Array, u: Array) -> Margins:
    s = psi.subgradient(x)
    slack = psi.value(u) - psi.value(x) - jnp.vdot(s, u - x)
    rounding = FEASIBLE * (1 + size(center) + size(u))
    return {
        "subgradient inequality": slack + ROUNDING * (1 + size(s)) * (1 + size(u) + size(x)),
        "no point is beyond the farthest": psi.farthest(center) - size(u - center) + rounding,
        "no pair is beyond the diameter": psi.diameter(like) - size(u - x) + rounding,
    }


def _check_declared(psi: AbstractRegularizer, omega: Array, weight: Array, x: Array, s: Array) -> Margins:
    """What psi says about itself."""
    moved = size(omega - psi.prox(omega, jnp.zeros(()))) > 1e-6 * (1 + size(omega))
    silent = moved & (psi.violation(omega) <= FEASIBLE)
    # Beyond 30 even a finite conjugate may overflow: exp(s / lam) for an entropy.
    infinite = psi.finite_conjugate & jnp.isinf(psi.conjugate(s)) & (jnp.max(jnp.abs(s)) <= 30)
    margins: Margins = {
        "violation sees what projection moves": jnp.where(silent, -1.0, 0.0),
        "finite_conjugate is true": jnp.where(infinite, -1.0, 0.0),
    }
    if psi.absolutely_symmetric:
        flipped = psi.prox(-jnp.flip(omega), weight)
        apart = size(flipped + jnp.flip(x)) + jnp.abs(psi.value(-jnp.flip(x)) - psi.value(x))
        margins["absolutely_symmetric is true"] = equal(apart, jnp.zeros(()), ROUNDING * (1 + size(omega)))
    return margins


def check_extremes(psi: AbstractRegularizer, like: Tree) -> None:
    """Zero, huge and tiny arguments, and huge and tiny quadratics beside psi, compiled as in a run.

    A prox is a finite point of the domain, a conjugate is neither nan nor below what a point attains (it may be
    infinite), float32 stays float32, and finite_conjugate is true.

    psi, like: the regularizer, and an array of the shape of its points.
    """
    direction = np.random.default_rng(0).normal(size=np.shape(like))
    with double():
        # Op by op where LAPACK is called, as in `Laws`.
        measure = _extremes if calls_lapack(psi) else eqx.filter_jit(_extremes)
        for total in (psi + SquaredL2(lam) for lam in QUADRATICS):
            for scale, weight in itertools.product((0.0, 1e30, 1e-30), (0.0, 1.0, 1e30)):
                inside, above = measure(total, jnp.asarray(scale * direction), jnp.asarray(weight))
                if not inside:
                    raise AssertionError(f"{total!r}: prox({scale} * direction, {weight}) is no finite point of C")
                if not above:
                    raise AssertionError(f"{total!r}: conjugate({scale} * direction) is nan or below <s, x> - psi(x)")
        if psi.finite_conjugate and not jnp.isfinite(psi.conjugate(direction)):
            raise AssertionError(f"{psi!r} says finite_conjugate, but its conjugate is infinite at {direction!r}")
    x = psi.prox(jnp.asarray(direction, jnp.float32), jnp.float32(0.5))
    if x.dtype != jnp.float32 or x.shape != np.shape(like):
        raise AssertionError(f"{psi!r}: prox turns float32 {np.shape(like)} into {x.dtype} {x.shape}")


def _extremes(psi: AbstractRegularizer, s: Array, weight: Array) -> tuple[Array, Array]:
    """Whether prox(s) is a finite point of the domain, and whether conjugate(s) is above what that point attains."""
    x = psi.prox(s, weight)
    inside = jnp.all(jnp.isfinite(x)) & jnp.less_equal(psi.violation(x), FEASIBLE)
    # From a point of about size 1: beyond, psi itself may be out of range.
    u = psi.prox(s / jnp.maximum(size(s), 1), jnp.zeros(()))
    below = jnp.vdot(s, u) - psi.value(u)
    lost = ROUNDING * (1 + size(s) * (1 + size(u)) + jnp.abs(below))
    return inside, jnp.greater_equal(psi.conjugate(s), below - lost)
