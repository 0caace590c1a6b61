"""fedualex: federated composite saddle point optimization, with a certificate for every answer.

min_x max_y (1/M) sum_m f_m(x, y) + psi_1(x) - psi_2(y)
"""

from . import problems, reference, testing
from .geometry import Dual, EntropicSimplex, Euclidean, PNorm, Product
from .problems import Certificate, Exact, GaussianNoise, Minibatch, Problem
from .regularizers import (
    KL,
    L1,
    Box,
    CappedSimplex,
    ElasticNet,
    Entropy,
    GroupL2,
    L1Ball,
    L2Ball,
    Linear,
    NonNegative,
    Simplex,
    Spectral,
    SquaredL2,
    Zero,
)
from .tree import Saddle

__version__ = "0.1.0"

__all__ = [
    "KL",
    "L1",
    "Box",
    "CappedSimplex",
    "Certificate",
    "Dual",
    "ElasticNet",
    "EntropicSimplex",
    "Entropy",
    "Euclidean",
    "Exact",
    "GaussianNoise",
    "GroupL2",
    "L1Ball",
    "L2Ball",
    "Linear",
    "Minibatch",
    "NonNegative",
    "PNorm",
    "Problem",
    "Product",
    "Saddle",
    "Simplex",
    "Spectral",
    "SquaredL2",
    "Zero",
    "problems",
    "reference",
    "testing",
]
