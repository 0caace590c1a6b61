"""Regularizers: convex functions of one array that know their closed forms."""

from .balls import L1Ball, L2Ball
from .base import AbstractPenalty, AbstractRegularizer, AbstractSet
from .boxes import Box, NonNegative
from .entropies import KL, Entropy
from .norms import L1, GroupL2, Zero
from .quadratic import ElasticNet, Linear, SquaredL2, WithQuadratic, constant_of, split
from .simplices import CappedSimplex, Simplex
from .spectral import Spectral, for_reports, is_spectral
from .sums import InBall, InBox

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
