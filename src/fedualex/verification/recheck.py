"""Certificates computed once more, in plain numpy float64.

What computed them is not used here: the formulas are written again, for the data that `description.describe` makes of a
geometry. A quadratic term is an argument of every conjugate, so that no prox is needed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Suprema over boxes and mixtures, to which nearly all conjugates come down.


Array = NDArray[Any]
Numbers = float | Array


def in_box(s: Array, lower: Numbers, upper: Numbers, mu: float, lam: float = 0.0) -> Any:
    """sup of <s, x> - lam ||x||_1 - mu/2 ||x||^2 over lower <= x <= upper, entry by entry."""
    if mu > 0:
        x = np.clip(np.sign(s) * np.maximum(np.abs(s) - lam, 0) / mu, lower, upper)
        at_x = np.sum(s * x - lam * np.abs(x) - mu / 2 * x * x)
        if np.isfinite(at_x):
            return at_x
        # Out of range; without the quadratic the sup is a bound, and infinite where x is.
    best: Numbers = -inf
    for corner in (lower, upper, np.clip(0.0, lower, upper)):  # linear but for the kink at 0
        slope = s - lam * np.sign(corner)
        best = np.maximum(best, slope * np.where(slope == 0, 0, corner))
    return np.sum(best)


def in_mixtures(s: Array, cap: float, mu: float, least: float = -inf) -> Any:
    """sup of <s, x> - mu/2 ||x||^2 over 0 <= x <= cap, sum x = 1; with least = 0, over sum x <= 1.

    By duality the least of kappa + sup_{0 <= x <= cap} <s - kappa, x> - mu/2 ||x||^2 over kappa >= least. No kappa
    gives less than the sup, so that an error of kappa cannot hide a gap.
    """
    if mu > 0:
        low = max(float(np.min(s)) - mu * cap, least)
        kappa = root(lambda kappa: np.sum(np.clip((s - kappa) / mu, 0, cap)) - 1, low, float(np.max(s)))
    else:
        kappa = np.sort(s, axis=None)[-min(ceil(1 / cap), s.size)]
    return kappa + in_box(s - kappa, 0.0, cap, mu)


def root(falling: Callable[[Any], Any], low: Numbers, high: Numbers) -> Numbers:
    """Where a falling function crosses 0 between low and high, entry by entry, by bisection."""
    for _ in range(100):
        middle = (low + high) / 2
        above = falling(middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return (low + high) / 2


def excess(s: Array, lam: float, groups: Numbers | None = None, weights: Numbers = 1.0) -> Array:
    """(||s_g|| - lam w_g)_+, what a norm as penalty leaves of a slope; without groups, each entry is one."""
    norms = np.abs(s) if groups is None else np.sqrt(np.bincount(np.ravel(groups).astype(int), np.ravel(s) ** 2))
    return np.maximum(norms - lam * weights, 0)


def relative(excess: Any, size: Any) -> Any:
    """The largest part of excess above 0, over size; over 1 where size is 0."""
    return np.max(np.maximum(excess, 0) / np.where(np.asarray(size) > 0, size, 1))


# One form a class: value, conjugate and violation of every regularizer and geometry, by its class name.


Description = Mapping[str, Any]


class CannotRedo(ValueError):  # noqa: N818 (an answer, not a fault)
    """A regularizer or geometry whose formulas are not written here."""


@dataclass(frozen=True)
class Psi:
    """A convex function psi on a set C; unless given, psi = 0 and C is the whole space."""

    conjugate: Callable[[Array, float], Any]
    """(s, mu): sup_{x in C} <s, x> - psi(x) - mu/2 ||x||^2."""
    value: Callable[[Array], Any] = lambda x: 0.0
    violation: Callable[[Array], Any] = lambda x: 0.0
    """How far x is outside C, relative to the size of C, or of x where C is a cone."""
    mixed: Callable[[Array], Any] = lambda x: 0.0
    """The sum of the sizes of those terms of psi(x) that may have either sign."""


def build(part: Description) -> Psi:
    """The form of a described part, or a `CannotRedo`."""
    name = part["class"]
    if "foreign" in part:
        raise CannotRedo(f"{name} is a class of the user's own, for which the independent check has no formulas")
    if name not in FORMS:
        raise CannotRedo(f"{name} has no formulas in the independent check")
    return FORMS[name](**_fields(part))


def _fields(part: Description) -> dict[str, Any]:
    return {key: _read(value) for key, value in part.items() if key != "class"}


def _read(value: Any) -> Any:
    """Numbers in float64; a description inside another as it is."""
    if isinstance(value, Mapping):
        return value
    return np.array(value, dtype=np.float64) if isinstance(value, list) else float(value)


def _box(lower: Numbers = -inf, upper: Numbers = inf, lam: float = 0.0) -> Psi:
    """lam ||x||_1 on lower <= x <= upper, violated relative to each entry's own finite bounds."""
    size = np.maximum(*(np.where(np.isfinite(bound), np.abs(bound), 0) for bound in (lower, upper)))
    return Psi(
        lambda s, mu: in_box(s, lower, upper, mu, lam),
        lambda x: lam * np.sum(np.abs(x)),
        lambda x: relative(np.maximum(lower - x, x - upper), np.where(size > 0, size, np.max(np.abs(x)))),
    )


def _group_l2(lam: float, groups: Numbers, weights: Array) -> Psi:
    """lam sum_g w_g ||x_g||, with conjugate sum_g (||s_g|| - lam w_g)_+^2 / (2 mu)."""
    return Psi(
        lambda s, mu: in_box(excess(s, lam, groups, weights), 0.0, inf, mu),
        lambda x: lam * weights @ excess(x, 0.0, groups),
    )


def _kl(lam: float, q: Numbers) -> Psi:
    """lam sum x log(x / q) on x >= 0, with conjugate lam sum q exp(s / lam - 1)."""

    def conjugate(s: Array, mu: float) -> Any:
        if lam == 0:
            return in_box(s, 0.0, inf, mu)
        if mu == 0:
            return lam * np.sum(q * np.exp(s / lam - 1))
        # With the quadratic, at x = q e^u where lam (1 + u) + mu q e^u = s.
        high = s / lam - 1
        u = root(lambda u: s - lam * (1 + u) - mu * q * np.exp(u), np.minimum(high - mu * q / lam, 0), high)
        x = q * np.exp(u)
        return np.sum(x * (s - lam * u - mu / 2 * x))

    return Psi(
        conjugate,
        lambda x: lam * np.sum(x * np.log(np.where(x > 0, x, q) / q)),
        lambda x: relative(-x, np.max(np.abs(x))),
        lambda x: lam * np.sum(np.abs(x * np.log(np.where(x > 0, x, q) / q))),
    )


def _l2_ball(radius: float) -> Psi:
    """||x|| <= radius, with conjugate sup of ||s|| t - mu/2 t^2 over 0 <= t <= radius."""
    return Psi(
        lambda s, mu: in_box(np.array([np.linalg.norm(s)]), 0.0, radius, mu),
        violation=lambda x: relative(np.linalg.norm(x) - radius, radius),
    )


def _l1_ball(radius: float) -> Psi:
    """||x||_1 <= radius, with conjugate radius max |s|."""
    return Psi(
        lambda s, mu: in_mixtures(radius * np.abs(s), 1.0, radius**2 * mu, least=0.0),
        violation=lambda x: relative(np.sum(np.abs(x)) - radius, radius),
    )


def _simplex(radius: float = 1.0, cap: float = inf) -> Psi:
    """x >= 0, sum x = radius, with conjugate radius max s; or 0 <= x <= cap, sum x = 1."""
    return Psi(
        lambda s, mu: in_mixtures(radius * s, min(cap, 1.0), radius**2 * mu),
        violation=lambda x: relative(np.append(np.maximum(-x, x - cap), abs(np.sum(x) - radius)), radius),
    )


def _in_set(penalty: Description, domain: Description) -> Psi:
    """A norm in a set; in a ball, the ball's conjugate of what the norm leaves of s."""
    norm, ball = build(penalty), build(domain)
    match penalty["class"], domain["class"]:
        case "L1", "Box":
            return _box(**_fields(penalty), **_fields(domain))
        case ("L1", "L1Ball" | "L2Ball") | ("GroupL2", "L2Ball"):
            return Psi(lambda s, mu: ball.conjugate(excess(s, **_fields(penalty)), mu), norm.value, ball.violation)
    raise CannotRedo(f"{penalty['class']} in {domain['class']} has no formulas in the independent check")


def _with_quadratic(core: Description, lam: float, c: Numbers, constant: float = 0.0) -> Psi:
    """core(x) + lam/2 ||x||^2 + <c, x> + constant."""
    psi = build(core)
    return Psi(
        lambda s, mu: psi.conjugate(s - c, mu + lam) - constant,
        lambda x: psi.value(x) + np.sum(lam / 2 * x * x) + np.sum(c * x) + constant,
        psi.violation,
        lambda x: psi.mixed(x) + np.sum(np.abs(c * x)) + abs(constant),
    )


def _spectral(psi: Description) -> Psi:
    """psi of the singular values; so is the conjugate, by von Neumann's trace inequality."""
    inner, sigma = build(psi), np.linalg.svdvals
    return Psi(
        lambda s, mu: inner.conjugate(sigma(s), mu),
        lambda x: inner.value(sigma(x)),
        lambda x: inner.violation(sigma(x)),
        lambda x: inner.mixed(sigma(x)),
    )


def _entropic_simplex(regularizer: Description) -> Psi:
    """psi on the unit simplex; lam sum x log(x / q) + <c, x> has conjugate lam log sum q exp((s - c) / lam) there."""
    psi, core, c, constant = build(regularizer), regularizer, 0.0, 0.0
    if core["class"] == "WithQuadratic" and core["lam"] == 0:
        core, c, constant = core["core"], _fields(core)["c"], core.get("constant", 0.0)
    if core["class"] == "CappedSimplex":
        return psi
    if core["class"] not in ("Zero", "KL"):
        raise CannotRedo(f"{core['class']} on EntropicSimplex has no formulas in the independent check")
    fields = _fields(core)
    lam, q = fields.get("lam", 0.0), fields.get("q", 1.0)

    def conjugate(s: Array, mu: float) -> Any:
        tilted = s - c + lam * np.log(q)
        top = np.max(tilted)
        return top - constant + (lam * np.log(np.sum(np.exp((tilted - top) / lam))) if lam > 0 else 0.0)

    return Psi(conjugate, psi.value, _simplex().violation, psi.mixed)


FORMS: dict[str, Callable[..., Psi]] = {
    "Euclidean": lambda regularizer: build(regularizer),
    "PNorm": lambda p, regularizer: build(regularizer),
    "EntropicSimplex": _entropic_simplex,
    "Zero": _box,
    "L1": _box,
    "Box": _box,
    "GroupL2": _group_l2,
    "KL": _kl,
    "L2Ball": _l2_ball,
    "L1Ball": _l1_ball,
    "Simplex": _simplex,
    "CappedSimplex": _simplex,
    "InBox": _in_set,
    "InBall": _in_set,
    "WithQuadratic": _with_quadratic,
    "Spectral": _spectral,
}
"""By the class names that a description may hold."""


# Gap, penalty and violation of a point, leaf by leaf.


NUDGE = 1e-9
"""A share of a slope that shows how far its conjugate moves with it."""


@dataclass(frozen=True)
class Gap:
    """<g, z> + psi(z) + psi^*(-g) of one leaf, and the sum of the sizes of its terms: rounding is a share of that."""

    value: float
    size: float


def fenchel_gaps(description: Description, z: Mapping[str, Array], g: Mapping[str, Array]) -> dict[str, Gap]:
    """The gap of each leaf."""
    return {name: _gap(build(part), _vector(z[name]), _vector(g[name])) for name, part in description.items()}


def _gap(psi: Psi, z: Array, g: Array) -> Gap:
    with np.errstate(over="ignore", invalid="ignore"):  # a conjugate beyond the largest float is an honest infinity
        value, conjugate = psi.value(z), psi.conjugate(-g, 0.0)
        # A conjugate may be what is left of a slope after a difference: what a share of the slope makes of it counts.
        left, right = (psi.conjugate(-(1 + share) * g, 0.0) for share in (-NUDGE, NUDGE))
        slack = np.nan_to_num((right - left) / NUDGE, nan=0.0, posinf=0.0, neginf=0.0)
        size = np.sum(np.abs(g * z)) + abs(value) + psi.mixed(z) + abs(conjugate) + abs(slack)
        return Gap(float(np.vdot(g, z) + value + conjugate), float(size))


def penalty_size(description: Description, z: Mapping[str, Array]) -> float:
    """The sum of the sizes of the terms of psi(z)."""
    psis = [(build(part), _vector(z[name])) for name, part in description.items()]
    return float(sum(abs(psi.value(point)) + psi.mixed(point) for psi, point in psis))


def violation(description: Description, z: Mapping[str, Array]) -> float:
    """How far z is outside the domain, relative to its size: the largest over the leaves."""
    # numpy's maximum, because Python's may lose a nan.
    return float(np.max([build(part).violation(_vector(z[name])) for name, part in description.items()]))


def _vector(leaf: Array) -> Array:
    return np.atleast_1d(np.asarray(leaf, dtype=np.float64))


__all__ = ["FORMS", "CannotRedo", "Gap", "fenchel_gaps", "penalty_size", "violation"]
