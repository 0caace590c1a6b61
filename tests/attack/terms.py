"""Random regularizers and geometries: an expression that can be pasted, and the same in exact arithmetic."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import fedualex as fx

from .exact import OfSingularValues, Psi
from .suprema import INFINITE, number, vector

Rng = np.random.Generator


@dataclass(frozen=True)
class Term:
    """A regularizer or geometry as text, and what it means."""

    text: str
    exact: Psi | OfSingularValues

    def built(self) -> Any:
        """The library's object."""
        return evaluated(self.text)


def evaluated(text: str) -> Any:
    """What an expression of a repro stands for."""
    return eval(text, {"fx": fx, "np": np, "csr_array": csr_array})


def array(values: Any) -> str:
    """An array as text that gives back the same bits."""
    return f"np.array({np.asarray(values).tolist()!r})"


def scale(rng: Rng) -> float:
    """A size from 1e-8 to 1e8; often 1."""
    return 1.0 if rng.random() < 0.3 else float(10 ** rng.uniform(-8, 8))


def _box(rng: Rng, n: int) -> Term:
    size = scale(rng)
    kind = rng.integers(4)
    if kind == 0:
        return Term(f"fx.Box({size!r})", _interval(np.full(n, -size), np.full(n, size)))
    center = size * rng.normal(size=n) * (1.0 if kind == 1 else 1e4)  # far from 0: differences lose digits
    width = size * rng.uniform(0, 1, n) * (rng.random(n) < 0.8)  # some entries have equal bounds
    lower, upper = center - width, center + width
    return Term(f"fx.Box(lower={array(lower)}, upper={array(upper)})", _interval(lower, upper))


def _interval(lower: Any, upper: Any) -> Psi:
    return Psi("box", len(lower), lower=vector(lower), upper=vector(upper))


def _one_sided(rng: Rng, n: int) -> Term:
    bound, strength = scale(rng) * float(rng.normal()), scale(rng)
    side = "lower" if rng.random() < 0.5 else "upper"
    bounds = {"lower": [-INFINITE] * n, "upper": [INFINITE] * n} | {side: [number(bound)] * n}
    return Term(f"fx.Box({side}={bound!r}) + fx.SquaredL2({strength!r})", Psi("box", n, l2=number(strength), **bounds))


def _ball(kind: str, name: str) -> Callable[[Rng, int], Term]:
    def make(rng: Rng, n: int) -> Term:
        radius = 0.0 if rng.random() < 0.05 else scale(rng)
        return Term(f"fx.{name}({radius!r})", Psi(kind, n, radius=number(radius)))

    return make


def _simplex(rng: Rng, n: int) -> Term:
    radius = scale(rng)
    return Term(f"fx.Simplex({radius!r})", Psi("simplex", n, radius=number(radius)))


def _capped(rng: Rng, n: int) -> Term:
    cap = float(rng.choice([1 / n, 1.0, rng.uniform(1 / n, 1)]))
    return Term(f"fx.CappedSimplex({cap!r})", Psi("capped", n, cap=number(cap)))


def _quadratic(rng: Rng, n: int) -> Term:
    strength = scale(rng)
    return Term(f"fx.SquaredL2({strength!r})", Psi("space", n, l2=number(strength)))


def _entropy(rng: Rng, n: int) -> Term:
    strength = float(10 ** rng.uniform(-2, 4))
    q = rng.uniform(0.1, 1, n)
    return Term(f"fx.KL({strength!r}, {array(q)})", Psi("orthant", n, kl=number(strength), q=vector(q)))


def _with_l1(rng: Rng, term: Term) -> Term:
    strength = scale(rng)
    return Term(f"{term.text} + fx.L1({strength!r})", replace(term.exact, l1=number(strength)))


def _with_l2(rng: Rng, term: Term) -> Term:
    strength = scale(rng)
    total = term.exact.l2 + number(strength)
    # The library adds strengths in float64; two of them would differ from the exact sum.
    return term if term.exact.l2 else Term(f"{term.text} + fx.SquaredL2({strength!r})", replace(term.exact, l2=total))


def _with_linear(rng: Rng, term: Term) -> Term:
    c = scale(rng) * rng.normal(size=term.exact.size)
    return Term(f"{term.text} + fx.Linear({array(c)})", replace(term.exact, c=vector(c)))


def _with_groups(rng: Rng, term: Term) -> Term:
    strength, n = scale(rng), term.exact.size
    count = int(rng.integers(1, n + 1))
    labels = rng.permutation(np.arange(n) % count)
    weights = rng.uniform(0, 2, count)
    text = f"{term.text} + fx.GroupL2({strength!r}, {array(labels)}, {array(weights)})"
    psi = replace(term.exact, group=number(strength), labels=tuple(labels.tolist()), weights=vector(weights))
    return Term(text, psi)


Joined = Callable[[Rng, Term], Term]
FREE: tuple[Joined, ...] = (_with_l2, _with_linear)
EUCLIDEAN: dict[str, tuple[Callable[[Rng, int], Term], tuple[Joined, ...]]] = {
    "box": (_box, (_with_l1, *FREE)),
    "one-sided box": (_one_sided, (_with_l1, _with_linear)),
    "l2 ball": (_ball("ball2", "L2Ball"), (_with_l1, *FREE)),
    "l2 ball with groups": (_ball("ball2", "L2Ball"), (_with_groups, *FREE)),
    "l1 ball": (_ball("ball1", "L1Ball"), (_with_l1, *FREE)),
    "simplex": (_simplex, (_with_l1, *FREE)),
    "capped simplex": (_capped, (_with_l1, *FREE)),
    "quadratic": (_quadratic, (_with_l1, _with_linear)),
    "quadratic with groups": (_quadratic, (_with_groups, _with_linear)),
    "entropy": (_entropy, FREE),
}
"""What a sum begins with, and what may join it."""


def euclidean(rng: Rng, n: int) -> Term:
    """A sum with a finite conjugate."""
    begin, joins = EUCLIDEAN[str(rng.choice(list(EUCLIDEAN)))]
    term = begin(rng, n)
    for join in joins:
        if rng.random() < 0.4:
            term = join(rng, term)
    return term


def entropic(rng: Rng, n: int) -> Term:
    """The entropic simplex with one of its regularizers."""
    simplex = Psi("simplex", n)
    kind = rng.integers(4)
    if kind == 0:
        return Term("fx.EntropicSimplex()", simplex)
    if kind == 1:
        inner = _entropy(rng, n)
        simplex = replace(simplex, kl=inner.exact.kl, q=inner.exact.q)
    elif kind == 2:
        inner = _capped(rng, n)
        simplex = inner.exact
    else:
        inner = _with_linear(rng, Term("fx.Zero()", Psi("space", n)))
        simplex = replace(simplex, c=inner.exact.c)
    return Term(f"fx.EntropicSimplex({inner.text})", simplex)


def spectral(rng: Rng) -> Term:
    """On the singular values of a matrix with two columns."""
    begin, joins = EUCLIDEAN[str(rng.choice(["l2 ball", "l1 ball", "quadratic"]))]
    term = begin(rng, 2) if rng.random() < 0.7 else Term("fx.Box(0.5)", _interval(np.full(2, -0.5), np.full(2, 0.5)))
    if rng.random() < 0.5 and _with_l1 in joins:
        term = _with_l1(rng, term)
    return Term(f"fx.Spectral({term.text}, 'svd')", OfSingularValues(term.exact))
