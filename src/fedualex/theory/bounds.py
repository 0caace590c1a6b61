"""What a theorem is made of: constants, and a bound on the gap as a function of the step."""

from dataclasses import dataclass, field
from math import inf, isfinite, prod

import numpy as np

from ..tree import Scalar
from ..validation import any_real_array, positive, short

ROUNDING = 1e-12
"""A step that exceeds the limit by at most this, relatively, is at the limit."""


@dataclass(frozen=True)
class Constants:
    """What the theorems need, in the norm ||.|| of the geometry and its dual ||.||_*.

    beta: ||g_m(z) - g_m(z')||_* <= beta ||z - z'||.
    sigma: sqrt(sup E||g_m(z; xi) - g_m(z)||_*^2), of the whole vector.
    grad_bound: G with E||g_m(z; xi)||_*^2 <= G^2: sqrt(sup ||g_m||_*^2 + sigma^2) where the norm is a Hilbert norm,
        sup ||g_m||_* + sigma in every other.
    B: the paper's sup of the divergence between any two points; infinite for the entropy.
    B0: the sup of the divergence from the start, which is what the proofs need.
    diameter: sup ||z - z'|| over the domain.
    kappa: E||mean of M noises||_*^2 <= kappa sigma^2 / M.
    how: "exact", "bound" or "estimate" for each of these; empty if they were typed in.
    """

    beta: float
    sigma: float
    grad_bound: float
    B: float
    B0: float
    diameter: float
    kappa: float = 1.0
    how: dict[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for name in ("beta", "sigma", "grad_bound", "B", "B0", "diameter", "kappa"):
            least, finite = float(name == "kappa"), name in ("beta", "sigma", "kappa")
            value = any_real_array(name, getattr(self, name), "a real number")
            if value.ndim or value < least or (finite and np.isinf(value)):
                accepted = f"a {'finite ' if finite else ''}number >= {least:g}"
                raise ValueError(f"{name} must be {accepted}, got {short(getattr(self, name))}")
            object.__setattr__(self, name, float(value))


@dataclass(frozen=True)
class Term:
    """coefficient * eta^power.

    name: what the term stands for.
    """

    name: str
    coefficient: float
    power: int

    def at(self, eta: float) -> float:
        """The value at eta > 0; 0 where the coefficient is 0."""
        return self.coefficient * eta**self.power if self.coefficient else 0.0


@dataclass(frozen=True)
class Bound:
    """gap <= sum_i coefficient_i eta^power_i for every step 0 < eta <= step_limit.

    The gap is the weak one, sup_z E[phi(x_bar, y) - phi(x, y_bar)]; `strong` bounds E[sup_z ...], the expected duality
    gap, and is None where no such bound is known.

    name: that of the theorem. parts: the terms of the sum.
    """

    name: str
    step_limit: float
    parts: tuple[Term, ...]
    candidates: dict[str, float] = field(compare=False)
    """The step limit ("smoothness") and, for each other term, the step at which it equals the first term."""
    rate: dict[str, float] = field(compare=False)
    """The closed-form rate, one number for each candidate; if corrected, their sum bounds the gap at `best_step`."""
    strong: "Bound | None" = None

    @property
    def best_step(self) -> float:
        """min of the candidates: infinite if neither smoothness nor noise limits it."""
        return min(self.candidates.values())

    def terms(self, eta: Scalar) -> dict[str, float]:
        """Each term at eta, by name."""
        step = float(positive("eta", eta))
        return {term.name: term.at(step) for term in self.parts}

    def total(self, eta: Scalar) -> float:
        """The sum of the terms at eta; infinite above `step_limit`, where nothing is promised."""
        total = sum(self.terms(eta).values())
        return total if float(eta) <= self.step_limit * (1 + ROUNDING) else inf


def balanced(name: str, step_limit: float, first: Term, others: tuple[Term, ...], factor: float = 2.0) -> Bound:
    """The bound first + others, with the steps that balance it and the rate at the smallest of them.

    `first` is a / eta. At eta_i = (a / c_i)^(1 / (p_i + 1)) it equals c_i eta_i^p_i = a / eta_i. Since
    a / min_i eta_i <= sum_i a / eta_i, and the other terms come on top of it, the rate is

        a / step_limit + factor * sum_i a / eta_i,    factor = 2 (the paper counts the terms once: E8).
    """
    a = first.coefficient
    candidates = {"smoothness": step_limit} | {term.name: _balance(first, term) for term in others}
    rate = {which: a / step if 0 < a < inf else a for which, step in candidates.items()}
    rate |= {term.name: factor * rate[term.name] for term in others}
    return Bound(name, step_limit, (first, *others), candidates, rate)


def _balance(first: Term, other: Term) -> float:
    """The step at which two terms are equal; infinite where it decides nothing.

    That is: the other term vanishes, or the domain is one point (first = 0) or unbounded (both infinite).
    """
    if not other.coefficient or not isfinite(other.coefficient) or not first.coefficient:
        return inf
    return float((first.coefficient / other.coefficient) ** (1 / (other.power + 1)))


def inverse(value: float) -> float:
    """1 / value, infinite at 0."""
    return 1 / value if value else inf


def product(*factors: float | int) -> float:
    """The product, with 0 times infinity = 0: a term that is absent is absent on unbounded domains too."""
    return prod(factors) if all(factors) else 0.0
