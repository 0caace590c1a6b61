"""One list per room: every regularizer and every geometry that the laws are tried on."""

import numpy as np
import pytest
from hypothesis import HealthCheck

import fedualex as fx

WITHOUT_CLOCK = {"deadline": None, "derandomize": True, "suppress_health_check": [HealthCheck.too_slow]}
"""Settings of Hypothesis under which the same examples pass or fail on an idle and on a busy machine."""

VECTOR = np.zeros(5)
MATRIX = np.zeros((4, 3))
Q = np.array([0.1, 0.2, 0.3, 0.25, 0.15])
C = np.array([0.5, -1.0, 0.0, 2.0, 0.3])
GROUPS = np.array([0, 1, 0, 1, 2])
LOWER, UPPER = np.array([-1.0, 0.2, -3.0, -0.5, 0.0]), np.array([1.0, 0.9, -1.0, 0.0, 2.0])

# Laws hold to rounding on the SVD route; test_regularizers.py holds the Gram route to it.
# name: (regularizer, an array of the shape it is tried on); numbers are the rows of the paper's table of pairs.
REGULARIZERS = {
    "1 zero": (fx.Zero(), VECTOR),
    "2 l1": (fx.L1(0.3), VECTOR),
    "2 l1 of strength 0": (fx.L1(0.0), VECTOR),
    "3 squared l2": (fx.SquaredL2(0.7), VECTOR),
    "3 squared l2 of strength 0": (fx.SquaredL2(0.0), VECTOR),
    "4 elastic net": (fx.ElasticNet(0.3, 0.7), VECTOR),
    "5 group l2": (fx.GroupL2(0.4, GROUPS, weights=[1.0, 2.0, 0.5]), VECTOR),
    "5 group l2 on a matrix": (fx.GroupL2(0.4, np.repeat(np.arange(4), 3).reshape(4, 3)), MATRIX),
    "6 nuclear": (fx.Spectral(fx.L1(0.3), "svd"), MATRIX),
    "7 nonnegative": (fx.NonNegative(), VECTOR),
    "8 box of a radius": (fx.Box(0.5), VECTOR),
    "8 box of radius 0": (fx.Box(0.0), VECTOR),
    "8 box of arrays": (fx.Box(lower=LOWER, upper=UPPER), VECTOR),
    "8 box with one side": (fx.Box(upper=2.0), VECTOR),
    "9 l2 ball": (fx.L2Ball(0.8), VECTOR),
    "9 l2 ball of radius 0": (fx.L2Ball(0.0), VECTOR),
    "10 l1 ball": (fx.L1Ball(0.8), VECTOR),
    "10 l1 ball of radius 0": (fx.L1Ball(0.0), VECTOR),
    "11 simplex": (fx.Simplex(), VECTOR),
    "11 simplex of radius 3": (fx.Simplex(3.0), VECTOR),
    "11 simplex of one entry": (fx.Simplex(), np.zeros(1)),
    "12 l1 + box": (fx.L1(0.3) + fx.Box(0.5), VECTOR),
    "12 box of arrays + l1": (fx.Box(lower=LOWER, upper=UPPER) + fx.L1(0.3), VECTOR),
    "13 l1 + l2 ball": (fx.L1(0.3) + fx.L2Ball(0.8), VECTOR),
    "14 l1 + nonnegative": (fx.L1(0.3) + fx.NonNegative(), VECTOR),
    "15 nuclear + spectral ball": (fx.Spectral(fx.L1(0.3) + fx.Box(0.5), "svd"), MATRIX),
    "15 nuclear + spectral ball, wide": (fx.Spectral(fx.L1(0.3) + fx.Box(0.5), "svd"), MATRIX.T),
    "16 nuclear + Frobenius ball": (fx.Spectral(fx.L1(0.3) + fx.L2Ball(0.8), "svd"), MATRIX),
    "17 l1 + l1 ball": (fx.L1(0.3) + fx.L1Ball(0.8), VECTOR),
    "18 elastic net + box": (fx.Box(0.5) + fx.ElasticNet(0.3, 0.7), VECTOR),
    "19 group l2 + l2 ball": (fx.L2Ball(0.8) + fx.GroupL2(0.4, GROUPS), VECTOR),
    "20 capped simplex": (fx.CappedSimplex(0.3), VECTOR),
    "20 capped simplex, 1 / cap whole": (fx.CappedSimplex(0.25), VECTOR),
    "20 capped simplex of one point": (fx.CappedSimplex(0.2), VECTOR),
    "20 capped simplex of one point, 1 / 3": (fx.CappedSimplex(1 / 3), np.zeros(3)),
    "20 capped simplex, cap above 1": (fx.CappedSimplex(1.5), VECTOR),
    "linear": (fx.Linear(C), VECTOR),
    "linear + box": (fx.Linear(C) + fx.Box(0.5), VECTOR),
    "linear + simplex": (fx.Simplex() + fx.Linear(C), VECTOR),
    "l1 + simplex": (fx.L1(0.3) + fx.Simplex(2.0), VECTOR),
    "l1 + capped simplex": (fx.CappedSimplex(0.3) + fx.L1(0.3), VECTOR),
    "squared l2 + simplex": (fx.SquaredL2(0.7) + fx.Simplex(), VECTOR),
    "squared l2 + nuclear + spectral ball": (fx.Spectral(fx.L1(0.3) + fx.Box(0.5), "svd") + fx.SquaredL2(0.7), MATRIX),
    "nuclear + squared l2 + l1 ball": (fx.Spectral(fx.L1(0.3) + fx.SquaredL2(0.7) + fx.L1Ball(0.9), "svd"), MATRIX),
    "entropy": (fx.Entropy(0.4), VECTOR),
    "kl": (fx.KL(0.4, Q), VECTOR),
    "kl of strength 0": (fx.KL(0.0, Q), VECTOR),
    "kl + squared l2": (fx.SquaredL2(0.7) + fx.KL(0.4, Q), VECTOR),
}

GEOMETRIES = {
    **{name: (fx.Euclidean(psi), like) for name, (psi, like) in REGULARIZERS.items() if psi.finite_conjugate},
    "euclidean": (fx.Euclidean(), VECTOR),
    "euclidean l1": (fx.Euclidean(fx.L1(0.3)), VECTOR),
    "entropic": (fx.EntropicSimplex(), VECTOR),
    "entropic linear": (fx.EntropicSimplex(fx.Linear(C)), VECTOR),
    "entropic l1": (fx.EntropicSimplex(fx.L1(0.3)), VECTOR),
    "entropic entropy": (fx.EntropicSimplex(fx.Entropy(0.4)), VECTOR),
    "entropic kl": (fx.EntropicSimplex(fx.KL(0.4, Q)), VECTOR),
    "entropic kl of strength 0": (fx.EntropicSimplex(fx.KL(0.0, Q)), VECTOR),
    "entropic kl + linear": (fx.EntropicSimplex(fx.KL(0.4, Q) + fx.Linear(C)), VECTOR),
    "entropic cap": (fx.EntropicSimplex(fx.CappedSimplex(0.3)), VECTOR),
    "entropic cap, 1 / cap whole": (fx.EntropicSimplex(fx.CappedSimplex(0.25)), VECTOR),
    "entropic cap of one point": (fx.EntropicSimplex(fx.CappedSimplex(0.2)), VECTOR),
    "entropic cap of one point, 1 / 3": (fx.EntropicSimplex(fx.CappedSimplex(1 / 3)), np.zeros(3)),
    "entropic cap + linear": (fx.EntropicSimplex(fx.CappedSimplex(0.3) + fx.Linear(C)), VECTOR),
    "p-norm": (fx.PNorm(1.5), VECTOR),
    "p-norm l1": (fx.PNorm(1.2, fx.L1(0.3)), VECTOR),
    "p-norm with p = 2": (fx.PNorm(2.0, fx.L1(0.3)), VECTOR),
    "product": (
        fx.Product(
            fx.Saddle(
                {"weights": fx.Euclidean(fx.L1(0.3) + fx.Box(0.5)), "bias": fx.Euclidean(fx.Box(2.0))},
                fx.EntropicSimplex(fx.KL(0.4, Q)),
            )
        ),
        fx.Saddle({"weights": VECTOR, "bias": np.zeros(())}, VECTOR),
    ),
    "product of spectral parts": (
        fx.Product(
            fx.Saddle(
                fx.Euclidean(fx.Spectral(fx.L1(0.3) + fx.Box(0.5), "svd")),
                fx.Euclidean(fx.Spectral(fx.L1(0.3) + fx.L2Ball(0.8), "svd")),
            )
        ),
        fx.Saddle(MATRIX, MATRIX.T),
    ),
}


def kinds_first(table, slow=()):
    """The names of a table; variants, such as "2 l1 of strength 0" and "20 capped simplex, cap above 1", are slow."""
    marks = {name: pytest.mark.slow if name in slow or ", " in name or " of " in name else [] for name in table}
    return [pytest.param(name, marks=marks[name]) for name in table]
