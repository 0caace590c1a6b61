"""What is proved of FeDualSlide: the step of a round, and the gap after R rounds (docs/slide.md, Theorem 2)."""

from dataclasses import dataclass, replace
from math import expm1, inf, log1p, sqrt

from ..accepted import Number, Whole
from ..tree import Scalar
from ..validation import of_type, one_of, real_scalar, whole_number
from .theorems import Bound, Constants, Term, inverse, product

FIRST = {("hilbert", "fresh"): 2, ("hilbert", "optimistic"): 3, ("any", "fresh"): 8, ("any", "optimistic"): 12}
"""1 / (gamma delta) that suffices whatever sigma is, by norm and reference."""


@dataclass(frozen=True, kw_only=True)
class SlideBound(Bound):
    """gap <= B0/(T R) for every step 0 < T <= step_limit of a round, which clients make in K pulled steps.

    sigma: 1 - (1-rho)^K, how much of a round's pair the K steps pull back to.
    rho: the pull of one local step.
    length: sum_k (1-rho)^k = sigma/rho; K where rho = 0.
    """

    sigma: float
    rho: float
    length: float

    def local_step(self, T: Scalar) -> float:
        """eta = T / length: the step of one local step in a round of step T."""
        return float(T) / self.length


def slide(
    constants: object,
    delta: Number,
    *,
    local_steps: Whole,
    rounds: Whole,
    reference: str = "fresh",
    norm: str = "hilbert",
    sigma: Number | None = None,
) -> SlideBound:
    """The average of the probes of R rounds of FeDualSlide with a constant step T, for affine operators.

    constants: `Constants`, of which beta and B0 are used.
    delta: the constant of similarity, such as `similarity(problem).delta`.
    local_steps, rounds: K and R.
    reference: "fresh" surveys the round's own point first (three exchanges a round), "optimistic" takes the previous
        probe (two exchanges).
    norm: "hilbert" where |z|^2 comes from an inner product, as between Euclidean blocks; "any" otherwise.
    sigma: the pull of a round, 0 < sigma < 1; None is the one of the largest step.

    With rho = 1-(1-sigma)^(1/K) the bound holds for
        T <= min(sigma x / delta, sigma sqrt(1-rho) / (rho beta)),    c = sqrt(1-sigma),
        hilbert, fresh:       x = 1/(1+c)                              >= 1/2
        hilbert, optimistic:  x = 2/(3+sqrt(9-8 sigma))                >= 1/3
        any, fresh:           x = 1/(2(1+c+sqrt((1+c)^2+sigma)))       >= 1/8
        any, optimistic:      x = 1/(2(1+2c+sqrt((1+2c)^2+4 sigma)))   >= 1/12
    and at the best sigma B0/(T R) <= (B0/R) (k delta + (beta + k delta)/K), k = 2, 3, 8, 12: the two parts of `rate`.

    Returns a `SlideBound`, in which a step is T.
    """
    c, K, R = of_type("constants", constants, Constants, "Constants"), local_steps, rounds
    K, R = whole_number("local_steps", K), whole_number("rounds", R)
    one_of("reference", reference, ("fresh", "optimistic"))
    one_of("norm", norm, ("hilbert", "any"))
    similar = _within("delta", delta, 0.0, inf, "a finite number >= 0")
    kind, first = (norm, reference), FIRST[norm, reference]
    rho = _best_pull(kind, c.beta, similar, K) if sigma is None else _pull(sigma, K)
    pulled, length = _round(rho, K)
    candidates = {
        "similarity": pulled * _share(kind, pulled) / similar if similar else inf,
        "smoothness": length * sqrt(1 - rho) * inverse(c.beta),
    }
    parts = {"similarity": first * similar, "smoothness": (c.beta + first * similar) / K}
    if sigma is not None:
        parts = {name: inverse(step) for name, step in candidates.items()}
    limit, start = min(candidates.values()), Term("start", c.B0 / R, -1)
    rate = {name: product(start.coefficient, part) for name, part in parts.items()}
    name = f"FeDualSlide, Theorem 2, {reference}, {norm} norm"
    bound = SlideBound(name, limit, (start,), candidates, rate, sigma=pulled, rho=rho, length=length)
    return replace(bound, strong=bound)  # nothing is random


def _share(kind: tuple[str, str], sigma: float) -> float:
    """x: the largest gamma delta, gamma = T/sigma, at which the proof closes."""
    c = sqrt(1 - sigma)
    if kind == ("hilbert", "fresh"):
        return 1 / (1 + c)
    if kind == ("hilbert", "optimistic"):
        return 2 / (3 + sqrt(9 - 8 * sigma))
    a, b = (1 + c, sigma) if kind == ("any", "fresh") else (1 + 2 * c, 4 * sigma)
    return 1 / (2 * (a + sqrt(a * a + b)))


def _round(rho: float, K: int) -> tuple[float, float]:
    """sigma = 1-(1-rho)^K and sum_k (1-rho)^k."""
    sigma = -expm1(K * log1p(-rho))
    return sigma, sigma / rho if rho else float(K)


def _pull(sigma: object, K: int) -> float:
    """rho = 1-(1-sigma)^(1/K)."""
    return -expm1(log1p(-_within("sigma", sigma, 0.0, 1.0, "a number with 0 < sigma < 1, or None", strict=True)) / K)


def _best_pull(kind: tuple[str, str], beta: float, delta: float, K: int) -> float:
    """The rho at which both limits of T are equal, by bisection: with rho the one grows and the other falls."""
    low, high = 0.0, 1.0
    while delta and low < (rho := (low + high) / 2) < high:
        grown = rho * beta * _share(kind, _round(rho, K)[0]) > delta * sqrt(1 - rho)
        low, high = (low, rho) if grown else (rho, high)
    return low


def _within(name: str, value: object, low: float, high: float, accepted: str, strict: bool = False) -> float:
    number = float(real_scalar(name, value, accepted))
    if not (low < number if strict else low <= number) or not number < high:
        raise ValueError(f"{name} must be {accepted}, got {number!r}")
    return number
