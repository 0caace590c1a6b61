"""Theorems 1 to 4 as printed and as corrected, and Proposition B for the average of the clients' points.

E1, E2, ... are the errata listed in docs/errata.md. M, K, R, T are clients, local_steps, rounds, steps; G is
grad_bound, D the diameter; s = min(1, kappa/M) is the share of the noise's power that is left in a mean over clients.
"""

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from ..tree import Scalar
from ..validation import real_scalar, short, whole_number
from .bounds import Bound, Constants, Term, balanced, inverse, product


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
    printed = _printed("Theorem 1", 5.0, c, steps, as_printed)
    weak, strong = (squares, _noise(5 * share, c), reach), (squares, _noise(5.5 * share, c), reach)
    return Theorem("Theorem 1", printed, _corrected("Theorem 1", 5.0, c, steps, weak, strong, server))


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
    printed = _printed("Theorem 2", 5.0, c, steps, (squares, _noise(5 / clients, c), drift))
    printed = replace(printed, parts=(*printed.parts[:-1], replace(drift, power=3)))
    weak = (squares, _noise(5 * share, c), drift)
    return Theorem("Theorem 2", printed, _as_strong(_corrected("Theorem 2", 5.0, c, steps, weak, weak, server)))


def theorem3(constants: Constants, *, steps: int) -> Theorem:
    """Stochastic dual extrapolation, for the average of z_{t+1/2}.

    printed:    B/(eta T) + 3 sigma^2 eta,   eta <= 1/(3 beta^2)
    corrected:  B0/(eta T) + 3 sigma^2 eta,  eta <= 1/(sqrt3 beta), or 1/beta without noise (E1, E8, E18)
    strong:     2 B0/(eta T) + 3.5 sigma^2 eta (E7)

    constants, steps: those of the run.
    """
    c, _, _, steps = _check(constants, 1, 1, steps, 1.0, "steps")
    printed = _printed("Theorem 3", 3.0, c, steps, (_noise(3.0, c),))
    corrected = _corrected("Theorem 3", 3.0, c, steps, (_noise(3.0, c),), (_noise(3.5, c),))
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
    return Theorem("Theorem 4", printed, _corrected("Theorem 4", 1.0, replace(c, sigma=0.0), steps, (), ()))


def proposition_b(constants: Constants, *, clients: int, local_steps: int, rounds: int, eta_s: Scalar = 1.0) -> Bound:
    """FeDualEx, for the average of the clients' own points z^m_{r,k+1/2} (not in the paper): no drift, no G.

    weak:       B0/(eta_s eta R K) + 3 sigma^2 eta,  eta <= 1/(sqrt3 beta), or 1/beta without noise
    strong:     2 B0/(eta R K) + (3 + s/2) sigma^2 eta, for eta_s = 1
    best_step:  min(1/(sqrt3 beta), sqrt(B0/(3 sigma^2 eta_s R K))), or 1/beta without noise

    constants, local_steps, rounds, eta_s: those of the run.
    """
    c, share, server, steps = _check(constants, clients, local_steps, rounds, eta_s)
    return _corrected("Proposition B", 3.0, c, steps, (_noise(3.0, c),), (_noise(3 + share / 2, c),), server)


def _printed(name: str, factor: float, c: Constants, steps: int, others: tuple[Term, ...]) -> Bound:
    """B/(eta T) + others for eta <= 1/(factor beta^2), each term counted once in the rate."""
    first = Term("start", c.B / steps, -1)
    return balanced(f"{name} as printed (eta_s = 1)", inverse(factor * c.beta * c.beta), first, others, factor=1.0)


def _corrected(name: str, young: float, c: Constants, steps: int, weak: Any, strong: Any, eta_s: float = 1.0) -> Bound:
    """B0/(eta_s eta T) + weak for eta <= 1/(sqrt(young) beta); strong, 2 B0/(eta T) + strong, for eta_s = 1.

    Without noise the gap is not random: the weak bound is strong. `young` counts the parts of g1 - g0, two noises, two
    drifts and the change of g; where noise is the only other term, only the last is left: the limit is 1/beta.
    """
    split = 1.0 if not c.sigma and len(weak) < 2 else young
    limit = inverse(sqrt(split) * c.beta)
    bound = balanced(f"{name}, corrected", limit, Term("start", c.B0 / (eta_s * steps), -1), weak)
    if not c.sigma:
        return _as_strong(bound)
    expected = balanced(f"{name}, expected gap", limit, Term("start", 2 * c.B0 / steps, -1), strong)
    return replace(bound, strong=expected if eta_s == 1 else None)


def _as_strong(weak: Bound) -> Bound:
    return replace(weak, strong=replace(weak, strong=None))


def _noise(factor: float, c: Constants) -> Term:
    return Term("noise", factor * c.sigma * c.sigma, 1)


def _check(
    constants: Any, clients: Any, local_steps: Any, rounds: Any, eta_s: Any, last: str = "rounds"
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
