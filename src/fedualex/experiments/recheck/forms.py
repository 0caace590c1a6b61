"""One form a class: value, conjugate and violation of every regularizer and geometry, by its class name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from .suprema import Array, Numbers, excess, in_box, in_mixtures, relative, root

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
