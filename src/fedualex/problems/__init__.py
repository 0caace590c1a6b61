"""Problems: operators, data, oracles, certificates, and a catalogue of ready constructors."""

from .agnostic import agnostic
from .base import AbstractProblem
from .bilinear import Bilinear, bilinear, matrix_game
from .certificate import Certificate
from .convexity import ConvexityCheck, check_convex_concave
from .general import Problem
from .oracles import AbstractOracle, Exact, GaussianNoise, Minibatch
from .paper import paper_l1, paper_nuclear

__all__ = [
    "AbstractOracle",
    "AbstractProblem",
    "Bilinear",
    "Certificate",
    "ConvexityCheck",
    "Exact",
    "GaussianNoise",
    "Minibatch",
    "Problem",
    "agnostic",
    "bilinear",
    "check_convex_concave",
    "matrix_game",
    "paper_l1",
    "paper_nuclear",
]
