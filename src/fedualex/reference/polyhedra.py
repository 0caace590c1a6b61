"""Polyhedral regularizers as the rows and columns of a linear program."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse

from ..geometry import EntropicSimplex, Euclidean
from ..regularizers import L1, AbstractRegularizer, Box, CappedSimplex, InBall, InBox, L1Ball, Simplex, Zero, split

POLYHEDRAL = "Zero, L1, Linear, Box, NonNegative, L1Ball, Simplex, CappedSimplex and their sums"


@dataclass(frozen=True)
class Polyhedron:
    """psi(x) = min <cost, v> over low <= v <= high, rows v <= limits, total v = sums, with x = v_1 - v_2.

    v = (v_1, v_2) is the positive and the negative part of x, so |x| = v_1 + v_2 costs what l1 charges for it.
    """

    cost: Any
    low: Any
    high: Any
    rows: Any
    limits: Any
    totals: Any
    sums: Any


def polyhedron(name: str, part: object, shape: tuple[int, ...]) -> Polyhedron:
    """The regularizer of one block as a `Polyhedron`, or a TypeError that lists what is polyhedral."""
    psi, c = _regularizer(name, part)
    size = int(np.prod(shape))
    lam, domain = _l1_and_domain(name, psi)
    low, high = np.zeros(2 * size), np.full(2 * size, np.inf)
    rows, limits = sparse.csr_array((0, 2 * size)), np.zeros(0)
    totals, sums = sparse.csr_array((0, 2 * size)), np.zeros(0)
    ones = sparse.csr_array(np.ones((1, 2 * size)))
    match domain:
        case Box():
            lower, upper = (np.broadcast_to(bound, shape).ravel() for bound in (domain.lower, domain.upper))
            low = np.concatenate([np.maximum(lower, 0), np.maximum(-upper, 0)])
            high = np.concatenate([np.maximum(upper, 0), np.maximum(-lower, 0)])
        case L1Ball():
            rows, limits = ones, np.atleast_1d(domain.radius)
        case Simplex() | CappedSimplex():
            cap, total = (domain.cap, 1.0) if isinstance(domain, CappedSimplex) else (np.inf, float(domain.radius))
            high = np.concatenate([np.full(size, cap), np.zeros(size)])
            totals, sums = ones, np.array([total])
    c = np.broadcast_to(c, shape).ravel()
    return Polyhedron(np.concatenate([lam + c, lam - c]), low, high, rows, limits, totals, sums)


def _regularizer(name: str, part: Any) -> tuple[AbstractRegularizer, Any]:
    """The core and the linear term of a block's regularizer, with the simplex that an entropic map implies."""
    refusal = TypeError(f"lp: {name}={part!r} is not polyhedral; accepted are {POLYHEDRAL}")
    if not isinstance(part, Euclidean | EntropicSimplex):
        raise refusal
    psi: Any = part.regularizer
    if isinstance(part, EntropicSimplex) and not isinstance(split(psi)[0], CappedSimplex):
        try:
            psi = psi + Simplex()
        except TypeError:  # an entropy
            raise refusal from None
    core, lam, c = split(psi)
    if np.any(lam):
        raise refusal
    return core, c


def _l1_and_domain(name: str, psi: Any) -> tuple[float, Any]:
    match psi:
        case Zero():
            return 0.0, None
        case L1():
            return float(psi.lam), None
        case Box() | L1Ball() | Simplex() | CappedSimplex():
            return 0.0, psi
        case InBox() | InBall() if isinstance(psi.penalty, L1) and isinstance(psi.domain, Box | L1Ball):
            return float(psi.penalty.lam), psi.domain
    raise TypeError(f"lp: {name}={psi!r} is not polyhedral; accepted are {POLYHEDRAL}")
