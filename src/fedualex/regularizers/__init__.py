"""Regularizers: convex functions of one array that know their closed forms."""

from .base import AbstractPenalty, AbstractRegularizer, AbstractSet
from .norms import KL, L1, Entropy, GroupL2, Zero
from .sets import Box, CappedSimplex, L1Ball, L2Ball, NonNegative, Simplex
from .spectral import Spectral, for_reports, is_spectral
from .sums import ElasticNet, InBall, InBox, Linear, SquaredL2, WithQuadratic, constant_of, split

__all__ = [
    "KL",
    "L1",
    "AbstractPenalty",
    "AbstractRegularizer",
    "AbstractSet",
    "Box",
    "CappedSimplex",
    "ElasticNet",
    "Entropy",
    "GroupL2",
    "InBall",
    "InBox",
    "L1Ball",
    "L2Ball",
    "Linear",
    "NonNegative",
    "Simplex",
    "Spectral",
    "SquaredL2",
    "WithQuadratic",
    "Zero",
    "constant_of",
    "for_reports",
    "is_spectral",
    "split",
]
