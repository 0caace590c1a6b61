"""Theorems 1 to 4 as printed and as corrected, and Proposition B for the average of the clients' points.

E1, E2, ... are the errata listed in docs/errata.md. M, K, R, T are clients, local_steps, rounds, steps; G is
grad_bound, D the diameter; s = min(1, kappa/M) is the share of the noise's power that is left in a mean over clients.
"""

from dataclasses import dataclass, field, replace
from math import inf, isfinite, prod, sqrt
from typing import Any

import numpy as np

from ..tree import Scalar
from ..validation import any_real_array, positive, real_scalar, short, whole_number

# What a theorem is made of: constants, and a bound on the gap as a function of the step.


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


def balance(name: str, step_limit: float, first: Term, others: tuple[Term, ...], factor: float = 2.0) -> Bound:
    """The bound first + others, with the steps that balance it and the rate at the smallest of them.

    `first` is a / eta. At eta_i = (a / c_i)^(1 / (p_i + 1)) it equals c_i eta_i^p_i = a / eta_i. Since
    a / min_i eta_i <= sum_i a / eta_i, and the other terms come on top of it, the rate is

        a / step_limit + factor * sum_i a / eta_i,    factor = 2 (the paper counts the terms once: E8).
    """
    a = first.coefficient
    candidates = {"smoothness": step_limit} | {term.name: _balancing_step(first, term) for term in others}
    rate = {which: a / step if 0 < a < inf else a for which, step in candidates.items()}
    rate |= {term.name: factor * rate[term.name] for term in others}
    return Bound(name, step_limit, (first, *others), candidates, rate)


def _balancing_step(first: Term, other: Term) -> float:
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


@dataclass(frozen=True)
class Theorem:
    """One theorem (its name) twice: with the paper's formulas (printed), and with their corrections (corrected)."""

    name: str
    printed: Bound
    corrected: Bound


def theorem1(constants: Constants, *, clients: int, local_steps: int, rounds: int, eta_s: Scalar = 1.0) -> Theorem:
    """FeDualEx on saddle points, for the average of the shadow points z_hat.

    printed:    B/(eta R K) + 20 beta^2 eta^3 K^2 G^2 + 5 sigma^2 eta/M + 2^(3/2) beta eta K G B,  eta <= 1/(5 beta^2)
    corrected:  B0/(eta_s eta R K) + 20 beta^2 eta^3 K^2 G^2 + 5 s sigma^2 eta + 2 beta eta K G D,
                eta <= 1/(sqrt5 beta) (E1, E2, E8, E10, E12)
    strong:     + B0/(eta R K) + s sigma^2 eta/2, for eta_s = 1 (E7)

    constants, clients, local_steps, rounds, eta_s: those of the run.
    """
    c, share, server, steps = _check(constants, clients, local_steps, rounds, eta_s)
    drift = product(2 * c.beta, local_steps, c.grad_bound)
    squares, reach = Term("drift_squared", 5 * drift * drift, 3), Term("drift", product(drift, c.diameter), 1)
    as_printed = (squares, _noise(5 / clients, c), Term("drift", product(sqrt(2), drift, c.B), 1))
    printed = _bound_as_printed("Theorem 1", 5.0, c, steps, as_printed)
    weak, strong = (squares, _noise(5 * share, c), reach), (squares, _noise(5.5 * share, c), reach)
    return Theorem("Theorem 1", printed, _bound_as_corrected("Theorem 1", 5.0, c, steps, weak, strong, server))


def theorem2(constants: Constants, *, clients: int, local_steps: int, rounds: int, eta_s: Scalar = 1.0) -> Theorem:
    """FeDualEx on convex problems, for the average of the shadow points; bounds E[phi(x_bar)] - phi(x) for each x.

    printed:    B/(eta R K) + 20 beta^2 eta^3 K^2 G^2 + 5 sigma^2 eta/M + 2 beta eta^3 K^2 G^2,  eta <= 1/(5 beta^2);
                its step and its rate are those of eta^2 in the last term
    corrected:  B0/(eta_s eta R K) + 20 beta^2 eta^3 K^2 G^2 + 5 s sigma^2 eta + 2 beta eta^2 K^2 G^2,
                eta <= 1/(sqrt5 beta) (E1, E8, E10, E12, E15)
    strong:     the same: x is the minimizer, and no supremum is exchanged with an expectation

    constants, clients, local_steps, rounds, eta_s: those of the run.
    """
    c, share, server, steps = _check(constants, clients, local_steps, rounds, eta_s)
    size = local_steps * c.grad_bound
    squares = Term("drift_squared", product(20, c.beta, c.beta, size, size), 3)
    drift = Term("drift", product(2, c.beta, size, size), 2)
    printed = _bound_as_printed("Theorem 2", 5.0, c, steps, (squares, _noise(5 / clients, c), drift))
    printed = replace(printed, parts=(*printed.parts[:-1], replace(drift, power=3)))
    weak = (squares, _noise(5 * share, c), drift)
    return Theorem(
        "Theorem 2", printed, _as_strong(_bound_as_corrected("Theorem 2", 5.0, c, steps, weak, weak, server))
    )


def theorem3(constants: Constants, *, steps: int) -> Theorem:
    """Stochastic dual extrapolation, for the average of z_{t+1/2}.

    printed:    B/(eta T) + 3 sigma^2 eta,   eta <= 1/(3 beta^2)
    corrected:  B0/(eta T) + 3 sigma^2 eta,  eta <= 1/(sqrt3 beta), or 1/beta without noise (E1, E8, E18)
    strong:     2 B0/(eta T) + 3.5 sigma^2 eta (E7)

    constants, steps: those of the run.
    """
    c, _, _, steps = _check(constants, 1, 1, steps, 1.0, "steps")
    printed = _bound_as_printed("Theorem 3", 3.0, c, steps, (_noise(3.0, c),))
    corrected = _bound_as_corrected("Theorem 3", 3.0, c, steps, (_noise(3.0, c),), (_noise(3.5, c),))
    return Theorem("Theorem 3", printed, corrected)


def theorem4(constants: Constants, *, steps: int) -> Theorem:
    """Composite dual extrapolation, for the average of z_{t+1/2}; deterministic: sigma is not used.

    printed:    beta B/T whatever eta <= 1/beta
    corrected:  Gap <= B0/(eta T), eta <= 1/beta (E18): the printed rate is that of eta = 1/beta

    constants, steps: those of the run.
    """
    c, _, _, steps = _check(constants, 1, 1, steps, 1.0, "steps")
    limit, value = inverse(c.beta), product(c.beta, c.B) / steps
    parts = (Term("start", value, 0),)
    printed = Bound("Theorem 4 as printed", limit, parts, {"smoothness": limit}, {"smoothness": value})
    return Theorem("Theorem 4", printed, _bound_as_corrected("Theorem 4", 1.0, replace(c, sigma=0.0), steps, (), ()))


def proposition_b(constants: Constants, *, clients: int, local_steps: int, rounds: int, eta_s: Scalar = 1.0) -> Bound:
    """FeDualEx, for the average of the clients' own points z^m_{r,k+1/2} (not in the paper): no drift, no G.

    weak:       B0/(eta_s eta R K) + 3 sigma^2 eta,  eta <= 1/(sqrt3 beta), or 1/beta without noise
    strong:     2 B0/(eta R K) + (3 + s/2) sigma^2 eta, for eta_s = 1
    best_step:  min(1/(sqrt3 beta), sqrt(B0/(3 sigma^2 eta_s R K))), or 1/beta without noise

    constants, local_steps, rounds, eta_s: those of the run.
    """
    c, share, server, steps = _check(constants, clients, local_steps, rounds, eta_s)
    return _bound_as_corrected("Proposition B", 3.0, c, steps, (_noise(3.0, c),), (_noise(3 + share / 2, c),), server)


def _bound_as_printed(name: str, factor: float, c: Constants, steps: int, others: tuple[Term, ...]) -> Bound:
    """B/(eta T) + others for eta <= 1/(factor beta^2), each term counted once in the rate."""
    first = Term("start", c.B / steps, -1)
    return balance(f"{name} as printed (eta_s = 1)", inverse(factor * c.beta * c.beta), first, others, factor=1.0)


def _bound_as_corrected(
    name: str, young: float, c: Constants, steps: int, weak: Any, strong: Any, eta_s: float = 1.0
) -> Bound:
    """B0/(eta_s eta T) + weak for eta <= 1/(sqrt(young) beta); strong, 2 B0/(eta T) + strong, for eta_s = 1.

    Without noise the gap is not random: the weak bound is strong. `young` counts the parts of g1 - g0, two noises, two
    drifts and the change of g; where noise is the only other term, only the last is left: the limit is 1/beta.
    """
    split = 1.0 if not c.sigma and len(weak) < 2 else young
    limit = inverse(sqrt(split) * c.beta)
    bound = balance(f"{name}, corrected", limit, Term("start", c.B0 / (eta_s * steps), -1), weak)
    if not c.sigma:
        return _as_strong(bound)
    expected = balance(f"{name}, expected gap", limit, Term("start", 2 * c.B0 / steps, -1), strong)
    return replace(bound, strong=expected if eta_s == 1 else None)


def _as_strong(weak: Bound) -> Bound:
    return replace(weak, strong=replace(weak, strong=None))


def _noise(factor: float, c: Constants) -> Term:
    return Term("noise", factor * c.sigma * c.sigma, 1)


def _check(
    constants: object, clients: object, local_steps: object, rounds: object, eta_s: object, last: str = "rounds"
) -> tuple[Constants, float, float, int]:
    """The constants, min(1, kappa/M), eta_s and the number of steps R K; a clear refusal otherwise."""
    if not isinstance(constants, Constants):
        raise TypeError(f"constants must be Constants, such as constants(problem), got {short(constants)}")
    clients, steps = whole_number("clients", clients), whole_number(last, rounds)
    steps *= whole_number("local_steps", local_steps)
    server = float(real_scalar("eta_s", eta_s, "a number with 0 < eta_s <= 1"))
    if not 0 < server <= 1:
        raise ValueError(f"eta_s must be a number with 0 < eta_s <= 1, beyond which no bound is known, got {server!r}")
    return constants, min(1.0, constants.kappa / clients), server, steps
