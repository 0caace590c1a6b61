"""prox and conjugate of random sums against exact arithmetic, as they are and inside jit; the laws over the lists."""

from decimal import Decimal
from typing import Any

import equinox as eqx
import numpy as np
from support.rows import GEOMETRIES, REGULARIZERS

import fedualex as fx
from fedualex.compiling import double

from .exact import Psi
from .games import LARGE, REFUSALS
from .harness import require, within
from .suprema import ZERO, Vector, dot, number, vector
from .terms import Rng, Term, array, euclidean, scale

SIZES = (1, 2, 7)
ACCURATE = Decimal("1e-11")
"""Relative to the numbers that are added up."""
TINY = Decimal("1e-300")
"""What float64 may lose to underflow."""


def attack(rng: Rng) -> None:
    """prox is the argmin, the conjugate the maximum, and Fenchel-Young is an equality between them."""
    term = euclidean(rng, int(rng.choice(SIZES)))
    omega = scale(rng) * rng.normal(size=term.exact.size) * (rng.random(term.exact.size) < 0.9)
    weight = 0.0 if rng.random() < 0.1 else scale(rng)
    given = f"psi = {term.text}\nomega, weight = {array(omega)}, {weight!r}"
    with within(60, "a prox or conjugate", given), double():
        try:
            psi = term.built()
        except REFUSALS:
            return
        for how, evaluate in (("", _evaluate), (" under jit", _evaluate_compiled)):
            prox, conjugate = (np.asarray(found) for found in evaluate(psi, omega, weight))
            repro = f"{given}\nprint(psi.prox(omega, weight), psi.conjugate(omega)){how and '  #' + how}"
            _check_prox(term, omega, weight, prox, f"prox{how}", repro)
            _check_conjugate(term.exact, omega, conjugate, f"conjugate{how}", repro)


def _evaluate(psi: Any, omega: Any, weight: Any) -> tuple[Any, Any]:
    return psi.prox(omega, weight), psi.conjugate(omega)


_evaluate_compiled = eqx.filter_jit(_evaluate)


def _check_prox(term: Term, omega: Any, weight: float, found: Any, what: str, repro: str) -> None:
    psi = term.exact
    require(found.shape == omega.shape and bool(np.all(np.isfinite(found))), f"{what} is not finite", repro)
    require(psi.outside(vector(found)) <= ACCURATE, f"{what} is outside the domain", repro)
    exact = psi.prox(vector(omega), number(weight))
    strengths = psi.l1 + psi.kl + psi.group * max(psi.weights or [ZERO]) + max(map(abs, psi.slopes))
    size = max(map(abs, vector(omega))) + number(weight) * strengths + _extent(psi)
    error = max(abs(a - b) for a, b in zip(vector(found), exact, strict=True))
    require(
        error <= ACCURATE * size + TINY, f"{what} is wrong by {float(error):.2g} at numbers of {float(size):.2g}", repro
    )


def _check_conjugate(psi: Psi, s: Any, found: Any, what: str, repro: str) -> None:
    at = vector(s)
    u = psi.maximizer(at)
    exact = dot(at, u) - psi.value(u)
    if abs(exact) > LARGE:
        return
    require(found.shape == () and bool(np.isfinite(found)), f"{what} is not a finite number: {found}", repro)
    size = _sizes(psi, at, u)
    error = abs(number(found) - exact)
    require(
        error <= ACCURATE * size + TINY, f"{what} is wrong by {float(error):.2g} at numbers of {float(size):.2g}", repro
    )


def _sizes(psi: Psi, s: Vector, u: Vector) -> Decimal:
    """The sum of the absolute values of all that a conjugate adds up; an exponential loses digits to its argument."""
    slopes = [abs(a) + abs(c) for a, c in zip(s, psi.slopes, strict=True)]
    size = dot(slopes, [abs(t) for t in u]) + psi.l2 * dot(u, u) + (psi.l1 + psi.group) * sum(map(abs, u), ZERO)
    return size + psi.kl * (1 + max(slopes) / psi.kl) ** 2 * sum(map(abs, u), ZERO) if psi.kl else size


def _extent(psi: Psi) -> Decimal:
    bounds = [abs(t) for t in (psi.lower or []) + (psi.upper or []) if t.is_finite()]
    return max([psi.radius if psi.kind in ("ball1", "ball2", "simplex", "capped") else ZERO, *bounds])


def attack_laws(rng: Rng) -> None:
    """The public checkers on a row of the tests' own lists, at points that no test has tried."""
    seed = int(rng.integers(2**31))
    kind, table = ("regularizer", REGULARIZERS) if rng.random() < 0.5 else ("geometry", GEOMETRIES)
    name = str(rng.choice(list(table)))
    repro = f"fx.testing.check_{kind}(*rows.{kind.upper()}S[{name!r}], samples=4, seed={seed})".replace("YS", "IES")
    with within(120, "a check of laws", repro):
        try:
            getattr(fx.testing, f"check_{kind}")(*table[name], samples=4, seed=seed)
        except AssertionError as error:
            require(False, f"a law is broken: {error}", repro)
